"""A server that answers as it is told."""

from __future__ import annotations

import socket
import threading


class Peer:
    """A server that answers as it is told, connection by connection, and then is gone."""

    def __init__(self, rounds: tuple[tuple[bytes, ...], ...]) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.heads: list[bytes] = []
        self._hung_up = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._serve, args=(rounds,))
        self._thread.start()

    def _serve(self, rounds: tuple[tuple[bytes, ...], ...]) -> None:
        for number, answers in enumerate(rounds, start=1):
            connection, _address = self._listening.accept()
            if number == len(rounds):
                self._listening.close()
            with connection:
                for answer in answers:
                    self.heads.append(_request(connection))
                    connection.sendall(answer)
            self._hung_up.release()

    def wait_until_hung_up(self) -> None:
        """Wait until one more connection was closed: a client can see it from then on."""
        assert self._hung_up.acquire(timeout=10)

    def end(self) -> None:
        self._thread.join(timeout=10)
        self._listening.close()


def _request(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(4096)
    head, _, body = head.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    size = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(body) < size:
        body += connection.recv(4096)
    return head + b"\r\n\r\n" + body

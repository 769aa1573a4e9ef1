"""A light load over HTTP: one thread, kept connections, and no parser but what is needed."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

_TICKS_PER_SECOND = 100
_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


@dataclass
class Load:
    """What came of a load."""

    seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    own_cpu_seconds: float = 0.0
    waits: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.waits) / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Processor time of the server for each answer."""
        return self.server_cpu_seconds / max(1, len(self.waits)) * 1e3


@dataclass
class _Connection:
    place: socket.socket
    received: bytes = b""
    sent_at: float = 0.0


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time of some processes so far."""
    ticks = 0
    for pid in pids:
        parts = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(parts[11]) + int(parts[12])
    return ticks / _TICKS_PER_SECOND


def request(path: str, body: bytes, *headers: str) -> bytes:
    """Return a request with a JSON body."""
    more = "".join(f"{line}\r\n" for line in headers)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"{more}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def load(
    address: tuple[str, int],
    make: Callable[[int], bytes],
    *,
    clients: int,
    seconds: float,
    pids: Iterable[int],
) -> Load:
    """Let clients ask one thing after another, each on its own connection."""
    selector = selectors.DefaultSelector()
    connections = []
    for _client in range(clients):
        place = socket.create_connection(address)
        place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections.append(_Connection(place))
        selector.register(place, selectors.EVENT_READ, connections[-1])
    found, number = Load(), 0
    pids = list(pids)
    cpu, own, began = processor_seconds(pids), time.process_time(), time.perf_counter()
    for connection in connections:
        _send(connection, make(number))
        number += 1
    while time.perf_counter() < began + seconds:
        for key, _events in selector.select(0.5):
            if _take(key.data, found):
                _send(key.data, make(number))
                number += 1
    found.seconds = time.perf_counter() - began
    found.server_cpu_seconds = processor_seconds(pids) - cpu
    found.own_cpu_seconds = time.process_time() - own
    for connection in connections:
        connection.place.close()
    selector.close()
    return found


def _send(connection: _Connection, content: bytes) -> None:
    # The time it took to make the request, or a pause before it, is not the server's.
    connection.sent_at = time.perf_counter()
    connection.place.sendall(content)


def _take(connection: _Connection, found: Load) -> bool:
    """Take what has come; whether it is a whole answer."""
    part = connection.place.recv(65536)
    if not part:
        raise RuntimeError("the server hung up")
    received = connection.received + part
    end = received.find(_END)
    start = received[: max(end, 0)].lower().find(_LENGTH)
    if start >= 0:
        size = int(received[start + len(_LENGTH) : end].split(b"\r\n", 1)[0])
        if len(received) >= end + len(_END) + size:
            found.waits.append(time.perf_counter() - connection.sent_at)
            found.refused += not received.startswith(b"HTTP/1.1 200")
            connection.received = received[end + len(_END) + size :]
            return True
    connection.received = received
    return False

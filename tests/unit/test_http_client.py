"""The client of the standard library: what it sends, keeps, and makes of what goes wrong."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from omnigraph.http_client import AnswerLostError, HttpClient, NotSentError
from tests.servers.scripted import Peer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


@pytest.fixture
def served() -> Iterator[Callable[..., tuple[Peer, HttpClient]]]:
    made: list[tuple[Peer, HttpClient]] = []

    def make(*rounds: tuple[bytes, ...]) -> tuple[Peer, HttpClient]:
        peer = Peer(rounds)
        client = HttpClient(peer.url, {"User-Agent": "t"}, 10.0)
        made.append((peer, client))
        return peer, client

    yield make
    for peer, client in made:
        client.close()
        peer.end()


Served = Callable[..., tuple[Peer, HttpClient]]


def test_a_connection_is_used_again(served: Served) -> None:
    _peer, client = served((OK, OK, OK))
    for _turn in range(3):
        assert client.request("GET", "/x").content == b"hi"


def test_a_connection_the_server_closed_is_replaced(served: Served) -> None:
    peer, client = served((OK,), (OK,))
    assert client.request("GET", "/x").status_code == 200
    peer.wait_until_hung_up()
    assert client.request("GET", "/x").status_code == 200


def test_parameters_and_bodies_are_sent_as_they_are_read(served: Served) -> None:
    peer, client = served((OK,))
    client.request("POST", "/a", params={"kind": ["n", "e"], "q": "a b&c"}, json={"x": "ü", "y": 1})
    head, _, body = peer.heads[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a?kind=n&kind=e&q=a+b%26c HTTP/1.1")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body) == {"x": "ü", "y": 1}


def test_a_server_that_is_not_there_got_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    with pytest.raises(NotSentError):
        HttpClient(f"http://127.0.0.1:{port}", {}, 5.0).request("GET", "/")


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", b"nonsense\r\n\r\n"],
    ids=["none", "cut off", "no http"],
)
def test_an_answer_that_does_not_come_whole_is_lost(served: Served, answer: bytes) -> None:
    _peer, client = served((answer,))
    with pytest.raises(AnswerLostError):
        client.request("GET", "/x")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na\nb",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n",
    ],
    ids=["length", "chunks"],
)
def test_a_stream_that_ends_early_is_lost(served: Served, answer: bytes) -> None:
    _peer, client = served((answer,))
    found: list[bytes] = []
    with pytest.raises(AnswerLostError), client.stream("GET", "/x") as response:
        found.extend(response.iter_lines())
    assert found in ([], [b"a"])


def test_a_stream_comes_line_by_line_and_leaves_the_connection_usable(served: Served) -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    lines = head + b"4\r\na\nbc\r\n2\r\nd\n\r\n0\r\n\r\n"
    _peer, client = served((lines, OK))
    with client.stream("GET", "/x") as response:
        assert list(response.iter_lines()) == [b"a", b"bcd"]
    assert client.request("GET", "/y").content == b"hi"


def test_a_refusal_that_comes_before_the_body_is_sent_is_read() -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        connection, _address = listening.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

    thread = threading.Thread(target=refuse)
    thread.start()
    client = HttpClient(f"http://127.0.0.1:{listening.getsockname()[1]}", {}, 10.0)
    assert client.request("POST", "/x", content=b"x" * (1 << 20)).status_code == 413
    client.close()
    thread.join(timeout=10)
    listening.close()

"""What the client sends again, and what it says when it does not know what happened."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator

import pytest

import omnigraph as og
from omnigraph import clock
from omnigraph.remote.connection import Connection
from tests.movable_clock import MovableClock
from tests.servers.scripted import Peer

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
LOST = b""


def answer(status: int, *headers: bytes, kind: bytes = b"too_many_requests") -> bytes:
    body = b'{"error": "later", "type": "' + kind + b'"}'
    lines = [b"HTTP/1.1 %d X" % status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join([*lines, b"", body])


BUSY = answer(429, b"retry-after: 2")
NOT_READY = answer(503, b"retry-after: 1", kind=b"storage")

Dial = Callable[..., tuple[Peer, Connection]]


@pytest.fixture
def dial() -> Iterator[Dial]:
    made: list[tuple[Peer, Connection]] = []

    def make(*rounds: tuple[bytes, ...]) -> tuple[Peer, Connection]:
        peer = Peer(rounds)
        found = Connection(peer.url, graph=None, token=None, timeout=10.0)
        made.append((peer, found))
        return peer, found

    yield make
    for peer, found in made:
        found.close()
        peer.end()


@pytest.fixture
def pauses() -> Iterator[list[float]]:
    found: list[float] = []

    class Noting(MovableClock):
        def sleep(self, seconds: float) -> None:
            found.append(seconds)
            super().sleep(seconds)

    with clock.using(Noting()):
        yield found


def key_of(head: bytes) -> bytes:
    found = re.search(rb"(?i)idempotency-key: (\S+)", head)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("refusal", [BUSY, NOT_READY], ids=["busy", "not ready"])
def test_a_busy_server_is_asked_again_when_it_said(
    dial: Dial, pauses: list[float], refusal: bytes
) -> None:
    peer, connection = dial((refusal, refusal, OK))
    assert connection.get("/x") == {}
    assert len(peer.heads) == 3
    assert pauses == [2.0, 2.0] if refusal is BUSY else [1.0, 1.0]


def test_a_write_is_sent_again_under_the_same_key(dial: Dial, pauses: list[float]) -> None:
    # One connection for the first two: whether a closed one is noticed in time is another matter.
    peer, connection = dial((BUSY, LOST), (OK,))
    assert connection.write("/mutate", {"query": "q"}) == {}
    assert len({key_of(head) for head in peer.heads}) == 1
    assert pauses == [2.0, 0.2]


def test_a_branch_is_made_again_under_the_same_key(dial: Dial, pauses: list[float]) -> None:
    peer, connection = dial((LOST,), (OK,))
    connection.change("POST", "/branches", {"name": "b"})
    assert len({key_of(head) for head in peer.heads}) == 1


def test_a_server_that_stays_busy_is_told_of(dial: Dial, pauses: list[float]) -> None:
    peer, connection = dial((BUSY, BUSY, BUSY))
    with pytest.raises(og.TooManyRequestsError) as caught:
        connection.get("/x")
    assert (len(peer.heads), caught.value.retry_after_s) == (3, 2)


@pytest.mark.parametrize("headers", [[], [b"retry-after: 60"], [b"retry-after: soon"]])
def test_a_server_that_names_no_near_moment_is_not_waited_for(
    dial: Dial, pauses: list[float], headers: list[bytes]
) -> None:
    peer, connection = dial((answer(429, *headers),))
    with pytest.raises(og.TooManyRequestsError):
        connection.get("/x")
    assert (len(peer.heads), pauses) == (1, [])


@pytest.mark.parametrize("last", [LOST, BUSY, answer(403, kind=b"policy_denied")])
def test_a_lost_write_is_unknown_until_an_answer_tells(
    dial: Dial, pauses: list[float], last: bytes
) -> None:
    peer, connection = dial((LOST,), (LOST,), (last,))
    with pytest.raises(og.OutcomeUnknownError) as caught:
        connection.write("/mutate", {"query": "q"})
    assert caught.value.operation_id.encode() == key_of(peer.heads[0])


def test_a_lost_write_is_unknown_when_the_server_is_gone(dial: Dial, pauses: list[float]) -> None:
    _peer, connection = dial((LOST,))
    with pytest.raises(og.OutcomeUnknownError):
        connection.write("/mutate", {"query": "q"})


def test_a_slow_server_is_not_asked_again(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        connection = Connection(url, graph=None, token=None, timeout=0.1)
        with pytest.raises(og.OutcomeUnknownError, match="TimeoutError"):
            connection.write("/mutate", {"query": "q"})
        connection.close()
    assert pauses == []


def test_retries_can_be_switched_off(dial: Dial, pauses: list[float]) -> None:
    peer, _connection = dial((BUSY,))
    graph = og.connect(peer.url, retries=0)
    with graph, pytest.raises(og.TooManyRequestsError):
        graph.branches.list()
    assert len(peer.heads) == 1

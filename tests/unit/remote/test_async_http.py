"""HTTP on asyncio: what it sends, keeps, and makes of what goes wrong."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable

import pytest

import omnigraph as og
from omnigraph.http_client import AnswerLostError, NotSentError
from omnigraph.remote.aio.http import AsyncHttpClient
from tests.servers.scripted import Peer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
Work = Callable[[AsyncHttpClient], Awaitable[None]]
Rounds = tuple[tuple[bytes, ...], ...]


def talk(rounds: Rounds, work: Work) -> Peer:
    """Let a client work with a server that answers as it is told."""
    return talk_with(Peer(rounds), work)


def talk_with(peer: Peer, work: Work) -> Peer:
    async def main() -> None:
        client = AsyncHttpClient(peer.url, {"User-Agent": "t"}, 10.0)
        try:
            await work(client)
        finally:
            await client.close()

    try:
        asyncio.run(main())
    finally:
        peer.end()
    return peer


async def three_times(client: AsyncHttpClient) -> None:
    for _turn in range(3):
        found = await client.request("GET", "/x")
        assert (found.status_code, found.content) == (200, b"hi")


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        b"1;x=y\r\nh\r\n1\r\ni\r\n0\r\na: b\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
    ids=["length", "chunks", "continue"],
)
def test_a_connection_is_used_again(answer: bytes) -> None:
    talk(((answer,) * 3,), three_times)


@pytest.mark.parametrize(
    "answer",
    [
        OK,  # and then the server hangs up without a word
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\n\r\nhi",
    ],
    ids=["no word", "close", "older", "to the end"],
)
def test_a_connection_the_server_closed_is_replaced(answer: bytes) -> None:
    peer = Peer(((answer,),) * 3)

    async def work(client: AsyncHttpClient) -> None:
        for _turn in range(3):
            found = await client.request("GET", "/x")
            assert (found.status_code, found.content) == (200, b"hi")
            await asyncio.to_thread(peer.wait_until_hung_up)

    talk_with(peer, work)


def test_an_answer_to_head_has_no_body() -> None:
    async def work(client: AsyncHttpClient) -> None:
        found = await client.request("HEAD", "/x")
        assert (found.content, found.headers["content-length"]) == (b"", "7")
        assert (await client.request("GET", "/x")).content == b"hi"

    talk(((b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n", OK),), work)


def test_parameters_and_bodies_are_sent_as_they_are_read() -> None:
    async def work(client: AsyncHttpClient) -> None:
        params = {"kind": ["n", "e"], "q": "a b&c"}
        await client.request("POST", "/a", params=params, json={"x": "ü", "y": 1})
        await client.request("POST", "/b")

    peer = talk(((OK, OK),), work)
    head, _, body = peer.heads[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /a?kind=n&kind=e&q=a+b%26c HTTP/1.1")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body) == {"x": "ü", "y": 1}
    assert b"content-length: 0" in peer.heads[1].lower()


def test_a_header_of_two_lines_is_refused() -> None:
    async def work(client: AsyncHttpClient) -> None:
        with pytest.raises(ValueError, match="line break"):
            await client.request("GET", "/x", headers={"A": "b\r\nC: d"})
        await three_times(client)

    # The first connection carries nothing.
    talk(((), (OK, OK, OK)), work)


def test_a_server_that_is_not_there_got_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        url = f"http://127.0.0.1:{place.getsockname()[1]}"
    with pytest.raises(NotSentError):
        asyncio.run(AsyncHttpClient(url, {}, 5.0).request("GET", "/"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\na",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 40_000 + b"\r\n",
        b"nonsense\r\n\r\n",
    ],
    ids=["none", "cut off", "negative", "cut off in chunks", "no size", "too long", "no http"],
)
def test_an_answer_that_does_not_come_whole_is_lost(answer: bytes) -> None:
    async def work(client: AsyncHttpClient) -> None:
        with pytest.raises(AnswerLostError) as caught:
            await client.request("GET", "/x")
        assert not caught.value.timed_out

    talk(((answer,),), work)


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(AnswerLostError) as caught:
            asyncio.run(AsyncHttpClient(url, {}, 0.1).request("GET", "/"))
    assert caught.value.timed_out


def test_a_stream_comes_line_by_line_and_leaves_the_connection_usable() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    async def work(client: AsyncHttpClient) -> None:
        async with client.stream("GET", "/x") as found:
            assert [line async for line in found.iter_lines()] == [b"a", b"bcd"]
        assert (await client.request("GET", "/y")).content == b"hi"

    talk(((head + b"4\r\na\nbc\r\n2\r\nd\n\r\n0\r\n\r\n", OK),), work)


def test_a_cancelled_request_hangs_up() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    asked, hung_up = threading.Event(), threading.Event()

    def serve() -> None:
        connection, _address = listening.accept()
        with connection:
            connection.recv(4096)
            asked.set()
            try:
                while connection.recv(4096):
                    pass
            except ConnectionResetError:
                pass
            hung_up.set()

    thread = threading.Thread(target=serve)
    thread.start()

    async def main() -> None:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with og.AsyncRemoteGraph(url) as graph:
            task = asyncio.create_task(graph.query("query q() { match { $p: P } return { $p } }"))
            assert await asyncio.to_thread(asked.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(hung_up.wait, 30)

    asyncio.run(main())
    thread.join(30)
    listening.close()


def test_a_client_belongs_to_one_event_loop() -> None:
    peer = Peer(((OK,),))
    client = AsyncHttpClient(peer.url, {}, 10.0)

    async def first() -> None:
        await client.request("GET", "/x")
        await client.close()

    asyncio.run(first())
    with pytest.raises(og.BadRequestError, match="another event loop"):
        asyncio.run(client.request("GET", "/x"))
    peer.end()


def test_an_answer_nobody_asked_for_is_not_taken_for_the_next() -> None:
    async def work(client: AsyncHttpClient) -> None:
        assert (await client.request("GET", "/one")).content == b"hi"
        link = client._idle[0]
        while not link.reader._buffer:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        assert (await client.request("GET", "/two")).content == b"hi"

    talk(((OK + OK.replace(b"hi", b"no"),), (OK,)), work)

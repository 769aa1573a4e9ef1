"""A connection that has ended is gone without a search for what refers to itself."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from omnigraph.server.connections import patient

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"


@pytest.fixture
def no_search() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def app(_scope: Scope, receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"well"})


async def ended(sent: bytes, awaited: bytes) -> weakref.ref[object]:
    """Return a connection that was used and is over."""
    config, state = uvicorn.Config(app), ServerState()
    kind = patient(30.0, lambda: None, head_bytes_max=10_000)
    made: list[weakref.ref[object]] = []

    def connect() -> asyncio.Protocol:
        found = kind(config, state, {})  # type: ignore[call-arg]
        made.append(weakref.ref(found))
        return found

    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    if awaited:
        assert awaited in await reader.readuntil(awaited)
    else:
        await asyncio.sleep(0.05)
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    over = asyncio.get_running_loop().time() + 10
    while made[0]() is not None and asyncio.get_running_loop().time() < over:
        await asyncio.sleep(0.01)
    return made[0]


@pytest.mark.parametrize(
    ("sent", "awaited"), [(b"", b""), (REQUEST[:9], b""), (REQUEST, b"well"), (SLOW, b"")]
)
def test_a_connection_that_is_over_is_gone_at_once(
    no_search: None, sent: bytes, awaited: bytes
) -> None:
    assert asyncio.run(ended(sent, awaited))() is None

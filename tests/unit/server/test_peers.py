"""What workers say to each other when one of them has just gone."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from omnigraph.server.peers import Ask, Gone, Leaving, Peers, socket_path, write_message

LOOPS = ["asyncio", "uvloop"]


def _new_loop(name: str) -> asyncio.AbstractEventLoop:
    if name == "uvloop":
        found: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
        return found
    return asyncio.new_event_loop()


async def _never() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_sent_to_one_that_has_gone(loop: str) -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        _reader, writer = await asyncio.open_unix_connection(sock=ours)
        assert write_message(writer, Gone(1))
        theirs.close()
        writer.close()
        await asyncio.sleep(0)
        assert not write_message(writer, Leaving())

    with asyncio.Runner(loop_factory=lambda: _new_loop(loop)) as runner:
        runner.run(run())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_that_cannot_be_handed_over_any_more_is_run_here(
    loop: str, tmp_path: Path
) -> None:
    async def run() -> None:
        path = socket_path(str(tmp_path), 1)
        begun, ended = asyncio.Event(), asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            begun.set()
            await reader.read()
            writer.close()
            ended.set()

        server = await asyncio.start_unix_server(listen, path)
        peers = Peers(str(tmp_path), worker=0, workers=2)
        assert await peers.note([("default", "main", 1)], 1)
        await begun.wait()
        server.close()
        os.unlink(path)
        peers.close()
        await ended.wait()
        ask = Ask(0, "POST", "http", "/mutate", b"/mutate", b"", [], b"{}", None)
        assert await peers.forward([1, 0], ask, _never, keyed=False) is None

    with asyncio.Runner(loop_factory=lambda: _new_loop(loop)) as runner:
        runner.run(run())

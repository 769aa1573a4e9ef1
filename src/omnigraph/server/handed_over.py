"""The end of a worker at which the others hand requests over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from functools import partial

from starlette.types import ASGIApp, Message

from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.server.logs import log
from omnigraph.server.peers import (
    Answer,
    Ask,
    Gone,
    Leaving,
    Noted,
    Reload,
    read_message,
    write_message,
)

_GOODBYE_S = 1.0
HANDED_OVER = "omnigraph.handed_over"
"""In the scope of a request that another worker has let in already."""


class HandedOver:
    """Runs what other workers hand over, as the app would run it for a client.

    `tasks` are what a server that stops waits for.
    """

    def __init__(
        self,
        app: ASGIApp,
        tasks: set[asyncio.Task[None]],
        *,
        worker: int,
        reload: Callable[[], None],
        noted: Callable[[Noted], None],
    ) -> None:
        self._app = app
        self._tasks = tasks
        self._worker = worker
        self._reload = reload
        self._noted = noted
        self._writers: set[asyncio.StreamWriter] = set()
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._is_leaving = False
        self._left_half_done = False

    async def listen(self, place: socket.socket) -> None:
        """Begin to take requests."""
        self._server = await asyncio.start_unix_server(self._talk, sock=place)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        if (talk := asyncio.current_task()) is not None:
            self._talks.add(talk)
            talk.add_done_callback(self._talks.discard)
        under_way: dict[int, asyncio.Event] = {}
        try:
            while (message := await read_message(reader)) is not None:
                if self._is_leaving:
                    continue
                if isinstance(message, Ask):
                    gone = under_way[message.id] = asyncio.Event()
                    task = asyncio.ensure_future(self._run(message, gone, writer))
                    task.add_done_callback(partial(_forget, under_way, message.id))
                    self._track_task(task)
                elif isinstance(message, Gone) and message.id in under_way:
                    under_way[message.id].set()
                elif isinstance(message, Reload):
                    self._track_task(asyncio.ensure_future(self._renew(message, writer)))
                elif isinstance(message, Noted):
                    self._noted(message)
        finally:
            # The clients that wait for answers are gone with their worker.
            for gone in under_way.values():
                gone.set()
            self._writers.discard(writer)
            writer.close()

    def _track_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, ask: Ask, gone: asyncio.Event, writer: asyncio.StreamWriter) -> None:
        waiting = [{"type": "http.request", "body": ask.body, "more_body": False}]
        answer = Answer(ask.id, 500, [], b"", self._worker)
        parts: list[bytes] = []

        async def receive() -> Message:
            if waiting:
                return waiting.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], list(message["headers"])
            else:
                parts.append(message.get("body", b""))

        try:
            await self._app(_scope(ask), receive, send)
        except BaseException:
            self._left_half_done = True
            raise
        answer.body = b"".join(parts)
        write_message(writer, answer)

    async def _renew(self, message: Reload, writer: asyncio.StreamWriter) -> None:
        status = 200
        try:
            await asyncio.to_thread(self._reload)
        except OmniGraphError as error:
            kind, reason = str(error.kind), error.message
            log("reload refused", level=logging.ERROR, error_type=kind, reason=reason)
            status = error.http_status
        write_message(writer, Answer(message.id, status, [], b"", self._worker))

    async def leave(self) -> None:
        """Stop; if nothing is under way, the others are told that nothing was left half done."""
        self._is_leaving = True
        all_done = not self._tasks and not self._left_half_done
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            if all_done:
                write_message(writer, Leaving())
                with contextlib.suppress(OSError):
                    await writer.drain()
            writer.close()
        if self._talks:
            await asyncio.wait(self._talks, timeout=_GOODBYE_S)


def _forget(under_way: dict[int, asyncio.Event], number: int, _task: asyncio.Task[None]) -> None:
    under_way.pop(number, None)


def _scope(ask: Ask) -> dict[str, object]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": ask.method,
        "scheme": ask.scheme,
        "path": ask.path,
        "raw_path": ask.raw_path,
        "query_string": ask.query,
        "root_path": "",
        "headers": [(bytes(name), bytes(value)) for name, value in ask.headers],
        "client": ask.client,
        "server": None,
        "state": {},
        HANDED_OVER: True,
    }


def private_socket(path: str) -> socket.socket:
    """Return a socket that only this user can connect to; it takes the place of a dead one."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise BadRequestError(f"cannot listen on {path}: {error}") from error
    finally:
        os.umask(before)
    return listener

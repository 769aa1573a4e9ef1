"""What workers of one server say to each other: requests handed over, and a few notes.

Frames of msgpack travel over one connection for each pair of workers, on Unix sockets in a folder
that only this user can open. Several requests are under way on a connection at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from omnigraph.errors import OutcomeUnknown
from omnigraph.limits import WORKER_CONNECT_S

_LENGTH: Final = struct.Struct("<I")

Headers = list[tuple[bytes, bytes]]


class Ask(msgspec.Struct, tag="ask", array_like=True):
    """A request that is handed over whole."""

    id: int
    method: str
    scheme: str
    path: str
    raw_path: bytes
    query: bytes
    headers: Headers
    body: bytes
    client: tuple[str, int] | None


class Gone(msgspec.Struct, tag="gone", array_like=True):
    """The client of a request hung up."""

    id: int


class Reload(msgspec.Struct, tag="reload", array_like=True):
    """What is served has changed: read it anew."""

    id: int


class Noted(msgspec.Struct, tag="noted", array_like=True):
    """How many commits the branches of graphs got, for the worker that does the upkeep."""

    commits: list[tuple[str, str, int]]


class Answer(msgspec.Struct, tag="answer", array_like=True):
    """What came of a request."""

    id: int
    status: int
    headers: Headers
    body: bytes
    worker: int


class Leaving(msgspec.Struct, tag="leaving", array_like=True):
    """The last word of a worker that stops: what it has not answered it has not begun."""


Message = Ask | Gone | Reload | Noted | Answer | Leaving
_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """Return the next message; None at the end."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return _decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, OSError):
        return None


def write_message(writer: asyncio.StreamWriter, message: Message) -> bool:
    """Send a message; False if the connection has ended, so that nothing of it was sent."""
    # Some loops raise an error of their own for a write to what is closed.
    if writer.is_closing():
        return False
    content = _encode(message)
    writer.writelines((_LENGTH.pack(len(content)), content))
    return True


def socket_path(folder: str, worker: int) -> str:
    """Return where a worker listens for the others."""
    return os.path.join(folder, f"worker-{worker}")


class _Link:
    """The connection to one other worker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.waiting: dict[int, asyncio.Future[Answer | None]] = {}
        self.is_open = True
        self._said_goodbye = False
        self._task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while (message := await read_message(self._reader)) is not None:
            if isinstance(message, Leaving):
                self._said_goodbye = True
                self.is_open = False
            elif isinstance(message, Answer):
                place = self.waiting.pop(message.id, None)
                if place is not None and not place.done():
                    place.set_result(message)
        self.is_open = False
        self.writer.close()
        for place in self.waiting.values():
            if place.done():
                continue
            if self._said_goodbye:
                place.set_result(None)
            else:
                place.set_exception(LinkLost())
        self.waiting.clear()


class LinkLost(Exception):
    """The worker at the other end went away and left a request unanswered."""


class Peers:
    """The other workers, as one of them sees them."""

    def __init__(self, folder: str, *, worker: int, workers: int) -> None:
        self.worker = worker
        self.workers = workers
        self._folder = folder
        self._links: dict[int, _Link] = {}
        self._connecting: dict[int, asyncio.Lock] = {}
        self._ids = itertools.count()

    async def forward(
        self, order: Sequence[int], ask: Ask, gone: Callable[[], Awaitable[object]], *, keyed: bool
    ) -> Answer | None:
        """Return what another worker answered; None when the request is to be run here.

        Raises `OutcomeUnknown` if the other one was lost meanwhile, unless a key makes it safe to
        repeat.
        """
        for worker in order:
            if worker == self.worker:
                return None
            link = await self._link(worker)
            if link is None:
                continue
            try:
                answer = await self._ask(link, ask, gone)
            except LinkLost:
                if keyed:
                    return None
                raise OutcomeUnknown(
                    "the process that worked on this request ended before it could answer",
                    hint="look whether it had its effect; with an Idempotency-Key such a request "
                    "is repeated safely",
                ) from None
            if answer is not None:
                return answer
        return None

    async def _ask(
        self, link: _Link, ask: Ask, gone: Callable[[], Awaitable[object]]
    ) -> Answer | None:
        if not link.is_open:
            return None
        ask.id = next(self._ids)
        place: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        link.waiting[ask.id] = place
        watcher = asyncio.ensure_future(gone())
        watcher.add_done_callback(lambda ended: self._hung_up(link, ask.id, ended))
        try:
            if not write_message(link.writer, ask):
                return None
            await link.writer.drain()
            return await place
        except OSError:
            raise LinkLost from None
        finally:
            link.waiting.pop(ask.id, None)
            watcher.cancel()

    def _hung_up(self, link: _Link, number: int, ended: asyncio.Future[object]) -> None:
        if not ended.cancelled() and ended.exception() is None and link.is_open:
            write_message(link.writer, Gone(number))

    async def _link(self, worker: int) -> _Link | None:
        """Return the connection to a worker, made anew if it has to be; None if it is away."""
        link = self._links.get(worker)
        if link is not None and link.is_open:
            return link
        async with self._connecting.setdefault(worker, asyncio.Lock()):
            link = self._links.get(worker)
            if link is not None and link.is_open:
                return link
            path = socket_path(self._folder, worker)
            try:
                async with asyncio.timeout(WORKER_CONNECT_S):
                    made = _Link(*await asyncio.open_unix_connection(path))
            except (OSError, TimeoutError):
                return None
            self._links[worker] = made
            return made

    async def reload_others(self) -> None:
        """Let the other workers serve what is there now; return when they do."""

        async def one(worker: int) -> None:
            link = await self._link(worker)
            if link is None:
                return  # Its successor reads everything anew.
            number = next(self._ids)
            place: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
            link.waiting[number] = place
            if not write_message(link.writer, Reload(number)):
                return
            with contextlib.suppress(LinkLost):
                await place

        others = [worker for worker in range(self.workers) if worker != self.worker]
        await asyncio.gather(*(one(worker) for worker in others))

    async def note(self, commits: list[tuple[str, str, int]], worker: int) -> bool:
        """Tell a worker of commits; False if it is away."""
        link = await self._link(worker)
        return link is not None and write_message(link.writer, Noted(commits))

    def close(self) -> None:
        """Hang up."""
        for link in self._links.values():
            link.writer.close()

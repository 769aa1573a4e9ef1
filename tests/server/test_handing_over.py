"""Requests between workers: which are handed over, and what becomes of one whose worker goes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cluster import StoredQuery
from omnigraph.errors import ConflictError, OutcomeUnknown
from omnigraph.server.handed_over import HANDED_OVER, HandedOver, private_socket
from omnigraph.server.peers import Answer, Ask, Noted, Peers, read_message, socket_path
from omnigraph.server.routing import Write, owners, write_of
from omnigraph.server.sharing import Counts

App = Callable[..., Awaitable[Any]]


def stored(name: str, *, mutation: bool) -> StoredQuery:
    return StoredQuery(name=name, source="", mutation=mutation)


QUERIES = {
    "put": stored("put", mutation=True),
    "look": stored("look", mutation=False),
}


@pytest.mark.parametrize(
    ("path", "query", "body", "expected"),
    [
        ("/mutate", b"", b'{"query": "q", "branch": "b"}', Write("/mutate", "b")),
        ("/mutate", b"", b'{"query": "q"}', Write("/mutate", "main")),
        ("/mutate", b"", b'{"query": "q", "branch": null}', Write("/mutate", "main")),
        ("/change", b"", b'{"branch": "b"}', Write("/change", "b")),
        ("/ingest", b"", b'{"branch": "b"}', Write("/ingest", "b")),
        ("/load", b"", b'{"branch": "b", "data": ""}', Write("/load", "b")),
        ("/load/ndjson", b"branch=b%2Fc&mode=merge", b"{}", Write("/load/ndjson", "b/c")),
        ("/load/ndjson", b"", b"{}", Write("/load/ndjson", "main")),
        (
            "/mutate/if-graph-commit",
            b"",
            b'{"branch": "b"}',
            Write("/mutate/if-graph-commit", "b"),
        ),
        (
            "/branches/merge",
            b"",
            b'{"source": "b", "target": " c "}',
            Write("/branches/merge", "c"),
        ),
        ("/branches/merge", b"", b'{"source": "b"}', Write("/branches/merge", "main")),
        ("/queries/put", b"", b'{"branch": "b"}', Write("/queries/{name}", "b")),
        ("/queries/put", b"", b"", Write("/queries/{name}", "main")),
        ("/commits/01/revert", b"", b'{"branch":"b"}', Write("/commits/{commit_id}/revert", "b")),
        ("/graphs/g/mutate", b"", b"{}", Write("/graphs/{graph_id}/mutate", "main")),
        ("/queries/look", b"", b"{}", None),
        ("/queries/unknown", b"", b"{}", None),
        ("/queries", b"", b"{}", None),
        ("/query", b"", b'{"branch": "b"}', None),
        ("/graphs/g", b"", b"{}", None),
        ("/mutate", b"", b"{", None),
        ("/mutate", b"", b'{"branch": 7}', None),
        ("/load/ndjson", b"branch=\xff", b"", None),
    ],
)
def test_a_write_is_known_by_its_route_and_branch(
    path: str, query: bytes, body: bytes, expected: Write | None
) -> None:
    assert write_of("POST", path, query, body, QUERIES) == expected
    assert write_of("GET", path, query, body, QUERIES) is None


def test_branches_spread_and_stay_when_a_worker_goes() -> None:
    orders = [owners("g", f"b{number}", 4) for number in range(400)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert min(Counter(order[0] for order in orders).values()) > 50
    without = [owners("g", f"b{number}", 3) for number in range(400)]
    assert all(
        [worker for worker in order if worker != 3] == fewer
        for order, fewer in zip(orders, without, strict=True)
    )


def test_a_worker_that_is_away_counts_as_full(tmp_path: Path) -> None:
    mine, theirs = (Counts(str(tmp_path / "counts"), 2) for _ in range(2))
    mine.set(0, 3)
    mine.leave(1)
    assert (theirs.get(0), theirs.least()) == (3, 3)
    theirs.set(1, 2)
    assert mine.least() == 2


def ask(body: bytes = b"{}") -> Ask:
    return Ask(0, "POST", "http", "/mutate", b"/mutate", b"", [], body, None)


async def never() -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def worker(
    folder: Path, app: App, noted: Callable[[Noted], None] = lambda _message: None
) -> AsyncIterator[HandedOver]:
    """Run worker 1 with an app while the block runs."""
    tasks: set[asyncio.Task[None]] = set()
    found = HandedOver(app, tasks, worker=1, reload=lambda: None, noted=noted)
    await found.listen(private_socket(socket_path(str(folder), 1)))
    try:
        yield found
    finally:
        await found.leave()


def peers(folder: Path) -> Peers:
    return Peers(str(folder), worker=0, workers=2)


async def echo(scope: Any, receive: App, send: App) -> None:
    assert scope[HANDED_OVER] is True
    message: dict[str, bytes] = await receive()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": message["body"]})


def test_a_request_is_answered_by_the_other_worker(tmp_path: Path) -> None:
    async def story() -> list[Answer | None]:
        own = peers(tmp_path)
        async with worker(tmp_path, echo):
            many = (own.forward([1, 0], ask(b"%d" % n), never, keyed=False) for n in range(20))
            found = await asyncio.gather(*many)
            found.append(await own.forward([0, 1], ask(), never, keyed=False))
        own.close()
        return found

    *found, mine = asyncio.run(story())
    assert [(a.status, a.headers, a.body) for a in found if a is not None] == [
        (201, [(b"a", b"b")], b"%d" % n) for n in range(20)
    ]
    assert mine is None


def test_one_that_cannot_be_reached_leaves_the_request_here(tmp_path: Path) -> None:
    async def story() -> Answer | None:
        return await peers(tmp_path).forward([1, 0], ask(), never, keyed=False)

    assert asyncio.run(story()) is None


@pytest.mark.parametrize("keyed", [True, False])
def test_one_that_dies_leaves_the_outcome_unknown_unless_a_key_makes_it_safe(
    tmp_path: Path, keyed: bool
) -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(await read_message(reader), Ask)
        writer.close()

    async def story() -> Answer | None:
        server = await asyncio.start_unix_server(die, socket_path(str(tmp_path), 1))
        async with server:
            return await peers(tmp_path).forward([1, 0], ask(), never, keyed=keyed)

    if keyed:
        assert asyncio.run(story()) is None
    else:
        with pytest.raises(OutcomeUnknown, match="ended before it could answer"):
            asyncio.run(story())


def test_what_a_worker_that_stops_has_not_begun_is_run_here(tmp_path: Path) -> None:
    begun: list[bytes] = []

    async def note(_scope: object, receive: App, send: App) -> None:
        message: dict[str, bytes] = await receive()
        begun.append(message["body"])
        await echo({HANDED_OVER: True}, receive_again(message), send)

    async def story() -> list[Answer | None]:
        own = peers(tmp_path)
        async with worker(tmp_path, note) as other:
            first = await own.forward([1, 0], ask(b"first"), never, keyed=False)
            # It reads no more, as if it were told while this was on its way.
            other._is_leaving = True
            late = asyncio.ensure_future(own.forward([1, 0], ask(b"late"), never, keyed=False))
            await asyncio.sleep(0.05)
            assert not late.done()
        return [first, await late]

    first, late = asyncio.run(story())
    assert first is not None
    assert late is None
    assert begun == [b"first"]


def receive_again(message: object) -> App:
    async def receive() -> object:
        return message

    return receive


def test_one_that_breaks_off_does_not_say_that_all_is_done(tmp_path: Path) -> None:
    async def stuck(_scope: object, _receive: App, _send: App) -> None:
        await never()

    async def story() -> Answer | None:
        tasks: set[asyncio.Task[None]] = set()
        other = HandedOver(stuck, tasks, worker=1, reload=lambda: None, noted=lambda _m: None)
        await other.listen(private_socket(socket_path(str(tmp_path), 1)))
        own = asyncio.ensure_future(peers(tmp_path).forward([1, 0], ask(), never, keyed=False))
        while not tasks:
            await asyncio.sleep(0.01)
        for task in list(tasks):
            task.cancel()
        while tasks:
            await asyncio.sleep(0.01)
        await other.leave()
        return await own

    with pytest.raises(OutcomeUnknown):
        asyncio.run(story())


@pytest.mark.parametrize("refusal", [None, ConflictError("no")])
def test_a_reload_of_others_ends_whatever_comes_of_it(
    tmp_path: Path, refusal: ConflictError | None
) -> None:
    called: list[int] = []

    def reload() -> None:
        called.append(1)
        if refusal is not None:
            raise refusal

    async def story() -> None:
        tasks: set[asyncio.Task[None]] = set()
        other = HandedOver(echo, tasks, worker=1, reload=reload, noted=lambda _m: None)
        await other.listen(private_socket(socket_path(str(tmp_path), 1)))
        await asyncio.wait_for(peers(tmp_path).reload_others(), 10)
        await other.leave()

    asyncio.run(story())
    assert called == [1]


def test_a_client_that_hangs_up_is_gone_at_the_other_worker_too(tmp_path: Path) -> None:
    seen: list[str] = []

    async def patient(_scope: object, receive: App, send: App) -> None:
        for _message in range(2):
            message: dict[str, str] = await receive()
            seen.append(message["type"])
        await send({"type": "http.response.start", "status": 429, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def gone() -> None:
        await asyncio.sleep(0.02)

    async def story() -> Answer | None:
        async with worker(tmp_path, patient):
            return await peers(tmp_path).forward([1, 0], ask(), gone, keyed=False)

    found = asyncio.run(story())
    assert found is not None
    assert found.status == 429
    assert seen == ["http.request", "http.disconnect"]


def test_commits_are_told_to_the_worker_that_does_the_upkeep(tmp_path: Path) -> None:
    told: list[tuple[str, str, int]] = []

    async def story() -> tuple[bool, bool]:
        own = peers(tmp_path)
        before = await own.note([("g", "main", 1)], 1)
        async with worker(tmp_path, echo, lambda message: told.extend(message.commits)):
            after = await own.note([("g", "main", 3)], 1)
            await own.forward([1, 0], ask(), never, keyed=False)
        return before, after

    assert asyncio.run(story()) == (False, True)
    assert told == [("g", "main", 3)]

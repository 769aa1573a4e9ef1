"""Commits and the change feed of a served graph."""

# Made from src/omnigraph/remote/history.py by `make client`: change that, not this.
from __future__ import annotations

import datetime
import os
from collections.abc import AsyncIterator, Iterable
from functools import partial
from urllib.parse import quote

from omnigraph.limits import FEED_CHANGES_DEFAULT
from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.aio.waiting import aside, parts_for_aside
from omnigraph.remote.connection import Json
from omnigraph.remote.history import _instant
from omnigraph.values.answers import CommitMade
from omnigraph.values.changes import Baseline, ChangeBlock, FeedPage
from omnigraph.values.commits import MAIN, GraphCommit
from omnigraph.values.value import decode
from omnigraph.values.words import ChangeOp, EntityKind


class AsyncRemoteCommits:
    """The commits of a served graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """Return commits, newest first, optionally of one actor and within a time."""
        if limit is not None and limit < 1:
            return []
        params = {
            "branch": branch,
            "actor": actor,
            "since": _instant(since),
            "until": _instant(until),
            "limit": limit,
        }
        commits = (await self._connection.get("/commits", params))["commits"]
        return decode(commits, list[GraphCommit])

    async def get(self, commit_id: str) -> GraphCommit:
        """Return one commit, whatever branch it is on."""
        return GraphCommit.from_json(
            await self._connection.get(f"/commits/{quote(commit_id, safe='')}")
        )

    async def changes(
        self,
        commit_id: str,
        *,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> ChangeBlock:
        """Return what a commit changed, against its first parent."""
        path = f"/commits/{quote(commit_id, safe='')}/changes"
        params: Json = {"kind": [*kinds], "type": [*types], "op": [*ops]}
        body = await self._connection.get(path, params)
        token = body.pop("next_page_token", None)
        while token is not None:
            more = await self._connection.get(path, params | {"page_token": token})
            body["changes"] += more["changes"]
            token = more.get("next_page_token")
        return ChangeBlock.from_json(body)

    async def head(self, branch: str = MAIN) -> GraphCommit:
        """Return the newest commit of a branch."""
        snapshot = await self._connection.get("/snapshot", {"branch": branch})
        return GraphCommit.from_json(snapshot["commit"])

    async def last_change(self, type_name: str, id: str, branch: str = MAIN) -> GraphCommit | None:
        """Return the commit that last changed an entity; None when it never existed."""
        params = {"type": type_name, "id": id, "branch": branch}
        return CommitMade.from_json(await self._connection.get("/blame", params)).commit


class AsyncRemoteFeed:
    """The change feed of a served graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def poll(
        self,
        start: str = "now",
        *,
        cursor: str | None = None,
        page_token: str | None = None,
        branch: str = MAIN,
        limit: int = FEED_CHANGES_DEFAULT,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> FeedPage:
        """Return the next commits and what they changed, as the embedded feed does."""
        params: Json = {"branch": branch, "limit": limit}
        params |= {"kind": [*kinds], "type": [*types], "op": [*ops]}
        if page_token is not None:
            params["page_token"] = page_token
        elif cursor is not None:
            params["cursor"] = cursor
        else:
            params["start"] = start
        return FeedPage.from_json(await self._connection.get("/changes", params))

    def follow(
        self,
        start: str = "now",
        *,
        cursor: str | None = None,
        branch: str = MAIN,
        interval_s: float = 1.0,
        limit: int = FEED_CHANGES_DEFAULT,
    ) -> AsyncIterator[FeedPage]:
        """Yield answers as commits arrive, for ever. Keep the last cursor to go on later."""
        from omnigraph.remote.aio.waiting import pages_for_ever

        ask = partial(self.poll, start, branch=branch, limit=limit)
        return pages_for_ever(ask, cursor, interval_s)

    async def baseline(
        self,
        dest: str | os.PathLike[str],
        *,
        branch: str = MAIN,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> Baseline:
        """Write a whole snapshot as JSONL; the feed resumes right after it."""
        from omnigraph.remote.files import copy_lines

        body: Json = {"branch": branch, "kind": [*kinds], "type": [*types], "op": [*ops]}
        async with self._connection.stream("POST", "/changes/baseline", body=body) as response:
            lines, last = await aside(copy_lines, parts_for_aside(response.iter_bytes()), dest)
        return Baseline.from_json({**last["baseline"], "entities": lines - 1})

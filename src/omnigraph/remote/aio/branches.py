"""Branches and tags of a served graph."""

# Made from src/omnigraph/remote/branches.py by `make client`: change that, not this.
from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.branches import _merge_body
from omnigraph.remote.connection import Json, state_fields
from omnigraph.values.answers import BranchList, CommitMade, TagList
from omnigraph.values.commits import MAIN, BranchInfo, GraphCommit, Tag
from omnigraph.values.inspection import (
    HISTORY_COMMITS_DEFAULT,
    AllowedActions,
    BranchHeads,
    CommitGraph,
)
from omnigraph.values.merges import MergePlan, MergeResult

if TYPE_CHECKING:
    from omnigraph.ops.merge.merging import Resolution


class AsyncRemoteBranches:
    """The branches of a served graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> list[str]:
        """Return the names of all branches, main first."""
        return list((await self._connection.get("/branches"))["branches"])

    async def details(self) -> tuple[BranchInfo, ...]:
        """Return all branches with where and when they were made; those the actor may read."""
        branches = BranchList.from_json(await self._connection.get("/branches", {"details": True}))
        return branches.details

    async def heads(self, base: str = MAIN) -> BranchHeads:
        """Return all branches with their newest commits, and how far each is from a base."""
        return BranchHeads.from_json(await self._connection.get("/branches/heads", {"base": base}))

    async def history(
        self, *, limit: int = HISTORY_COMMITS_DEFAULT, page_token: str | None = None
    ) -> CommitGraph:
        """Return the commits of all branches, each before its parents, with branches and tags."""
        params: Json = {"limit": limit, "page_token": page_token}
        return CommitGraph.from_json(await self._connection.get("/history", params))

    async def allowed(self, branch: str = MAIN) -> AllowedActions:
        """Return what the actor may do on a branch; whether it exists is not told."""
        return AllowedActions.from_json(await self._connection.get("/access", {"branch": branch}))

    async def exists(self, name: str) -> bool:
        """Whether there is a branch of this name."""
        return name == MAIN or name in await self.list()

    async def create(
        self, name: str, from_: str | int = MAIN, *, expected_head: str | None = None
    ) -> BranchInfo:
        """Make a branch from a branch, commit id, tag, or `branch@version`."""
        body = {"name": name, "from": str(from_)}
        answer = await self._connection.change(
            "POST", "/branches", body, expected_head=expected_head
        )
        return BranchInfo.from_json(answer["details"])

    async def delete(self, name: str, *, expected_head: str | None = None) -> None:
        """Remove a branch and what only it holds."""
        path = f"/branches/{quote(name, safe='')}"
        await self._connection.change("DELETE", path, expected_head=expected_head)

    async def merge_plan(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
    ) -> MergePlan:
        """Compute a merge for review; nothing is written."""
        body = _merge_body(source, into, resolve, property_merge)
        return MergePlan.from_json(
            (await self._connection.post("/branches/merge/preview", body)).json()
        )

    async def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        checks: Iterable[str] = (),
        delete_source: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another, as the embedded `Branches.merge` does."""
        body = _merge_body(source, into, resolve, property_merge)
        body |= {"checks": [*checks], "delete_branch": delete_source}
        answer = await self._connection.write(
            "/branches/merge",
            body,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        return MergeResult.from_json(answer)

    async def cherry_pick(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> GraphCommit | None:
        """Make the changes of one commit on another branch."""
        body = {"branch": branch, "resolve": resolve, "property_merge": property_merge}
        return await self._apply(commit_id, "pick", body, expected_head, operation_id, message)

    async def revert(
        self,
        commit_id: str,
        branch: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> GraphCommit | None:
        """Undo the changes of one commit in a new one."""
        body = {"branch": branch, "resolve": resolve, "property_merge": property_merge}
        return await self._apply(commit_id, "revert", body, expected_head, operation_id, message)

    async def _apply(
        self,
        commit_id: str,
        verb: str,
        body: Json,
        expected_head: str | None,
        operation_id: str | None,
        message: str | None,
    ) -> GraphCommit | None:
        path = f"/commits/{quote(commit_id, safe='')}/{verb}"
        answer = await self._connection.write(
            path, body, expected_head=expected_head, operation_id=operation_id, message=message
        )
        return CommitMade.from_json(answer).commit


class AsyncRemoteTags:
    """Names for states of a served graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> list[Tag]:
        """Return all tags, by name."""
        return list(TagList.from_json(await self._connection.get("/tags")).tags)

    async def create(
        self,
        name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        timestamp: datetime.datetime | str | None = None,
        expected_head: str | None = None,
    ) -> Tag:
        """Name the newest state of a branch, or an older one."""
        body = {"name": name, **state_fields(branch, commit, version, None, timestamp)}
        answer = await self._connection.change("POST", "/tags", body, expected_head=expected_head)
        return Tag.from_json(answer)

    async def delete(self, name: str, *, expected_head: str | None = None) -> None:
        """Forget a tag; the state it named stays."""
        path = f"/tags/{quote(name, safe='')}"
        await self._connection.change("DELETE", path, expected_head=expected_head)

"""Branches and tags of a served graph."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from omnigraph.graph import MergePlan, MergeResult
from omnigraph.graph.merging import Resolution
from omnigraph.manifest import MAIN, GraphCommit, Tag
from omnigraph.remote.connection import Connection, Json, state_fields
from omnigraph.remote.values import (
    maybe_commit,
    merge_from,
    merge_plan_from,
    tag_from,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBranch:
    """A branch that was made."""

    name: str


class RemoteBranches:
    """The branches of a served graph."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> list[str]:
        """Return the names of all branches, main first."""
        return list(self._connection.get("/branches")["branches"])

    def details(self) -> tuple[RemoteBranch, ...]:
        """Return all branches."""
        return tuple(RemoteBranch(name=name) for name in self.list())

    def exists(self, name: str) -> bool:
        """Whether there is a branch of this name."""
        return name == MAIN or name in self.list()

    def create(self, name: str, from_: str | int = MAIN) -> RemoteBranch:
        """Make a branch from a branch, commit id, tag, or `branch@version`."""
        self._connection.change("POST", "/branches", {"name": name, "from": str(from_)})
        return RemoteBranch(name=name)

    def delete(self, name: str) -> None:
        """Remove a branch and what only it holds."""
        self._connection.change("DELETE", f"/branches/{quote(name, safe='')}")

    def merge_plan(
        self,
        source: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
    ) -> MergePlan:
        """Compute a merge for review; nothing is written."""
        body = _merge_body(source, into, resolve, property_merge)
        return merge_plan_from(self._connection.post("/branches/merge/preview", body).json())

    def merge(
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
    ) -> MergeResult:
        """Merge a branch into another, as the embedded `Branches.merge` does."""
        body = _merge_body(source, into, resolve, property_merge)
        body |= {"checks": [*checks], "delete_branch": delete_source}
        found = self._connection.write(
            "/branches/merge", body, expected_head=expected_head, operation_id=operation_id
        )
        return merge_from(found)

    def cherry_pick(
        self,
        commit_id: str,
        into: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        operation_id: str | None = None,
    ) -> GraphCommit | None:
        """Make the changes of one commit on another branch."""
        return self._apply(commit_id, "pick", into, resolve, property_merge, operation_id)

    def revert(
        self,
        commit_id: str,
        on: str = MAIN,
        *,
        resolve: Resolution | None = None,
        property_merge: bool = False,
        operation_id: str | None = None,
    ) -> GraphCommit | None:
        """Undo the changes of one commit in a new one."""
        return self._apply(commit_id, "revert", on, resolve, property_merge, operation_id)

    def _apply(
        self,
        commit_id: str,
        verb: str,
        branch: str,
        resolve: Resolution | None,
        property_merge: bool,
        operation_id: str | None,
    ) -> GraphCommit | None:
        body = {"branch": branch, "resolve": resolve, "property_merge": property_merge}
        path = f"/commits/{quote(commit_id, safe='')}/{verb}"
        found = self._connection.write(path, body, operation_id=operation_id)
        return maybe_commit(found["commit"])


def _merge_body(source: str, into: str, resolve: Resolution | None, property_merge: bool) -> Json:
    decided = resolve if resolve is None or isinstance(resolve, str) else dict(resolve)
    return {
        "source": source,
        "target": into,
        "resolve": decided,
        "property_merge": property_merge,
    }


class RemoteTags:
    """Names for states of a served graph."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> list[Tag]:
        """Return all tags, by name."""
        return [tag_from(item) for item in self._connection.get("/tags")["tags"]]

    def create(
        self,
        name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Tag:
        """Name the newest state of a branch, or an older one."""
        body = {"name": name, **state_fields(branch, commit, version, None, timestamp)}
        return tag_from(self._connection.change("POST", "/tags", body))

    def delete(self, name: str) -> None:
        """Forget a tag; the state it named stays."""
        self._connection.change("DELETE", f"/tags/{quote(name, safe='')}")

"""Reads the commit history."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterable
from itertools import islice

from omnigraph.commits import MAIN, GraphCommit
from omnigraph.commits.contract import SchemaContract
from omnigraph.errors import BadRequestError
from omnigraph.graph.blame import Blame
from omnigraph.graph.changes import ChangeBlock, Changes
from omnigraph.graph.permits import Reachable
from omnigraph.graph.revisions import resolve_commit
from omnigraph.ops.diff import ChangeFilter
from omnigraph.store import Tables
from omnigraph.values.words import ChangeOp, EntityKind

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


class Commits:
    """The commits of a graph."""

    def __init__(self, lines: Reachable, tables: Tables, contract: SchemaContract) -> None:
        self._lines = lines
        self._tables = tables
        self._contract = contract

    def list(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since: datetime.datetime | None = None,
        until: datetime.datetime | None = None,
        limit: int | None = None,
    ) -> list[GraphCommit]:
        """Return commits, newest first, optionally of one actor and within a time.

        >>> [commit.kind for commit in graph.commits.list()]
        ['load', 'init']

        With a limit, no more of the history is read than that takes.
        """
        if limit is not None and limit < 0:
            raise BadRequestError(f"limit must not be negative, got {limit}")
        manifest = self._lines.get(branch).manifest
        state = manifest.capture()
        commits = manifest.history.newest_first(
            state.version, since_us=_microseconds(since), until_us=_microseconds(until)
        )
        kept = (commit for commit in commits if actor is None or commit.actor_id == actor)
        # No list is longer, and nothing counts further.
        return list(islice(kept, None if limit is None else min(limit, sys.maxsize)))

    def get(self, commit_id: str) -> GraphCommit:
        """Return one commit, by its id or any name of a state. Raises `NotFoundError`.

        >>> graph.commits.get(graph.commits.head("dev").graph_commit_id).kind
        'mutation'
        """
        return resolve_commit(self._lines, commit_id)[1]

    def changes(
        self,
        commit_id: str,
        *,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> ChangeBlock:
        """Return what a commit changed, against its first parent, with before and after images.

        >>> block = graph.commits.changes(graph.commits.head("dev").graph_commit_id)
        >>> [(item.op, item.id) for item in block.changes]
        [('update', 't2')]

        Raises `DiffRefusedError` for the first commit, and across a change of schema.
        """
        line, commit = resolve_commit(self._lines, commit_id)
        wanted = ChangeFilter.of(kinds, types, ops)
        self._contract.validate()
        changes = Changes(self._lines, self._tables, self._contract)
        return changes.of_commit(commit, line, wanted)

    def last_change(self, type_name: str, id: str, branch: str = MAIN) -> GraphCommit | None:
        """Return the commit that last changed an entity; None when it never existed.

        >>> graph.commits.last_change("Task", "t2", "dev").kind
        'mutation'
        """
        entity = self._contract.validate().catalog.entity_named(type_name)
        line = self._lines.get(branch)
        pin = line.manifest.capture().pins.get(entity.table_key)
        blame = Blame(self._lines, line, self._tables, self._contract)
        return None if pin is None else blame.last_change(pin, id)

    def head(self, branch: str = MAIN) -> GraphCommit:
        """Return the newest commit of a branch.

        >>> graph.commits.head().kind
        'load'
        """
        return self._lines.get(branch).manifest.capture().head


def _microseconds(moment: datetime.datetime | None) -> int | None:
    """Return an instant as commits have it; without a zone it is UTC."""
    if moment is None:
        return None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    return (zoned - _EPOCH) // datetime.timedelta(microseconds=1)

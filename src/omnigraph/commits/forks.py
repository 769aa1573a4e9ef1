"""A graph branch's own branch of a table, made by its first write to that table."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable
from concurrent.futures import Future

from omnigraph.catalog import Entity
from omnigraph.commits.base import Base
from omnigraph.commits.publisher import Publisher
from omnigraph.errors import OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.store import Table, delete_branch, fork_table, split_branch


def owned_table(base: Base, table: Table) -> Table | None:
    """Return a table if it is the branch's own, None before its first write."""
    _root, line = split_branch(table.path)
    return table if base.capture.branch.owns(line) else None


def make_fork(publisher: Publisher, base: Base, table: Table, new_id: str) -> Table:
    """Start a branch of a table for a graph branch.

    A table branch that is not published is only space: no other ever has its name.
    """
    forked, files = fork_table(base.tables, table, base.capture.branch.fork_name(new_id))
    fire(Failpoint.FORK_POST_CREATE)
    publisher.syncer.sync(files)
    return forked


class Forks:
    """Table branches a write will need unless it is refused, made while it is still looked at."""

    def __init__(
        self, publisher: Publisher, base: Base, entities: Iterable[Entity], new_ids: Iterable[str]
    ) -> None:
        self._tables = base.tables
        self._coming: dict[str, Future[Table]] = {}
        for entity, new_id in zip(entities, new_ids, strict=False):
            table = base.table(entity)
            if entity.table_key in self._coming or owned_table(base, table) is not None:
                continue
            context = contextvars.copy_context()
            made = publisher.threads.submit(context.run, make_fork, publisher, base, table, new_id)
            self._coming[entity.table_key] = made

    def take(self, entity: Entity) -> Table | None:
        """Return the branch of a table; None when it was not made ahead."""
        coming = self._coming.pop(entity.table_key, None)
        return None if coming is None else coming.result()

    def discard(self) -> None:
        """Remove the table branches that were not taken."""
        for made in self._coming.values():
            with contextlib.suppress(OmniGraphError):
                forked = made.result()
                root, name = split_branch(forked.path)
                self._tables.forget(forked.path, below=forked.version + 1)
                delete_branch(self._tables.files, self._tables.folder(root), str(name))
        self._coming.clear()

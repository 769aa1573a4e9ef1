"""What an operation wants to do, before anything is staged. All of it is data.

A closed set: rows that are inserted, replaced or deleted (`TableChange`, whose rows may also lie in
files of workers), indexes to build (`BuildIndexes`), and steps that Lance cannot stage
(`TableStep`). The write loop is their only interpreter, and all of them can be pickled.
"""

from __future__ import annotations

from msgspec import Struct

from omnigraph.commits.identity import CommitChain
from omnigraph.commits.records import TableEntry
from omnigraph.rows.changes import TableChanges
from omnigraph.store import IndexSpec
from omnigraph.store.tables.steps import UnstagedStep


class BuildIndexes(Struct, frozen=True, kw_only=True):
    """Make indexes of a table cover every row; no row changes."""

    table_key: str
    specs: tuple[IndexSpec, ...]


class TableStep(Struct, frozen=True, kw_only=True):
    """Do something to a table that Lance cannot stage; `becomes` is its new key, if it gets one."""

    table_key: str
    step: UnstagedStep
    becomes: str | None = None


class ChangeSet(TableChanges):
    """The changes of one operation: those of rows, and whatever else it does."""

    indexes: tuple[BuildIndexes, ...] = ()
    steps: tuple[TableStep, ...] = ()
    entries: tuple[TableEntry, ...] = ()
    """What is said about tables that do not move."""
    schema_hash: str | None = None
    """The schema from this commit on, if it is another."""
    chain: CommitChain | None = None
    """The commits to publish, if they exist already and a branch only takes them over."""
    alone: bool = False
    """Whether the commit is made even if no table changes."""
    unseen: frozenset[str] = frozenset()
    """Tables that other writes of the same publish changed after it."""

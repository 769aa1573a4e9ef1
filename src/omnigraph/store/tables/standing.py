"""Judges what a table's versions above the published one mean. Every caller asks here.

Lance numbers the versions of a branch of a table in one sequence; the manifest names one of them.
Versions above it are an interrupted write of this engine, maintenance by another program, rows of
another program, or nothing that can be read. What to do about each verdict is the caller's
decision; the table of verdicts and callers is in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from omnigraph.errors import DriftError, OmniGraphError
from omnigraph.store.files.counters import count
from omnigraph.store.tables.lance_errors import calm
from omnigraph.store.tables.table import Table, Tables, is_marked
from omnigraph.store.tables.torn_versions import newest_version

if TYPE_CHECKING:
    from lance import Transaction

UNREADABLE = "unreadable"
AUTO_CLEANUP = "lance.auto_cleanup."
"""Prefix of settings by which Lance deletes versions by itself when a commit is made."""

_MAINTENANCE = frozenset({"Rewrite", "CreateIndex"})
COLUMN_OPERATIONS = frozenset({"Project", "Merge", "CreateIndex", "DataReplacement"})
"""What a change of columns is made of; Lance lets no caller mark these."""


class Standing(StrEnum):
    """What a table's newest version is, held against the published one."""

    CURRENT = "current"
    """It is the published one."""
    LEFTOVER = "leftover"
    """Above it lie only versions of an interrupted write; undoing them loses nothing."""
    MAINTENANCE = "maintenance"
    """Another program compacted or indexed the table: the rows are the published ones."""
    FOREIGN = "foreign"
    """Another program changed rows."""
    UNREADABLE = "unreadable"
    """A version above the published one cannot be read."""
    BEHIND = "behind"
    """The published version is above the newest one: files are missing."""


DRIFT = frozenset({Standing.MAINTENANCE, Standing.FOREIGN, Standing.UNREADABLE, Standing.BEHIND})
"""Verdicts that only `repair` resolves."""
UNDOABLE = frozenset({Standing.LEFTOVER, Standing.MAINTENANCE})
"""Verdicts under which a write may restore the published version: no row is lost by it."""


class Author(StrEnum):
    """Who made a version, and what it did to rows."""

    ENGINE = "engine"
    SETTINGS = "settings"
    """Only settings by which Lance would delete versions."""
    MAINTENANCE = "maintenance"
    ROWS = "rows"
    UNKNOWN = "unknown"


class VersionNote(Struct, frozen=True, kw_only=True):
    """One version above the published one: what Lance says was done, and by whom."""

    version: int
    operation: str
    author: Author


class TableStanding(Struct, frozen=True, kw_only=True):
    """The verdict on one table, with what it rests on."""

    path: str
    published: int
    head: int
    verdict: Standing
    notes: tuple[VersionNote, ...] = ()

    @property
    def last_foreign(self) -> int | None:
        """The newest version that another program made, if there is one that can be read."""
        ours = (Author.ENGINE, Author.UNKNOWN)
        return max((note.version for note in self.notes if note.author not in ours), default=None)


def judge(published: int, head: int, authors: Iterable[Author]) -> Standing:
    """Return the verdict on a table, from who made the versions above the published one."""
    if head < published:
        return Standing.BEHIND
    if head == published:
        return Standing.CURRENT
    makers = set(authors)
    if Author.UNKNOWN in makers:
        return Standing.UNREADABLE
    if Author.ROWS in makers:
        return Standing.FOREIGN
    if makers == {Author.MAINTENANCE} or makers == {Author.MAINTENANCE, Author.SETTINGS}:
        return Standing.MAINTENANCE
    # Settings alone are not worth keeping, and maintenance above unpublished rows of an
    # interrupted write cannot be kept without them.
    return Standing.LEFTOVER


def standing(
    tables: Tables, path: str, published: int, *, ours: Collection[str] = ()
) -> TableStanding:
    """Look at a table and return the verdict: one listing, and more only if it has moved.

    `ours` are operations that an interrupted write made without being able to mark them.
    """
    head = newest_version(tables.files, tables.folder(path))
    notes = tuple(_note(tables, path, version, ours) for version in range(published + 1, head + 1))
    verdict = judge(published, head, (note.author for note in notes))
    return TableStanding(path=path, published=published, head=head, verdict=verdict, notes=notes)


def refuse_drift(state: TableStanding) -> None:
    """Raise `DriftError` for a table that only a person can judge."""
    if state.verdict in (Standing.CURRENT, *UNDOABLE):
        return
    raise DriftError(
        table_path=state.path,
        verdict=str(state.verdict),
        published_version=state.published,
        head_version=state.head,
    )


def _note(tables: Tables, path: str, version: int, ours: Collection[str]) -> VersionNote:
    count("transaction_reads")
    unknown = VersionNote(version=version, operation=UNREADABLE, author=Author.UNKNOWN)
    try:
        table = tables.open(path, version)
        with calm():
            transaction = table.own_handle().read_transaction(version)
    except TypeError as error:
        # The library cannot describe a compaction that rewrote an index; it is one all the same.
        if "RewrittenIndex" not in str(error):
            return unknown
        return VersionNote(version=version, operation="Rewrite", author=Author.MAINTENANCE)
    except (OSError, ValueError, OmniGraphError):
        return unknown
    if transaction is None:
        return unknown
    operation = type(transaction.operation).__name__
    if is_marked(transaction) or operation in ours:
        author = Author.ENGINE
    else:
        author = _author(tables, table, transaction, operation)
    return VersionNote(version=version, operation=operation, author=author)


def _author(tables: Tables, table: Table, transaction: Transaction, operation: str) -> Author:
    if operation in _MAINTENANCE:
        return Author.MAINTENANCE
    if operation == "UpdateConfig":
        changed = getattr(transaction.operation, "config_updates", None) or {}
        keys = list(getattr(changed, "updates", changed))
        return Author.SETTINGS if _only_auto_cleanup(keys) else Author.ROWS
    if operation == "BaseOperation":
        # Reserved fragment ids, or an operation this library does not know.
        try:
            before = tables.open(table.path, table.version - 1)
        except OmniGraphError:
            return Author.UNKNOWN
        return Author.MAINTENANCE if _same_rows(before, table) else Author.ROWS
    return Author.ROWS


def _only_auto_cleanup(keys: list[object]) -> bool:
    return bool(keys) and all(str(key).startswith(AUTO_CLEANUP) for key in keys)


def _same_rows(before: Table, after: Table) -> bool:
    return before.schema.equals(after.schema) and _fragments(before) == _fragments(after)


def _fragments(table: Table) -> list[dict[str, object]]:
    return [fragment.metadata.to_json() for fragment in table.fragments()]

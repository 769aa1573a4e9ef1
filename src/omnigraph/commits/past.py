"""The older part of a branch's history: read where it lies, as far as it is asked for.

Checkpoints divide it into spans. A span is found by version, by operation or by time through what
checkpoints say, and by commit id through a search of one column; then it is read and taken in like
the newest rows. Some stay in memory.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.commits.checkpoints import (
    Checkpoint,
    Landmark,
    Marks,
    checkpoint,
    decode_checkpoint,
    marks_of,
)
from omnigraph.commits.groups import Group
from omnigraph.commits.records import CHECKPOINT, COMMIT, TABLE, GraphCommit, Record, decode
from omnigraph.commits.span import Span
from omnigraph.errors import NotFoundError, StorageError, StorageFailureKind
from omnigraph.ids import is_ulid
from omnigraph.limits import MANIFEST_READS_MAX
from omnigraph.store import Journal, JournalFile, JournalView, Pin, quoted

T = TypeVar("T")

COMMITS_HELD_MAX = 2_048
"""Commits from before the newest checkpoints of a branch that stay in memory, 1 KB each."""

CHECKPOINTS_HELD_MAX = 64
"""Checkpoints of a branch that stay in memory, 150 bytes for each table."""

PREFIX_COMMITS_MAX = 16
"""Commits that are looked up of those whose ids begin alike: one is asked for, a few are told."""

LANDMARK_ROWS = 3
"""What an append ends with: its last commit, the group it is in if any, the checkpoint."""


class _Place(Struct, frozen=True):
    """The row of a checkpoint: the number of its file in a view, and its number there."""

    file: int
    row: int
    seq: int


class _Summary(Struct, frozen=True):
    """When the commits of a span were made."""

    oldest_us: int
    newest_us: int


class Past:
    """Reads what was published up to the newest checkpoint. Safe to share between threads."""

    def __init__(
        self, journal: Journal, view: Callable[[], JournalView], look_again: Callable[[], object]
    ) -> None:
        self._journal = journal
        self._view = view
        self._look_again = look_again
        self._lock = threading.Lock()
        self._seqs: list[int] = []
        self._found: dict[str, list[tuple[int, int]]] = {}
        self._spans: BoundedCache[int, Span] = BoundedCache(COMMITS_HELD_MAX)
        self._checkpoints: BoundedCache[int, Checkpoint] = BoundedCache(CHECKPOINTS_HELD_MAX)
        self._summaries: dict[int, _Summary] = {}
        self._marks: tuple[Marks, Marks] = (np.empty(0, np.uint64), np.empty(0, np.uint64))
        """Operations in the order of their marks, and the checkpoint that names each."""

    # ---- spans ----------------------------------------------------------------------------

    def span(self, version: int) -> Span:
        """Return the span a version lies in: above its floor, up to its last."""
        seq = self._end(version)
        span = self._spans.get(seq)
        if span is None:
            span = self._reading(lambda view: self._load(view, seq))
            weight = min(max(len(span.commits), 1), COMMITS_HELD_MAX)
            self._spans.put(seq, span, weight)
        return span

    def newest_first(
        self, to: int, *, since_us: int | None = None, until_us: int | None = None
    ) -> Iterator[Span]:
        """Yield the spans up to that of a version, without those that hold no commit of a time."""
        timed = since_us is not None or until_us is not None
        for seq in reversed(self._ends(to)):
            if timed:
                known = self._summary(seq)
                if since_us is not None and known.newest_us < since_us:
                    continue
                if until_us is not None and known.oldest_us > until_us:
                    continue
            yield self.span(seq)

    def oldest_first(self, after: int, to: int) -> Iterator[Span]:
        """Yield the spans up to that of a version that hold anything newer than another one."""
        for seq in self._ends(to):
            if seq > after:
                yield self.span(seq)

    def _end(self, version: int) -> int:
        """Return the checkpoint that ends the span of a version."""
        for look in (self._find_places, self._look_again, self._find_places, lambda: None):
            seqs = self._seqs
            index = bisect_left(seqs, version)
            if index < len(seqs):
                return seqs[index]
            look()
        raise StorageError(f"the manifest has no checkpoint from version {version} on")

    def _find_places(self) -> None:
        self._reading(self._places)

    def _ends(self, to: int) -> list[int]:
        self._end(to)
        seqs = self._seqs
        return seqs[: bisect_left(seqs, to) + 1]

    def _load(self, view: JournalView, seq: int) -> Span:
        files, places = view.parts(), self._places(view)
        index = next((number for number, item in enumerate(places) if item.seq == seq), None)
        if index is None:
            raise NotFoundError(f"this version of the manifest has no checkpoint {seq} yet")
        end = places[index]
        if index == 0:
            span = Span()
            span.take_in(decode(self._between(view, files, (0, 0), end)))
            return span
        start = places[index - 1]
        before = max(start.row + 1 - LANDMARK_ROWS, 0)
        rows = self._between(view, files, (start.file, before), end)
        known = start.row + 1 - before
        mark = landmark(rows.slice(0, known))
        if mark is None:
            raise StorageError("the manifest holds a checkpoint without its commit")
        span = Span(mark)
        span.take_in(decode(rows.slice(known)))
        return span

    def _between(
        self, view: JournalView, files: Sequence[JournalFile], start: tuple[int, int], end: _Place
    ) -> pa.Table:
        """Return the rows from one place to another, the last one included."""
        parts: list[pa.Table] = []
        for number in range(start[0], end.file + 1):
            item = files[number]
            first = start[1] if number == start[0] else 0
            stop = end.row + 1 if number == end.file else item.rows
            whole = first == 0 and stop == item.rows and not item.is_long
            if whole:
                parts += self._journal.read(view, [item])
            elif stop > first:
                parts.append(self._journal.read_part(item, first, stop))
        return pa.concat_tables(parts)

    def _places(self, view: JournalView) -> list[_Place]:
        """Return where the checkpoints of a view are, oldest first."""
        files = view.parts()
        known = self._found
        self._found = by_file = {
            item.name: known[item.name] if item.name in known else self._checkpoints_in(item)
            for item in files
            if item.is_long
        }
        places = [
            _Place(number, row, seq)
            for number, item in enumerate(files)
            for row, seq in by_file.get(item.name, ())
        ]
        seqs = [item.seq for item in places]
        with self._lock:
            # Never those of an older view: what is in use would lack the newest span.
            self._seqs = max(self._seqs, seqs, key=len)
        return places

    def _checkpoints_in(self, item: JournalFile) -> list[tuple[int, int]]:
        where = f"object_type = '{CHECKPOINT}'"
        rows, table = self._journal.find(item, where, ["table_version"])
        return list(zip(rows, table["table_version"].to_pylist(), strict=True))

    def _reading(self, read: Callable[[JournalView], T]) -> T:
        """Read from the warm view; from a newer one when a cleanup took files of it.

        A newer one says the same of the past.
        """
        for attempt in range(MANIFEST_READS_MAX):
            try:
                return read(self._view())
            except (NotFoundError, StorageError) as error:
                missing = getattr(error, "failure", StorageFailureKind.NOT_FOUND)
                last = attempt == MANIFEST_READS_MAX - 1
                if missing is not StorageFailureKind.NOT_FOUND or last:
                    raise
            self._look_again()
        raise AssertionError("unreachable")

    # ---- by name --------------------------------------------------------------------------

    def find(self, commit_id: str, to: int) -> GraphCommit | None:
        """Return a commit made up to a checkpoint by its id."""
        for span in self._spans.values():
            if (known := span.commits.get(commit_id)) is not None:
                return known
        if not is_ulid(commit_id):
            return None
        where = f"{_commits_to(to)} AND object_id = {quoted(commit_id)}"
        rows = self._search(where, ["table_version"])
        if not rows:
            return None
        return self.span(rows[0]["table_version"]).commits.get(commit_id)

    def starting_with(self, prefix: str, to: int) -> list[GraphCommit]:
        """Return commits made up to a checkpoint whose ids begin so, some if they are many."""
        where = f"{_commits_to(to)} AND starts_with(object_id, {quoted(prefix)})"
        rows = self._search(where, ["table_version", "object_id"])[:PREFIX_COMMITS_MAX]
        commits = [self.span(row["table_version"]).commits.get(row["object_id"]) for row in rows]
        return [item for item in commits if item is not None]

    def paths(self) -> set[str]:
        """Return where every table that was ever registered lies."""
        rows = self._search(f"object_type = '{TABLE}'", ["location"])
        return {row["location"] for row in rows}

    def _search(self, where: str, columns: list[str]) -> list[dict[str, Any]]:
        def search(view: JournalView) -> list[dict[str, Any]]:
            tables = [self._journal.find(item, where, columns)[1] for item in view.parts()]
            return [row for table in tables for row in table.to_pylist()]

        return self._reading(search)

    # ---- what checkpoints say -------------------------------------------------------------

    def commit_of(self, operation_id: str, to: int) -> GraphCommit | None:
        """Return the commit an operation made, if it made one up to a checkpoint."""
        self._summarize(to)
        (mark,) = marks_of([operation_id])
        marks, seqs = self._marks
        start, stop = (int(np.searchsorted(marks, mark, side=side)) for side in ("left", "right"))
        for seq in seqs[start:stop].tolist():
            commit = self.span(seq).by_operation.get(operation_id)
            if commit is not None:
                return commit
        return None

    def first_pin(self, pin: Pin, version: int, to: int) -> Pin | None:
        """Return how a table first came to one of its versions, up to a checkpoint.

        `pin` tells the branch of the table, and is the newest that is looked for. The versions of
        such a branch only grow, so few checkpoints are looked at.
        """
        ends = [seq for seq in self._ends(to) if seq < pin.seq]
        index = bisect_left(ends, True, key=lambda seq: self._has_reached(seq, pin, version))
        where = ends[index] if index < len(ends) else min(pin.seq, to)
        pins = self.span(where).pins_of(pin.incarnation, pin.seq)
        return next((p for p in pins if p.path == pin.path and p.version >= version), None)

    def _has_reached(self, seq: int, pin: Pin, version: int) -> bool:
        known = self._checkpoint(seq)
        return any(
            item.incarnation == pin.incarnation
            and item.path == pin.path
            and item.version >= version
            for item in known.pins
        )

    def _checkpoint(self, seq: int) -> Checkpoint:
        stored = self._checkpoints.get(seq)
        if stored is None:
            stored = self._reading(lambda view: self._stored(view, [seq]))[0]
            self._checkpoints.put(seq, stored)
        return stored

    def _stored(
        self, view: JournalView, seqs: Sequence[int], *, tables: bool = True
    ) -> list[Checkpoint]:
        """Read checkpoints, in the order of their versions."""
        files, wanted = view.parts(), set(seqs)
        places = [item for item in self._places(view) if item.seq in wanted]
        if len(places) < len(wanted):
            raise NotFoundError("this version of the manifest lacks some checkpoints yet")
        checkpoints: list[Checkpoint] = []
        for number in sorted({item.file for item in places}):
            rows = [item.row for item in places if item.file == number]
            part = self._journal.take(files[number], rows, ["metadata"])
            checkpoints += [_decoded(text, tables=tables) for text in part["metadata"].to_pylist()]
        return checkpoints

    def _summary(self, seq: int) -> _Summary:
        self._summarize(seq)
        return self._summaries[seq]

    def _summarize(self, to: int) -> None:
        """Take in what checkpoints say of the commits of their spans."""
        ends = self._ends(to)
        new = [seq for seq in ends if seq not in self._summaries]
        if not new:
            return
        before = dict(zip(ends, [0, *ends], strict=False))
        read = self._reading(lambda view: self._stored(view, new, tables=False))
        # Of a checkpoint that tells of other commits than those of its span nothing is taken.
        told = [
            item if item.since == before[item.seq] else self._told(before[item.seq], item.seq)
            for item in read
        ]
        with self._lock:
            marks, seqs = ([part] for part in self._marks)
            for item in told:
                if item.seq not in self._summaries:
                    marks.append(item.marks)
                    seqs.append(np.full(len(item.marks), item.seq, np.uint64))
            joined, where = np.concatenate(marks), np.concatenate(seqs)
            order = np.argsort(joined, kind="stable")
            # The marks first: who finds a summary finds its marks.
            self._marks = joined[order], where[order]
            for item in told:
                self._summaries[item.seq] = _Summary(item.oldest_us, item.newest_us)

    def _told(self, since: int, seq: int) -> Checkpoint:
        """Return what a checkpoint should say of the commits of its span."""
        return checkpoint(seq, since, (), self.span(seq).commits_between(since, seq))


def _commits_to(version: int) -> str:
    """Return the filter for commits of spans; a view also has later ones, which are in none."""
    return f"object_type = '{COMMIT}' AND table_version <= {version}"


def landmark(rows: pa.Table) -> Landmark | None:
    """Return what the last rows of a file say if they end with a checkpoint."""
    if rows["object_type"][-1].as_py() != CHECKPOINT:
        return None
    records: list[Record] = list(decode(rows))
    last = records[-1]
    heads = [item for item in records if isinstance(item, GraphCommit)]
    groups = [item for item in records if isinstance(item, Group)]
    if not isinstance(last, Checkpoint) or not heads or heads[-1].manifest_version != last.seq:
        return None
    group = groups[-1] if groups and groups[-1].seq == last.seq else None
    return Landmark(checkpoint=last, head=heads[-1], group=group)


def _decoded(text: str, *, tables: bool) -> Checkpoint:
    try:
        return decode_checkpoint(text, tables=tables)
    except ValueError as error:
        raise StorageError(
            f"the manifest holds a damaged checkpoint: {error}", hint="restore it from a backup"
        ) from error

"""The warm view of one branch's manifest, and captures of it.

Of a long manifest an open reads the rows after the newest checkpoint. What is older stays where it
is until it is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
from msgspec import Struct

from omnigraph.commits.branch_ids import MAIN_BRANCH, BranchId
from omnigraph.commits.checkpoints import Landmark
from omnigraph.commits.history import History
from omnigraph.commits.intents import slot_name
from omnigraph.commits.past import LANDMARK_ROWS, Past, landmark
from omnigraph.commits.records import STAMP_KEY, GraphCommit, Record, decode
from omnigraph.commits.span import Span
from omnigraph.errors import (
    FormatVersionError,
    NotFoundError,
    StorageError,
    StorageFailureKind,
)
from omnigraph.limits import MANIFEST_READS_MAX
from omnigraph.store import Journal, JournalFile, JournalView, Pin

REBUILD = (
    "export the graph with the release that wrote it, then init and load it with this one "
    "(data, vectors and blobs are kept; history and branches are not)"
)

T = TypeVar("T")


class GraphReplacedError(NotFoundError):
    """The graph a handle was opened on is gone; another one lies at its place."""

    def __init__(self) -> None:
        super().__init__(
            "the graph was removed and another one was made at its place", hint="open it again"
        )


class BranchState(Struct, frozen=True, kw_only=True):
    """An accepted view: the manifest at one version. Everything a write decides rests on it."""

    view: JournalView
    version: int
    head: GraphCommit
    pins: Mapping[str, Pin]
    branch: BranchId
    inner: bool = False
    """Whether later commits were published with its head: the version stands for those."""

    @property
    def slot(self) -> str:
        """The name of the slot that the writer who moves this head must own."""
        return slot_name(self.branch.uid, self.head.graph_commit_id)


class ManifestReader:
    """Keeps the newest part of one branch's manifest in memory. Safe to share between threads."""

    def __init__(
        self,
        journal: Journal,
        *,
        stamp: int,
        branch: BranchId = MAIN_BRANCH,
        parent: ManifestReader | None = None,
        forked_at: int = 0,
        view: JournalView | None = None,
    ) -> None:
        self.journal = journal
        self.branch = branch
        self._lock = threading.RLock()
        self._past = Past(journal, lambda: self._view, self._reopen)
        self.history = History(self._past)
        self._replaced = False
        self._captured: BranchState | None = None
        """The newest state, as long as nothing was taken in since it was asked for."""
        known = None if parent is None else parent.view.rows_by_file
        inherited = parent.history_to(forked_at) if parent is not None else None

        def open_newest() -> None:
            self._view = view or journal.open_latest(known)
            check_stamp(self._view, stamp)
            if inherited is not None:
                # What its parent held there is the parent's own: none of it is held twice.
                self.history = History(self._past, inherited)
            if inherited is None or self._view.version != forked_at:
                self._take_in(self._view, known=())

        self._read(open_newest)

    @property
    def view(self) -> JournalView:
        """The warm view as it is, without looking for anything newer."""
        return self._view

    def _take_in(self, view: JournalView, known: Sequence[str]) -> None:
        """Take in the rows of a version that are not in files known already."""
        self._captured = None
        seen = self._view.version if known else 0
        start, tables = newest_rows(self.journal, view, known)
        records = [item for rows in tables for item in decode(rows)]
        head = self.history.head_at(seen) if seen else None
        if start is None:
            self._replaced = self._replaced or self._tell_of_another(records, head, seen)
            self.history.take_in(records)
            self._view = view
            return
        recent = Span(start)
        recent.take_in(records)
        # The view first: the older part of the new history is read from it.
        self._view = view
        self.history = History(self._past, recent)
        if head is not None:
            # Rows that were not looked at must be those of the same graph.
            commit_id = self.history.head_at(seen).graph_commit_id
            self._replaced = self._replaced or commit_id != head.graph_commit_id

    def _tell_of_another(
        self, records: Sequence[Record], head: GraphCommit | None, seen: int
    ) -> bool:
        """Whether rows do not go on from the head that was seen: an older copy was put back."""
        recent = self.history.recent
        for item in records if head is not None else ():
            if not isinstance(item, GraphCommit) or item.manifest_version <= recent.floor:
                continue
            if item.manifest_version <= seen and item.graph_commit_id not in recent.commits:
                return True
            follows = item.manifest_version == seen + 1 and item.place == 0
            if follows and head is not None and item.parent_commit_id != head.graph_commit_id:
                return True
        return False

    def _advance(self) -> None:
        known = self._view.files
        self._take_in(self.journal.advance(self._view), known)

    def _reopen(self) -> None:
        """Open the newest version: files of the one at hand are gone."""
        with self._lock:
            self._read(self._advance)

    def history_to(self, version: int) -> Span | None:
        """Return what is in memory of a version, to be grown on its own; None if nothing is."""
        with self._lock:
            recent = self.history.recent
            known = max(recent.floor, 1) <= version <= self._view.version
            return recent.to(version) if known else None

    def capture(self, *, fresh: bool = True) -> BranchState:
        """Return the newest manifest state: one listing, and reads only if it moved.

        Without `fresh` the warm state is returned as it is.
        """
        with self._lock:
            if fresh and (self._newest() != self._view.version or self._view.must_reopen):
                self._read(self._advance)
            self._check_origin()
            if self._captured is None or self._captured.view is not self._view:
                self._captured = self._capture_at(self._view.version)
            return self._captured

    def _read(self, read: Callable[[], None]) -> None:
        read_newest(self.journal, self.branch, read)

    def _deleted(self) -> NotFoundError:
        return _deleted(self.branch)

    def replaced(self) -> GraphReplacedError:
        """Remember that another graph is at this place now; return the error that says so."""
        self._replaced = True
        return GraphReplacedError()

    def _check_origin(self) -> None:
        """Refuse to go on when the rows are those of two graphs."""
        if self._replaced or self.history.origins > 1:
            raise GraphReplacedError

    def _newest(self) -> int:
        try:
            newest = self.journal.latest_version(self._view)
        except StorageError as error:
            if self.journal.exists():
                raise
            raise self._deleted() from error
        if newest < self._view.version:
            # The newest version is never removed, but with everything else.
            raise GraphReplacedError if self.branch.is_main else self._deleted()
        return newest

    def _capture_at(self, version: int) -> BranchState:
        return BranchState(
            view=self._view,
            version=version,
            head=self.history.head_at(version),
            pins=self.history.pins_at(version),
            branch=self.branch,
        )

    def pins_at(self, version: int) -> Mapping[str, Pin]:
        """Return the published version of every table at a manifest version, by table key.

        A publishing writer is not waited for.
        """
        captured = self._captured
        if captured is not None and captured.version == version:
            return captured.pins
        return self.history.pins_at(version)

    def at_version(self, version: int) -> BranchState:
        """Return the state at an older manifest version. Raises `NotFoundError`."""
        with self._lock:
            newest = self._view.version
            if not 1 <= version <= newest:
                raise NotFoundError(
                    f"graph version {version} does not exist; versions are 1 to {newest}"
                )
            return self._capture_at(version)

    def adopt(self, view: JournalView, records: list[Record]) -> None:
        """Take over what an own publish just wrote, without reading it back."""
        with self._lock:
            if view.version > self._view.version:
                self._captured = None
                self.history.take_in(records)
                if view.version == self._view.version + 1:
                    self._view = view

    def commit_of(self, operation_id: str, *, past: bool = True) -> GraphCommit | None:
        """Return the commit an operation made, if it made one; without `past`, lately."""
        return self.history.commit_of(operation_id, past=past)


def read_newest(journal: Journal, branch: BranchId, read: Callable[[], T]) -> T:
    """Read the newest version; once more when a cleanup removed it after it was found.

    Raises `NotFoundError` that names the branch if that is what was removed.
    """
    for attempt in range(MANIFEST_READS_MAX):
        try:
            return read()
        except (NotFoundError, StorageError) as error:
            if not branch.is_main and not journal.exists():
                raise _deleted(branch) from error
            missing = getattr(error, "failure", StorageFailureKind.NOT_FOUND)
            gone = missing is StorageFailureKind.NOT_FOUND and journal.exists()
            if not gone or attempt == MANIFEST_READS_MAX - 1:
                raise
    raise AssertionError("unreachable")


def _deleted(branch: BranchId) -> NotFoundError:
    return NotFoundError(f"branch '{branch.name}' was deleted")


def newest_rows(
    journal: Journal, view: JournalView, known: Collection[str]
) -> tuple[Landmark | None, list[pa.Table]]:
    """Return the rows of a version that are in no file known already, as far as need be.

    Long files end with a checkpoint: nothing before it is read, and it is returned as where to
    begin.
    """
    wanted: list[JournalFile] = []
    start: Landmark | None = None
    for item in reversed(view.parts()):
        if item.name in known:
            break
        if item.is_long:
            tail = journal.read_part(item, item.rows - LANDMARK_ROWS, item.rows)
            start = landmark(tail)
            if start is not None:
                break
        wanted.append(item)
    return start, journal.read(view, wanted[::-1])


def check_stamp(view: JournalView, supported: int) -> None:
    """Refuse a graph of any other storage format. Raises `FormatVersionError`."""
    raw = view.metadata.get(STAMP_KEY)
    if raw is None:
        raise FormatVersionError(
            found=None,
            supported=supported,
            remedy="the graph was not initialised to the end, or is damaged",
        )
    text = raw.decode(errors="replace")
    stamp: int | str = int(text) if text.isascii() and text.isdigit() else text
    if stamp == supported:
        return
    newer = isinstance(stamp, int) and stamp > supported
    raise FormatVersionError(
        found=stamp,
        supported=supported,
        remedy="upgrade omnigraph first" if newer else REBUILD,
    )

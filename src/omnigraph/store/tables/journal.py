"""An append-only table of rows whose every append is an exact compare-and-swap.

The manifest lives in one. A version is a list of immutable fragments; an append writes its rows as
one new fragment and swaps the list, and it succeeds only from the version it was prepared on.
Fragments are tiered: when enough of one size have gathered at the end, the append that completes
them writes all of them, with its own rows, as one. So a version stays small whatever the history,
and nothing else ever has to be compacted.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Mapping
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, LanceFragment, write_fragments
from msgspec import Struct, field

from omnigraph.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    StorageFailureKind,
)
from omnigraph.failpoints import Failpoint, fire
from omnigraph.limits import CHECKPOINT_ROWS, JOURNAL_TIER_BASE
from omnigraph.store.files.counters import count
from omnigraph.store.files.local_files import file_identity
from omnigraph.store.files.location import Location
from omnigraph.store.files.parallel import side_by_side
from omnigraph.store.files.protocol import Files
from omnigraph.store.tables.lance_errors import calm, translate, translated
from omnigraph.store.tables.staging import version_file
from omnigraph.store.tables.table import Table, file_name, is_reopen_due, new_session
from omnigraph.store.tables.torn_versions import (
    newest_version,
    set_aside_torn,
    version_name,
    version_of,
)

_BATCH_ROWS = 8_192

TORN_MAX = 2
"""Newest journal versions looked at after a power loss: at most one append was unsynced."""


class StaleJournal(Exception):
    """The append was not made: the journal is no longer at the version it was prepared on.

    Also raised when it cannot be told. The caller looks for its own rows before it tries again.
    """


class JournalFile(Struct, frozen=True, kw_only=True):
    """One of the files a version of a journal consists of. It never changes."""

    name: str
    rows: int
    fragment: LanceFragment

    @property
    def is_long(self) -> bool:
        """Whether it has so many rows that it is worth knowing what they add up to."""
        return self.rows >= CHECKPOINT_ROWS


class JournalView(Struct):
    """One version of a journal, with the rows of its small fragments at hand."""

    dataset: LanceDataset
    rows_by_file: dict[str, pa.Table] = field(default_factory=dict)
    removal: bytes | None = None
    """What `announce_removal` last left behind before this was the newest version."""
    must_reopen: bool = False
    """Whether its handle had better be opened anew before the next append, see `is_worn`."""
    tag: str | None = None
    """Which file holds this version, as it was first seen."""
    version: int = 0
    """The journal version this view is fixed to; the handle tells."""

    def __post_init__(self) -> None:
        self.version = int(self.dataset.version)

    @property
    def files(self) -> list[str]:
        """The names of the files it consists of."""
        return [_file(fragment.metadata) for fragment in self.fragments()]

    def parts(self) -> list[JournalFile]:
        """Return the files it consists of; those with the oldest rows first."""
        return [
            JournalFile(name=_file(item.metadata), rows=item.physical_rows, fragment=item)
            for item in self.fragments()
        ]

    def fragments(self) -> list[LanceFragment]:
        """Return the fragments it consists of."""
        with translated("reading the manifest"):
            return list(self.dataset.get_fragments())

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Schema-level metadata, where the format stamp is kept."""
        return dict(self.dataset.schema.metadata or {})


class StagedAppend(Struct, frozen=True, kw_only=True):
    """Rows written for an append to one version, and the fragments its successor keeps."""

    view: JournalView
    kept: list[FragmentMetadata]
    dropped: list[str]
    new: list[FragmentMetadata]
    rows: pa.Table


class Journal:
    """Opens, reads and appends to one journal."""

    def __init__(
        self,
        location: Location,
        name: str,
        session: Any = None,  # noqa: ANN401 - the stubs leave it out
    ) -> None:
        self.path = location.path(name)
        self._files = location.files
        self._place = location.uri
        self._options = location.lance_options
        self._session = session or new_session()
        self._mark = _removal_mark(self.path)
        self._looked = (0, "", "")
        """A version, the file that holds it, and the one that would hold the next."""

    def exists(self) -> bool:
        """Whether the journal was ever created: its folder alone may be all a dead creator left."""
        return newest_version(self._files, self.path) > 0

    def create(self, rows: pa.Table, properties: dict[str, str]) -> JournalView:
        """Create the journal with its first rows in one commit; refuse when there is one."""
        if self.exists():
            raise AlreadyExistsError("the manifest exists already")
        count("manifest_commits")
        fragments: list[FragmentMetadata] = []
        with translated("creating the manifest"):
            if rows.num_rows:
                written = write_fragments(
                    rows,
                    self.path,
                    schema=rows.schema,
                    mode="create",
                    data_storage_version="2.2",
                    storage_options=self._options,
                )
                fragments = list(written)
            transaction = lance.Transaction(
                0,
                LanceOperation.Overwrite(rows.schema, fragments),
                transaction_properties=properties,
            )
            dataset = LanceDataset.commit(
                self.path,
                transaction,
                enable_stable_row_ids=True,
                enable_v2_manifest_paths=True,
                max_retries=0,
                storage_options=self._options,
            )
        if dataset.version != 1:
            raise AlreadyExistsError("another process created the manifest")
        return JournalView(
            dataset,
            {_file(fragment): rows for fragment in fragments},
            tag=self._identity(dataset.version),
        )

    def open_latest(self, known: Mapping[str, pa.Table] | None = None) -> JournalView:
        """Open the newest version; `known` are rows of files it may share, read before."""
        count("manifest_opens")
        removal = self._removal()
        try:
            dataset = self._open()
        except ValueError as error:
            if "not found" not in str(error).lower():
                raise translate(error, "opening the manifest") from error
            if newest_version(self._files, self.path):
                raise StorageError(
                    "the newest version of the manifest cannot be read",
                    hint="open the graph read-write once: a version a power loss tore is set aside",
                ) from error
            raise NotFoundError(f"no graph at {self._place}") from error
        except OSError as error:
            raise translate(error, "opening the manifest") from error
        view = JournalView(dataset, removal=removal, tag=self._identity(dataset.version))
        view.rows_by_file = {n: known[n] for n in view.files if n in known} if known else {}
        return view

    def set_aside_torn(self, *, keep: int = 1) -> list[int]:
        """Move newest version files that a power loss tore out of the way; return them.

        The first version of a manifest is the graph itself: without it there is nothing to go
        back to, so it is kept as it is.
        """
        if self._files.safe:
            return []
        newest = newest_version(self._files, self.path)
        if newest <= keep:
            return []
        return set_aside_torn(self._files, self.path, above=max(newest - TORN_MAX, keep))

    def latest_version(self, view: JournalView) -> int:
        """Return the newest version number: one listing at most, no rows read."""
        count("manifest_latest_probes")
        if not self._looks_are_cheap:
            return self._newest_listed(view)
        if self._is_newest(view):
            return view.version
        removal = self._removal()
        with translated("looking at the manifest"):
            newest = int(view.dataset.latest_version)
        if newest == view.version:
            view.removal = removal
        return newest

    def _newest_listed(self, view: JournalView) -> int:
        """Return the newest version by one listing, which also says which file holds it."""
        tags = self._files.tags(f"{self.path}/_versions", first=True) or {}
        by_version = {version_of(name) or 0: tag for name, tag in tags.items()}
        newest = max(by_version, default=0)
        if newest == 0:
            raise StorageError("the manifest is gone", failure=StorageFailureKind.NOT_FOUND)
        if newest == view.version:
            self._recognise(view, by_version[newest])
        return newest

    def _identity(self, version: int) -> str | None:
        """Return which file holds a version where a look is cheap; else the next listing tells."""
        return file_identity(self.version_path(version)) if self._looks_are_cheap else None

    @staticmethod
    def _recognise(view: JournalView, tag: str) -> None:
        """Have a version read again that is in another file than before: of another graph, maybe.

        Who reads it again sees whose rows it holds.
        """
        if view.tag not in (None, tag):
            view.must_reopen = True
        view.tag = tag

    def _is_newest(self, view: JournalView) -> bool:
        """Whether no version follows: a listing grows with the history, three looks do not.

        Versions follow one another without gaps, but for those that were removed since, and a
        removal is announced before it begins: so it is looked for last.
        """
        looked = self._looked
        if looked[0] != view.version:
            files = (self.version_path(view.version), self.version_path(view.version + 1))
            looked = self._looked = (view.version, *files)
        _version, here, following = looked
        if self._files.exists(following):
            return False
        tag = file_identity(here)
        if tag is None or self._removal() != view.removal:
            return False
        self._recognise(view, tag)
        return True

    @property
    def _looks_are_cheap(self) -> bool:
        return self._files.calls_at_once == 1

    def _removal(self) -> bytes | None:
        # There is seldom one, and failing to open a file takes longer than looking for it.
        if not self._looks_are_cheap or not self._files.exists(self._mark):
            return None
        return self._files.read(self._mark)

    def advance(self, view: JournalView) -> JournalView:
        """Open the newest version, keeping the rows already at hand."""
        count("manifest_opens")
        removal = self._removal()
        with translated("opening the manifest"):
            dataset = self._open()
        tag = self._identity(dataset.version)
        return JournalView(dataset, dict(view.rows_by_file), removal, tag=tag)

    def _open(self) -> LanceDataset:
        return lance.dataset(self.path, session=self._session, storage_options=self._options)

    def unread_rows(self, view: JournalView, seen: set[str]) -> list[pa.Table]:
        """Return the rows of fragments not in `seen`, in order, and add them to it."""
        new = [f for f in view.fragments() if _file(f.metadata) not in seen]
        at_once = self._files.calls_at_once
        rows = side_by_side(lambda fragment: self._rows(view, fragment), new, at_once=at_once)
        seen.update(_file(fragment.metadata) for fragment in new)
        return rows

    def read(self, view: JournalView, files: list[JournalFile]) -> list[pa.Table]:
        """Return all rows of some files of a version."""
        at_once = self._files.calls_at_once
        return side_by_side(lambda item: self._rows(view, item.fragment), files, at_once=at_once)

    def read_part(self, item: JournalFile, start: int, stop: int) -> pa.Table:
        """Return rows of a file by their numbers."""
        count("manifest_scans")
        count("manifest_rows", stop - start)
        with translated("reading the manifest"):
            return item.fragment.scanner(offset=start, limit=stop - start).to_table()

    def take(self, item: JournalFile, rows: list[int], columns: list[str]) -> pa.Table:
        """Return columns of a few rows of a file, which are given by their numbers."""
        count("manifest_scans")
        count("manifest_rows", len(rows))
        with translated("reading the manifest"):
            return item.fragment.take(rows, columns=columns)

    def find(self, item: JournalFile, where: str, columns: list[str]) -> tuple[list[int], pa.Table]:
        """Return the numbers of the rows of a file that match, and columns of them."""
        count("manifest_scans")
        with translated("searching the manifest"):
            scanner = item.fragment.scanner(
                columns=columns, filter=where, with_row_address=True, batch_size=_BATCH_ROWS
            )
            rows = scanner.to_table()
        count("manifest_rows", rows.num_rows)
        numbers = [address & 0xFFFFFFFF for address in rows["_rowaddr"].to_pylist()]
        return numbers, rows.select(columns)

    def is_next_long(self, view: JournalView, added: int) -> bool:
        """Whether an append of some rows will write a long file, see `JournalFile.is_long`."""
        sizes = [fragment.physical_rows for fragment in view.fragments()]
        return sum(sizes[_tier_cut(sizes, added) :]) + added >= CHECKPOINT_ROWS

    def stage(self, view: JournalView, rows: pa.Table) -> StagedAppend:
        """Write the fragment an append to this version needs; nothing is visible yet."""
        old = view.fragments()
        keep = _tier_cut([f.physical_rows for f in old], rows.num_rows)
        at_once = self._files.calls_at_once
        folded = side_by_side(lambda item: self._rows(view, item), old[keep:], at_once=at_once)
        # One chunk: these rows stay in memory, and a chunk per commit takes kilobytes of each.
        merged = pa.concat_tables([*folded, rows])
        merged = merged.combine_chunks()
        with translated("writing the manifest"):
            staged: Any = write_fragments(
                merged, view.dataset, mode="append", return_transaction=True
            )
        return StagedAppend(
            view=view,
            kept=[f.metadata for f in old[:keep]],
            dropped=[_file(f.metadata) for f in old[keep:]],
            new=list(staged.operation.fragments),
            rows=merged,
        )

    def data_files(self, staged: StagedAppend) -> list[str]:
        """Return the files a staged append wrote."""
        return [os.path.join(self.path, "data", _file(fragment)) for fragment in staged.new]

    def append(self, staged: StagedAppend, properties: dict[str, str]) -> tuple[JournalView, str]:
        """Make staged rows part of the journal; return its next version and that version's file.

        Raises `StaleJournal` when the journal moved, or when the outcome cannot be told.
        """
        count("publish_attempts")
        view = staged.view
        operation = LanceOperation.Overwrite(view.dataset.lance_schema, [*staged.kept, *staged.new])
        transaction = lance.Transaction(view.version, operation, transaction_properties=properties)
        try:
            # max_retries=0 is what makes this a compare-and-swap: with retries it would erase.
            with calm():
                dataset = LanceDataset.commit(view.dataset, transaction, max_retries=0)
            fire(Failpoint.PUBLISH_CAS_ANSWER_LOST)
        except (OSError, StorageError) as error:
            raise StaleJournal(str(error)) from error
        if dataset.version != view.version + 1:
            raise StaleJournal(f"landed at version {dataset.version}")
        cached = dict(view.rows_by_file)
        for name in staged.dropped:
            cached.pop(name, None)
        if staged.rows.num_rows < CHECKPOINT_ROWS:
            cached[_file(staged.new[0])] = staged.rows
        version = os.path.join(self.path, version_file(Table("__manifest", dataset)))
        must_reopen = is_reopen_due(self.path, dataset.version)
        tag = self._identity(dataset.version)
        return JournalView(dataset, cached, view.removal, must_reopen, tag), version

    def version_path(self, version: int) -> str:
        """Return the file that holds a version."""
        return f"{self.path}/{version_name(version)}"

    def files_of(self, view: JournalView) -> list[str]:
        """Return every file a version needs, for syncing a freshly created journal."""
        files = [os.path.join(self.path, "data", name) for name in view.files]
        return [*files, os.path.join(self.path, version_file(Table("__manifest", view.dataset)))]

    def _rows(self, view: JournalView, fragment: LanceFragment) -> pa.Table:
        name = _file(fragment.metadata)
        known = view.rows_by_file.get(name)
        if known is not None:
            return known
        count("manifest_scans")
        with translated("reading the manifest"):
            rows = fragment.to_table()
        count("manifest_rows", rows.num_rows)
        if rows.num_rows < CHECKPOINT_ROWS:
            view.rows_by_file[name] = rows
        return rows


def announce_removal(files: Files, path: str) -> None:
    """Say that versions of a journal are about to be removed: the first step of a cleanup."""
    files.replace(_removal_mark(path), uuid.uuid4().hex.encode(), sync=False)


def _removal_mark(path: str) -> str:
    return os.path.join(path, "_removal")


def _file(fragment: FragmentMetadata) -> str:
    return file_name(fragment.files[0])


def _tier(rows: int) -> int:
    return int(math.log(max(rows, 1), JOURNAL_TIER_BASE) + 1e-9)


def _tier_cut(sizes: list[int], added: int) -> int:
    """Return how many leading fragments stay as they are when `added` rows come in."""
    keep, total = len(sizes), added
    while True:
        tier, start = _tier(total), keep
        while start > 0 and _tier(sizes[start - 1]) <= tier:
            start -= 1
        if keep - start < JOURNAL_TIER_BASE - 1:
            return keep
        total += sum(sizes[start:keep])
        keep = start

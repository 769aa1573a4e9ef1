"""Tables: Lance datasets opened at a fixed version, and scans over them.

Every open goes through `Tables`, which classifies and counts it. A `Table` never moves: it is one
version of one dataset, safe to share between threads.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.dataset import LanceScanner
from lance.fragment import DataFile, LanceFragment
from numpy.typing import NDArray

from omnigraph.bounded import BoundedCache
from omnigraph.clock import sleep
from omnigraph.errors import (
    AlreadyExistsError,
    NotFoundError,
    StorageError,
    StorageFailureKind,
    VersionReclaimedError,
)
from omnigraph.limits import (
    HANDLE_COMMITS_MAX,
    LANCE_INDEX_CACHE_BYTES,
    LANCE_METADATA_CACHE_BYTES,
    OPEN_TABLES_MAX,
    OPEN_VERSIONS_MAX,
    REMOVAL_LOOKS_S,
)
from omnigraph.store.files.counters import count
from omnigraph.store.files.location import Location
from omnigraph.store.tables.lance_errors import calm, translated
from omnigraph.store.tables.removals import is_noted
from omnigraph.store.tables.torn_versions import version_name

if TYPE_CHECKING:
    from lance.lance.indices import IndexDescription, IndexSegmentDescription

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
OPERATION_PROPERTY = "omnigraph.operation_id"
"""Transaction property that marks a version as made by this engine."""
TREE = "tree"
"""Folder below a dataset's root that holds its branches."""


def is_marked(transaction: Transaction | None) -> bool:
    """Whether a transaction carries an operation id of this engine."""
    properties = getattr(transaction, "transaction_properties", None) or {}
    return OPERATION_PROPERTY in properties


def new_session() -> Any:  # noqa: ANN401 - the stubs leave it out
    """Return a Lance session: caches shared by every open that is given it."""
    return lance.Session(  # type: ignore[attr-defined]  # its stub forgets to export it
        metadata_cache_size_bytes=LANCE_METADATA_CACHE_BYTES,
        index_cache_size_bytes=LANCE_INDEX_CACHE_BYTES,
    )


def is_reopen_due(path: str, version: int) -> bool:
    """Whether the handle a commit returned is not to be committed from again.

    On a Lance branch each such handle holds on to the one it was committed from, and so to all
    before: they cost memory until a version is opened anew.
    """
    return f"/{TREE}/" in path and version % HANDLE_COMMITS_MAX == 0


def file_name(data_file: DataFile) -> str:
    """Return the name of a data file, inside its table's data folder."""
    # The public property builds a class at every access; this runs for every fragment.
    known = vars(data_file).get("_path") if hasattr(data_file, "__dict__") else None
    return str(data_file.path) if known is None else str(known)


def fragment_signature(fragment: LanceFragment) -> str:
    """Return what the rows of a fragment depend on: its files and its deletions."""
    files = "+".join(file_name(item) for item in fragment.data_files())
    return f"{fragment.fragment_id}:{files}:{fragment.deletion_file() or ''}"


def fragment_of(dataset: LanceDataset, number: int) -> LanceFragment:
    """Return a fragment of a version by its number. Raises `StorageError`."""
    fragment = dataset.get_fragment(number)
    if fragment is None:
        raise StorageError(f"{dataset.uri} has no fragment {number} at version {dataset.version}")
    return fragment


def primary_key_field(name: str) -> pa.Field:
    """Return a required string field that Lance treats as the primary key."""
    return pa.field(name, pa.string(), nullable=False, metadata=PRIMARY_KEY)


def blob_field(name: str, *, nullable: bool) -> pa.Field:
    """Return a field that stores bytes outside the columns and reads them on demand."""
    return lance.blob_field(name, nullable=nullable)


def blob_array(values: Sequence[bytes | None]) -> pa.Array:
    """Return an array for a `blob_field`."""
    return lance.blob_array(list(values))


def reclaimed(path: str, version: int) -> VersionReclaimedError:
    """Return the error for a version of a table that a cleanup removed."""
    return VersionReclaimedError(
        f"version {version} of {path} is no longer kept",
        hint="a cleanup removed it; tag states that must stay",
    )


class Table:
    """One version of one table."""

    def __init__(
        self, path: str, dataset: LanceDataset, is_gone: Callable[..., bool] | None = None
    ) -> None:
        self.path = path
        self.dataset = dataset
        self.is_gone = is_gone
        """Tells whether the version was removed meanwhile, where that can be told."""

    @contextlib.contextmanager
    def at_work(self, what: str = "reading") -> Iterator[None]:
        """Translate what a use of this version raises.

        One that was removed meanwhile raises `VersionReclaimedError`.
        """
        try:
            with translated(f"{what} {self.path}"):
                yield
        except VersionReclaimedError:
            # Told by another table that is used together with this one.
            raise
        except (NotFoundError, StorageError) as error:
            missing = getattr(error, "failure", StorageFailureKind.NOT_FOUND)
            if missing is StorageFailureKind.NOT_FOUND and self._goes():
                raise reclaimed(self.path, self.version) from error
            if isinstance(error, NotFoundError):
                # The version is there, a file of it is not: that is damage, not a wrong name.
                raise StorageError(
                    f"{what} {self.path}: a file is missing", failure=StorageFailureKind.NOT_FOUND
                ) from error
            raise

    def _goes(self) -> bool:
        """Whether this version was removed, or is being removed: its own file goes last."""
        if self.is_gone is None:
            return False
        for pause_s in REMOVAL_LOOKS_S:
            if self.is_gone(noted=True):
                return True
            sleep(pause_s)
        return self.is_gone(noted=True)

    @property
    def version(self) -> int:
        """The table version this handle is fixed to."""
        return int(self.dataset.version)

    def own_handle(self) -> LanceDataset:
        """Return a handle for calls that want it alone: they fail while another thread uses it.

        Remembered tables are shared between threads; a copy costs nothing.
        """
        return copy.copy(self.dataset)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the stored columns."""
        return self.dataset.schema

    def count_rows(self, where: str | None = None) -> int:
        """Return the number of live rows, or of those that match."""
        with self.at_work():
            if where is None:
                return int(self.dataset.count_rows())
            return int(self.dataset.count_rows(filter=where))

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        row_address: bool = False,
        row_id: bool = False,
        indexed_only: bool = False,
        fragments: Sequence[LanceFragment] | None = None,
        blob_bytes: bool = False,
    ) -> pa.Table:
        """Return matching rows as an Arrow table.

        `indexed_only` leaves out rows no index covers; `blob_bytes` reads blobs as bytes instead
        of leaving them as references.
        """
        count("data_scans")
        with self.at_work():
            return self._scanner(
                columns=columns,
                where=where,
                limit=limit,
                row_address=row_address,
                row_id=row_id,
                indexed_only=indexed_only,
                fragments=fragments,
                blob_bytes=blob_bytes,
            ).to_table()

    def take(self, rows: NDArray[np.integer], *, columns: Sequence[str]) -> pa.Table:
        """Return rows by their place among the live rows, in the order given."""
        count("data_scans")
        with self.at_work():
            return self.dataset.take(rows.tolist(), columns=list(columns))

    def batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        blob_bytes: bool = False,
        batch_rows: int = 8192,
    ) -> Iterator[pa.RecordBatch]:
        """Yield matching rows batch by batch, in storage order."""
        count("data_scans")
        with self.at_work():
            scanner = self._scanner(
                columns=columns, where=where, blob_bytes=blob_bytes, batch_rows=batch_rows
            )
            yield from scanner.to_batches()

    def _scanner(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        row_address: bool = False,
        row_id: bool = False,
        indexed_only: bool = False,
        fragments: Sequence[LanceFragment] | None = None,
        blob_bytes: bool = False,
        batch_rows: int | None = None,
    ) -> LanceScanner:
        options: dict[str, Any] = {}
        if blob_bytes:
            options["blob_handling"] = "all_binary"
        if fragments is not None:
            options["fragments"] = list(fragments)
        if indexed_only:
            options["fast_search"] = True
        if batch_rows is not None:
            options["batch_size"] = batch_rows
        return self.dataset.scanner(
            columns=None if columns is None else list(columns),
            filter=where,
            limit=limit,
            with_row_address=row_address,
            with_row_id=row_id,
            **options,
        )

    def transaction_uuid(self) -> str:
        """Return the identity of the transaction that made this version, empty if unreadable."""
        transaction = self._transaction()
        return "" if transaction is None else str(transaction.uuid)

    def made_by_engine(self) -> bool:
        """Whether the transaction of this version carries an operation id of ours."""
        return is_marked(self._transaction())

    def _transaction(self) -> Transaction | None:
        """Return the transaction that made this version, None if it is unreadable."""
        try:
            with calm():
                return self.own_handle().read_transaction(self.version)
        except (OSError, ValueError, TypeError):
            return None

    def fragments(self) -> list[LanceFragment]:
        """Return the fragments of this version."""
        with translated(f"reading {self.path}"):
            return list(self.dataset.get_fragments())

    @cached_property
    def layout(self) -> tuple[str, ...]:
        """What identifies each fragment's rows, in storage order: files and deletions."""
        return tuple(fragment_signature(fragment) for fragment in self.fragments())

    def field_id(self, name: str) -> int:
        """Return the number of a column: it stays when the column is renamed."""
        field = self.dataset.lance_schema.field(name)
        if field is None:
            raise StorageError(f"{self.path} has no column '{name}'")
        return int(field.id())

    def index_fragments(self, name: str) -> set[int]:
        """Return the ids of the fragments an index covers; empty when it does not exist."""
        covered: set[int] = set()
        for segment in self.index_segments(name):
            covered |= set(segment.fragment_ids)
        return covered

    def index_segments(self, name: str) -> list[IndexSegmentDescription]:
        """Return the segments of an index; empty when it does not exist."""
        return [
            segment for item in self.indexes() if item.name == name for segment in item.segments
        ]

    def indexes(self) -> list[IndexDescription]:
        """Return what Lance says about the indexes of this version."""
        with translated(f"reading {self.path}"):
            return list(self.dataset.describe_indices())


class Tables:
    """Opens and creates the tables of one graph, sharing one Lance session."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self.files = location.files
        self._options = location.lance_options
        self._session = new_session()
        self._open: BoundedCache[tuple[str, int], Table] = BoundedCache(OPEN_TABLES_MAX)
        self.drifted: set[str] = set()
        """Tables that another program was seen to have changed; looked at before each commit."""
        self.elsewhere: dict[str, str] = {}
        """Folders of copies that only this process knows, outside the graph."""

    def open(self, path: str, version: int) -> Table:
        """Open a table at a version: no listing, and free when it was used recently."""
        if (table := self._open.get((path, version))) is not None:
            return table
        count("data_opens_pinned")
        try:
            with translated(f"opening {path} at version {version}"):
                dataset = self._dataset(path, version)
        except NotFoundError as error:
            # The whole line of a deleted branch goes at once, a table of its own never does.
            if f"/{TREE}/" not in path and not self._has_versions(path):
                raise
            raise reclaimed(path, version) from error
        return self.remember(Table(path, dataset, partial(self.is_gone, path, version)))

    def is_gone(self, path: str, version: int, *, noted: bool = False) -> bool:
        """Whether the file of a version was removed; with `noted`, or is about to be."""
        folder = self.folder(path)
        if not self.files.exists(f"{folder}/{version_name(version)}"):
            return True
        return noted and is_noted(self.files, folder, version)

    def open_latest(self, path: str) -> Table:
        """Open a table at its newest version, published or not. Costs a listing."""
        count("data_opens_latest")
        with translated(f"opening {path}"):
            return Table(path, self._dataset(path))

    def _dataset(self, path: str, version: int | None = None) -> LanceDataset:
        return lance.dataset(
            self.folder(path),
            version=version,
            session=self._session,
            storage_options=self._options,
        )

    def _has_versions(self, path: str) -> bool:
        return self.files.has_folder(f"{self.folder(path)}/_versions")

    def remember(self, table: Table) -> Table:
        """Keep a handle for later opens of the same version."""
        if table.is_gone is None:
            table.is_gone = partial(self.is_gone, table.path, table.version)
        self._open.put((table.path, table.version), table)
        return table

    def committed(self, table: Table) -> Table:
        """Keep the handle a commit returned, unless the next use had better open the version."""
        # What it is made from may still be read; what lies further back is let go.
        self._open.pop((table.path, table.version - OPEN_VERSIONS_MAX))
        return table if is_reopen_due(table.path, table.version) else self.remember(table)

    def create(
        self, path: str, schema: pa.Schema, properties: dict[str, str] | None = None
    ) -> Table:
        """Create an empty table. A dataset that exists there is refused, never adopted."""
        if self._has_versions(path):
            raise AlreadyExistsError(f"a dataset exists at {path}")
        count("data_commits")
        with translated(f"creating {path}"):
            dataset = LanceDataset.commit(
                self.folder(path),
                lance.Transaction(
                    0, LanceOperation.Overwrite(schema, []), transaction_properties=properties or {}
                ),
                enable_stable_row_ids=True,
                enable_v2_manifest_paths=True,
                storage_options=self._options,
            )
        return self.remember(Table(path, dataset))

    def discard_unpublished(self, path: str) -> None:
        """Remove the empty table an interrupted schema change of ours left at a path.

        Needs the slot, and that no commit ever named the path. Anything else there stays.
        """
        if not self._has_versions(path):
            return
        table = self.open_latest(path)
        if table.version == 1 and table.made_by_engine() and table.count_rows() == 0:
            self.forget(path, below=2)
            self.files.remove(self.folder(path))

    def forget(self, path: str, *, below: int) -> None:
        """Close what is open of a table's versions below one."""
        for key in self._open:
            if key[0] == path and key[1] < below:
                self._open.pop(key)

    def folder(self, path: str) -> str:
        """Return the directory of a table."""
        if path in self.elsewhere:
            return self.elsewhere[path]
        return self._location.path(path)

"""Stages changes of one table and commits them exactly.

`stage_*` writes files that no reader sees. `commit_staged` moves the table's head, and proves the
outcome: the new version is the parent plus one and carries our transaction. Lance may rebase a
commit over another writer's; such a result is refused here, not adopted.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Any, TypeAlias

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.errors import ConflictError
from omnigraph.limits import (
    RESTORE_ATTEMPTS_MAX,
    ROWS_PER_FILE_MAX,
    STAGE_BATCH_BYTES,
    STAGE_BATCH_ROWS_MAX,
    STAGE_BATCH_ROWS_MIN,
)
from omnigraph.store.files.counters import count
from omnigraph.store.tables.lance_errors import calm, translated
from omnigraph.store.tables.standing import (
    DRIFT,
    UNDOABLE,
    Standing,
    TableStanding,
    refuse_drift,
    standing,
)
from omnigraph.store.tables.table import OPERATION_PROPERTY, Table, Tables, file_name, fragment_of
from omnigraph.store.tables.torn_versions import version_name

NewRows: TypeAlias = pa.Table | pa.RecordBatchReader
"""Rows to be written, at once or batch by batch."""

Addresses: TypeAlias = NDArray[np.uint64]
"""Where Lance keeps rows: the fragment in the upper half, the place in it in the lower."""


class StagedTable(Struct):
    """Files written for one table, and the transaction that would make them its next version."""

    path: str
    parent: Table
    transaction: Transaction
    files: tuple[str, ...]
    rows_after: int

    @property
    def uuid(self) -> str:
        """Identity of the transaction."""
        return str(self.transaction.uuid)


def batch_rows(rows: pa.Table) -> int:
    """Return how many rows of a table are handed to the writer at once."""
    each = max(1, int(rows.nbytes) // max(1, int(rows.num_rows)))
    return min(STAGE_BATCH_ROWS_MAX, max(STAGE_BATCH_ROWS_MIN, STAGE_BATCH_BYTES // each))


def stage_insert(parent: Table, rows: NewRows, properties: dict[str, str]) -> StagedTable:
    """Stage rows whose keys the caller has proven absent. `rows` is a table or a reader."""
    count("data_stages")
    transaction: Any
    with parent.at_work("writing"):
        transaction = write_fragments(
            rows,
            parent.dataset,
            mode="append",
            return_transaction=True,
            max_rows_per_file=ROWS_PER_FILE_MAX,
        )
    transaction.transaction_properties = properties
    fragments = transaction.operation.fragments
    added = sum(item.physical_rows for item in fragments)
    return StagedTable(
        path=parent.path,
        parent=parent,
        transaction=transaction,
        files=data_files(parent, fragments),
        rows_after=parent.count_rows() + added,
    )


def without(parent: Table, addresses: Addresses) -> tuple[list[FragmentMetadata], list[int]]:
    """Write what removes rows: the fragments that lose some, and the ids of those that lose all."""
    changed: list[FragmentMetadata] = []
    gone: list[int] = []
    owners = addresses >> np.uint64(32)
    for fragment_id in np.unique(owners):
        offsets = (addresses[owners == fragment_id] & np.uint64(0xFFFFFFFF)).tolist()
        metadata = fragment_of(parent.dataset, int(fragment_id)).delete_rows(offsets)
        if metadata is None:
            gone.append(int(fragment_id))
        else:
            changed.append(metadata)
    return changed, gone


def stage_delete(parent: Table, addresses: Addresses, properties: dict[str, str]) -> StagedTable:
    """Stage the removal of rows given by row address (a numpy array of unsigned 64-bit)."""
    count("data_stages")
    with parent.at_work("writing"):
        changed, gone = without(parent, addresses)
    operation = LanceOperation.Delete(changed, gone, "omnigraph")
    return StagedTable(
        path=parent.path,
        parent=parent,
        transaction=lance.Transaction(parent.version, operation, transaction_properties=properties),
        files=deletion_files(parent, changed),
        rows_after=parent.count_rows() - len(addresses),
    )


def stage_overwrite(parent: Table, rows: NewRows, properties: dict[str, str]) -> StagedTable:
    """Stage rows that replace the whole table; no rows at all is fine. Schema and key stay."""
    count("data_stages")
    fragments: list[FragmentMetadata] = []
    with parent.at_work("writing"):
        if not (isinstance(rows, pa.Table) and rows.num_rows == 0):
            transaction: Any = write_fragments(
                rows,
                parent.dataset,
                mode="append",
                return_transaction=True,
                max_rows_per_file=ROWS_PER_FILE_MAX,
            )
            fragments = list(transaction.operation.fragments)
    operation = LanceOperation.Overwrite(parent.dataset.lance_schema, fragments)
    return StagedTable(
        path=parent.path,
        parent=parent,
        transaction=lance.Transaction(parent.version, operation, transaction_properties=properties),
        files=data_files(parent, fragments),
        rows_after=sum(item.physical_rows for item in fragments),
    )


def stage_fragments(
    parent: Table, written: Sequence[str], properties: dict[str, str], *, replace_all: bool
) -> StagedTable:
    """Stage what workers wrote with `write_rows`, as added rows or as the whole new content."""
    count("data_stages")
    fragments = [FragmentMetadata.from_json(item) for item in written]
    added = sum(item.physical_rows for item in fragments)
    operation: LanceOperation.BaseOperation
    if replace_all:
        operation = LanceOperation.Overwrite(parent.dataset.lance_schema, fragments)
    else:
        operation = LanceOperation.Append(fragments)
    return StagedTable(
        path=parent.path,
        parent=parent,
        transaction=lance.Transaction(parent.version, operation, transaction_properties=properties),
        files=data_files(parent, fragments),
        rows_after=added if replace_all else parent.count_rows() + added,
    )


def commit_staged(tables: Tables, staged: StagedTable) -> Table:
    """Make staged files the table's next version, exactly. The caller owns the slot.

    What stands above the parent is judged: an interrupted write's leftover is undone by a Restore
    and the commit repeated on top; rows of another program are left as they are. Raises
    `DriftError` for those, and `ConflictError` when the table keeps moving.
    """
    parent = staged.parent
    if _may_be_buried(tables, staged):
        state = standing(tables, staged.path, parent.version)
        if state.verdict is not Standing.CURRENT:
            parent = _cleared(tables, staged, state)
    for _attempt in range(RESTORE_ATTEMPTS_MAX + 1):
        committed = _commit_once(parent, staged.transaction)
        if committed is not None:
            staged.parent = parent
            tables.drifted.discard(staged.path)
            return tables.committed(Table(staged.path, committed))
        state = standing(tables, staged.path, staged.parent.version)
        parent = _cleared(tables, staged, state)
    raise ConflictError(f"table {staged.path} keeps moving under its slot", hint="try again")


def _may_be_buried(tables: Tables, staged: StagedTable) -> bool:
    """Whether a version may lie above the parent, as far as that can be told for nothing.

    On a disk a look at a name tells, in an object store the commit itself does, by the number of
    the version it made. Looking first spares a commit on top of another program's rows.
    """
    if tables.files.calls_at_once > 1:
        return staged.path in tables.drifted
    following = version_name(staged.parent.version + 1)
    return tables.files.exists(f"{tables.folder(staged.path)}/{following}")


def _cleared(tables: Tables, staged: StagedTable, state: TableStanding) -> Table:
    """Undo what lies above the parent and make the staged change fit on top; refuse drift."""
    if state.verdict in DRIFT - UNDOABLE:
        tables.drifted.add(staged.path)
        if state.last_foreign is not None and state.head > state.last_foreign:
            # Our own commit went on top of them: they must be adopted, or dropped, without it.
            restore(tables, staged.path, state.last_foreign)
        refuse_drift(state)
    parent = restore(tables, staged.path, staged.parent.version)
    staged.transaction.read_version = parent.version
    # Recovery knows only the first identity and rolls anything else back.
    staged.transaction.uuid = str(uuid.uuid4())
    return parent


def _commit_once(parent: Table, transaction: Transaction) -> LanceDataset | None:
    """Commit; None when the result is not exactly the parent's next version."""
    count("data_commits")
    wanted = parent.version + 1
    try:
        with calm():
            dataset = LanceDataset.commit(parent.dataset, transaction, max_retries=0)
    except OSError:
        return _landed(parent, transaction, wanted)
    return dataset if dataset.version == wanted else None


def _landed(parent: Table, transaction: Transaction, wanted: int) -> LanceDataset | None:
    """After an exception: the version that carries our identity, if it is there."""
    try:
        with calm():
            dataset = parent.dataset.checkout_version(wanted)
            landed = dataset.read_transaction(wanted)
    except (OSError, ValueError, TypeError):
        return None
    # A version that tells no transaction is not known to be ours.
    ours = landed is not None and str(landed.uuid) == str(transaction.uuid)
    return dataset if ours else None


def commit_beside(tables: Tables, staged: StagedTable) -> Table:
    """Make staged files a version beside those of the table branch: the newest one stays.

    No listing of versions shows it, and no cleanup of Lance keeps it.
    """
    count("data_commits")
    with staged.parent.at_work("writing"):
        dataset = LanceDataset.commit(staged.parent.dataset, staged.transaction, detached=True)
    return tables.remember(Table(staged.path, dataset))


def commit_apart(tables: Tables, staged: StagedTable) -> Table:
    """Commit to a copy that only this process knows."""
    count("data_commits")
    with staged.parent.at_work("writing"):
        dataset = LanceDataset.commit(staged.parent.dataset, staged.transaction, max_retries=0)
    return tables.remember(Table(staged.path, dataset))


def copied_apart(tables: Tables, table: Table, path: str, folder: str) -> Table:
    """Copy a version of a table to a local folder, without its data files; known as `path`."""
    with table.at_work("copying"):
        dataset = table.dataset.shallow_clone(folder, table.version)
    tables.elsewhere[path] = folder
    return Table(path, dataset)


def restore(tables: Tables, path: str, version: int) -> Table:
    """Make an older version of a table its newest again. Needs the slot of the branch."""
    count("data_restores")
    with translated(f"restoring {path}"):
        latest = tables.open_latest(path)
        transaction = lance.Transaction(
            latest.version,
            LanceOperation.Restore(version),
            transaction_properties={OPERATION_PROPERTY: "restore"},
        )
        dataset = LanceDataset.commit(latest.dataset, transaction, max_retries=0)
    return Table(path, dataset)


def version_file(table: Table) -> str:
    """Return the path, inside the table's folder, of the file that holds this version."""
    return version_name(table.version)


def data_files(parent: Table, fragments: Sequence[FragmentMetadata]) -> tuple[str, ...]:
    """Return the files fragments are made of; large blobs lie in a folder beside theirs."""
    paths: list[str] = []
    for name in (file_name(item) for fragment in fragments for item in fragment.files):
        beside = f"data/{name.removesuffix('.lance')}"
        paths += [f"data/{name}", *(f"{beside}/{blob}" for blob in sorted(_names(parent, beside)))]
    return tuple(paths)


def deletion_files(parent: Table, fragments: Sequence[FragmentMetadata]) -> tuple[str, ...]:
    """Return the files that say which rows of changed fragments are gone."""
    # Fragment metadata does not spell the file's name; the folder's newest entries tell it.
    if not fragments:
        return ()
    prefixes = tuple(f"{fragment.id}-{parent.version}-" for fragment in fragments)
    names = _names(parent, "_deletions")
    return tuple(f"_deletions/{name}" for name in names if name.startswith(prefixes))


def index_files(parent: Table, segment: str) -> tuple[str, ...]:
    """Return the files of one index segment, inside the table's folder."""
    folder = f"_indices/{segment}"
    return tuple(f"{folder}/{name}" for name in _names(parent, folder))


def _names(parent: Table, folder: str) -> list[str]:
    """Return what a folder of a table holds, to sync it; only a local disk needs that."""
    path = f"{parent.dataset.uri}/{folder}"
    return os.listdir(path) if "://" not in path and os.path.isdir(path) else []

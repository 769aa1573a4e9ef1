"""Stages rows that replace those of the same id or are added, at a cost that follows the rows.

A changed row is written anew under the row id it had, and its old place is marked as removed; so
indexes and history go on knowing it. Lance's own upsert does the same, but first maps every row id
of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments
from msgspec import Struct

from omnigraph.limits import (
    PROBE_KEYS_MAX,
    ROWS_PER_FILE_MAX,
    UPSERT_PART_BYTES,
)
from omnigraph.store.files.counters import count
from omnigraph.store.tables.keys import addresses_of, id_filter
from omnigraph.store.tables.staging import (
    Addresses,
    NewRows,
    StagedTable,
    batch_rows,
    data_files,
    deletion_files,
    without,
)
from omnigraph.store.tables.table import Table

if TYPE_CHECKING:
    from lance.lance.schema import LanceField

SCAN_SHARE = 16
"""Looking for more than one row in so many reads all ids instead of asking for each."""


def stage_upsert(
    parent: Table, rows: NewRows, properties: dict[str, str], *, deleted: Sequence[str] = ()
) -> StagedTable:
    """Stage rows to be replaced or added, and ids to be removed, as one version.

    Ids must be distinct. `rows` is a table or a reader; many are staged part by part.
    """
    removed = addresses_of(parent, "id", deleted)["_rowaddr"].to_numpy()
    return stage_rewritten(parent, rewrite_rows(parent, rows), properties, removed=removed)


class Rewritten(Struct, frozen=True, kw_only=True):
    """Rows written for an upsert: their fragments, where their old images are, how many are new."""

    fragments: list[FragmentMetadata]
    places: Addresses
    added: int


def rewrite_rows(parent: Table, rows: NewRows) -> Rewritten:
    """Write rows to be replaced or added; the table does not know of them yet."""
    fragments: list[FragmentMetadata] = []
    places: list[Addresses] = [np.empty(0, np.uint64)]
    added = 0
    for part in _parts(rows):
        known = _places(parent, part["id"])
        fragments += _written(parent, part, known)
        places.append(known["_rowaddr"].to_numpy())
        added += part.num_rows - known.num_rows
    return Rewritten(fragments=fragments, places=np.concatenate(places), added=added)


def stage_rewritten(
    parent: Table,
    written: Rewritten,
    properties: dict[str, str],
    *,
    removed: Addresses | None = None,
) -> StagedTable:
    """Stage rewritten rows, and addresses of rows to be removed, as one version."""
    count("data_stages")
    fragments = written.fragments
    gone_rows: Addresses = np.empty(0, np.uint64) if removed is None else removed
    with parent.at_work("writing"):
        changed, gone = without(
            parent, np.concatenate([written.places, np.asarray(gone_rows, np.uint64)])
        )
    operation = LanceOperation.Update(
        removed_fragment_ids=gone,
        updated_fragments=changed,
        new_fragments=fragments,
        # Every column is new: no index may be taken to know the rewritten rows.
        fields_for_preserving_frag_bitmap=list(_field_ids(parent.dataset.lance_schema.fields())),
        update_mode="rewrite_rows",
    )
    return StagedTable(
        path=parent.path,
        parent=parent,
        transaction=lance.Transaction(parent.version, operation, transaction_properties=properties),
        files=data_files(parent, fragments) + deletion_files(parent, changed),
        rows_after=parent.count_rows() + written.added - len(gone_rows),
    )


def _parts(rows: NewRows) -> Iterator[pa.Table]:
    """Yield rows as tables of a size that memory holds several times."""
    if isinstance(rows, pa.Table):
        if rows.nbytes <= UPSERT_PART_BYTES:
            yield rows
            return
        rows = rows.to_batches(max_chunksize=batch_rows(rows))
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        batches.append(batch)
        size += batch.nbytes
        if size >= UPSERT_PART_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches)


def _places(parent: Table, ids: pa.ChunkedArray) -> pa.Table:
    """Return id, row id and address of those of the ids that a live row has."""
    total = parent.count_rows()
    if len(ids) * SCAN_SHARE > total:
        rows = parent.scan(columns=["id"], row_id=True, row_address=True)
        return rows.filter(pc.is_in(rows["id"], value_set=ids.combine_chunks()))
    listed = ids.to_pylist()
    return pa.concat_tables(
        parent.scan(
            columns=["id"],
            where=id_filter("id", listed[start : start + PROBE_KEYS_MAX]),
            row_id=True,
            row_address=True,
        )
        for start in range(0, len(listed), PROBE_KEYS_MAX)
    )


def _written(parent: Table, rows: pa.Table, known: pa.Table) -> list[FragmentMetadata]:
    """Write rows, those that replace something first; return their fragments with the row ids."""
    order = pc.index_in(known["id"], value_set=rows["id"].combine_chunks()).to_numpy()
    is_new = np.ones(rows.num_rows, bool)
    is_new[order] = False
    arranged = rows.take(np.concatenate([order, np.flatnonzero(is_new)])) if len(order) else rows
    with parent.at_work("writing"):
        transaction: Any = write_fragments(
            arranged,
            parent.dataset,
            mode="append",
            return_transaction=True,
            max_rows_per_file=ROWS_PER_FILE_MAX,
        )
    kept = known["_rowid"].combine_chunks()
    fragments: list[FragmentMetadata] = []
    start = 0
    for fragment in transaction.operation.fragments:
        own = kept[start : start + fragment.physical_rows]
        start += fragment.physical_rows
        if len(own):
            # Rows after these get new ids when the version is made.
            fragment = replace(fragment, row_id_meta=RowIdSequence(own).to_inline_metadata())
        fragments.append(fragment)
    return fragments


def _field_ids(fields: Sequence[LanceField]) -> Iterator[int]:
    for field in fields:
        yield field.id()
        yield from _field_ids(field.children())

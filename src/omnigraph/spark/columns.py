"""Arrow columns for Spark, which knows fewer types: where values go across, and in which form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import FLOATS, Entity, PropertyType, Scalar
from omnigraph.compute import python_values
from omnigraph.compute.gathering import gathered
from omnigraph.compute.key_tables import TextTable
from omnigraph.rows import RowFile, canonical_texts, stored_rows
from omnigraph.spark.tasks import GENERATED, LINE
from omnigraph.store import reached, reaching, read_fragments, readable

KEYS = "tag int, fresh boolean, generated boolean, piece long, line long, id string, key string"
"""Spark's schema of keys: `fresh` rows are of the input, the others are committed."""


_KEYS = pa.schema(
    [
        ("tag", pa.int32()),
        ("fresh", pa.bool_()),
        ("generated", pa.bool_()),
        ("piece", pa.int64()),
        ("line", pa.int64()),
        ("id", pa.string()),
        ("key", pa.string()),
    ]
)


class Unit(Struct, frozen=True, kw_only=True):
    """Rows whose keys a task reads: some scratch files, or some fragments of a table."""

    entity: Entity
    tag: int
    columns: tuple[str, ...]
    rows: int
    files: tuple[RowFile, ...] = ()
    folder: str = ""
    version: int = 0
    fragments: tuple[int, ...] = ()
    given_only: bool = False
    """Leave out rows whose id was made up: no input can have given it twice."""


def missing_keys(
    units: Sequence[Unit], known: Sequence[Unit], rows_max: int
) -> Iterator[pa.RecordBatch]:
    """Yield the first rows of each unit whose key is no id of some other units."""
    ids = [part for item in known for part in _texts(replace(item, columns=("id",)))]
    table = TextTable(pa.chunked_array(ids, pa.string()))
    for unit in units:
        texts = gathered(((part,) for part in _texts(unit)), table.rows_at_once())
        parts = [table.find(keys) < 0 for (keys,) in texts]
        missing = np.concatenate(parts) if parts else np.empty(0, dtype=bool)
        if missing.any():
            rows = pa.Table.from_batches(key_batches(unit), _KEYS)
            yield from rows.filter(pa.array(missing)).slice(0, rows_max).to_batches()


def repeats_ids(units: Sequence[Unit]) -> bool:
    """Whether some id that was given stands in several rows of some units."""
    ids = [part for unit in units for part in _texts(replace(unit, columns=("id",)))]
    return TextTable(pa.chunked_array(ids, pa.string())).has_duplicates()


def _texts(unit: Unit) -> Iterator[pa.Array]:
    """Yield the keys of a unit, as text, in the order of `key_batches`."""
    wanted = list(dict.fromkeys(unit.columns))
    for item in unit.files:
        changed = item.dropped is not None or item.ids is not None
        more = ["id", LINE, GENERATED] if changed else [GENERATED] if unit.given_only else []
        names = list(dict.fromkeys([*wanted, *more]))
        rows = _with_ids(feather.read_table(readable(item.path), columns=names), item)
        if unit.given_only:
            rows = rows.filter(pc.invert(rows[GENERATED]))
        for batch in rows.combine_chunks().to_batches():
            yield _key(unit.entity, unit.columns, batch)
    if unit.fragments:
        for batch in read_fragments(unit.folder, unit.version, unit.fragments, wanted):
            yield _key(unit.entity, unit.columns, batch)


def key_batches(unit: Unit) -> Iterator[pa.RecordBatch]:
    """Yield ids and keys of a unit, as text, with where they stand."""
    wanted = list(dict.fromkeys(["id", *unit.columns]))
    for item in unit.files:
        rows = feather.read_table(readable(item.path), columns=[*wanted, LINE, GENERATED])
        rows = _with_ids(rows, item)
        if unit.given_only:
            rows = rows.filter(pc.invert(rows[GENERATED]))
        for batch in rows.combine_chunks().to_batches(max_chunksize=65_536):
            place = pa.array(np.full(batch.num_rows, item.piece, dtype=np.int64))
            yield _keys(unit, batch, batch.column(GENERATED), place, batch.column(LINE))
    if unit.fragments:
        for batch in read_fragments(unit.folder, unit.version, unit.fragments, wanted):
            nowhere = pa.nulls(batch.num_rows, pa.int64())
            minted = pa.nulls(batch.num_rows, pa.bool_())
            yield _keys(unit, batch, minted, nowhere, nowhere)


def _keys(
    unit: Unit, batch: pa.RecordBatch, generated: pa.Array, piece: pa.Array, line: pa.Array
) -> pa.RecordBatch:
    size = batch.num_rows
    arrays = [
        pa.array(np.full(size, unit.tag, dtype=np.int32)),
        pa.array(np.full(size, bool(unit.files))),
        generated,
        piece,
        line,
        batch.column("id"),
        _key(unit.entity, unit.columns, batch),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_KEYS)


def _key(entity: Entity, columns: Sequence[str], batch: pa.RecordBatch) -> pa.Array:
    """Return columns as one text that is equal exactly when all values are; null if one is."""
    texts: list[pa.Array] = []
    for name in columns:
        declared = entity.properties.get(name)
        column = batch.column(name)
        texts.append(column if declared is None else canonical_texts(column, declared.type))
    if not texts:
        return pa.nulls(batch.num_rows, pa.string())
    if len(texts) == 1:
        return texts[0]
    # The length before each text keeps ("a", "b") and ("ab", "") apart.
    parts = [
        pc.binary_join_element_wise(pc.cast(pc.utf8_length(text), pa.string()), text, ":")
        for text in texts
    ]
    return pc.binary_join_element_wise(*parts, "")


def shown(entity: Entity, columns: Sequence[str], key: str) -> list[str]:
    """Return the values of a key as messages show them."""
    texts = [key]
    if len(columns) > 1:
        texts = []
        while key:
            size, _, rest = key.partition(":")
            texts.append(rest[: int(size)])
            key = rest[int(size) :]
    declared = [entity.properties.get(name) for name in columns]
    return [
        _shown(text, None if item is None else item.type)
        for text, item in zip(texts, declared, strict=True)
    ]


def _shown(text: str, declared: PropertyType | None) -> str:
    scalar = Scalar.STRING if declared is None else declared.scalar
    if scalar is Scalar.BOOL:
        return text.capitalize()
    if scalar is Scalar.DATE:
        return str(python_values(pa.array([int(text)], pa.int32()).cast(pa.date32()))[0])
    if scalar is Scalar.DATETIME:
        moment = pa.array([int(text)], pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
        return str(python_values(moment)[0])
    if scalar in FLOATS:
        return str(float(np.float32(text)) if scalar is Scalar.F32 else float(text))
    return text


def image_text(image: Mapping[str, object] | None) -> str | None:
    """Return an image of an entity as JSON text."""
    return None if image is None else json.dumps(image, ensure_ascii=False)


def scratch_rows(entity: Entity, files: Sequence[RowFile]) -> Iterator[pa.RecordBatch]:
    """Return the rows of scratch files as the table stores them."""
    # Lance asks for them in a thread of its own.
    given = reached()

    def batches() -> Iterator[pa.RecordBatch]:
        for item in files:
            with reaching(given):
                rows = _with_ids(feather.read_table(readable(item.path)), item)
            yield from stored_rows(entity, rows).to_batches()

    return batches()


def _with_ids(rows: pa.Table, item: RowFile) -> pa.Table:
    """Leave out rows that do not count, and put in the ids of edges that exist already.

    Such edges count as given by their id.
    """
    if item.dropped is not None:
        gone = feather.read_table(readable(item.dropped))["line"].combine_chunks()
        rows = rows.filter(pc.invert(pc.is_in(rows[LINE], value_set=gone)))
    if item.ids is None:
        return rows
    known = feather.read_table(readable(item.ids))
    at = pc.index_in(rows[LINE].combine_chunks(), value_set=known["line"].combine_chunks())
    existing = known["id"].combine_chunks().take(at)
    replaced = pc.is_valid(at)
    ids = pc.coalesce(existing, rows["id"].combine_chunks())
    rows = rows.set_column(rows.schema.get_field_index("id"), "id", ids)
    flags = pc.and_not(rows[GENERATED].combine_chunks(), replaced)
    rows = rows.set_column(rows.schema.get_field_index(GENERATED), GENERATED, flags)
    # Messages name lines of ids in the input, and these are not from there.
    lines = pc.if_else(replaced, pa.scalar(None, pa.int64()), rows[LINE].combine_chunks())
    return rows.set_column(rows.schema.get_field_index(LINE), LINE, lines)

"""Tables as Spark sees them: types that go across, and what each task reads of a pinned version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Entity, PropertyType, Scalar
from omnigraph.errors import BadRequestError, QueryError
from omnigraph.graph import Session, Snapshot
from omnigraph.graph.seam import catalog_at, table_at
from omnigraph.limits import SPARK_BATCH_ROWS, SPARK_SCAN_ROWS
from omnigraph.rows import has_blobs
from omnigraph.spark.tasks import bundled
from omnigraph.store import fragment_ids, read_fragments
from omnigraph.store.tables.worker_io import refusal

_SQL = {
    Scalar.STRING: "string",
    Scalar.BLOB: "binary",
    Scalar.BOOL: "boolean",
    Scalar.I32: "int",
    Scalar.I64: "long",
    Scalar.U32: "long",
    Scalar.U64: "decimal(20,0)",
    Scalar.F32: "float",
    Scalar.F64: "double",
    Scalar.DATE: "date",
    Scalar.DATETIME: "timestamp",
    Scalar.VECTOR: "array<float>",
}
_ARROW = {
    Scalar.BLOB: pa.binary(),
    Scalar.U32: pa.int64(),
    Scalar.U64: pa.decimal128(20, 0),
    Scalar.DATETIME: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Some columns of one type at one version, divided into tasks; plain data."""

    entity: Entity
    names: tuple[str, ...]
    folder: str
    version: int
    groups: tuple[tuple[int, ...], ...]
    where: str | None = None

    @property
    def ddl(self) -> str:
        """Return the columns as Spark declares them."""
        columns = zip(self.names, self.sql_types, strict=True)
        return ", ".join(f"`{name}` {kind}" for name, kind in columns)

    @property
    def sql_types(self) -> tuple[str, ...]:
        """Return the Spark types of the columns."""
        return tuple(_sql(self.entity, name) for name in self.names)

    def read(self, task: int, *, batch_rows: int = SPARK_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one task, in types Spark knows."""
        for batch in read_fragments(
            self.folder,
            self.version,
            self.groups[task],
            self.names,
            blob_bytes=has_blobs(self.entity),
            where=self.where,
            batch_rows=batch_rows,
        ):
            arrays = [_for_spark(self.entity, name, batch.column(name)) for name in self.names]
            yield pa.RecordBatch.from_arrays(arrays, names=list(self.names))


def scan(
    graph: Session,
    snapshot: Snapshot,
    type_name: str,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> Scan:
    """Plan the reading of one type of a snapshot, or of the rows that match a condition."""
    entity = catalog_at(graph, snapshot).entity_named(type_name)
    known = [*entity.implicit_columns, *entity.properties]
    names = tuple(known if columns is None else columns)
    for name in names:
        if name not in known:
            raise BadRequestError(f"{type_name} has no column '{name}'")
    table = table_at(graph, snapshot, entity.table_key)
    folder = str(table.dataset.uri)
    if where is not None and (reason := refusal(folder, table.version, where)) is not None:
        raise BadRequestError(f"where: {reason}")
    fragments = fragment_ids(table)
    return Scan(
        entity=entity,
        names=names,
        folder=folder,
        version=table.version,
        where=where,
        groups=tuple(
            tuple(fragments[index][0] for index in group)
            for group in bundled([rows for _id, rows in fragments], SPARK_SCAN_ROWS)
        ),
    )


def sql_type(declared_type: PropertyType) -> str:
    """Return the Spark type that values of a schema type have in a frame."""
    name = _SQL[declared_type.scalar]
    return f"array<{name}>" if declared_type.is_list else name


def _sql(entity: Entity, name: str) -> str:
    declared = entity.properties.get(name)
    return "string" if declared is None else sql_type(declared.type)


def _for_spark(entity: Entity, name: str, column: pa.Array) -> pa.Array:
    """Return a column in a type Spark knows; nothing is lost."""
    declared = entity.properties.get(name)
    if declared is None:
        return column
    scalar = declared.type.scalar
    if scalar is Scalar.VECTOR:
        return pc.cast(column, pa.list_(pa.float32()))
    wanted = _ARROW.get(scalar)
    if wanted is None:
        return column
    try:
        return pc.cast(column, pa.list_(wanted) if declared.type.is_list else wanted)
    except pa.ArrowInvalid as error:
        raise QueryError(
            f"{entity.name}.{name} holds a value that Spark cannot: {error}"
        ) from error

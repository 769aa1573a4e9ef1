"""Loads nodes and edges: JSONL, envelopes or frames, in one validated commit."""

from __future__ import annotations

import datetime
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import AcceptedSchema, EdgeType, NodeType
from omnigraph.errors import BadRequestError, KeyConflictError, NotFoundError
from omnigraph.write import Base, ChangeSet, Problem, Problems, TableChange, validate
from omnigraph.write.blobs import encode_blob
from omnigraph.write.embeddings import Embeddings
from omnigraph.write.envelopes import EnvelopeReader, file_lines
from omnigraph.write.intake import complete_ids, duplicate_problem, frame_rows

Entity = NodeType | EdgeType
Data = str | os.PathLike[str] | bytes | Iterable[Mapping[str, object]]


class LoadMode(StrEnum):
    """What happens to rows that exist."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"

    @classmethod
    def parse(cls, mode: Self | str) -> LoadMode:
        """Read a mode. Raises `BadRequestError`."""
        try:
            return cls(mode)
        except ValueError:
            listed = ", ".join(cls)
            raise BadRequestError(f"unknown load mode {mode!r}; expected one of {listed}") from None


class Load:
    """A load as an operation of the write protocol."""

    kind = "load"

    def __init__(
        self,
        schema: AcceptedSchema,
        mode: LoadMode,
        *,
        new_ids: Callable[[int], tuple[str, int]],
        embeddings: Embeddings | None = None,
    ) -> None:
        self.mode = mode
        self._embeddings = embeddings or Embeddings(None)
        self._schema = schema
        self._new_ids = new_ids
        self._rows: dict[str, Any] = {}
        self._lines: dict[str, list[int]] = {}
        self._generated: dict[str, Any] = {}
        self._source = "the input"

    # ---- reading --------------------------------------------------------------------------

    def read(self, data: Data, progress: Any = None) -> None:
        """Parse the whole input. Raises `DataError` with every problem found."""
        problems = self._problems(data)
        reader = EnvelopeReader(self._schema.catalog, problems)
        if isinstance(data, bytes):
            reader.read(file_lines(io.BytesIO(data), progress))
        elif isinstance(data, str | os.PathLike):
            try:
                with open(data, "rb", buffering=1 << 20) as handle:
                    reader.read(file_lines(handle, progress))
            except FileNotFoundError:
                raise NotFoundError(f"file not found: {os.fspath(data)}") from None
            except IsADirectoryError:
                raise BadRequestError(f"{os.fspath(data)} is a directory") from None
        else:
            reader.read(_encoded(data, problems))
        problems.raise_any()
        for found in reader.types.values():
            self._take(found.entity, found.table(), found.lines, problems)
            found.chunks = []
        problems.raise_any()
        if not self._rows and self.mode is LoadMode.OVERWRITE:
            raise empty_overwrite()

    def _problems(self, data: object = None) -> Problems:
        if isinstance(data, str | os.PathLike):
            self._source = os.fspath(data)
        problems = Problems(source=self._source)
        problems.line_of = self._line_of
        return problems

    def read_table(self, type_name: str, table: Any, *, from_col: str, to_col: str) -> None:
        """Take in one type's rows from a frame. Raises `DataError` with every problem found."""
        catalog = self._schema.catalog
        entity: Entity | None = catalog.nodes.get(type_name) or catalog.edges.get(type_name)
        if entity is None:
            raise NotFoundError(f"unknown type '{type_name}'")
        self._source = f"the {type_name} frame"
        problems = self._problems()
        frame = as_arrow(table)
        lines = list(range(1, frame.num_rows + 1))
        rows = frame_rows(
            entity, frame, from_col=from_col, to_col=to_col, lines=lines, problems=problems
        )
        problems.raise_any()
        self._take(entity, rows, lines, problems)
        problems.raise_any()

    def _take(self, entity: Entity, rows: Any, lines: list[int], problems: Problems) -> None:
        """Complete ids and keep the rows; ids must be distinct within the input."""
        key = entity.table_key
        self._lines[key] = lines
        rows, generated = complete_ids(self._schema, entity, rows, lines, self._new_ids, problems)
        self._rows[key] = rows
        self._generated[key] = generated
        self._check_distinct(entity, rows, problems)

    def _check_distinct(self, entity: Entity, rows: Any, problems: Problems) -> None:
        ids = rows["id"].combine_chunks().drop_null()
        if len(pc.unique(ids)) == len(ids):
            return
        first: dict[str, int] = {}
        lines = self._lines[entity.table_key]
        for row, entity_id in enumerate(rows["id"].to_pylist()):
            if entity_id is None:
                continue
            if entity_id in first:
                place = f"line {lines[first[entity_id]]}"
                problems.add(duplicate_problem(entity, entity_id, lines[row], place))
            first.setdefault(entity_id, row)

    def _line_of(self, table_key: str, entity_id: str) -> int | None:
        rows = self._rows.get(table_key)
        if rows is None:
            return None
        index = pc.index(rows["id"], pa.scalar(entity_id)).as_py()
        return self._lines[table_key][index] if index >= 0 else None

    # ---- the operation --------------------------------------------------------------------

    def counts(self, kind: str) -> dict[str, int]:
        """Return rows per type name, nodes or edges."""
        return {
            key.partition(":")[2]: rows.num_rows
            for key, rows in sorted(self._rows.items())
            if key.startswith(f"{kind}:")
        }

    def strict_tables(self, changes: ChangeSet) -> tuple[str, ...]:
        """An overwrite replaces what the caller saw; other modes can be prepared anew."""
        return tuple(sorted(self._rows)) if self.mode is LoadMode.OVERWRITE else ()

    def prepare(self, base: Base) -> ChangeSet:
        """Tell new rows from existing ones and validate the outcome."""
        changes = ChangeSet()
        catalog = self._schema.catalog
        for key, rows in sorted(self._rows.items()):
            kind, _, name = key.partition(":")
            entity: Entity = catalog.edges[name] if kind == "edge" else catalog.nodes[name]
            rows = self._rows[key] = self._embeddings.fill_rows(entity, rows)
            self._fill(base, changes.of(entity), rows, self._generated[key])
        problems = self._problems()
        validate(base, changes, problems)
        problems.raise_any()
        return changes

    def _fill(self, base: Base, change: TableChange, rows: Any, generated: Any) -> None:
        entity = change.entity
        if self.mode is LoadMode.OVERWRITE:
            change.added, change.replaced = rows, True
            base.pin(entity)
            return
        if (
            self.mode is LoadMode.MERGE
            and isinstance(entity, EdgeType)
            and entity.unique_pair
            and base.pin(entity).row_count
        ):
            rows, generated = self._same_edges(base, entity, rows, generated)
        given = rows["id"].combine_chunks().filter(pc.invert(generated)).to_pylist()
        known = base.existing_ids(entity, given)
        if known and self.mode is LoadMode.APPEND:
            entity_id = next(item for item in given if item in known)
            line = self._line_of(entity.table_key, entity_id)
            raise existing_id(entity, entity_id, "" if line is None else f"line {line}: ")
        if not known:
            change.added = rows
            return
        exists = pc.is_in(rows["id"], value_set=pa.array(sorted(known), pa.string()))
        change.changed = rows.filter(exists)
        change.added = rows.filter(pc.invert(exists))

    def _same_edges(self, base: Base, edge: EdgeType, rows: Any, generated: Any) -> tuple[Any, Any]:
        """Give edges without an id the id of the one edge that joins the same nodes."""
        open_rows = rows.filter(generated)
        if open_rows.num_rows == 0:
            return rows, generated
        sources = pc.unique(open_rows["src"]).to_pylist()
        present = base.edge_ends(edge, "src", sources)
        ids = {
            (src, dst): entity_id
            for entity_id, src, dst in zip(
                *(present[name].to_pylist() for name in ("id", "src", "dst")), strict=True
            )
        }
        columns = (rows[name].to_pylist() for name in ("id", "src", "dst"))
        flags = generated.to_pylist()
        new_ids: list[str] = []
        new_flags: list[bool] = []
        for (entity_id, src, dst), minted in zip(zip(*columns, strict=True), flags, strict=True):
            found = ids.get((src, dst)) if minted else None
            new_ids.append(found or entity_id)
            new_flags.append(minted and found is None)
        index = rows.schema.get_field_index("id")
        return rows.set_column(index, "id", pa.array(new_ids, pa.string())), pa.array(new_flags)


def empty_overwrite() -> BadRequestError:
    """Return the error of an overwrite that names no type."""
    return BadRequestError(
        "an empty input overwrites nothing", hint="use merge, or name the types to empty"
    )


def existing_id(entity: Entity, entity_id: str, place: str) -> KeyConflictError:
    """Return the error of an append whose id is taken; `place` says where it stands."""
    return KeyConflictError(
        entity_kind=str(entity.kind),
        type_name=entity.name,
        entity_id=entity_id,
        message=f"{place}{entity.name} '{entity_id}' already exists; nothing was written",
    )


def _encoded(items: Iterable[Mapping[str, object]], problems: Problems) -> Iterator[bytes]:
    """Yield envelopes as lines; what JSON cannot express is a problem, not a null."""
    for number, item in enumerate(items, 1):
        try:
            yield json.dumps(item, allow_nan=False, ensure_ascii=False, default=_plain).encode()
        except (TypeError, ValueError) as error:
            problems.add(Problem(message=f"not expressible as JSON: {error}", line=number))
            yield b""


def _plain(value: object) -> object:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return encode_blob(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


def as_arrow(table: Any) -> Any:
    """Return a pandas, polars or Arrow frame as an Arrow table."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    if type(table).__module__.startswith("pandas"):
        return pa.Table.from_pandas(table, preserve_index=False)
    raise BadRequestError(
        f"cannot load a {type(table).__name__}", hint="give an Arrow, pandas or polars frame"
    )

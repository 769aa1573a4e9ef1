"""Loads nodes and edges: JSONL, envelopes or frames, in one validated commit."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import AcceptedSchema, Catalog, EdgeType, Entity
from omnigraph.commits import Base, ChangeSet, PlainOperation
from omnigraph.errors import BadRequestError, KeyConflictError, NotFoundError
from omnigraph.intake.declared import Given
from omnigraph.intake.envelope_text import EnvelopeWriter
from omnigraph.intake.envelopes import BytesRead, EnvelopeReader, TypeRows, file_blocks
from omnigraph.intake.frames import complete_ids, duplicate_problem, frame_rows
from omnigraph.intake.input_reader import InputReader
from omnigraph.intake.inputs import Input
from omnigraph.intake.parquet_files import as_table
from omnigraph.limits import EMBED_CHUNK_ROWS, LOAD_CHUNK_ROWS, MEMBER_ROWS_MAX, PROBLEMS_MAX
from omnigraph.rows import Problem, Problems, TableChange, counts_of_kind, validate
from omnigraph.rows.embeddings import Embeddings
from omnigraph.rows.problems import LinePlace, place_text
from omnigraph.rows.spill import SpillFile, release_mapped, spilled
from omnigraph.rows.stored import ids_by_ends
from omnigraph.store import open_file
from omnigraph.wording import with_article

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


class Load(PlainOperation):
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
        self._rows: dict[str, pa.Table] = {}
        self._lines: dict[str, Sequence[int]] = {}
        self._generated: dict[str, pa.Array] = {}
        self._spills: dict[str, list[SpillFile]] = {}
        self._filled: set[str] = set()
        self._source = "the input"
        self._problems_max: int | None = None
        self._place_of: Callable[[int], LinePlace] | None = None
        self.line_at: Callable[[str | None, int], Sequence[int]] = lambda _file, line: [line]
        self._duplicates: dict[str, str] = {}

    # ---- reading --------------------------------------------------------------------------

    def read(self, data: Data, progress: BytesRead | None = None) -> None:
        """Parse the whole input. Raises `DataError` with every problem found."""
        problems = self._problems(data)
        with contextlib.closing(EnvelopeReader(self._schema.catalog, problems)) as reader:
            self._read_lines(reader, data, problems, progress)
            self._take_all(reader.types.values(), problems)

    def read_inputs(
        self,
        inputs: Sequence[Input],
        *,
        skip: frozenset[int] = frozenset(),
        problems_max: int = PROBLEMS_MAX,
        progress: BytesRead | None = None,
    ) -> None:
        """Parse files and frames, all of them one input. Raises `DataError` as `read` does.

        `skip` are lines to leave out, counted through all files.
        """
        labels = list(dict.fromkeys(item.label for item in inputs))
        self._source = labels[0] if len(labels) == 1 else "the input"
        self._problems_max = problems_max
        problems = self._problems()
        catalog = self._schema.catalog
        reader = InputReader(catalog, problems, inputs, skip=skip, progress=progress)
        self._place_of = reader.places.of
        self.line_at = reader.places.lines
        self._duplicates = {
            item.entity.table_key: item.reading.duplicates
            for item in inputs
            if item.entity is not None
        }
        with contextlib.closing(reader):
            reader.read()
            problems.raise_any()
            self._take_all(reader.types.values(), problems)

    @property
    def only_source(self) -> str | None:
        """The name of the input, if it is one file or frame."""
        return None if self._source == "the input" else self._source

    def _take_all(self, types: Iterable[TypeRows], problems: Problems) -> None:
        """Take over what a reader found."""
        for type_rows in types:
            rows = type_rows.table()
            if type_rows.spill is not None:
                self._spills[type_rows.entity.table_key] = [type_rows.spill]
            self._keep_rows(type_rows.entity, rows, type_rows.lines, problems)
            type_rows.chunks = []
            release_mapped()
        problems.raise_any()
        if not self._rows and self.mode is LoadMode.OVERWRITE:
            raise empty_overwrite()

    def _read_lines(
        self, reader: EnvelopeReader, data: Data, problems: Problems, progress: BytesRead | None
    ) -> None:
        if isinstance(data, bytes):
            reader.read_blocks(file_blocks(io.BytesIO(data), progress))
        elif isinstance(data, str | os.PathLike):
            try:
                with open_file(os.fspath(data)) as handle:
                    reader.read_blocks(file_blocks(handle, progress))
            except FileNotFoundError:
                raise NotFoundError(f"file not found: {os.fspath(data)}") from None
            except IsADirectoryError:
                raise BadRequestError(f"{os.fspath(data)} is a directory") from None
        elif isinstance(data, Mapping) or not isinstance(data, Iterable):
            raise BadRequestError(
                f"cannot load {with_article(type(data).__name__)}",
                hint="give a path, the bytes of a JSONL file, or a list of dictionaries; "
                "`graph.bulk` takes rows and frames by type",
            )
        else:
            reader.read(_encoded(data, self._schema.catalog, problems))
        problems.raise_any()

    def _problems(self, data: object = None) -> Problems:
        if isinstance(data, str | os.PathLike):
            self._source = os.fspath(data)
        problems = Problems(source=self._source)
        if self._problems_max is not None:
            problems = Problems(source=self._source, limit=self._problems_max)
        problems.line_of = self._line_of
        problems.place_of = self._place_of
        return problems

    def read_table(self, type_name: str, table: Given, *, from_col: str, to_col: str) -> None:
        """Take in one type's rows from a frame. Raises `DataError` with every problem found."""
        entity = self._schema.catalog.entity_named(type_name)
        self._source = f"the {type_name} frame"
        problems = self._problems()
        frame = as_table(table)
        lines = list(range(1, frame.num_rows + 1))
        rows = frame_rows(
            entity, frame, from_col=from_col, to_col=to_col, lines=lines, problems=problems
        )
        problems.raise_any()
        self._keep_rows(entity, rows, lines, problems)
        problems.raise_any()

    def _keep_rows(
        self, entity: Entity, rows: pa.Table, lines: Sequence[int], problems: Problems
    ) -> None:
        """Complete ids and keep the rows; ids must be distinct within the input."""
        key = entity.table_key
        self._lines[key] = lines
        rows, generated = complete_ids(self._schema, entity, rows, lines, self._new_ids, problems)
        kept = _once_each(entity, rows, generated, self._duplicates.get(key, "refuse"))
        if kept is not None:
            rows, generated = self._filtered(entity, rows, kept), generated.filter(kept)
            self._lines[key] = np.asarray(lines, dtype=np.int64)[np.asarray(kept)].tolist()
        self._rows[key] = rows
        self._generated[key] = generated
        self._check_distinct(entity, rows, problems)

    def _check_distinct(self, entity: Entity, rows: pa.Table, problems: Problems) -> None:
        generated = self._generated[entity.table_key]
        if pc.all(generated).as_py():
            return
        # Ids made up here are distinct already.
        ids = rows["id"].combine_chunks().filter(pc.invert(generated)).drop_null()
        if len(pc.unique(ids)) == len(ids):
            return
        first: dict[str, int] = {}
        lines = self._lines[entity.table_key]
        for row, entity_id in enumerate(rows["id"].to_pylist()):
            if entity_id is None:
                continue
            if entity_id in first:
                place = self._other_place(lines[first[entity_id]], lines[row])
                problems.add(duplicate_problem(entity, entity_id, lines[row], place))
            first.setdefault(entity_id, row)

    def _other_place(self, line: int, seen_from: int) -> str:
        """Name a line as seen from another one."""
        if self._place_of is None:
            return f"line {line}"
        file, line, _element = self._place_of(line)
        here = self._place_of(seen_from).file
        return f"line {line}" if file is None or file == here else f"line {line} of {file}"

    def _line_of(self, table_key: str, entity_id: str) -> int | None:
        rows = self._rows.get(table_key)
        if rows is None:
            return None
        index = pc.index(rows["id"], pa.scalar(entity_id)).as_py()
        return self._lines[table_key][index] if index >= 0 else None

    # ---- the operation --------------------------------------------------------------------

    def counts(self, kind: str) -> dict[str, int]:
        """Return rows per type name, nodes or edges."""
        return counts_of_kind({key: rows.num_rows for key, rows in self._rows.items()}, kind)

    @property
    def shares_publish(self) -> bool:  # type: ignore[override]  # a constant of most operations
        """A few rows that are in memory, added or merged, can be published with others."""
        rows = sum(item.num_rows for item in self._rows.values())
        small = rows <= MEMBER_ROWS_MAX and not self._spills
        return small and self.mode is not LoadMode.OVERWRITE

    def ids_to_look_up(self, schema: AcceptedSchema) -> dict[str, list[str]]:
        """Return the ids of rows that did not get one here, and of the ends of edges."""
        ids: dict[str, list[str]] = {}
        for key, rows in self._rows.items():
            entity = schema.catalog.entity_of_table(key)
            given = rows["id"].combine_chunks().filter(pc.invert(self._generated[key]))
            ids.setdefault(key, []).extend(given.to_pylist())
            if isinstance(entity, EdgeType):
                for column, name in (("src", entity.source), ("dst", entity.target)):
                    ends = ids.setdefault(schema.catalog.nodes[name].table_key, [])
                    ends.extend(rows[column].to_pylist())
        return ids

    def tables_read_strictly(self, changes: ChangeSet) -> tuple[str, ...]:
        """An overwrite replaces what the caller saw; other modes can be prepared anew."""
        return tuple(sorted(self._rows)) if self.mode is LoadMode.OVERWRITE else ()

    def tables_surely_written(self) -> tuple[str, ...]:
        """Every row is written."""
        return tuple(sorted(self._rows))

    def prepare(self, base: Base) -> ChangeSet:
        """Tell new rows from existing ones and validate the outcome."""
        changes = ChangeSet()
        conflicts: list[tuple[int, Entity, str]] = []
        catalog = self._schema.catalog
        for key, rows in sorted(self._rows.items()):
            entity = catalog.entity_of_table(key)
            rows = self._rows[key] = self._embedded(entity, rows)
            taken = self._fill(base, changes.of(entity), rows, self._generated[key])
            if taken is not None:
                conflicts.append((self._line_of(key, taken) or 0, entity, taken))
        self._refuse(conflicts)
        problems = self._problems()
        validate(base, changes, problems)
        release_mapped()
        problems.raise_any()
        return changes

    def _refuse(self, conflicts: list[tuple[int, Entity, str]]) -> None:
        """Raise for the row that comes first in the input, whatever its type."""
        if conflicts:
            line, entity, entity_id = min(conflicts, key=lambda item: item[0])
            place = LinePlace(None, line) if self._place_of is None else self._place_of(line)
            raise existing_id(entity, entity_id, place_text(place.file, place.line))

    def _embedded(self, entity: Entity, rows: pa.Table) -> pa.Table:
        """Return rows with their vectors; those of a file are filled chunk by chunk."""
        spills = self._spills.get(entity.table_key)
        if spills is not None:
            # Files of an earlier attempt go with the tables that rest on them.
            del spills[1:]
        vectors = any(declared.embedding for declared in entity.properties.values())
        if spills is None or not (vectors and self._embeddings.active):
            return self._embeddings.fill_rows(entity, rows)
        if entity.table_key in self._filled:
            return rows
        self._filled.add(entity.table_key)
        chunks = (
            self._embeddings.fill_rows(entity, pa.Table.from_batches([batch]))
            for batch in rows.to_batches(max_chunksize=EMBED_CHUNK_ROWS)
        )
        filled, spill = spilled(rows.schema, (b for chunk in chunks for b in chunk.to_batches()))
        spills[:] = [spill]
        release_mapped()
        return filled

    def _fill(
        self, base: Base, change: TableChange, rows: pa.Table, generated: pa.Array
    ) -> str | None:
        """Sort the rows of one type; return the first id that should be new and is not."""
        entity = change.entity
        change.added = rows
        change.mapped = entity.table_key in self._spills
        committed = base.row_count(entity)
        if self.mode is LoadMode.OVERWRITE:
            change.replaced = True
            return None
        if not committed:
            return None
        if self.mode is LoadMode.MERGE and isinstance(entity, EdgeType) and entity.unique_pair:
            rows, generated = self._same_edges(base, entity, rows, generated)
        given = rows["id"].combine_chunks().filter(pc.invert(generated)).to_pylist()
        known = base.existing_ids(entity, given)
        if known and self.mode is LoadMode.APPEND:
            return str(next(item for item in given if item in known))
        change.added = rows
        if len(known) == rows.num_rows:
            change.added, change.changed = None, rows
        elif known:
            exists = pc.is_in(rows["id"], value_set=pa.array(sorted(known), pa.string()))
            exists = exists.combine_chunks()
            change.changed = self._filtered(entity, rows, exists)
            change.added = self._filtered(entity, rows, pc.invert(exists))
        return None

    def _filtered(self, entity: Entity, rows: pa.Table, mask: pa.Array) -> pa.Table:
        """Return some of the rows; if all lie in a file, these go to one too."""
        spills = self._spills.get(entity.table_key)
        if spills is None:
            return rows.filter(mask)
        filtered, spill = spilled(rows.schema, _filtered_batches(rows, mask))
        spills.append(spill)
        release_mapped()
        return filtered

    def _same_edges(
        self, base: Base, edge: EdgeType, rows: pa.Table, generated: pa.Array
    ) -> tuple[pa.Table, pa.Array]:
        """Give edges without an id the id of the one edge that joins the same nodes."""
        sources = pc.unique(rows["src"].filter(generated)).to_pylist()
        if not sources:
            return rows, generated
        ids = ids_by_ends(base, edge, sources)
        columns = (rows[name].to_pylist() for name in ("id", "src", "dst"))
        flags = generated.to_pylist()
        new_ids: list[str] = []
        new_flags: list[bool] = []
        for (entity_id, src, dst), minted in zip(zip(*columns, strict=True), flags, strict=True):
            existing = ids.get((src, dst)) if minted else None
            new_ids.append(existing or entity_id)
            new_flags.append(minted and existing is None)
        index = rows.schema.get_field_index("id")
        return rows.set_column(index, "id", pa.array(new_ids, pa.string())), pa.array(new_flags)


def _once_each(
    entity: Entity, rows: pa.Table, generated: pa.Array, duplicates: str
) -> pa.Array | None:
    """Tell which rows to keep, so that each entity is there once; None if that is not asked for.

    An entity is known by its id; an edge that was given none by its ends, if these are unique.
    """
    if duplicates == "refuse" or not rows.num_rows:
        return None
    generated = generated.combine_chunks() if hasattr(generated, "combine_chunks") else generated
    by_ends = isinstance(entity, EdgeType) and entity.unique_pair
    names = {"id": pc.if_else(generated, pa.scalar(None, pa.string()), rows["id"].combine_chunks())}
    if by_ends:
        for name in ("src", "dst"):
            ends = rows[name].combine_chunks()
            names[name] = pc.if_else(generated, ends, pa.scalar(None, pa.string()))
    table = pa.table({**names, "#": pa.array(np.arange(rows.num_rows))})
    chosen = table.group_by(list(names)).aggregate(
        [("#", "min" if duplicates == "first" else "max")]
    )
    keep = np.zeros(rows.num_rows, dtype=bool)
    keep[chosen.column(chosen.num_columns - 1).to_numpy()] = True
    if not by_ends:
        keep |= np.asarray(generated)
    return pa.array(keep)


def _filtered_batches(rows: pa.Table, mask: pa.Array) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in rows.to_batches(max_chunksize=LOAD_CHUNK_ROWS):
        yield batch.filter(mask.slice(start, batch.num_rows))
        start += batch.num_rows


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


def _encoded(
    items: Iterable[Mapping[str, object]], catalog: Catalog, problems: Problems
) -> Iterator[bytes]:
    """Yield envelopes as lines; what JSON cannot express is a problem, not a null."""
    for line in EnvelopeWriter(lambda: catalog).lines(items):
        if isinstance(line, Problem):
            problems.add(line)
        yield b"" if isinstance(line, Problem) else line

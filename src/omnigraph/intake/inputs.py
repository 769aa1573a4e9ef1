"""What a load reads: files and frames, named by paths, globs and types."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from omnigraph.catalog import Catalog, EdgeType, Entity
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.intake.declared import DUPLICATES, Given, Rows, Sources
from omnigraph.intake.frames import frame_rows
from omnigraph.intake.mapping import MAPPING_FILE, read_mapping
from omnigraph.intake.records import CsvForm, Records
from omnigraph.intake.shapes import Shape, check_shape, shaped
from omnigraph.rows.problems import Problems
from omnigraph.store import FoundFile, find_files, is_object
from omnigraph.wording import with_article

FORMS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".graphml": "graphml",
    ".jsonl.gz": "jsonl",
    ".ndjson.gz": "jsonl",
    ".csv.gz": "csv",
}
_FORMS_TEXT = ", ".join(name for name in FORMS if not name.endswith(".gz"))


class Reading(Struct, frozen=True, kw_only=True):
    """How records of one input become rows of a type; plain data."""

    shape: Shape = Shape()
    csv: CsvForm = CsvForm()
    from_col: str = "from"
    to_col: str = "to"
    op_col: str = "op"
    seq_col: str | None = None
    duplicates: str = "refuse"

    def known(self, entity: Entity, *, events: bool = False) -> list[str]:
        """Return the columns that a type takes."""
        columns = ["id", *entity.properties]
        if isinstance(entity, EdgeType):
            columns += [self.from_col, self.to_col]
        if events:
            columns += [name for name in (self.op_col, self.seq_col) if name is not None]
        return columns

    def rows(
        self, entity: Entity, records: Records, problems: Problems, *, events: bool = False
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the columns of a type that records come to, and the lines of the rows."""
        known = self.known(entity, events=events)
        return shaped(self.shape, entity, records, known, problems, all_members=events)

    def fitted(
        self, entity: Entity, frame: pa.Table, lines: Sequence[int], problems: Problems
    ) -> pa.Table | None:
        """Return such columns as rows of the type, None if anything is wrong with them."""
        if problems.items:
            return None
        ends = {"from_col": self.from_col, "to_col": self.to_col}
        rows = frame_rows(entity, frame, lines=lines, problems=problems, **ends)
        return None if problems.items else rows


class Input(Struct, frozen=True, kw_only=True):
    """One file or frame; a frame has no path and no size, and envelopes have no type.

    Its `form` is `jsonl` for envelopes, or `graphml`; for rows of one type it is `records`, `csv`,
    `parquet` or `frame`.
    """

    label: str
    form: str
    path: str = ""
    size_bytes: int = 0
    data: Given = None
    entity: Entity | None = None
    reading: Reading = Reading()


def check_sources(sources: Sources, catalog: Catalog) -> list[tuple[Input | None, Rows]]:
    """Return how rows of each source are read, None for envelopes. No file is looked at.

    Raises for mappings that no input could satisfy.
    """
    entries = [
        (None if name is None else _typed(name, rows, catalog), rows)
        for name, rows in _entries(sources)
    ]
    _check_duplicates([item for item, _rows in entries if item is not None])
    return entries


def find_inputs(
    sources: Sources, catalog: Catalog, *, within: frozenset[str] = frozenset()
) -> list[Input]:
    """Return the files and frames that sources mean, in input order.

    `within` are the mapping files that led here.
    """
    inputs: list[Input] = []
    frames: dict[str, int] = {}
    for typed, rows in check_sources(sources, catalog):
        if typed is None:
            inputs += _whole(_files(rows.data), catalog, within)
            continue
        if is_frame(rows.data):
            frames[typed.label] = frames.get(typed.label, 0) + 1
            number = frames[typed.label]
            label = typed.label if number == 1 else f"{typed.label} {number}"
            inputs.append(replace(typed, label=label, data=rows.data))
            continue
        for file in _files(rows.data):
            form = form_of(file.name)
            if form == "graphml":
                raise BadRequestError(
                    f"{file.name}: GraphML names types itself",
                    hint="give the file alone, without a type",
                )
            inputs.append(_file_input(typed, file, "records" if form == "jsonl" else form))
    return inputs


def _entries(sources: Sources) -> Iterator[tuple[str | None, Rows]]:
    """Yield rows with their type; files of envelopes have none."""
    if isinstance(sources, Mapping):
        for name, given in sources.items():
            several = isinstance(given, list | tuple) and any(isinstance(i, Rows) for i in given)
            for item in given if several else [given]:
                rows = item if isinstance(item, Rows) else Rows(data=item)
                if rows.type not in (None, name):
                    raise BadRequestError(f"rows of {rows.type} are given for {name}")
                yield name, rows
        return
    if isinstance(sources, Rows):
        sources = [sources]
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    listed: object = sources
    if not isinstance(listed, Sequence) or isinstance(listed, bytes):
        raise _not_loadable(listed)
    for item in listed:
        if not isinstance(item, Rows):
            yield None, Rows(data=item)
        elif item.type is None:
            raise BadRequestError("rows do not say of which type they are", hint="give `type`")
        else:
            yield item.type, item


def _check_duplicates(inputs: Sequence[Input]) -> None:
    """All inputs of a type say the same about entities that stand in several records."""
    policies: dict[str, str] = {}
    for item in inputs:
        if item.entity is None:
            continue
        said = policies.setdefault(item.entity.name, item.reading.duplicates)
        if said != item.reading.duplicates:
            raise BadRequestError(
                f"inputs of {item.entity.name} differ about duplicates: {said} and "
                f"{item.reading.duplicates}"
            )


def sources_bytes(sources: Sources) -> int:
    """Return how much there is to read, as far as that can be told without reading."""
    given = [rows.data for _name, rows in _entries(sources)]
    return sum(file.size_bytes for data in given if not is_frame(data) for file in _files(data))


def is_frame(data: Given) -> bool:
    """Tell frames from paths."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch)
        or _is_lazy(data)
        or isinstance(data, Iterator)
        or (isinstance(data, list | tuple) and bool(data) and isinstance(data[0], Mapping))
        or hasattr(data, "mapInArrow")
        or hasattr(data, "__arrow_c_stream__")
        or type(data).__module__.startswith("pandas")
    )


def as_arrow(table: Given) -> pa.Table:
    """Return a pandas, polars, Spark or Arrow frame as an Arrow table."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if hasattr(table, "mapInArrow"):
        return table.toArrow()
    if _is_lazy(table):
        return pa.table(table.collect())
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    if type(table).__module__.startswith("pandas"):
        return pa.Table.from_pandas(table, preserve_index=False)
    if isinstance(table, Iterable) and not isinstance(table, str | bytes | Mapping):
        return _table_of_rows(list(table))
    raise _not_loadable(table)


def held(sources: Sources) -> Sources:
    """Return sources that can be read again: what iterators yield is taken out of them once."""
    if isinstance(sources, Mapping):
        return {name: _held(given) for name, given in sources.items()}
    if isinstance(sources, Sequence) and not isinstance(sources, str):
        return [_held(given) for given in sources]
    return _held(sources) if isinstance(sources, Rows) else sources


def _held(given: Given) -> Given:
    if isinstance(given, Rows):
        return replace(given, data=_held(given.data))
    if isinstance(given, list | tuple) and any(isinstance(item, Rows) for item in given):
        return [_held(item) for item in given]
    return as_arrow(given) if isinstance(given, Iterator) else given


def _is_lazy(data: object) -> bool:
    return type(data).__name__ == "LazyFrame" and type(data).__module__.startswith("polars")


def _table_of_rows(rows: list[Given]) -> pa.Table:
    """Return dictionaries as a table; a name that some lack is null there."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise BadRequestError(
                f"row {number} is {_a(row)}", hint="give a dictionary for each row"
            )
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.table({str(name): _column([row.get(name) for row in rows]) for name in names})
    except (pa.ArrowException, OverflowError) as error:
        raise BadRequestError(f"the rows do not fit one table: {error}") from error


def _column(values: list[object]) -> pa.Array:
    try:
        return pa.array(values)
    except OverflowError:
        # Numbers above those with a sign: a property may be of type U64.
        return pa.array(values, pa.uint64())


def _not_loadable(given: object) -> BadRequestError:
    return BadRequestError(
        f"cannot load {_a(given)}",
        hint="give a file, an Arrow, pandas or polars frame, or dictionaries",
    )


def _a(given: object) -> str:
    return with_article(type(given).__name__)


def _whole(files: list[FoundFile], catalog: Catalog, within: frozenset[str]) -> list[Input]:
    """Return the files of a path as inputs; a mapping among them says what the others are."""
    mapping = _mapping_in(files)
    if mapping is None:
        return [_by_name(file, catalog) for file in files]
    return find_inputs(_mapped(mapping, within), catalog, within=within | {mapping})


def _mapping_in(files: list[FoundFile]) -> str | None:
    names = (file.name for file in files)
    return next((name for name in names if os.path.basename(name) == MAPPING_FILE), None)


def _mapped(mapping: str, within: frozenset[str]) -> Sources:
    """Return what a mapping file names, unless that led to it."""
    if mapping in within:
        raise BadRequestError(
            f"{mapping} names the folder that holds it", hint="name the files, not their folder"
        )
    return read_mapping(mapping)


def _by_name(file: FoundFile, catalog: Catalog) -> Input:
    """Return a file as an input; rows are of the type that the file is named after."""
    form = form_of(file.name)
    if form in ("jsonl", "graphml"):
        return _file_input(Input(label="", form=""), file, form)
    name = os.path.basename(file.name).split(".")[0]
    if catalog.find_entity(name) is None:
        raise BadRequestError(
            f"{file.name} does not say of which type its rows are",
            hint="name the file as the type, or give a mapping of type names to files; "
            "on the command line --data Type=FILE",
        )
    return _file_input(_typed(name, Rows(data=None), catalog), file, form)


def _file_input(item: Input, file: FoundFile, form: str) -> Input:
    name = file.name
    return replace(item, label=name, form=form, path=name, size_bytes=file.size_bytes)


def _typed(name: str, rows: Rows, catalog: Catalog) -> Input:
    entity = catalog.entity_named(name)
    if rows.duplicates not in DUPLICATES:
        raise BadRequestError(
            f"unknown value of duplicates {rows.duplicates!r}", hint=f"use {', '.join(DUPLICATES)}"
        )
    for what, mark in (("delimiter", rows.delimiter), ("quote", rows.quote)):
        if len(mark) != 1 or mark in "\r\n":
            raise BadRequestError(f"the {what} of a CSV file is one character, not {mark!r}")
    ignored = rows.ignore
    reading = Reading(
        shape=Shape(
            columns=tuple(rows.columns.items()),
            computed=tuple(rows.compute.items()),
            constants=tuple(rows.constants.items()),
            where=rows.where,
            ignored=ignored if isinstance(ignored, bool) else tuple(ignored),
        ),
        csv=CsvForm(
            delimiter=rows.delimiter,
            quote=rows.quote,
            nulls=(rows.null,) if isinstance(rows.null, str) else tuple(rows.null),
            header=tuple(rows.header),
        ),
        from_col=rows.from_col,
        to_col=rows.to_col,
        op_col=rows.op_col,
        seq_col=rows.seq_col,
        duplicates=rows.duplicates,
    )
    check_shape(reading.shape, entity, reading.known(entity, events=True), "the mapping")
    return Input(label=f"the {name} frame", form="frame", entity=entity, reading=reading)


def _files(given: object) -> list[FoundFile]:
    """Return the files that paths, folders and globs mean, each group sorted by name."""
    if not isinstance(given, str | os.PathLike):
        if not isinstance(given, Sequence) or isinstance(given, bytes):
            raise _not_loadable(given)
        return [file for item in given for file in _files(item)]
    text = os.fspath(given)
    place = text if is_object(text) else os.path.abspath(text)
    files = find_files(place, frozenset((*FORMS, ".toml")))
    if files is not None:
        tables = [file for file in files if not file.name.endswith(".toml")]
        mappings = [file for file in files if os.path.basename(file.name) == MAPPING_FILE]
        files = mappings + tables or (None if os.path.isdir(place) else files)
    if files is None:
        raise NotFoundError(f"no {_FORMS_TEXT} files in {text}")
    if not files:
        raise NotFoundError(f"file not found: {text}")
    return files


def form_of(path: str) -> str:
    """Return what kind of file a name means."""
    stem, suffix = os.path.splitext(path.lower())
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1] + suffix
    if suffix not in FORMS:
        tabs = suffix in (".tsv", ".tab")
        raise BadRequestError(
            f"{path}: unknown kind of file",
            hint="call it .csv, and name its delimiter in a mapping"
            if tabs
            else f"known are {_FORMS_TEXT}",
        )
    return FORMS[suffix]


def source_files(sources: Sources, *, within: frozenset[str] = frozenset()) -> list[FoundFile]:
    """Return every file with what tells it from what it was before."""
    all_files: list[FoundFile] = []
    for name, rows in _entries(sources):
        if is_frame(rows.data):
            continue
        files = _files(rows.data)
        all_files += files
        mapping = _mapping_in(files) if name is None else None
        if mapping is not None:
            all_files += source_files(_mapped(mapping, within), within=within | {mapping})
    return all_files

"""What a load reads: files and frames, named by paths, globs and types."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.catalog import Catalog, EdgeType, Entity
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.intake.mapping import MAPPING_FILE, read_mapping
from omnigraph.store import FoundFile, find_files, is_object

Path = str | os.PathLike[str]
FORMS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".graphml": "graphml",
}
_WHOLE = {
    "jsonl": "lines of JSON name their type themselves",
    "graphml": "GraphML names types itself",
}


class Rows(Struct, frozen=True, kw_only=True):
    """Rows of one type.

    >>> rows = og.Rows(data=[{"key": "t3", "title": "Rest"}], columns={"key": "slug"})
    >>> graph.bulk({"Task": rows}, mode="append").nodes
    {'Task': 1}

    `data` is a CSV or Parquet file, a folder or glob of such files, several of these, or a frame:
    Arrow, pandas, polars or Spark. `columns` maps names of the input to properties; `from_col` and
    `to_col` name, after that, the columns with the ends of an edge. For events (`mode="apply"`)
    `op_col` names the column that says what happened, `seq_col` one that orders them. `null` is the
    text of a CSV file that means null.
    """

    data: Any
    columns: Mapping[str, str] = field(default_factory=dict)
    from_col: str = "from"
    to_col: str = "to"
    op_col: str = "op"
    seq_col: str | None = None
    null: str = ""


Sources = Path | Sequence[Path] | Mapping[str, Any]


class Input(Struct, frozen=True, kw_only=True):
    """One file or frame; a frame has no path and no size, and envelopes have no type."""

    label: str
    form: str
    path: str = ""
    size_bytes: int = 0
    data: Any = None
    entity: Entity | None = None
    columns: tuple[tuple[str, str], ...] = ()
    from_col: str = "from"
    to_col: str = "to"
    op_col: str = "op"
    seq_col: str | None = None
    null: str = ""

    def renamed(self, frame: Any) -> Any:
        """Return a frame with the names of properties."""
        names = dict(self.columns)
        return frame.rename_columns([names.get(name, name) for name in frame.column_names])


def find_inputs(sources: Sources, catalog: Catalog) -> list[Input]:
    """Return the files and frames that sources mean, in input order."""
    if not isinstance(sources, Mapping):
        paths = [sources] if isinstance(sources, str | os.PathLike) else sources
        return [item for path in paths for item in _whole(_files(path), catalog)]
    found: list[Input] = []
    for name, given in sources.items():
        rows = given if isinstance(given, Rows) else Rows(data=given)
        typed = _typed(name, rows, catalog)
        if is_frame(rows.data):
            found.append(replace(typed, data=rows.data))
            continue
        for file in _files(rows.data):
            form = form_of(file.name)
            if form in _WHOLE:
                raise BadRequestError(
                    f"{file.name}: {_WHOLE[form]}",
                    hint="give the file alone, without a type",
                )
            found.append(_named(typed, file, form))
    return found


def sources_bytes(sources: Sources) -> int:
    """Return how much there is to read, as far as that can be told without reading."""
    given = sources.values() if isinstance(sources, Mapping) else [sources]
    total = 0
    for item in given:
        data = item.data if isinstance(item, Rows) else item
        if not is_frame(data):
            total += sum(file.size_bytes for file in _files(data))
    return total


def is_frame(data: Any) -> bool:
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


def as_arrow(table: Any) -> Any:
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
    if not isinstance(sources, Mapping):
        return sources
    return {name: _held(given) for name, given in sources.items()}


def _held(given: Any) -> Any:
    if isinstance(given, Rows):
        return replace(given, data=_held(given.data))
    return as_arrow(given) if isinstance(given, Iterator) else given


def _is_lazy(data: Any) -> bool:
    return type(data).__name__ == "LazyFrame" and type(data).__module__.startswith("polars")


def _table_of_rows(rows: list[Any]) -> Any:
    """Return dictionaries as a table; a name that some lack is null there."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise BadRequestError(
                f"row {number} is {_a(row)}", hint="give a dictionary for each row"
            )
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.table({str(name): pa.array([row.get(name) for row in rows]) for name in names})
    except pa.ArrowException as error:
        raise BadRequestError(f"the rows do not fit one table: {error}") from error


def _not_loadable(given: object) -> BadRequestError:
    return BadRequestError(
        f"cannot load {_a(given)}",
        hint="give a file, an Arrow, pandas or polars frame, or dictionaries",
    )


def _a(given: object) -> str:
    name = type(given).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _whole(files: list[FoundFile], catalog: Catalog) -> list[Input]:
    """Return the files of a path as inputs; a mapping among them says what the others are."""
    for file in files:
        if os.path.basename(file.name) == MAPPING_FILE:
            mapped = {name: Rows(**given) for name, given in read_mapping(file.name).items()}
            return find_inputs(mapped, catalog)
    return [_by_name(file, catalog) for file in files]


def _by_name(file: FoundFile, catalog: Catalog) -> Input:
    """Return a file as an input; rows are of the type that the file is named after."""
    form = form_of(file.name)
    if form in _WHOLE:
        return _named(Input(label="", form=""), file, form)
    name = os.path.splitext(os.path.basename(file.name))[0]
    if catalog.find_entity(name) is None:
        raise BadRequestError(
            f"{file.name} does not say of which type its rows are",
            hint="name the file as the type, or give a mapping of type names to files; "
            "on the command line --data Type=FILE",
        )
    return _named(_typed(name, Rows(data=None), catalog), file, form)


def _named(item: Input, file: FoundFile, form: str) -> Input:
    name = file.name
    return replace(item, label=name, form=form, path=name, size_bytes=file.size_bytes)


def _typed(name: str, rows: Rows, catalog: Catalog) -> Input:
    entity = catalog.entity_named(name)
    known = {"id", rows.op_col, rows.seq_col, *entity.properties}
    if isinstance(entity, EdgeType):
        known |= {rows.from_col, rows.to_col}
    for column, target in rows.columns.items():
        if target not in known:
            raise BadRequestError(f"column '{column}' maps to '{target}', which {name} lacks")
    return Input(
        label=f"the {name} frame",
        form="frame",
        entity=entity,
        columns=tuple(rows.columns.items()),
        from_col=rows.from_col,
        to_col=rows.to_col,
        op_col=rows.op_col,
        seq_col=rows.seq_col,
        null=rows.null,
    )


def _files(given: Any) -> list[FoundFile]:
    """Return the files that paths, folders and globs mean, each group sorted by name."""
    if not isinstance(given, str | os.PathLike):
        if not isinstance(given, Sequence) or isinstance(given, bytes):
            raise _not_loadable(given)
        return [file for item in given for file in _files(item)]
    text = os.fspath(given)
    place = text if is_object(text) else os.path.abspath(text)
    found = find_files(place, frozenset((*FORMS, ".toml")))
    if found is not None:
        tables = [file for file in found if not file.name.endswith(".toml")]
        mappings = [file for file in found if os.path.basename(file.name) == MAPPING_FILE]
        found = mappings + tables or (None if os.path.isdir(place) else found)
    if found is None:
        raise NotFoundError(f"no {', '.join(FORMS)} files in {text}")
    if not found:
        raise NotFoundError(f"file not found: {text}")
    return found


def form_of(path: str) -> str:
    """Return what kind of file a name means."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in FORMS:
        raise BadRequestError(f"{path}: unknown kind of file", hint=f"known are {', '.join(FORMS)}")
    return FORMS[suffix]

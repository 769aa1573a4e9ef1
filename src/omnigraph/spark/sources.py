"""What a parallel load reads: files cut into pieces, and frames."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog import Catalog, EdgeType
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.limits import SPARK_FRAME_ROWS, SPARK_PIECE_BYTES
from omnigraph.spark.tasks import Piece, bundled

Path = str | os.PathLike[str]
FORMS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one type.

    `data` is a CSV or Parquet file, a folder or glob of such files, several of these, or a Spark
    frame. `columns` maps names of the input to properties; `from_col` and `to_col` name, after
    that, the columns with the ends of an edge.
    """

    data: Any
    columns: Mapping[str, str] = field(default_factory=dict)
    from_col: str = "from"
    to_col: str = "to"


Sources = Path | Sequence[Path] | Mapping[str, Any]


def plan(
    sources: Sources, catalog: Catalog, piece_bytes: int = SPARK_PIECE_BYTES
) -> tuple[list[Piece], list[tuple[Piece, Any]]]:
    """Return the pieces of all files, in input order, and the frames."""
    pieces: list[Piece] = []
    frames: list[tuple[Piece, Any]] = []
    if not isinstance(sources, Mapping):
        for path in _paths(sources):
            if _form(path) != "jsonl":
                raise BadRequestError(
                    f"{path} does not say of which type its rows are",
                    hint="give a mapping of type names to files",
                )
            pieces += _cut(Piece(label=path, form="jsonl", path=path), piece_bytes)
        return pieces, frames
    for name, given in sources.items():
        rows = given if isinstance(given, Rows) else Rows(data=given)
        base = _typed_piece(name, rows, catalog)
        if hasattr(rows.data, "mapInArrow"):
            frames.append((base, rows.data))
            continue
        for path in _paths(rows.data):
            form = _form(path)
            if form == "jsonl":
                raise BadRequestError(
                    f"{path}: lines of JSON name their type themselves",
                    hint="give the file alone, without a type",
                )
            pieces += _cut(replace(base, label=path, form=form, path=path), piece_bytes)
    return pieces, frames


def _typed_piece(name: str, rows: Rows, catalog: Catalog) -> Piece:
    entity = catalog.nodes.get(name) or catalog.edges.get(name)
    if entity is None:
        raise NotFoundError(f"unknown type '{name}'")
    known = {"id", *entity.properties}
    if isinstance(entity, EdgeType):
        known |= {rows.from_col, rows.to_col}
    for column, target in rows.columns.items():
        if target not in known:
            raise BadRequestError(f"column '{column}' maps to '{target}', which {name} lacks")
    return Piece(
        label=f"the {name} frame",
        form="frame",
        type_name=name,
        columns=tuple(rows.columns.items()),
        from_col=rows.from_col,
        to_col=rows.to_col,
    )


def _paths(given: Any) -> list[str]:
    """Return the files that paths, folders and globs mean, each group sorted by name."""
    if not isinstance(given, str | os.PathLike):
        if not isinstance(given, Sequence) or isinstance(given, bytes):
            raise BadRequestError(f"cannot load a {type(given).__name__} on Spark")
        return [path for item in given for path in _paths(item)]
    text = os.path.abspath(os.fspath(given))
    if os.path.isdir(text):
        found = sorted(
            os.path.join(text, name)
            for name in os.listdir(text)
            if os.path.splitext(name)[1] in FORMS
        )
        if not found:
            raise NotFoundError(f"no {', '.join(FORMS)} files in {os.fspath(given)}")
        return found
    if os.path.exists(text):
        return [text]
    found = sorted(path for path in glob.glob(text) if os.path.isfile(path))
    if not found:
        raise NotFoundError(f"file not found: {os.fspath(given)}")
    return found


def _form(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in FORMS:
        raise BadRequestError(f"{path}: unknown kind of file", hint=f"known are {', '.join(FORMS)}")
    return FORMS[suffix]


def _cut(whole: Piece, piece_bytes: int) -> Iterator[Piece]:
    if whole.form == "csv":
        yield whole
    elif whole.form == "jsonl":
        size = os.path.getsize(whole.path)
        for start in range(0, size, piece_bytes):
            yield replace(whole, start=start, stop=min(start + piece_bytes, size))
    else:
        try:
            found = pq.read_metadata(whole.path)
        except pa.ArrowInvalid as error:
            raise BadRequestError(f"{whole.path} is no Parquet file: {error}") from error
        sizes = [found.row_group(index).num_rows for index in range(found.num_row_groups)]
        for group in bundled(sizes, SPARK_FRAME_ROWS):
            yield replace(whole, start=group[0], stop=group[-1] + 1)

"""Records of one input before they become rows of a type: CSV, lines of JSON, or columns."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.compute.types import Column
from omnigraph.errors import BadRequestError
from omnigraph.rows.problems import Problem, Problems
from omnigraph.store import open_file

_BOM = b"\xef\xbb\xbf"
MISSING = msgspec.UNSET
"""A member that a record does not have."""


class CsvForm(Struct, frozen=True, kw_only=True):
    """How a CSV file is written. Without `header` its first record names the columns."""

    delimiter: str = ","
    quote: str = '"'
    nulls: tuple[str, ...] = ("",)
    header: tuple[str, ...] = ()


class Records(Struct, kw_only=True):
    """Some records with the lines they stand on: columns, or the members of JSON objects.

    `texts` says that all values are texts of a CSV file, whose meaning the type decides.
    """

    lines: NDArray[np.int64]
    table: pa.Table | None = None
    objects: list[dict[str, object]] | None = None
    texts: bool = False

    @property
    def size(self) -> int:
        """How many records there are."""
        return len(self.lines)

    @property
    def size_bytes(self) -> int:
        """How much memory columns take; 0 for objects."""
        return 0 if self.table is None else int(self.table.nbytes)

    def names(self) -> list[str]:
        """Return the columns, or all members that occur."""
        if self.table is not None:
            return list(self.table.column_names)
        return list(dict.fromkeys(name for item in self.objects or () for name in item))

    def column(self, path: str) -> Column | None:
        """Return a column, or a field inside one, of records that came as columns."""
        if self.objects is not None:
            return None
        return _arrow_column(self.table, path)

    def values(self, path: str) -> list[object] | None:
        """Return the values of a column, None if there is none; members may be missing."""
        if self.objects is not None:
            return [_member(item, path) for item in self.objects]
        column = _arrow_column(self.table, path)
        return None if column is None else list(column.to_pylist())

    def chosen(self, keep: NDArray[np.bool_]) -> Records:
        """Return some of the records, by a mask."""
        return Records(
            lines=np.asarray(self.lines)[keep],
            table=None if self.table is None else self.table.filter(pa.array(keep)),
            objects=None
            if self.objects is None
            else [item for item, kept in zip(self.objects, keep.tolist(), strict=True) if kept],
            texts=self.texts,
        )


class Chunk(Struct, frozen=True, kw_only=True):
    """Some records of an input, the number of lines up to their end, and what is wrong with them.

    After a `broken` chunk the rest of the input could not be read.
    """

    records: Records
    lines: int
    problems: Problems
    broken: bool = False


def joined_records(parts: Sequence[Records]) -> Records:
    """Return records of one input, which came some at a time, all together."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    return Records(
        lines=np.concatenate([item.lines for item in parts]),
        table=None if first.table is None else pa.concat_tables([item.table for item in parts]),
        objects=None
        if first.objects is None
        else [one for item in parts for one in item.objects or ()],
        texts=first.texts,
    )


def _arrow_column(table: pa.Table, path: str) -> Column | None:
    if path in table.column_names:
        return table[path]
    first, *rest = path.split(".")
    if first not in table.column_names:
        return None
    column = table[first]
    for name in rest:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, name)
    return column


def _member(item: dict[str, object], path: str) -> object:
    if path in item or "." not in path:
        return item.get(path, MISSING)
    value: object = item
    for name in path.split("."):
        if value is None:
            return None
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
        if value is MISSING:
            return MISSING
    return value


# ---- files --------------------------------------------------------------------------------


def is_compressed(path: str) -> bool:
    """Whether a file is compressed, which its name tells."""
    return path.lower().endswith(".gz")


@contextlib.contextmanager
def open_input(path: str) -> Iterator[IO[bytes]]:
    """Open a file to be read from its beginning, decompressed."""
    with open_file(path) as handle:
        if not is_compressed(path):
            yield handle
            return
        try:
            yield cast("IO[bytes]", gzip.GzipFile(fileobj=handle))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadRequestError(f"{path} cannot be decompressed: {error}") from error


def json_records(
    texts: Sequence[bytes],
    first: int,
    problems: Problems,
    *,
    skip: Callable[[int], bool] | None = None,
) -> Records:
    """Return lines of JSON as records; `first` is the number of the first line."""
    objects: list[dict[str, object]] = []
    lines: list[int] = []
    for line, text in enumerate(texts, first):
        given = text.removeprefix(_BOM) if line == 1 else text
        if not given.strip() or (skip is not None and skip(line)):
            continue
        try:
            record = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = str(error).removeprefix("JSON is malformed: ")
            problems.add(Problem(message=f"not valid JSON: {reason}", line=line))
            continue
        if not isinstance(record, dict):
            problems.add(Problem(message="expected a JSON object", line=line))
            continue
        objects.append(record)
        lines.append(line)
    return Records(lines=np.array(lines, dtype=np.int64), objects=objects)

"""Records of one input before they become rows of a type: CSV, lines of JSON, or columns."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.errors import BadRequestError
from omnigraph.limits import LINE_BYTES_MAX
from omnigraph.rows.problems import Problem, Problems
from omnigraph.store import open_file

_BOM = b"\xef\xbb\xbf"
MISSING: Any = msgspec.UNSET
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

    lines: Any
    table: Any = None
    objects: list[dict[str, Any]] | None = None
    texts: bool = False

    @property
    def size(self) -> int:
        """How many records there are."""
        return len(self.lines)

    def names(self) -> list[str]:
        """Return the columns, or all members that occur."""
        if self.objects is None:
            return list(self.table.column_names)
        return list(dict.fromkeys(name for item in self.objects for name in item))

    def column(self, path: str) -> Any | None:
        """Return a column, or a field inside one, of records that came as columns."""
        if self.objects is not None:
            return None
        return _arrow_column(self.table, path)

    def values(self, path: str) -> list[Any] | None:
        """Return the values of a column, None if there is none; members may be missing."""
        if self.objects is not None:
            return [_member(item, path) for item in self.objects]
        found = _arrow_column(self.table, path)
        return None if found is None else list(found.to_pylist())

    def chosen(self, keep: Any) -> Records:
        """Return some of the records, by a mask."""
        return Records(
            lines=np.asarray(self.lines)[keep],
            table=None if self.table is None else self.table.filter(pa.array(keep)),
            objects=None
            if self.objects is None
            else [item for item, kept in zip(self.objects, keep.tolist(), strict=True) if kept],
            texts=self.texts,
        )


def _arrow_column(table: Any, path: str) -> Any | None:
    if path in table.column_names:
        return table[path]
    first, *rest = path.split(".")
    if first not in table.column_names:
        return None
    found = table[first]
    for name in rest:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(name) < 0:
            return None
        found = pc.struct_field(found, name)
    return found


def _member(item: dict[str, Any], path: str) -> Any:
    if path in item or "." not in path:
        return item.get(path, MISSING)
    found: Any = item
    for name in path.split("."):
        if found is None:
            return None
        found = found.get(name, MISSING) if isinstance(found, dict) else MISSING
        if found is MISSING:
            return MISSING
    return found


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
    objects: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, text in enumerate(texts, first):
        given = text.removeprefix(_BOM) if line == 1 else text
        if not given.strip() or (skip is not None and skip(line)):
            continue
        try:
            found = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            reason = str(error).removeprefix("JSON is malformed: ")
            problems.add(Problem(message=f"not valid JSON: {reason}", line=line))
            continue
        if not isinstance(found, dict):
            problems.add(Problem(message="expected a JSON object", line=line))
            continue
        objects.append(found)
        lines.append(line)
    return Records(lines=np.array(lines, dtype=np.int64), objects=objects)


def csv_records(
    raw: bytes, form: CsvForm, problems: Problems, *, skip: Callable[[int], bool] | None = None
) -> tuple[Records, int]:
    """Return the records of a CSV file, as texts, and the number of its lines."""
    try:
        text = raw.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(Problem(message=f"not valid UTF-8 ({error.reason})", line=line))
        return Records(lines=np.array([], np.int64), table=pa.table({})), raw.count(b"\n") + 1
    header, rows, lines, end = _csv_rows(text, form, problems, skip)
    twice = [name for at, name in enumerate(header) if name in header[:at]]
    for name in dict.fromkeys(twice):
        problems.add(Problem(message=f"column '{name}' appears twice", field=name))
    if twice:
        return Records(lines=np.array([], np.int64), table=pa.table({})), end
    nulls = frozenset(form.nulls)
    columns = [
        pa.array([None if row[at] in nulls else row[at] for row in rows], pa.string())
        for at in range(len(header))
    ]
    table = pa.Table.from_arrays(columns, names=header)
    found = Records(lines=np.array(lines, np.int64), table=table, texts=True)
    return found, end


def _csv_rows(
    text: str, form: CsvForm, problems: Problems, skip: Callable[[int], bool] | None
) -> tuple[list[str], list[list[str]], list[int], int]:
    """Split CSV text; a record's line is the one it starts on. The last number is where it ends."""
    # The module refuses long values by a limit that all its readers share; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES_MAX))
    reader = csv.reader(
        io.StringIO(text, newline=""), strict=True, delimiter=form.delimiter, quotechar=form.quote
    )
    header = list(form.header)
    records: list[list[str]] = []
    lines: list[int] = []
    start = 1
    try:
        for record in reader:
            line, start = start, reader.line_num + 1
            if not record:
                continue
            if not header:
                header = record
            elif skip is not None and skip(line):
                continue
            elif len(record) != len(header):
                message = f"expected {len(header)} values, got {len(record)}"
                problems.add(Problem(message=message, line=line))
            else:
                records.append(record)
                lines.append(line)
    except csv.Error as error:
        problems.add(Problem(message=f"not valid CSV: {error}", line=start))
    return header, records, lines, max(start, reader.line_num)

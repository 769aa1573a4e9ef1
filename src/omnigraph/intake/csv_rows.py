"""CSV files as columns of a type: strict, and exact about what is wrong where."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.catalog import FLOATS, INTEGERS, Entity, PropertyType, Scalar
from omnigraph.limits import LINE_BYTES_MAX
from omnigraph.rows.convert import Report, column_array
from omnigraph.rows.problems import Problem, Problems

_BOM = b"\xef\xbb\xbf"
_INTEGER = re.compile(r"[+-]?[0-9]+")


def csv_columns(
    entity: Entity,
    raw: bytes,
    renames: Sequence[tuple[str, str]],
    problems: Problems,
    *,
    null: str = "",
    skip: Callable[[int], bool] | None = None,
) -> tuple[Any, list[int], int]:
    """Return a file's records as a frame, the line each starts on, and the number of lines.

    A value that is `null`, with or without quotes, is null. `skip` tells lines to leave out.
    """
    try:
        text = raw.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(Problem(message=f"not valid UTF-8 ({error.reason})", line=line))
        return pa.table({}), [], raw.count(b"\n") + 1
    header, records, lines = _records(text, problems, skip)
    names = dict(renames)
    columns: list[Any] = []
    for index, given in enumerate(header):
        name = names.get(given, given)
        texts = [None if record[index] == null else record[index] for record in records]
        declared = entity.properties.get(name)
        if declared is None:
            columns.append(pa.array(texts, pa.string()))
            continue

        def report(row: int, message: str, field: str = name) -> None:
            problems.add(
                Problem(
                    message=f"property '{field}': {message}",
                    type_name=entity.name,
                    field=field,
                    line=lines[row],
                )
            )

        columns.append(text_array(texts, declared.type, report))
    return pa.Table.from_arrays(columns, names=header), lines, text.count("\n") + 1


def text_array(texts: Sequence[str | None], declared: PropertyType, report: Report) -> Any:
    """Return texts as a column of a type; what a text cannot mean is reported, and null."""
    values = [_value(item, declared, row, report) for row, item in enumerate(texts)]
    return column_array(values, declared, report)


def _records(
    text: str, problems: Problems, skip: Callable[[int], bool] | None
) -> tuple[list[str], list[list[str]], list[int]]:
    """Split CSV text; a record's line is the one it starts on."""
    # The module refuses long values by a limit that all its readers share; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES_MAX))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
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
    return header, records, lines


def _value(text: str | None, declared: PropertyType, row: int, report: Report) -> Any:
    """Return what a text of a CSV file means for a type; what it cannot mean is reported."""
    if text is None:
        return None
    try:
        return _meaning(text, declared)
    except ValueError:
        report(row, f"{text!r} is not of type {declared}")
        return None


def _meaning(text: str, declared: PropertyType) -> Any:
    scalar = declared.scalar
    if declared.is_list or scalar is Scalar.VECTOR:
        found = json.loads(text)
        if not isinstance(found, list) or None in found:
            raise ValueError
        return found
    if scalar is Scalar.BOOL:
        if text not in ("true", "false"):
            raise ValueError
        return text == "true"
    if scalar in INTEGERS:
        if not _INTEGER.fullmatch(text):
            raise ValueError
        return int(text)
    if scalar in FLOATS:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError
        return number
    return text

"""CSV files: read some records at a time, and cut between records.

A quoted value may hold line breaks, so where a record starts depends on all quotes before it. Right
after a line break, though, a reader is either between two records or inside a quoted value, and
nothing else. So a stretch of lines is read both ways, by the worker that holds it; put together
from the beginning of the file, the answers tell which way was right for each stretch.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.intake.records import Chunk, CsvForm, Records
from omnigraph.limits import (
    LINE_BYTES_MAX,
    LOAD_BLOCK_BYTES,
    LOAD_CHUNK_BYTES,
    PROBLEMS_MAX,
    SPARK_FRAME_ROWS,
)
from omnigraph.rows.problems import Problem, Problems

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

_BOM = b"\xef\xbb\xbf"
Skip = Callable[[int], bool] | None


# ---- reading ------------------------------------------------------------------------------


def csv_chunks(
    handle: IO[bytes],
    form: CsvForm,
    *,
    header: Sequence[str] | None = None,
    size_bytes: int | None = None,
    skip: Skip = None,
    problems_max: int = PROBLEMS_MAX,
    chunk_bytes: int = LOAD_CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Yield the records of a CSV file, as texts; a record's line is the one it starts on.

    With a `header` the file is read from its middle on, where a record starts; `size_bytes` says
    how much of it. `skip` tells lines to leave out.
    """
    lines = _Lines(handle, at_start=header is None, size_bytes=size_bytes)
    reading = _Reading(lines, form, header, skip, problems_max)
    while (chunk := reading.next_chunk(chunk_bytes)) is not None:
        yield chunk


def csv_header(handle: IO[bytes], form: CsvForm, size_bytes: int | None = None) -> list[str]:
    """Return the names of the columns, from the first bytes; none if they cannot be read."""
    if form.header:
        return list(form.header)
    reader = csv_reader(_Lines(handle, at_start=True, size_bytes=size_bytes), form)
    try:
        return next((record for record in reader if record), [])
    except (csv.Error, UnicodeDecodeError):
        return []


def csv_reader(lines: Iterable[str], form: CsvForm) -> CsvReader:
    """Return Python's reader for a form."""
    # The module refuses long values by a limit that all its readers share; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES_MAX))
    return csv.reader(lines, strict=True, delimiter=form.delimiter, quotechar=form.quote)


class _Lines:
    """The lines of a file as text; they end at line feeds, carriage returns, or both."""

    def __init__(self, handle: IO[bytes], *, at_start: bool, size_bytes: int | None = None) -> None:
        self._handle = handle
        self._first = at_start
        self._left = sys.maxsize if size_bytes is None else size_bytes
        self._rest = b""
        self._lines: Iterator[str] = iter(())
        self._failure: UnicodeDecodeError | None = None
        self.size_bytes = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines, None)
        while line is None:
            self._read()
            line = next(self._lines, None)
        return line

    def _read(self) -> None:
        """Take in the next whole lines. Raises what is wrong with the line after the last one."""
        if self._failure is not None:
            raise self._failure
        raw = self._block()
        if not raw:
            raise StopIteration
        self.size_bytes += len(raw)
        if self._first:
            raw, self._first = raw.removeprefix(_BOM), False
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            self._failure = error
            start = max(raw.rfind(b"\n", 0, error.start), raw.rfind(b"\r", 0, error.start)) + 1
            text = raw[:start].decode()
        self._lines = iter(io.StringIO(text, newline=""))

    def _block(self) -> bytes:
        """Return bytes up to the end of a line."""
        parts, self._rest = [self._rest], b""
        while block := self._handle.read(min(LOAD_BLOCK_BYTES, self._left)):
            self._left -= len(block)
            # A carriage return at the very end may belong to a line feed.
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
            parts.append(block[:cut] if cut else block)
            if cut:
                self._rest = block[cut:]
                break
        return b"".join(parts)


class _Reading:
    def __init__(
        self,
        lines: _Lines,
        form: CsvForm,
        header: Sequence[str] | None,
        skip: Skip,
        problems_max: int,
    ) -> None:
        self._lines = lines
        self._reader = csv_reader(self._lines, form)
        self._header = list(form.header if header is None else header)
        self._nulls = frozenset(form.nulls)
        self._skip = skip
        self._problems_max = problems_max
        self._start = 1
        self._ended = False
        self._first = True

    def next_chunk(self, chunk_bytes: int) -> Chunk | None:
        """Return the next records; None after the last ones."""
        if self._ended:
            return None
        problems = Problems(limit=self._problems_max)
        rows: list[list[str]] = []
        lines: list[int] = []
        broken = False
        end_bytes = self._lines.size_bytes + chunk_bytes
        try:
            self._read_rows(rows, lines, problems, end_bytes)
        except csv.Error as error:
            broken = True
            problems.add(Problem(message=f"not valid CSV: {error}", line=self._start))
        except UnicodeDecodeError as error:
            broken = True
            line = self._reader.line_num + 1
            problems.add(Problem(message=f"not valid UTF-8 ({error.reason})", line=line))
        self._ended |= broken
        if self._ended and not (rows or problems.items or self._first):
            return None
        self._first = False
        return Chunk(
            records=self._records(rows, lines, problems),
            lines=self._reader.line_num,
            problems=problems,
            broken=broken,
        )

    def _read_rows(
        self, rows: list[list[str]], lines: list[int], problems: Problems, end_bytes: int
    ) -> None:
        for record in self._reader:
            line, self._start = self._start, self._reader.line_num + 1
            if not record:
                continue
            if not self._header:
                self._header = record
            elif self._skip is not None and self._skip(line):
                continue
            elif len(record) != len(self._header):
                message = f"expected {len(self._header)} values, got {len(record)}"
                problems.add(Problem(message=message, line=line))
            else:
                rows.append(record)
                lines.append(line)
            if len(rows) >= SPARK_FRAME_ROWS or self._lines.size_bytes > end_bytes:
                return
        self._ended = True

    def _records(self, rows: list[list[str]], lines: list[int], problems: Problems) -> Records:
        header = self._header
        twice = [name for at, name in enumerate(header) if name in header[:at]]
        for name in dict.fromkeys(twice):
            problems.add(Problem(message=f"column '{name}' appears twice", field=name))
        if twice:
            self._ended = True
            return Records(lines=np.array([], np.int64), table=pa.table({}))
        nulls = self._nulls
        columns = [
            pa.array([None if row[at] in nulls else row[at] for row in rows], pa.string())
            for at in range(len(header))
        ]
        table = pa.Table.from_arrays(columns, names=header)
        return Records(lines=np.array(lines, np.int64), table=table, texts=True)


# ---- cutting ------------------------------------------------------------------------------


class Quotes(StrEnum):
    """Where a reader is, right after a line break."""

    OUTSIDE = "outside"
    INSIDE = "inside"
    BROKEN = "broken"


class Stretch(Struct, frozen=True, kw_only=True):
    """Lines of a CSV file, from byte `start` on, and where a reader is after them.

    `outside` and `inside` tell it for a reader that comes from there; for the latter, `record` is
    the first byte of the first record that starts in the stretch. `found_end` is False if no line
    ends near the end of the stretch. The first stretch of a file knows the names of its columns.
    """

    start: int
    outside: Quotes
    inside: Quotes
    record: int | None
    found_end: bool = True
    header: tuple[str, ...] = ()


def can_be_cut(form: CsvForm) -> bool:
    """Whether bytes tell delimiters and quotes from everything else."""
    return form.delimiter.isascii() and form.quote.isascii()


def scan_stretch(
    handle: IO[bytes], form: CsvForm, start: int, stop: int, size: int
) -> Stretch | None:
    """Look at the lines that begin in a range of bytes; None if no line begins near its start."""
    reach = stop - start
    begin = 0 if start == 0 else _after_break(handle, start, reach)
    if begin is None:
        return None
    end = size if stop >= size else _after_break(handle, stop, reach)
    header: tuple[str, ...] = ()
    if not begin:
        handle.seek(0)
        header = tuple(csv_header(handle, form))
    stretch = Stretch(
        start=begin,
        outside=Quotes.OUTSIDE,
        inside=Quotes.INSIDE,
        record=None,
        found_end=end is not None,
        header=header,
    )
    if end is None:
        return stretch
    handle.seek(begin)
    raw = handle.read(end - begin)
    if form.quote.encode() not in raw:
        return stretch
    # Bytes as characters: all that matters here is ASCII.
    text = raw.decode("latin-1")
    outside, _first = _state_after(text if begin else text.removeprefix("\xef\xbb\xbf"), form)
    inside, first = _state_after(form.quote + text, form)
    record = None if first is None else begin + first - len(form.quote)
    return replace(stretch, outside=outside, inside=inside, record=record)


def record_starts(stretches: Sequence[Stretch | None]) -> list[int]:
    """Return bytes of a file at which records start, at most one for each stretch."""
    starts = [0]
    if not stretches or stretches[0] is None or not stretches[0].header:
        return starts
    state = Quotes.OUTSIDE
    for item in stretches:
        if item is None:
            break
        start = item.start if state is Quotes.OUTSIDE else item.record
        if start is not None and start > starts[-1]:
            starts.append(start)
        state = item.outside if state is Quotes.OUTSIDE else item.inside
        if state is Quotes.BROKEN or not item.found_end:
            break
    return starts


def _after_break(handle: IO[bytes], place: int, reach: int) -> int | None:
    """Return the first byte after a line feed that stands right before a place, or later."""
    handle.seek(place - 1)
    left = reach
    while left > 0 and (block := handle.read(min(left, LOAD_BLOCK_BYTES))):
        at = block.find(b"\n")
        if at >= 0:
            return place - 1 + (reach - left) + at + 1
        left -= len(block)
    return None


def _state_after(text: str, form: CsvForm) -> tuple[Quotes, int | None]:
    """Read text as records; return where that ends, and at which character the first one did."""
    lines = io.StringIO(text, newline="")
    reader = csv_reader(lines, form)
    first: int | None = None
    try:
        next(reader, None)
        first = lines.tell()
        deque(reader, maxlen=0)
    except csv.Error as error:
        return Quotes.INSIDE if "unexpected end of data" in str(error) else Quotes.BROKEN, first
    return Quotes.OUTSIDE, first

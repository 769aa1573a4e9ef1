"""What a driver tells its workers and what they answer: plain data, small, and picklable."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from msgspec import Struct, field

from omnigraph.catalog import AcceptedSchema
from omnigraph.embed import Embedder
from omnigraph.intake.inputs import Reading
from omnigraph.limits import (
    PROBLEMS_MAX,
    SPARK_HELD_ROWS_MAX,
    SPARK_MERGE_ROWS_MIN,
    SPARK_PIECE_BYTES,
    SPARK_SCAN_ROWS,
)
from omnigraph.rows import Problem

LINE = "#line"
GENERATED = "#generated"
"""Columns of scratch files beside a type's own; no property can have such a name."""


class Part(Struct, frozen=True, kw_only=True):
    """A file, a range of one, or a frame. `source` numbers the input it is from.

    `start` and `stop` are bytes, or rows of a Parquet file; without `stop` it is the whole file. A
    part from the middle of a CSV file comes with the names of its columns. A frame has no path.
    """

    label: str
    path: str = ""
    start: int = 0
    stop: int | None = None
    source: int = 0
    header: tuple[str, ...] = ()


class Piece(Struct, frozen=True, kw_only=True):
    """What one task reads: neighbours in the input, of the same form and type.

    Lines are counted through all parts; `skip` are those that are left out.
    """

    form: str
    parts: tuple[Part, ...]
    type_name: str | None = None
    reading: Reading = Reading()
    skip: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The name of the input, or of the first of several."""
        return self.parts[0].label

    @property
    def source(self) -> int:
        """The number of the input, or of the first of several."""
        return self.parts[0].source


class Tuning(Struct, frozen=True, kw_only=True):
    """Sizes at which a load divides its work.

    `piece_bytes` of JSONL or CSV are one task, of one file or of many; from `merge_rows` rows of a
    type workers merge them instead of the driver; up to `held_rows` ids of a type each worker looks
    ends up by itself.
    About `event_rows` events of a type are applied by one task.
    """

    piece_bytes: int = SPARK_PIECE_BYTES
    merge_rows: int = SPARK_MERGE_ROWS_MIN
    held_rows: int = SPARK_HELD_ROWS_MAX
    event_rows: int = SPARK_SCAN_ROWS


class Job(Struct, frozen=True, kw_only=True):
    """What every parsing task needs."""

    schema: AcceptedSchema
    scratch: str
    embedder: Embedder | None = None
    problems_max: int = PROBLEMS_MAX


class Written(Struct, frozen=True):
    """Rows of one type that a task left in a scratch file; of so many the input names the id."""

    table_key: str
    path: str
    rows: int
    named: int


class Parsed(Struct):
    """A task's answer: lines of each part, rows kept, and problems by the stage that finds them.

    A load in one process stops after the first stage with problems; so does the driver. What comes
    after a part that is `broken` cannot be told from what comes before.
    """

    lines: list[int] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    syntax: list[Problem] = field(default_factory=list)
    ids: list[Problem] = field(default_factory=list)
    values: list[Problem] = field(default_factory=list)
    refused: str | None = None
    not_embedded: str | None = None
    broken: bool = False

    @property
    def lines_all(self) -> int:
        """Lines of all parts."""
        return sum(self.lines)


class Places(Struct, frozen=True, kw_only=True):
    """Turns a line of a piece into a line of its file.

    For each part of each piece: its name, the lines of the piece up to its end, and what to add to
    a line that is counted from its start.
    """

    labels: Sequence[Sequence[str | None]]
    ends: Sequence[Sequence[int]]
    offsets: Sequence[Sequence[int]]

    def of(self, piece: int, line: int | None) -> tuple[str | None, int | None]:
        """Return file and line; the file is None when the input is one file."""
        if line is None:
            return self.labels[piece][0], None
        ends = self.ends[piece]
        part = min(bisect_left(ends, line), len(ends) - 1)
        start = ends[part - 1] if part else 0
        return self.labels[piece][part], line - start + self.offsets[piece][part]


def places_of(pieces: Sequence[Piece], answers: Sequence[Sequence[int]], *, named: bool) -> Places:
    """Return where lines of pieces stand; `answers` are the lines of their parts."""
    counted: dict[int, int] = {}
    labels: list[list[str | None]] = []
    ends: list[list[int]] = []
    offsets: list[list[int]] = []
    for piece, lines in zip(pieces, answers, strict=True):
        labels.append([part.label if named else None for part in piece.parts])
        ends.append(list(accumulate(lines)))
        offsets.append([])
        for part, size in zip(piece.parts, lines, strict=True):
            offsets[-1].append(counted.get(part.source, 0))
            counted[part.source] = offsets[-1][-1] + size
    return Places(labels=labels, ends=ends, offsets=offsets)


Answer = TypeVar("Answer")


def in_input_order(
    pieces: Sequence[Piece], answers: Sequence[Answer]
) -> tuple[list[Piece], list[Answer]]:
    """Return pieces and their answers as the input has them: frames at their place among files."""
    order = sorted(range(len(pieces)), key=lambda number: pieces[number].source)
    return [pieces[number] for number in order], [answers[number] for number in order]


def bundled(sizes: Sequence[int], rows: int) -> list[tuple[int, ...]]:
    """Put neighbours together until they hold about this many rows."""
    groups: list[list[int]] = []
    held = 0
    for index, size in enumerate(sizes):
        if not groups or held + size > rows:
            groups.append([])
            held = 0
        groups[-1].append(index)
        held += size
    return [tuple(group) for group in groups]

"""What a driver tells its workers and what they answer: plain data, small, and picklable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

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


class Piece(Struct, frozen=True, kw_only=True):
    """A part of the input that one task reads.

    `start` and `stop` are bytes of a JSONL file or row groups of a Parquet file; a CSV file is one
    piece, because a quoted value may hold line breaks, and so is what is compressed. A piece of a
    frame has no path. `source` numbers the input it is from. `skip` are lines of the piece that
    are left out.
    """

    label: str
    form: str
    path: str = ""
    start: int = 0
    stop: int = 0
    type_name: str | None = None
    reading: Reading = Reading()
    source: int = 0
    skip: tuple[int, ...] = ()


class Tuning(Struct, frozen=True, kw_only=True):
    """Sizes at which a load divides its work.

    `piece_bytes` of a JSONL file are one task; from `merge_rows` rows of a type workers merge them
    instead of the driver; up to `held_rows` ids of a type each worker looks ends up by itself.
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
    """Rows of one type that a task left in a scratch file."""

    table_key: str
    path: str
    rows: int


class Parsed(Struct):
    """A task's answer: lines seen, rows kept, and problems by the stage that finds them.

    A load in one process stops after the first stage with problems; so does the driver.
    """

    lines: int = 0
    written: list[Written] = field(default_factory=list)
    syntax: list[Problem] = field(default_factory=list)
    ids: list[Problem] = field(default_factory=list)
    values: list[Problem] = field(default_factory=list)
    refused: str | None = None
    not_embedded: str | None = None


class Places(Struct, frozen=True, kw_only=True):
    """Turns a line of a piece into a line of its file."""

    labels: Sequence[str | None]
    offsets: Sequence[int]

    def of(self, piece: int, line: int | None) -> tuple[str | None, int | None]:
        """Return file and line; the file is None when the input is one file."""
        label = self.labels[piece]
        return label, None if line is None else line + self.offsets[piece]


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


Columns = Mapping[str, Any]

"""How a parallel load divides its input, by bytes: large files are cut, small ones go together.

What has to be read for that, such as the quotes of a CSV file, workers read.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import Catalog
from omnigraph.errors import BadRequestError
from omnigraph.intake.csv_files import Stretch, can_be_cut, record_starts, scan_stretch
from omnigraph.intake.declared import Sources
from omnigraph.intake.inputs import Input, as_arrow, find_inputs
from omnigraph.intake.record_chunks import rows_at_once
from omnigraph.intake.records import CsvForm, is_compressed
from omnigraph.limits import (
    SPARK_COLUMNS_BYTES,
    SPARK_FOOTERS_MAX,
    SPARK_FRAME_ROWS,
    SPARK_OPEN_BYTES,
    SPARK_PIECE_BYTES,
)
from omnigraph.spark.tasks import Part, Piece, bundled
from omnigraph.store import new_file, open_file, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Run = Callable[[int, Callable[[int], bytes]], list[bytes]]
"""Runs numbered tasks, in workers or here, and returns their answers."""


class Cut(Struct, frozen=True, kw_only=True):
    """How a plan divides files. Events are read whole by their tasks, one file by each."""

    piece_bytes: int = SPARK_PIECE_BYTES
    columns_bytes: int = SPARK_COLUMNS_BYTES
    packs: bool = True


class _Sized(Struct, frozen=True):
    """A part with how much work it is, in bytes of text."""

    piece: Piece
    weight: int


def run_here(tasks: int, work: Callable[[int], bytes]) -> list[bytes]:
    """Do the work of a plan in this process."""
    return [work(task) for task in range(tasks)]


def plan(
    sources: Sources,
    catalog: Catalog,
    scratch: str,
    cut: Cut | None = None,
    run: Run = run_here,
) -> tuple[list[Piece], list[tuple[Piece, DataFrame]]]:
    """Return the pieces of all files, in input order, and the Spark frames."""
    cut = cut or Cut()
    files: list[tuple[Piece, int]] = []
    frames: list[tuple[Piece, DataFrame]] = []
    for number, item in enumerate(find_inputs(sources, catalog)):
        if item.form == "graphml":
            raise BadRequestError(
                f"{item.label}: GraphML is read in one process", hint="use engine='local'"
            )
        whole = _piece(item, number)
        if item.data is None:
            files.append((whole, item.size_bytes))
        elif hasattr(item.data, "mapInArrow"):
            frames.append((whole, item.data))
        else:
            files.append(_written(whole, as_arrow(item.data), scratch))
    return _packed(_Cutting(cut, run).cut(files), cut), frames


def _written(whole: Piece, table: pa.Table, scratch: str) -> tuple[Piece, int]:
    """Write a frame down: workers cannot see this process's memory."""
    path = os.path.join(scratch, f"{uuid.uuid4().hex}.parquet")
    rows = rows_at_once(table.nbytes, table.num_rows)
    with new_file(path) as out:
        pq.write_table(table, out, row_group_size=rows)
    part = replace(whole.parts[0], path=path)
    return replace(whole, form="parquet", parts=(part,)), int(table.nbytes)


def _piece(item: Input, number: int) -> Piece:
    return Piece(
        form=item.form,
        parts=(Part(label=item.label, path=item.path, source=number),),
        type_name=None if item.entity is None else item.entity.name,
        reading=item.reading,
    )


class _Cutting:
    def __init__(self, cut: Cut, run: Run) -> None:
        self._cut = cut
        self._run = run

    def cut(self, files: Sequence[tuple[Piece, int]]) -> list[_Sized]:
        """Return the parts of all files, each as a piece of its own."""
        footers = self._footers(files)
        starts = self._record_starts(files)
        parts: list[_Sized] = []
        for number, (whole, size) in enumerate(files):
            if number in footers:
                parts += self._row_ranges(whole, footers[number])
            elif number in starts:
                header, places = starts[number]
                parts += _byte_ranges(whole, [*places, size], header)
            elif whole.form in ("jsonl", "records") and not is_compressed(whole.parts[0].path):
                parts += _byte_ranges(whole, [*range(0, size, self._cut.piece_bytes), size])
            else:
                parts.append(_Sized(whole, size))
        return parts

    # ---- Parquet --------------------------------------------------------------------------

    def _footers(self, files: Sequence[tuple[Piece, int]]) -> dict[int, list[tuple[int, int]]]:
        """Return rows and bytes of the row groups of files that may have to be cut."""
        large = self._cut.piece_bytes // 2
        wanted = [
            number
            for number, (whole, size) in enumerate(files)
            if whole.form == "parquet" and size > large
        ]
        paths = [files[number][0].parts[0].path for number in wanted]
        groups = bundled([1] * len(paths), max(1, SPARK_FOOTERS_MAX // 4))

        def read(task: int) -> bytes:
            return msgspec.json.encode([_row_groups(paths[at]) for at in groups[task]])

        run = self._run if len(paths) > SPARK_FOOTERS_MAX else run_here
        kind = list[list[tuple[int, int]] | str]
        answers = [msgspec.json.decode(item, type=kind) for item in run(len(groups), read)]
        footers: dict[int, list[tuple[int, int]]] = {}
        for number, answer in zip(wanted, [one for many in answers for one in many], strict=True):
            if isinstance(answer, str):
                raise BadRequestError(answer)
            footers[number] = answer
        return footers

    def _row_ranges(self, whole: Piece, groups: Sequence[tuple[int, int]]) -> list[_Sized]:
        """Cut a Parquet file; a row group that is too large for one task is cut by rows."""
        # One of them is work enough for a task, however few bytes its values take in the file.
        weight = self._cut.piece_bytes
        edges = [0]
        held_rows = held_bytes = 0
        for rows, taken in groups:
            if held_rows and (
                held_rows + rows > SPARK_FRAME_ROWS or held_bytes + taken > self._cut.columns_bytes
            ):
                edges.append(edges[-1] + held_rows)
                held_rows = held_bytes = 0
            parts = -(-taken // self._cut.columns_bytes)
            step = -(-rows // max(parts, 1))
            while rows > step:
                edges.append(edges[-1] + held_rows + step)
                rows, taken = rows - step, taken - taken * step // rows
                held_rows = held_bytes = 0
            held_rows, held_bytes = held_rows + rows, held_bytes + taken
        if held_rows:
            edges.append(edges[-1] + held_rows)
        return [_Sized(_range(whole, start, stop), weight) for start, stop in pairwise(edges)]

    # ---- CSV ------------------------------------------------------------------------------

    def _record_starts(
        self, files: Sequence[tuple[Piece, int]]
    ) -> dict[int, tuple[tuple[str, ...], list[int]]]:
        """Return, for CSV files that are cut, their columns and where records start."""
        step = self._cut.piece_bytes
        stretches: list[tuple[str, CsvForm, int, int, int]] = []
        owners: list[int] = []
        for number, (whole, size) in enumerate(files):
            form, path = whole.reading.csv, whole.parts[0].path
            if whole.form != "csv" or size <= step or is_compressed(path) or not can_be_cut(form):
                continue
            for start in range(0, size, step):
                stretches.append((path, form, start, min(start + step, size), size))
                owners.append(number)

        def scan(task: int) -> bytes:
            path, form, start, stop, size = stretches[task]
            with open_file(path) as handle:
                return msgspec.json.encode(scan_stretch(handle, form, start, stop, size))

        by_file: dict[int, list[Stretch | None]] = {}
        for number, answer in zip(owners, self._run(len(stretches), scan), strict=True):
            stretch = msgspec.json.decode(answer, type=Stretch | None)
            by_file.setdefault(number, []).append(stretch)
        return {
            number: (scans[0].header if scans[0] else (), record_starts(scans))
            for number, scans in by_file.items()
        }


def _row_groups(path: str) -> list[tuple[int, int]] | str:
    """Return rows and bytes of each row group, or why there are none."""
    try:
        metadata = pq.read_metadata(readable(path))
    except pa.ArrowInvalid as error:
        return f"{path} is not a Parquet file: {error}"
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [(group.num_rows, group.total_byte_size) for group in groups]


def _byte_ranges(whole: Piece, edges: Sequence[int], header: tuple[str, ...] = ()) -> list[_Sized]:
    return [
        _Sized(_range(whole, start, stop, header if start else ()), stop - start)
        for start, stop in pairwise(edges)
        if start < stop
    ]


def _range(whole: Piece, start: int, stop: int, header: tuple[str, ...] = ()) -> Piece:
    (part,) = whole.parts
    return replace(whole, parts=(replace(part, start=start, stop=stop, header=header),))


def _packed(parts: Sequence[_Sized], cut: Cut) -> list[Piece]:
    """Put neighbours of the same form and type together until they are work enough for a task."""
    pieces: list[Piece] = []
    held = 0
    for item in parts:
        piece, weight = item.piece, item.weight + SPARK_OPEN_BYTES
        if pieces and cut.packs and held + weight <= cut.piece_bytes and _fit(pieces[-1], piece):
            pieces[-1] = replace(pieces[-1], parts=pieces[-1].parts + piece.parts)
            held += weight
        else:
            pieces.append(piece)
            held = weight
    return pieces


def _fit(before: Piece, piece: Piece) -> bool:
    """Whether the file of a piece follows that of another, and the same is done to both."""
    near = piece.source - before.parts[-1].source == 1
    alike = (before.form, before.type_name, before.reading)
    return near and alike == (piece.form, piece.type_name, piece.reading)

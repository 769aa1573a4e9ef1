"""Reads several files and frames as one input: rows by type, each with the place it came from.

Lines are numbered through all files, so that "first in the input" has one meaning; `Places` turns
such a number back into a file and its line.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from omnigraph.catalog import Catalog, Entity
from omnigraph.intake.envelopes import EnvelopeReader, TypeRows, file_blocks
from omnigraph.intake.graphml import graphml_frames
from omnigraph.intake.inputs import Input
from omnigraph.intake.record_chunks import record_chunks
from omnigraph.intake.records import open_input
from omnigraph.limits import (
    BULK_MEMORY_BYTES_MAX,
    BULK_MEMORY_SHARE,
    LOAD_MEMORY_BYTES,
)
from omnigraph.rows.problems import LinePlace, Problem, Problems
from omnigraph.store import open_file


class Places:
    """Files one after the other, as one range of lines."""

    def __init__(self, labels: Sequence[str]) -> None:
        distinct = set(labels)
        self.several = len(distinct) > 1
        self._starts: list[int] = []
        self._labels: list[str] = []
        self._shown: dict[int, Sequence[int]] = {}
        self.end = 0

    def enter(self, label: str) -> int:
        """Start a file; return what to add to its lines."""
        self._starts.append(self.end)
        self._labels.append(label)
        return self.end

    def leave(self, lines: int) -> None:
        """End the file that was started last."""
        self.end = self._starts[-1] + lines

    def leave_elements(self, lines: Sequence[int]) -> None:
        """End a file that is counted by elements, of which several may stand on a line."""
        self._shown[len(self._starts) - 1] = lines
        self.leave(len(lines))

    def of(self, line: int) -> LinePlace:
        """Return file and line; the file is None when the input is one file."""
        at = bisect_right(self._starts, line - 1) - 1
        file, number = self._labels[at] if self.several else None, line - self._starts[at]
        shown = self._shown.get(at)
        return (
            LinePlace(file, number) if shown is None else LinePlace(file, shown[number - 1], number)
        )

    def lines(self, file: str | None, line: int) -> list[int]:
        """Return the numbers, through all inputs, of a line of a file: once for each use of it.

        Of a file that is counted by elements, `line` is the number of one.
        """
        pairs = zip(self._starts, self._labels, strict=True)
        return [start + line for start, label in pairs if file in (None, label)]


def bulk_memory_bytes() -> int:
    """Return how much of a bulk load is kept in memory."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return LOAD_MEMORY_BYTES
    return max(LOAD_MEMORY_BYTES, min(BULK_MEMORY_BYTES_MAX, machine // BULK_MEMORY_SHARE))


class InputReader:
    """Reads inputs against one schema; problems are collected with file and line."""

    def __init__(
        self,
        catalog: Catalog,
        problems: Problems,
        inputs: Sequence[Input],
        *,
        skip: frozenset[int] = frozenset(),
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.places = Places([item.label for item in inputs])
        self._reader = EnvelopeReader(catalog, problems, memory_bytes=bulk_memory_bytes())
        self.types: dict[str, TypeRows] = self._reader.types
        self._catalog = catalog
        self._inputs = inputs
        self._problems = problems
        self._skip = skip
        self._progress = progress or (lambda _done: None)
        self._done = 0
        self._general: set[Problem] = set()
        problems.place_of = self.places.of

    def read(self) -> None:
        """Take in everything, in the order of the input."""
        for item in self._inputs:
            if item.entity is not None:
                self._frames(item, item.entity)
            elif item.form == "graphml":
                self._graphml(item)
            else:
                self._envelopes(item)
        self.types = {key: rows for key, rows in self.types.items() if rows.count}

    def close(self) -> None:
        """Let go of temporary files that will not be read."""
        for rows in self.types.values():
            if rows.spill is not None:
                rows.spill.close()

    def _envelopes(self, item: Input) -> None:
        """Take in envelopes; types know their rows of other inputs already."""
        offset = self.places.enter(item.label)
        self._reader.take_blocks(self._blocks(item, offset), offset + 1)
        self._done += item.size_bytes

    def _blocks(self, item: Input, offset: int) -> Iterator[list[bytes]]:
        lines = 0
        with open_input(item.path) as handle:
            for block in file_blocks(handle, self._counted(self._done)):
                # A place is known while its line is judged.
                self.places.leave(lines + len(block))
                for index in self._skipped(offset + lines, len(block)):
                    block[index] = b""
                lines += len(block)
                yield block

    def _skipped(self, before: int, lines: int) -> list[int]:
        """Return which of the next lines are left out."""
        if not self._skip:
            return []
        return [index for index in range(lines) if before + index + 1 in self._skip]

    def _counted(self, start: int) -> Callable[[int], None]:
        return lambda done: self._progress(start + done)

    def _frames(self, item: Input, entity: Entity) -> None:
        """Take in rows of one type, chunk by chunk."""
        offset = self.places.enter(item.label)
        skip, limit = self._left_out(offset), self._problems.limit
        for chunk in record_chunks(item, skip=skip, problems_max=limit):
            self.places.leave(chunk.lines)
            frame, at = item.reading.rows(entity, chunk.records, chunk.problems)
            self._chunk(item, entity, frame, at, offset, chunk.problems)
        self._done += item.size_bytes
        self._progress(self._done)

    def _graphml(self, item: Input) -> None:
        """Take in the nodes and edges of a file, type by type."""
        offset, problems = self.places.enter(item.label), Problems()
        with open_file(item.path) as handle:
            types, lines = graphml_frames(
                handle, self._catalog, problems, skip=self._left_out(offset)
            )
        self.places.leave_elements(lines)
        self._report(item, problems, offset)
        if not problems.items:
            for entity, frame, starts in types:
                at = np.asarray(starts, dtype=np.int64)
                self._chunk(item, entity, frame, at, offset, Problems())
        self._done += item.size_bytes
        self._progress(self._done)

    def _left_out(self, offset: int) -> Callable[[int], bool] | None:
        """Return what tells which lines of a file are left out; None if none is."""
        return (lambda line: offset + line in self._skip) if self._skip else None

    def _chunk(
        self,
        item: Input,
        entity: Entity,
        frame: pa.Table,
        at: NDArray[np.int64],
        offset: int,
        problems: Problems,
    ) -> None:
        rows = item.reading.fitted(entity, frame, at.tolist(), problems)
        self._report(item, problems, offset)
        if rows is not None and rows.num_rows:
            self._reader.take_rows(entity, rows, (at + offset).tobytes())

    def _report(self, item: Input, problems: Problems, offset: int) -> None:
        for problem in problems.items:
            if problem.line is not None:
                self._problems.add(replace(problem, line=int(problem.line) + offset))
                continue
            # What is wrong with a column is wrong in every chunk.
            general = replace(problem, file=item.label if self.places.several else None)
            if general not in self._general:
                self._general.add(general)
                self._problems.add(general)

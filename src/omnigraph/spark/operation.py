"""A load whose rows stay with the workers, as an operation of the write protocol."""

from __future__ import annotations

import os
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeGuard

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from omnigraph.catalog import EdgeType, Entity
from omnigraph.commits import Base, ChangeSet
from omnigraph.errors import BadRequestError, EmbeddingError
from omnigraph.intake.declared import Sources
from omnigraph.ops.load import LoadMode, empty_overwrite, existing_id
from omnigraph.rows import Problem, Problems, RowFile, RowsElsewhere, TableChange
from omnigraph.spark.checks import Checks, Taken
from omnigraph.spark.engine import Engine
from omnigraph.spark.parse import parse, parse_frame
from omnigraph.spark.progress import Reporter
from omnigraph.spark.sources import Cut, plan
from omnigraph.spark.tasks import (
    Job,
    Parsed,
    Piece,
    Places,
    Tuning,
    in_input_order,
    places_of,
)
from omnigraph.spark.worker_load import WorkerLoad, together
from omnigraph.store import new_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkLoad(WorkerLoad):
    """A load as an operation of the write protocol, its rows kept in scratch files."""

    def __init__(
        self,
        engine: Engine,
        job: Job,
        mode: LoadMode,
        *,
        tuning: Tuning,
        reporter: Reporter | None = None,
        keeps_frames: bool = False,
    ) -> None:
        reporter = reporter or Reporter(engine.session, None)
        super().__init__(engine, job, tuning=tuning, reporter=reporter)
        self.mode = mode
        self._keeps_frames = keeps_frames
        self._pieces: list[Piece] = []
        self._parsed: list[Parsed] = []
        self._values: list[Problem] = []
        places = Places(labels=(), ends=(), offsets=())
        catalog, scratch = job.schema.catalog, job.scratch
        self._checks = Checks(engine, catalog, {}, places, scratch, tuning.held_rows)

    # ---- reading --------------------------------------------------------------------------

    def read(self, sources: Sources) -> None:
        """Parse the whole input in workers. Raises `DataError` with every problem found."""
        with self.reporter.stage("plan"):
            pieces, frames = plan(
                sources,
                self._job.schema.catalog,
                self._job.scratch,
                Cut(piece_bytes=self._tuning.piece_bytes),
                self._engine.run,
            )
        with self.reporter.stage("parse") as counter:
            self._pieces, self._parsed = pieces, self._parse(pieces)
            for piece, frame in frames:
                if self._keeps_frames:
                    kept = kept_frame(self._engine, self._job.scratch, piece, frame)
                    self._parsed += self._parse(kept)
                    self._pieces += kept
                    continue
                answers = self._engine.map_frame(frame, partial(_frame_answers, piece, self._job))
                self._parsed += [msgspec.json.decode(item, type=Parsed) for item in answers]
                self._pieces += [piece] * len(answers)
            self._pieces, self._parsed = in_input_order(self._pieces, self._parsed)
            counter.rows = sum(made.rows for item in self._parsed for made in item.written)
        self._check_parsed()

    def _parse(self, pieces: list[Piece]) -> list[Parsed]:
        job, fixed = self._job, tuple(pieces)

        def work(task: int) -> bytes:
            return msgspec.json.encode(parse(fixed[task], job))

        answers = self._engine.run(len(fixed), work)
        return [msgspec.json.decode(item, type=Parsed) for item in answers]

    def leave_out(self, lines: Iterable[int]) -> None:
        """Read again, without some lines, the pieces that hold them."""
        changed = skip_lines(self._pieces, [item.lines_all for item in self._parsed], lines)
        with self.reporter.stage("parse") as counter:
            parsed = self._parse([self._pieces[number] for number in changed])
            counter.rows = sum(made.rows for item in parsed for made in item.written)
        for number, item in zip(changed, parsed, strict=True):
            self._parsed[number] = item
        self._judged, self._counts, self._checks.files = None, {}, {}
        self._rows_workers.forget()
        self._check_parsed()

    def line_at(self, file: str | None, line: int) -> list[int]:
        """Return the numbers, through all pieces, of a line of a file: one for each use of it."""
        first: dict[int, int] = {}
        before = 0
        for piece, item in zip(self._pieces, self._parsed, strict=True):
            for part, lines in zip(piece.parts, item.lines, strict=True):
                if file in (None, part.label):
                    first.setdefault(part.source, before)
                before += lines
        return [line + start for start in first.values()]

    @property
    def only_source(self) -> str | None:
        """The name of the input, if it is one file or frame."""
        return None if self._source == "the input" else self._source

    def _check_parsed(self) -> None:
        parsed, pieces = self._parsed, self._pieces
        refused = next((item.refused for item in parsed if item.refused is not None), None)
        if refused is not None:
            raise BadRequestError(refused)
        names = list(dict.fromkeys(part.label for piece in pieces for part in piece.parts))
        if len(names) == 1:
            self._source = names[0]
        lines = [item.lines for item in parsed]
        self._checks.places = places_of(pieces, lines, named=len(names) > 1)
        self._located(_up_to_broken(pieces, parsed)).raise_any()
        for number, item in enumerate(parsed):
            for made in item.written:
                files = self._checks.files.setdefault(made.table_key, [])
                files.append(
                    RowFile(piece=number, path=made.path, rows=made.rows, named=made.named)
                )
        problems = self._located([item.ids for item in parsed])
        with self.reporter.stage("duplicates") as counter:
            self._checks.once_each(self._policies())
            for key, files in self._checks.files.items():
                dropped = self._checks.dropped_rows.get(key, 0)
                self._counts[key] = sum(item.rows for item in files) - dropped
            self._checks.duplicates(problems)
            counter.rows = sum(self._counts.values())
        problems.raise_any()
        failed = next((item.not_embedded for item in parsed if item.not_embedded is not None), None)
        if failed is not None:
            raise EmbeddingError(failed)
        counting = [
            [problem for problem in item.values if not self._checks.is_dropped(number, problem)]
            for number, item in enumerate(parsed)
        ]
        self._values = self._located(counting).items
        if not self._counts and self.mode is LoadMode.OVERWRITE:
            raise empty_overwrite()

    def _policies(self) -> dict[str, str]:
        """Return, by table key, what happens to entities that stand in several records."""
        catalog = self._job.schema.catalog
        policies = dict.fromkeys(self._checks.files, "refuse")
        for piece in self._pieces:
            if piece.type_name is not None:
                key = catalog.entity_named(piece.type_name).table_key
                policies[key] = piece.reading.duplicates
        return policies

    def _located(self, by_piece: list[list[Problem]]) -> Problems:
        """Collect problems of pieces with the places they have in their files."""
        problems = Problems(source=self._source, limit=self._job.problems_max)
        general: set[Problem] = set()
        for number, items in enumerate(by_piece):
            for item in items:
                file, line = self._checks.places.of(number, item.line)
                if line is None and file is not None:
                    file = item.file or file
                located = replace(item, file=file, line=line)
                if line is None:
                    # What is wrong with a column is wrong in every piece.
                    if located in general:
                        continue
                    general.add(located)
                problems.add(located)
        return problems

    # ---- the operation --------------------------------------------------------------------

    def tables_read_strictly(self, changes: ChangeSet) -> tuple[str, ...]:
        """An overwrite replaces what the caller saw; other modes can be prepared anew."""
        return tuple(sorted(self._counts)) if self.mode is LoadMode.OVERWRITE else ()

    def _judge(self, base: Base) -> ChangeSet:
        changes = ChangeSet()
        for entity in self._checks.entities():
            base.pin(entity)
            if self._recognised(entity):
                self._checks.same_edges(base, entity)
        replaced = self.mode is LoadMode.OVERWRITE
        known = {} if replaced else self._checks.existing(base)
        if self.mode is LoadMode.APPEND:
            self._refuse(known)
        for entity in self._checks.entities():
            self._fill(changes.of(entity), merged=entity.table_key in known)
        problems = Problems(source=self._source, limit=self._job.problems_max)
        for item in self._values:
            problems.add(item)
        self._checks.uniques(base, problems, replaced=replaced)
        self._checks.references(base, problems, replaced=replaced)
        self._checks.cardinality(base, problems, replaced=replaced)
        problems.raise_any()
        return changes

    def _recognised(self, entity: Entity) -> TypeGuard[EdgeType]:
        """Whether an edge without an id may mean one that exists."""
        return self.mode is LoadMode.MERGE and isinstance(entity, EdgeType) and entity.unique_pair

    def _refuse(self, known: dict[str, Taken]) -> None:
        """Raise for the row that comes first in the input, whatever its type."""
        if known:
            key = min(known, key=lambda item: known[item].at)
            entity = next(item for item in self._checks.entities() if item.table_key == key)
            raise existing_id(entity, known[key].entity_id, known[key].place)

    def _fill(self, change: TableChange, *, merged: bool) -> None:
        files = tuple(self._checks.files[change.entity.table_key])
        change.elsewhere = RowsElsewhere(files=files, may_replace=merged)
        change.replaced = self.mode is LoadMode.OVERWRITE

    def _row_count(self, entity: Entity, files: Sequence[RowFile]) -> int:
        """Return how many rows of files are written: not those that do not count."""
        return self._counts[entity.table_key]


def skip_lines(pieces: list[Piece], sizes: Sequence[int], lines: Iterable[int]) -> list[int]:
    """Leave lines out of the pieces that hold them, and return which pieces have changed.

    Lines are counted through all pieces; `sizes` are the lines of each.
    """
    starts = [0, *accumulate(sizes)]
    gone: dict[int, set[int]] = {}
    for line in lines:
        number = bisect_left(starts, line) - 1
        gone.setdefault(number, set()).add(line - starts[number])
    changed = [n for n in sorted(gone) if pieces[n].skip != tuple(sorted(gone[n]))]
    for number in changed:
        pieces[number] = replace(pieces[number], skip=tuple(sorted(gone[number])))
    return changed


def kept_frame(engine: Engine, scratch: str, piece: Piece, frame: DataFrame) -> list[Piece]:
    """Write a frame down as it is: computed again, its rows might come in another order."""
    paths = engine.map_frame(frame, partial(_frame_files, scratch))
    (part,) = piece.parts
    return [
        replace(piece, form="parquet", parts=(replace(part, path=path.decode()),)) for path in paths
    ]


def _up_to_broken(pieces: list[Piece], parsed: list[Parsed]) -> list[list[Problem]]:
    """Return what is wrong with records; of a file, only as far as it could be read."""
    ended: set[int] = set()
    problems: list[list[Problem]] = []
    for piece, item in zip(pieces, parsed, strict=True):
        problems.append([] if piece.source in ended else item.syntax)
        if item.broken and len(piece.parts) == 1:
            ended.add(piece.source)
    return problems


def _frame_answers(
    piece: Piece, job: Job, _task: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[bytes]:
    """Parse a partition of a frame, some batches at a time."""
    for held in together(batches):
        yield msgspec.json.encode(parse_frame(piece, job, pa.Table.from_batches(held)))


def _frame_files(scratch: str, _task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Write a partition of a frame to files."""
    for held in together(batches):
        yield _frame_file(scratch, held)


def _frame_file(scratch: str, batches: list[pa.RecordBatch]) -> bytes:
    path = os.path.join(scratch, f"{uuid.uuid4().hex}.parquet")
    with new_file(path) as out:
        pq.write_table(pa.Table.from_batches(batches), out)
    return path.encode()

"""Applies events on Spark: the same verdicts as in one process, and rows that stay with workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
import pyarrow as pa

from omnigraph.catalog import EdgeType
from omnigraph.commits import Base, ChangeSet
from omnigraph.errors import BadRequestError, EmbeddingError
from omnigraph.graph.applying import APPLY, event_inputs
from omnigraph.intake.declared import Sources
from omnigraph.intake.event_records import event_frame
from omnigraph.intake.events import Name, check_same_columns
from omnigraph.intake.record_chunks import table_records
from omnigraph.intake.records import Records
from omnigraph.limits import SPARK_EVENT_BYTES, SPARK_EVENT_PARTS
from omnigraph.ops.row_events import cascade, edge_ends
from omnigraph.rows import Problem, Problems, validate
from omnigraph.spark.engine import Engine
from omnigraph.spark.events import (
    Applied,
    EventFile,
    Group,
    Named,
    apply_group,
    count_entities,
    event_lines,
    name_events,
)
from omnigraph.spark.operation import kept_frame, skip_lines
from omnigraph.spark.outcomes import joined_change
from omnigraph.spark.parse import piece_records
from omnigraph.spark.progress import Reporter
from omnigraph.spark.sources import Cut, plan
from omnigraph.spark.tasks import Job, Piece, Tuning, bundled, in_input_order
from omnigraph.spark.worker_load import WorkerLoad, together
from omnigraph.store import Pin


class SparkEvents(WorkerLoad):
    """Events as an operation of the write protocol, its rows kept in scratch files."""

    def __init__(
        self,
        engine: Engine,
        job: Job,
        mode: str,
        place: str,
        *,
        tuning: Tuning,
        reporter: Reporter,
        keeps_frames: bool = False,
    ) -> None:
        super().__init__(engine, job, tuning=tuning, reporter=reporter)
        self.mode = mode
        self._keeps_frames = keeps_frames
        self._place = place
        self._pieces: list[Piece] = []
        self._named: list[Named] = []
        self._offsets: list[int] = []

    # ---- reading --------------------------------------------------------------------------

    def read(self, sources: Sources) -> None:
        """Name the entities of all events, in workers. Raises `DataError` with every problem."""
        job = self._job
        with self.reporter.stage("plan"):
            catalog = job.schema.catalog
            cut = Cut(
                piece_bytes=self._tuning.piece_bytes, columns_bytes=SPARK_EVENT_BYTES, packs=False
            )
            pieces, frames = plan(sources, catalog, job.scratch, cut, self._engine.run)
            event_inputs(sources, catalog)
        with self.reporter.stage("parse") as counter:
            named = self._name(pieces)
            self._pieces = list(pieces)
            for piece, frame in frames:
                if self._keeps_frames:
                    kept = kept_frame(self._engine, job.scratch, piece, frame)
                    named += self._name(kept)
                    self._pieces += kept
                    continue
                applies = self.mode == APPLY
                answers = self._engine.map_frame(frame, partial(_named_frame, piece, job, applies))
                named += [msgspec.json.decode(item, type=Named) for item in answers]
                self._pieces += [piece] * len(answers)
            self._pieces, self._named = in_input_order(self._pieces, named)
            counter.rows = sum(item.lines for item in self._named)
        self._check_events()

    def _name(self, pieces: Sequence[Piece]) -> list[Named]:
        job, fixed, applies = self._job, tuple(pieces), self.mode == APPLY

        def work(task: int) -> bytes:
            return msgspec.json.encode(_named_piece(fixed[task], job, applies))

        answers = self._engine.run(len(fixed), work)
        return [msgspec.json.decode(item, type=Named) for item in answers]

    def leave_out(self, lines: Iterable[int]) -> None:
        """Name again, without some lines, the events of the pieces that hold them."""
        changed = skip_lines(self._pieces, [item.lines for item in self._named], lines)
        with self.reporter.stage("parse") as counter:
            named = self._name([self._pieces[number] for number in changed])
            counter.rows = sum(item.lines for item in named)
        for number, item in zip(changed, named, strict=True):
            self._named[number] = item
        self._judged, self._counts = None, {}
        self._rows_workers.forget()
        self._check_events()

    def line_at(self, file: str | None, line: int) -> list[int]:
        """Return the numbers, through all pieces, of a line of a file: one for each use of it."""
        first: dict[int, int] = {}
        before = 0
        for piece, item in zip(self._pieces, self._named, strict=True):
            if file in (None, piece.label):
                first.setdefault(piece.source, before)
            before += item.lines
        return [line + start for start in first.values()]

    @property
    def only_source(self) -> str | None:
        """The name of the input, if it is one file or frame."""
        return None if self._source == "the input" else self._source

    def _check_events(self) -> None:
        named = self._named
        refused = next((item.refused for item in named if item.refused is not None), None)
        if refused is not None:
            raise BadRequestError(refused)
        labels = list(dict.fromkeys(piece.label for piece in self._pieces))
        self._source = labels[0] if len(labels) == 1 else "the input"
        counted: dict[int, int] = {}
        self._offsets = []
        problems = Problems(source=self._source, limit=self._job.problems_max)
        for piece, item in zip(self._pieces, named, strict=True):
            offset = counted.get(piece.source, 0)
            self._offsets.append(offset)
            counted[piece.source] = offset + item.lines
            _add_located(problems, item.problems, offset, self._label(piece))
        by_type: dict[str, list[tuple[str, Sequence[str]]]] = {}
        for piece, item in zip(self._pieces, named, strict=True):
            if item.file is not None:
                columns = item.file.columns
                by_type.setdefault(piece.type_name or "", []).append((piece.label, columns))
        for name, parts in by_type.items():
            check_same_columns(self._job.schema.catalog.entity_named(name), parts)
        problems.raise_any()

    def _label(self, piece: Piece) -> str | None:
        return piece.label if self._source == "the input" else None

    # ---- the operation --------------------------------------------------------------------

    def counts(self, kind: str) -> dict[str, int]:
        """Return entities with events per type name, nodes or edges."""
        if not self._counts and any(item.file for item in self._named):
            # An earlier call applied them, so nothing was computed here.
            self._counts = self._counted()
        return super().counts(kind)

    def _counted(self) -> dict[str, int]:
        job, groups = self._job, tuple(self._groups())

        def work(task: int) -> bytes:
            return msgspec.json.encode(count_entities(groups[task], job))

        counts: dict[str, int] = {}
        for group, answer in zip(groups, self._engine.run(len(groups), work), strict=True):
            rows = msgspec.json.decode(answer, type=int)
            counts[group.table_key] = counts.get(group.table_key, 0) + rows
        return counts

    def _judge(self, base: Base) -> ChangeSet:
        catalog = self._job.schema.catalog
        groups = list(self._groups())
        keys = sorted({item.table_key for item in groups})
        pins = {key: base.pin(catalog.entity_of_table(key)) for key in keys}
        applied = self._apply(groups, pins)
        problems = Problems(source=self._source, limit=self._job.problems_max)
        for item in applied:
            _add_new(problems, item.problems)
        problems.raise_any()
        changes = ChangeSet()
        self._counts = {}
        violations = Problems(source="the events", limit=self._job.problems_max)
        for key in keys:
            pairs = zip(applied, groups, strict=True)
            mine = [item for item, group in pairs if group.table_key == key]
            self._counts[key] = sum(item.count for item in mine)
            outcomes = [item.outcome for item in mine]
            entity = catalog.entity_of_table(key)
            changes.tables[key] = joined_change(self._engine, entity, outcomes)
            for outcome in outcomes:
                for problem in outcome.problems:
                    violations.add(problem)
        cascade(base, catalog, changes)
        validate(base, changes, violations)
        if violations.items:
            violations.items = self._placed(violations.items, groups, changes)
        violations.raise_any()
        return changes

    def _placed(
        self, problems: Sequence[Problem], groups: Sequence[Group], changes: ChangeSet
    ) -> list[Problem]:
        """Return problems with file and line of the events they come from; workers know those."""
        catalog, job = self._job.schema.catalog, self._job
        names: dict[tuple[str, str], frozenset[Name]] = {}
        for item in problems:
            if item.type_name is not None and item.entity_id is not None:
                key = catalog.entity_named(item.type_name).table_key
                change = changes.tables.get(key)
                is_edge = change is not None and isinstance(change.entity, EdgeType)
                ends = edge_ends(change, item.entity_id) if change and is_edge else None
                own: set[Name] = {item.entity_id} if ends is None else {item.entity_id, ends}
                names[item.type_name, item.entity_id] = frozenset(own)
        wanted = frozenset(name for own in names.values() for name in own)
        fixed = tuple(groups)

        def work(task: int) -> bytes:
            return msgspec.json.encode(event_lines(fixed[task], job, wanted))

        kind = list[tuple[str | tuple[str, str], str | None, int]]
        places: dict[tuple[str, Name], tuple[str | None, int]] = {}
        for group, answer in zip(fixed, self._engine.run(len(fixed), work), strict=True):
            type_name = catalog.entity_of_table(group.table_key).name
            for name, file, line in msgspec.json.decode(answer, type=kind):
                places[type_name, name] = (file, line)
        return [_with_place(item, names, places) for item in problems]

    def _apply(self, groups: Sequence[Group], pins: Mapping[str, Pin]) -> list[Applied]:
        job, fixed, place = self._job, tuple(groups), self._place

        def work(task: int) -> bytes:
            group = fixed[task]
            own = {group.table_key: pins[group.table_key]}
            return msgspec.json.encode(apply_group(group, job, own, place))

        answers = self._engine.run(len(fixed), work)
        applied = [msgspec.json.decode(item, type=Applied) for item in answers]
        for item in applied:
            if item.refused is not None:
                raise BadRequestError(item.refused)
            if item.not_embedded is not None:
                raise EmbeddingError(item.not_embedded)
        return applied

    def _groups(self) -> Iterator[Group]:
        """Yield what each task applies: parts of all files of a type."""
        by_type: dict[str, list[int]] = {}
        for number, item in enumerate(self._named):
            if item.file is not None:
                by_type.setdefault(self._pieces[number].type_name or "", []).append(number)
        for name, numbers in by_type.items():
            entity = self._job.schema.catalog.entity_named(name)
            files = tuple(
                (event_file, self._offsets[number], self._label(self._pieces[number]))
                for number in numbers
                if (event_file := self._named[number].file) is not None
            )
            for parts in _bundled_parts([file for file, *_rest in files], self._tuning.event_rows):
                yield Group(table_key=entity.table_key, parts=parts, files=files)


def _with_place(
    item: Problem,
    names: Mapping[tuple[str, str], frozenset[Name]],
    places: Mapping[tuple[str, Name], tuple[str | None, int]],
) -> Problem:
    type_name = item.type_name or ""
    for name in names.get((type_name, item.entity_id or ""), ()):
        if (type_name, name) in places:
            file, line = places[type_name, name]
            return msgspec.structs.replace(item, file=file, line=line)
    return item


def _add_located(
    problems: Problems, items: Sequence[Problem], offset: int, file: str | None
) -> None:
    lines = [None if item.line is None else item.line + offset for item in items]
    located = [
        msgspec.structs.replace(item, line=line, file=file)
        for item, line in zip(items, lines, strict=True)
    ]
    _add_new(problems, located)


def _add_new(problems: Problems, items: Sequence[Problem]) -> None:
    """Take in problems; what is wrong with a column is wrong in every piece, and told once."""
    for item in items:
        if item.line is not None or item not in problems.items:
            problems.add(item)


def _bundled_parts(files: Sequence[EventFile], rows: int) -> list[frozenset[int]]:
    """Return which parts to apply together, so that a task gets about that many rows."""
    total = sum(sum(file.rows) for file in files)
    by_id = sum(file.by_id for file in files)
    if 0 < by_id < total:
        # An edge may be named by its id here and by its ends there: only together it is one.
        return [frozenset(range(SPARK_EVENT_PARTS))]
    sizes = [0] * SPARK_EVENT_PARTS
    for file in files:
        for part, size in zip(file.parts, file.rows, strict=True):
            sizes[part] += size
    filled = [part for part, size in enumerate(sizes) if size]
    groups = bundled([sizes[part] for part in filled], rows)
    return [frozenset(filled[at] for at in group) for group in groups]


def _named_piece(piece: Piece, job: Job, applies: bool) -> Named:
    """Name the events of a piece of a file."""
    problems = Problems(limit=job.problems_max)
    try:
        content = piece_records(piece, problems)
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        return Named(refused=f"{piece.label}: {error}")
    except BadRequestError as error:
        return Named(refused=error.message)
    if content is None:
        return Named()
    records, lines = content
    return _named_records(piece, job, records, lines, problems, applies)


def _named_records(
    piece: Piece, job: Job, records: Records, lines: int, problems: Problems, applies: bool
) -> Named:
    entity = job.schema.catalog.entity_named(piece.type_name or "")
    given = event_frame(entity, piece.reading, records, problems, applies=applies)
    if problems.items:
        return Named(lines=lines, problems=problems.items)
    answer = name_events(given, job)
    answer.lines = lines
    return answer


def _named_frame(
    piece: Piece, job: Job, applies: bool, _task: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[bytes]:
    """Name the events of a partition of a frame, some batches at a time."""
    for held in together(batches):
        yield _named_batches(piece, job, applies, held)


def _named_batches(
    piece: Piece, job: Job, applies: bool, batches: Sequence[pa.RecordBatch]
) -> bytes:
    frame = pa.Table.from_batches(batches)
    problems = Problems(limit=job.problems_max)
    records = table_records(frame)
    answer = _named_records(piece, job, records, frame.num_rows, problems, applies)
    return msgspec.json.encode(answer)

"""Turns records of an input into columns of a type, as a mapping says."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.catalog import FLOATS, INTEGERS, Entity, PropertyType, Scalar
from omnigraph.compute.types import Column
from omnigraph.errors import BadRequestError
from omnigraph.intake.expressions import UNFIT, UnfitValueError, computing, condition_of
from omnigraph.intake.records import MISSING, Records
from omnigraph.lang.column_expressions import columns_in, compile_column_expression
from omnigraph.rows.convert import column_array
from omnigraph.rows.problems import Problem, Problems
from omnigraph.wording import did_you_mean, or_meant

_INTEGER = re.compile(r"[+-]?[0-9]+")
_GOT = {str: "a string", int: "an integer", float: "a float", bool: "a boolean", list: "array"}


Report = Callable[[int, str], None]
RowReport = Callable[[int | None, str], None]
"""A report without a row is about all of them."""


class Shape(Struct, frozen=True, kw_only=True):
    """What becomes of the columns of an input; plain data.

    `columns` maps columns, or fields inside them, to properties; `computed` are properties with
    their expressions, `constants` properties with their values. Records for which `where` does not
    hold are left out. `ignored` are columns that may be there although the type lacks them; True
    means all such.
    """

    columns: tuple[tuple[str, str], ...] = ()
    computed: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, object], ...] = ()
    where: str | None = None
    ignored: bool | tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        """Return the properties that it sets, in order."""
        named = [target for _path, target in self.columns]
        return [*named, *(name for name, _text in (*self.computed, *self.constants))]

    def reads(self) -> set[str]:
        """Return the columns that expressions read."""
        texts = [text for _name, text in self.computed]
        if self.where is not None:
            texts.append(self.where)
        nodes = (compile_column_expression(text, "the mapping") for text in texts)
        return {name for node in nodes for name in columns_in(node)}


def check_shape(shape: Shape, entity: Entity, known: Sequence[str], label: str) -> None:
    """Refuse a mapping that no input could satisfy; nothing is read. Raises `BadRequestError`."""
    names = [*known]
    for path, target in shape.columns:
        if target not in names:
            raise BadRequestError(
                f"column '{path}' maps to '{target}', which {entity.name} lacks",
                hint=did_you_mean(target, names),
            )
    for target in shape.targets:
        if target not in names:
            raise BadRequestError(
                f"{label}: {entity.name} has no '{target}'", hint=did_you_mean(target, names)
            )
        if shape.targets.count(target) > 1:
            raise BadRequestError(f"{label}: '{target}' of {entity.name} is set twice")
    for target, text in shape.computed:
        compile_column_expression(text, f"{label}: {entity.name}.{target}")
    if shape.where is not None:
        compile_column_expression(shape.where, f"{label}: {entity.name}: where")
    for target, value in shape.constants:
        declared = entity.properties.get(target)
        if declared is not None:
            _check_constant(value, declared.type, target, label)


def _check_constant(value: object, declared: PropertyType, target: str, label: str) -> None:
    messages: list[str] = []
    _typed([value], declared, target, texts=False, report=lambda _row, text: messages.append(text))
    if messages:
        raise BadRequestError(f"{label}: the constant {value!r}: {messages[0]}")


def shaped(
    shape: Shape,
    entity: Entity,
    records: Records,
    known: Sequence[str],
    problems: Problems,
    *,
    all_members: bool = False,
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the columns of a type that records come to, and the lines of the rows.

    With `all_members` a record may lack none that others have.
    """
    if shape.where is not None:
        records = _filtered(shape.where, records, problems)
    work = _Shaping(shape, entity, records, known, problems, all_members)
    columns = list(work.columns())
    names = [name for name, _column in columns]
    return pa.Table.from_arrays([column for _name, column in columns], names), records.lines


class _Shaping:
    def __init__(
        self,
        shape: Shape,
        entity: Entity,
        records: Records,
        known: Sequence[str],
        problems: Problems,
        all_members: bool,
    ) -> None:
        self._shape = shape
        self._entity = entity
        self._records = records
        self._known = frozenset(known)
        self._problems = problems
        self._all_members = all_members

    def columns(self) -> Iterator[tuple[str, Column]]:
        shape, records = self._shape, self._records
        for path, target in shape.columns:
            yield target, self._direct(path, target)
        for target, text in shape.computed:
            values = computed(text, records, self._reporter(target))
            yield target, self._column(target, values)
        for target, value in shape.constants:
            yield target, self._column(target, [value] * records.size)
        for name in self._passed():
            yield name, self._direct(name, name)

    def _passed(self) -> Iterator[str]:
        """Yield columns that keep their names; what is not wanted is reported, or ignored."""
        shape, records = self._shape, self._records
        names, targets = records.names(), set(shape.targets)
        taken = {_outermost(path, names) for path, _target in shape.columns}
        reads = {_outermost(path, names) for path in shape.reads()}
        for name in names:
            if name in taken or name in targets:
                continue
            if name in self._known:
                yield name
            elif name not in reads and not self._is_ignored(name):
                if records.objects is None:
                    yield name
                else:
                    self._unknown_member(name)

    def _is_ignored(self, name: str) -> bool:
        ignored = self._shape.ignored
        return ignored if isinstance(ignored, bool) else name in ignored

    def _unknown_member(self, name: str) -> None:
        entity = self._entity
        meant = or_meant(name, sorted(self._known))
        message = f"unknown input field '{name}' for '{entity.table_key}'{meant}"
        for row, item in enumerate(self._records.objects or ()):
            if name in item:
                line = int(self._records.lines[row])
                problem = Problem(message=message, type_name=entity.name, field=name, line=line)
                self._problems.add(problem)

    def _direct(self, path: str, target: str) -> Column:
        records = self._records
        if records.objects is None and not records.texts:
            column = records.column(path)
            if column is not None:
                return column
        values = records.values(path)
        if values is None:
            message = f"there is no column '{path}'"
            if records.size:
                self._problems.add(Problem(message=message, type_name=self._entity.name))
            values = [None] * records.size
        if self._all_members:
            for row, value in enumerate(values):
                if value is MISSING:
                    self._reporter(target)(row, "missing here, but all events set the same columns")
        return self._column(target, values)

    def _column(self, target: str, values: list[object]) -> pa.Array:
        declared = self._entity.properties.get(target)
        if declared is None:
            return _names_column(_without_missing(values, None), self._reporter(target))
        default: object = declared.default
        if isinstance(default, tuple):
            default = list(default)
        values = _without_missing(values, default)
        texts = self._records.texts
        return _typed(values, declared.type, target, texts=texts, report=self._told(target))

    def _reporter(self, field: str) -> RowReport:
        told = self._told(field)
        return lambda row, message: told(row, f"property '{field}': {message}")

    def _told(self, field: str) -> RowReport:
        def report(row: int | None, message: str) -> None:
            line = None if row is None else int(self._records.lines[row])
            problem = Problem(message=message, type_name=self._entity.name, field=field, line=line)
            self._problems.add(problem)

        return report


def computed(text: str, records: Records, report: RowReport) -> list[object]:
    """Return what an expression comes to for each record; what cannot be computed is reported."""
    compute = computing(text)
    names = columns_in(compile_column_expression(text, "the mapping"))
    columns: dict[str, list[object]] = {}
    for name in names:
        values = records.values(name)
        if values is None:
            if records.size:
                report(None, f"there is no column '{name}'")
            return [None] * records.size
        columns[name] = _without_missing(values, None)
    results: list[object] = []
    for row in range(records.size):
        try:
            results.append(compute(lambda name, at=row: columns[name][at]))  # type: ignore[misc]
        except UNFIT as error:
            report(row, str(error))
            results.append(None)
    return results


def _filtered(where: str, records: Records, problems: Problems) -> Records:
    def report(row: int | None, message: str) -> None:
        line = None if row is None else int(records.lines[row])
        problems.add(Problem(message=f"where: {message}", line=line))

    keep: list[bool] = []
    for row, value in enumerate(computed(where, records, report)):
        try:
            keep.append(condition_of(value))
        except UnfitValueError as error:
            report(row, str(error))
            keep.append(False)
    return records.chosen(np.array(keep, dtype=bool))


def _outermost(path: str, names: Sequence[str]) -> str:
    """Return the column that a path leads into."""
    return path if path in names else path.split(".")[0]


def _without_missing(values: list[object], default: object) -> list[object]:
    return [default if value is MISSING else value for value in values]


# ---- values of a type ---------------------------------------------------------------------


def _typed(
    values: Sequence[object], declared: PropertyType, field: str, *, texts: bool, report: Report
) -> pa.Array:
    """Return values as a column of a type; texts of a CSV file mean what the type says."""
    cells: list[object] = []
    for row, value in enumerate(values):
        if texts and isinstance(value, str):
            try:
                value = _meaning(value, declared)
            except ValueError:
                report(row, f"property '{field}': {value!r} is not of type {declared}")
                value = None
        elif value is not None and not _fits(value, declared):
            got = _GOT.get(type(value), type(value).__name__)
            report(row, f"property '{field}' expects {declared}, got {got}")
            value = None
        cells.append(value)
    return column_array(
        cells, declared, lambda row, text: report(row, f"property '{field}': {text}")
    )


def text_array(texts: Sequence[str | None], declared: PropertyType, report: Report) -> pa.Array:
    """Return texts as a column of a type; what a text cannot mean is reported, and null."""
    values: list[object] = []
    for row, text in enumerate(texts):
        try:
            values.append(None if text is None else _meaning(text, declared))
        except ValueError:
            report(row, f"{text!r} is not of type {declared}")
            values.append(None)
    return column_array(values, declared, report)


def _meaning(text: str, declared: PropertyType) -> object:
    """Return what a text of a CSV file means for a type. Raises `ValueError`."""
    scalar = declared.scalar
    if declared.is_list or scalar is Scalar.VECTOR:
        items = json.loads(text)
        if not isinstance(items, list) or None in items:
            raise ValueError
        return items
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


def _fits(value: object, declared: PropertyType) -> bool:
    """Whether a value is of a kind that a type takes."""
    if declared.is_list:
        element = declared.element
        return isinstance(value, list) and all(_fits(item, element) for item in value)
    scalar = declared.scalar
    if scalar is Scalar.VECTOR:
        return isinstance(value, list) and all(_is_number(item) for item in value)
    if scalar is Scalar.BOOL:
        return isinstance(value, bool)
    if scalar in INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool)
    if scalar in FLOATS:
        return _is_number(value)
    if scalar in (Scalar.DATE, Scalar.DATETIME):
        plain = isinstance(value, int) and not isinstance(value, bool)
        return plain or isinstance(value, str | datetime.date)
    return isinstance(value, str) or (scalar is Scalar.BLOB and isinstance(value, bytes))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names_column(values: list[object], report: Report) -> pa.Array:
    """Return ids, ends, or what orders events: texts, or numbers if all are."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        pass
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            report(row, f"expected a text as in other rows, got {value!r}")
    return pa.array([value if isinstance(value, str) else None for value in values], pa.string())

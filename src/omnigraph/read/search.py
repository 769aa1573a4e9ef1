"""Text and vector search inside a read plan.

Before a plan runs, each text predicate becomes a column of its table: true where it matches, null
elsewhere. After the pattern has run, rankings are computed for the rows it left, as columns of the
pseudo-variable `#rank`. So the rest of the executor knows plain columns only.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.errors import QueryError
from omnigraph.limits import FUZZY_EDITS_DEFAULT
from omnigraph.plan.expression import (
    Bm25,
    Change,
    Expression,
    IsNull,
    Nearest,
    PropertyOf,
    Rrf,
    TextMatch,
    TextOp,
    transform,
    walk,
)
from omnigraph.plan.read import (
    AntiJoin,
    Apply,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    OptionalJoin,
    ReadPlan,
    Step,
)
from omnigraph.read.arrays import Mask
from omnigraph.read.columns import ResidentCache, TableColumns
from omnigraph.read.neighbours import Neighbours
from omnigraph.read.segments import Segments
from omnigraph.read.text import TextColumn, build_text_segment
from omnigraph.read.word_files import WordFiles
from omnigraph.read.words import meaningful, query_words
from omnigraph.store import Pin, Tables

COMPUTED = "#"
"""First character of the names of columns that a query computes; no property starts with it."""

Constant = Callable[[Expression], LiteralValue]


class SearchColumns(TableColumns):
    """Columns of tables, together with those one query computes."""

    def __init__(self, tables: Tables, cache: ResidentCache, constant: Constant) -> None:
        super().__init__(tables, cache)
        self._segments = Segments(tables, cache)
        self.neighbours = Neighbours(tables, cache)
        self._constant = constant
        self._predicates: list[TextMatch] = []
        self._computed: dict[tuple[str, str], pa.Array] = {}

    def column(self, pin: Pin, name: str) -> pa.Array:
        """Return a stored or a computed column."""
        if not name.startswith(COMPUTED):
            return super().column(pin, name)
        key = (pin.path, name)
        if key not in self._computed:
            match = self._predicates[int(name[len(COMPUTED) :])]
            self._computed[key] = self._matches(pin, match)
        return self._computed[key]

    def replaced(self, match: Expression) -> Expression | None:
        """Return a condition on a computed column that means the same as a text predicate."""
        if not isinstance(match, TextMatch):
            return None
        if match not in self._predicates:
            self._predicates.append(match)
        name = f"{COMPUTED}{self._predicates.index(match)}"
        column = PropertyOf(variable=match.variable, property=name, type=match.type)
        # Null where it does not match: so a variable an optional block left null does not either.
        return IsNull(operand=column, negated=True)

    def put(self, pin: Pin, name: str, values: pa.Array) -> None:
        """Keep a column computed elsewhere."""
        self._computed[(pin.path, name)] = values

    def text(self, pin: Pin, name: str, language: str) -> TextColumn:
        """Return the words of a column in a language."""
        load = WordFiles(self._tables, language).load
        build = partial(build_text_segment, language=language)
        segments = self._segments.get(pin, name, f"words, {language}", build, load)
        return TextColumn(segments, language)

    def _matches(self, pin: Pin, match: TextMatch) -> pa.Array:
        wanted = text_query(match, self._constant)
        if wanted is None:
            return pa.nulls(len(super().column(pin, "id")), pa.bool_())
        matches = wanted.matches(self.text(pin, match.property, match.language))
        return pa.array(matches, pa.bool_(), mask=~matches)


class TextQuery(Struct, frozen=True):
    """What a text predicate looks for; plain data."""

    op: TextOp
    words: tuple[tuple[int, str], ...]
    edits: int
    language: str

    def matches(self, column: TextColumn) -> Mask:
        """Tell which rows of a column match."""
        words = list(self.words)
        if self.op is TextOp.PHRASE:
            return column.phrase(words)
        if self.op is TextOp.FUZZY:
            return column.fuzzy(meaningful(words, self.language), edits=self.edits)
        return column.search(meaningful(words, self.language))


def text_query(match: TextMatch, constant: Constant) -> TextQuery | None:
    """Return what a text predicate looks for; None when it matches nothing, being asked null."""
    text = constant(match.query)
    edits = FUZZY_EDITS_DEFAULT if match.max_edits is None else constant(match.max_edits)
    if text is None or edits is None:
        return None
    if not isinstance(edits, int) or edits < 0:
        raise QueryError(f"max_edits of `fuzzy` must not be negative, got {edits}")
    words = words_of(str(text), str(match.op), match.language)
    return TextQuery(match.op, tuple(words), edits, match.language)


def words_of(text: str, function: str, language: str) -> list[tuple[int, str]]:
    """Return the words of a query. Raises `QueryError` when there are none."""
    words = query_words(text, language)
    if not words:
        raise QueryError(
            f"the query of `{function}` holds no word: {text!r}",
            hint="a word is made of letters and digits",
        )
    return words


# ---- rewriting ----------------------------------------------------------------------------


def searches(plan: ReadPlan) -> bool:
    """Whether a plan searches or ranks anything."""
    expressions: list[Expression] = [column.expression for column in plan.columns]
    expressions += [key.expression for key in plan.sort_keys]
    expressions += conditions_of(plan.steps)
    return plan.ranking is not None or any(
        isinstance(part, TextMatch | Nearest | Bm25 | Rrf)
        for expression in expressions
        for part in walk(expression)
    )


def conditions_of(steps: tuple[Step, ...]) -> list[Expression]:
    """Return the conditions of steps and of the steps inside them."""
    conditions: list[Expression | None] = []
    for step in steps:
        match step:
            case NodeScan() | Filter():
                conditions.append(step.condition)
            case Expand():
                conditions += [step.edge_condition, step.target_condition]
            case ExpandInto():
                conditions.append(step.edge_condition)
            case AntiJoin() | OptionalJoin():
                conditions += conditions_of(step.steps)
            case Join():
                conditions += [step.condition, *conditions_of(step.steps)]
            case Apply():
                conditions += [step.aggregate, *conditions_of(step.steps)]
    return [item for item in conditions if item is not None]


def transform_plan(plan: ReadPlan, change: Change) -> ReadPlan:
    """Return a plan in which every expression outside its ranking has been transformed."""
    return replace(
        plan,
        steps=_transform_steps(plan.steps, change),
        columns=tuple(
            replace(column, expression=transform(column.expression, change))
            for column in plan.columns
        ),
        sort_keys=tuple(
            replace(key, expression=transform(key.expression, change)) for key in plan.sort_keys
        ),
    )


def _transform_steps(steps: tuple[Step, ...], change: Change) -> tuple[Step, ...]:
    changed: list[Step] = []
    for step in steps:
        if isinstance(step, AntiJoin | OptionalJoin | Join | Apply):
            step = replace(step, steps=_transform_steps(step.steps, change))
        if isinstance(step, Apply) and step.aggregate is not None and step.aggregate.argument:
            argument = transform(step.aggregate.argument, change)
            step = replace(step, aggregate=replace(step.aggregate, argument=argument))
        names = [name for name in step.__struct_fields__ if name.endswith("condition")]
        conditions: Mapping[str, object] = {
            name: transform(value, change)
            for name in names
            if (value := getattr(step, name)) is not None
        }
        changed.append(replace(step, **conditions) if conditions else step)
    return tuple(changed)


def constants(parameters: Mapping[str, LiteralValue], now: datetime.datetime) -> Constant:
    """Return a function that evaluates what reads no rows."""
    return lambda expression: constant_value(expression, parameters, now)

"""A second opinion on read plans: nested loops over dictionaries, written from the specification.

Nothing here is shared with the executor. A row is a dictionary from variable to entity, an entity
is a dictionary of its properties with `id` (and `src`, `dst` for an edge); None is a variable that
an optional block left null. Unknown is None, as everywhere in Python.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from omnigraph.plan import Expression, ReadPlan
from omnigraph.plan.expression import (
    Aggregate,
    AggregateFunction,
    And,
    Arithmetic,
    ArithmeticOp,
    ColumnOf,
    Compare,
    CompareOp,
    Constant,
    EndpointOf,
    IdOf,
    IsNull,
    Member,
    Negate,
    Not,
    Now,
    ObjectOf,
    Or,
    Parameter,
    PathOf,
    PathPart,
    PropertyOf,
    SubqueryValue,
    Substring,
    TypeOf,
    Vanishing,
    children,
    walk,
)
from omnigraph.plan.read import (
    AntiJoin,
    Apply,
    Direction,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    OptionalJoin,
    Step,
)

Entity = dict[str, Any]
Row = dict[str, Entity | None]
Values = tuple[Any, ...]

I64_LEAST, I64_MOST = -(2**63), 2**63 - 1
U64_MOST = 2**64 - 1


class OracleOverflow(Exception):
    """An integer left its 64 bits: the executor must refuse too."""


class _Gone:
    """A condition that vanished."""


GONE = _Gone()


@dataclass(slots=True)
class GraphData:
    """A graph as plain data: per type its entities."""

    nodes: dict[str, list[Entity]] = field(default_factory=dict)
    edges: dict[str, list[Entity]] = field(default_factory=dict)
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)

    def node(self, type_name: str, id: str) -> Entity | None:
        return next((item for item in self.nodes[type_name] if item["id"] == id), None)

    def type_of(self, entity: Entity) -> str:
        tables = (*self.nodes.items(), *self.edges.items())
        return next(name for name, items in tables if any(item is entity for item in items))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a plan must return.

    `runs` holds the whole result before the cut: rows of one run may come in any order, runs come
    one after the other. `start` and `stop` are the cut.
    """

    runs: tuple[tuple[Values, ...], ...]
    start: int
    stop: int | None

    def problem(self, actual: Sequence[Values]) -> str | None:
        """Return what is wrong with a result, None when it is right."""
        total = sum(len(run) for run in self.runs)
        stop = total if self.stop is None else min(self.stop, total)
        wanted = max(0, stop - self.start)
        if len(actual) != wanted:
            return f"expected {wanted} rows, got {len(actual)}"
        position = 0
        for run in self.runs:
            low, high = max(position, self.start), min(position + len(run), stop)
            position += len(run)
            if low >= high:
                continue
            piece = Counter(map(frozen, actual[low - self.start : high - self.start]))
            extra = piece - Counter(map(frozen, run))
            if extra:
                return f"rows {low}..{high} hold {list(extra)}, which are not among {list(run)}"
        return None

    @property
    def rows(self) -> list[Values]:
        """All rows after the cut; within a run in the oracle's own order."""
        return [row for run in self.runs for row in run][self.start : self.stop]


def exact(value: Any) -> Any:
    """Return a value that can be a group key."""
    return tuple(map(exact, value)) if isinstance(value, list | tuple) else value


def frozen(value: Any) -> Any:
    """Return a value that can be counted: lists as tuples, floats rounded to 12 digits."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return tuple((name, frozen(item)) for name, item in value.items())
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.12e}")
    return value


def evaluate(
    plan: ReadPlan,
    data: GraphData,
    parameters: Mapping[str, Any],
    now: object,
) -> Answer:
    """Return the answer of a plan."""
    return Oracle(plan, data, parameters, now).answer()


class Oracle:
    """Evaluates one plan."""

    def __init__(
        self,
        plan: ReadPlan,
        data: GraphData,
        parameters: Mapping[str, Any],
        now: object,
    ) -> None:
        self._plan = plan
        self._data = data
        self._parameters = parameters
        self._now = now

    # ---- pattern --------------------------------------------------------------------------

    def _run(self, steps: tuple[Step, ...], row: Row) -> list[Row]:
        rows = [row]
        for step in steps:
            rows = [new for old in rows for new in self._step(step, old)]
        return rows

    def _step(self, step: Step, row: Row) -> Iterator[Row]:
        match step:
            case NodeScan():
                for node in self._data.nodes[step.type_name]:
                    yield from self._kept({**row, step.variable: node}, step.condition)
            case Expand():
                yield from self._expand(step, row)
            case ExpandInto():
                yield from self._expand_into(step, row)
            case Filter():
                yield from self._kept(row, step.condition)
            case Join():
                for other in self._run(step.steps, {}):
                    yield from self._kept({**row, **other}, step.condition)
            case AntiJoin():
                if not self._run(step.steps, row):
                    yield row
            case OptionalJoin():
                found = self._run(step.steps, row)
                for item in found:
                    yield {**row, **{name: item[name] for name in step.variables}}
                if not found:
                    yield {**row, **dict.fromkeys(step.variables)}
            case Apply():
                found = self._run(step.steps, row)
                yield {**row, step.variable: self.applied(step.aggregate, found)}

    def applied(self, aggregate: Aggregate | None, found: list[Row]) -> Entity:
        """Return what a subquery comes to, as an entity of one property."""
        if aggregate is None:
            return {"value": bool(found)}
        return {"value": self._aggregate(aggregate, found)}

    def _kept(self, row: Row, *conditions: Expression | None) -> Iterator[Row]:
        if all(c is None or self._holds(c, row) for c in conditions):
            yield row

    def _holds(self, condition: Expression, row: Row) -> bool:
        found = self._value(condition, row)
        return found is True or found is GONE

    def _expand(self, step: Expand, row: Row) -> Iterator[Row]:
        start = row[step.source]
        if start is None:
            return
        if step.edge_variable is not None:
            for edge, other in self._touching(step, start["id"]):
                node = self._data.node(step.target_type, other)
                if node is not None:
                    new = {**row, step.target: node, step.edge_variable: edge}
                    yield from self._kept(new, step.edge_condition, step.target_condition)
            return
        for id in self._reached(step, start["id"]):
            node = self._data.node(step.target_type, id)
            if node is not None:
                new = self._with_path(step, {**row, step.target: node})
                yield from self._kept(new, step.target_condition)

    def _expand_into(self, step: ExpandInto, row: Row) -> Iterator[Row]:
        start, end = row[step.source], row[step.target]
        if start is None or end is None:
            return
        if step.edge_variable is not None:
            for edge, other in self._touching(step, start["id"]):
                if other == end["id"]:
                    yield from self._kept({**row, step.edge_variable: edge}, step.edge_condition)
        elif end["id"] in self._reached(step, start["id"]):
            yield self._with_path(step, row)

    def _with_path(self, step: Expand | ExpandInto, row: Row) -> Row:
        start, end = row[step.source], row[step.target]
        if step.path_variable is None or start is None or end is None:
            return row
        return {**row, step.path_variable: {"value": self._path(step, start["id"], end["id"])}}

    def _path(self, step: Expand | ExpandInto, start: str, end: str) -> list[str]:
        """Return the first of all shortest paths between two nodes that are joined by one."""
        source_type, target_type = self._data.ends[step.edges[0]]
        if start == end or source_type != target_type:
            return [end, start] if step.path_backwards else [start, end]
        paths: set[tuple[str, ...]] = {(start,)}
        seen = {start}
        while not any(path[-1] == end for path in paths):
            paths = {
                (*path, other)
                for path in paths
                for _edge, other in self._touching(step, path[-1])
                if other not in seen
            }
            seen |= {path[-1] for path in paths}
        way = -1 if step.path_backwards else 1
        return min(list(path)[::way] for path in paths if path[-1] == end)

    def _touching(self, step: Expand | ExpandInto, start: str) -> Iterator[tuple[Entity, str]]:
        """Yield every edge at a node with its other end, a self-loop once."""
        first = self._data.ends[step.edges[0]]
        for name in step.edges:
            direction = step.direction
            if self._data.ends[name] != first and direction is not Direction.BOTH:
                # It joins the same types the other way round.
                direction = Direction.IN if direction is Direction.OUT else Direction.OUT
            for edge in self._data.edges[name]:
                if direction is not Direction.IN and edge["src"] == start:
                    yield edge, edge["dst"]
                elif direction is not Direction.OUT and edge["dst"] == start:
                    yield edge, edge["src"]

    def _reached(self, step: Expand | ExpandInto, start: str) -> set[str]:
        """Return nodes by shortest distance; the start is reached at hop 1 by its own loop."""
        source_type, target_type = self._data.ends[step.edges[0]]
        if source_type != target_type:
            others = {other for _edge, other in self._touching(step, start)}
            return others if step.min_hops <= 1 <= step.max_hops else set()
        distance, frontier = {start: 0}, [start]
        for node in frontier:
            for _edge, other in self._touching(step, node):
                if other not in distance:
                    distance[other] = distance[node] + 1
                    frontier.append(other)
        edges = [edge for name in step.edges for edge in self._data.edges[name]]
        loops = {edge["src"] for edge in edges if edge["src"] == edge["dst"]}
        found = {node for node, hops in distance.items() if step.min_hops <= hops <= step.max_hops}
        found.discard(start)
        if start in loops and step.min_hops == 1:
            found.add(start)
        return found

    # ---- values ---------------------------------------------------------------------------

    def _value(self, expression: Expression, row: Row) -> Any:
        match expression:
            case PropertyOf():
                entity = row[expression.variable]
                return None if entity is None else entity[expression.property]
            case IdOf():
                entity = row[expression.variable]
                return None if entity is None else entity["id"]
            case EndpointOf():
                entity = row[expression.variable]
                return None if entity is None else entity[_END[expression.end]]
            case ObjectOf():
                parts = [self._value(part, row) for part in expression.parts]
                names = [name for name, _type in expression.type.fields]
                return None if parts[0] is None else dict(zip(names, parts, strict=True))
            case PathOf():
                found = row[expression.variable]
                if found is None or expression.part is PathPart.NODES:
                    return None if found is None else found["value"]
                return len(found["value"]) - 1
            case TypeOf():
                entity = row[expression.variable]
                return None if entity is None else self._data.type_of(entity)
            case SubqueryValue():
                return (row[expression.variable] or {})["value"]
            case Parameter():
                return self._parameters[expression.name]
            case Constant():
                return expression.value
            case Now():
                return self._now
            case Negate():
                return combine(ArithmeticOp.SUB, 0, self._value(expression.operand, row))
            case Arithmetic():
                left = self._value(expression.left, row)
                return combine(expression.op, left, self._value(expression.right, row))
            case _:
                return self._condition(expression, row)

    def _condition(self, expression: Expression, row: Row) -> Any:
        match expression:
            case Compare():
                left = self._value(expression.left, row)
                return compare(expression.op, left, self._value(expression.right, row))
            case Member():
                item = self._value(expression.item, row)
                container = self._value(expression.container, row)
                return None if item is None or container is None else item in list(container)
            case Substring():
                text, part = self._value(expression.text, row), self._value(expression.part, row)
                if text is None or part is None:
                    return None
                return str(text).startswith(part) if expression.prefix else part in text
            case IsNull():
                return (self._value(expression.operand, row) is None) != expression.negated
            case And() | Or():
                return self._joined(expression, row)
            case Not():
                inner = self._value(expression.operand, row)
                return inner if inner is GONE or inner is None else not inner
            case Vanishing():
                if any(self._parameters[name] is None for name in expression.parameters):
                    return GONE
                return self._value(expression.condition, row)
            case _:
                raise AssertionError(f"the oracle does not know {type(expression).__name__}")

    def _joined(self, expression: And | Or, row: Row) -> Any:
        found = [self._value(item, row) for item in expression.operands]
        found = [item for item in found if item is not GONE]
        if not found:
            return GONE
        decisive = isinstance(expression, Or)
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    # ---- output ---------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """Return the rows of the pattern."""
        return self._run(self._plan.steps, {})

    def answer(self) -> Answer:
        """Return what the plan must return."""
        plan = self._plan
        rows = self.rows()
        if plan.grouped:
            keyed = [(values, self._keys(None, values)) for values in self._groups(rows)]
        else:
            keyed = []
            for row in rows:
                values = tuple(self._shown(c.expression, row) for c in plan.columns)
                keyed.append((values, self._keys(row, values)))
        if plan.distinct:
            keyed = list({exact(values): (values, keys) for values, keys in keyed}.values())
        start = 0 if plan.offset is None else self._value(plan.offset, {})
        size = None if plan.limit is None else self._value(plan.limit, {})
        stop = None if size is None else start + size
        return Answer(tuple(self._runs(keyed)), start, stop)

    def _shown(self, expression: Expression, row: Row) -> Any:
        found = self._value(expression, row)
        return True if found is GONE else found

    def _keys(self, row: Row | None, values: Values) -> Values:
        """Return what a row is sorted by: its sort keys, then ids where they break ties."""
        plan = self._plan
        keys: list[Any] = []
        for key in plan.sort_keys:
            if isinstance(key.expression, ColumnOf):
                keys.append(values[key.expression.index])
            else:
                keys.append(self._shown(key.expression, row or {}))
        if row is not None and not plan.distinct:
            for name in sorted(plan.variables):
                entity = row[name]
                keys.append(None if entity is None else entity["id"])
        return tuple(keys)

    def _runs(self, keyed: list[tuple[Values, Values]]) -> Iterator[tuple[Values, ...]]:
        hidden = [index for index, column in enumerate(self._plan.columns) if column.hidden]

        def visible(values: Values) -> Values:
            return tuple(v for index, v in enumerate(values) if index not in hidden)

        if not self._plan.sort_keys:
            yield tuple(visible(values) for values, _keys in keyed)
            return
        down = [key.descending for key in self._plan.sort_keys]

        def order(one: tuple[Values, Values], two: tuple[Values, Values]) -> int:
            for index, (left, right) in enumerate(zip(one[1], two[1], strict=True)):
                sign = total_order(left, right)
                if sign:
                    return -sign if index < len(down) and down[index] else sign
            return 0

        run: list[tuple[Values, Values]] = []
        for item in sorted(keyed, key=cmp_to_key(order)):
            if run and order(run[-1], item):
                yield tuple(visible(values) for values, _keys in run)
                run = []
            run.append(item)
        if run:
            yield tuple(visible(values) for values, _keys in run)

    # ---- groups ---------------------------------------------------------------------------

    def _groups(self, rows: list[Row]) -> Iterator[Values]:
        columns = self._plan.columns
        keys = [c.expression for c in columns if not _aggregates(c.expression)]
        groups: dict[Values, list[Row]] = {}
        for row in rows:
            key = tuple(exact(self._shown(expression, row)) for expression in keys)
            groups.setdefault(key, []).append(row)
        if not keys and not groups:
            groups[()] = []
        for members in groups.values():
            yield tuple(self._grouped(c.expression, members) for c in columns)

    def _grouped(self, expression: Expression, members: list[Row]) -> Any:
        if isinstance(expression, Aggregate):
            return self._aggregate(expression, members)
        if not _aggregates(expression):
            return self._shown(expression, members[0] if members else {})
        match expression:
            case Arithmetic():
                left = self._grouped(expression.left, members)
                return combine(expression.op, left, self._grouped(expression.right, members))
            case Negate():
                return combine(ArithmeticOp.SUB, 0, self._grouped(expression.operand, members))
            case Compare():
                left = self._grouped(expression.left, members)
                return compare(expression.op, left, self._grouped(expression.right, members))
            case IsNull():
                found = self._grouped(expression.operand, members)
                return (found is None) != expression.negated
            case _:
                kinds = [type(child).__name__ for child in children(expression)]
                raise AssertionError(f"the oracle does not group {type(expression)} of {kinds}")

    def _aggregate(self, item: Aggregate, members: list[Row]) -> Any:
        if item.argument is None:
            return len(members)
        found = [self._value(item.argument, row) for row in members]
        values = [value for value in found if value is not None]
        if item.distinct:
            return len({exact(value) for value in values})
        match item.function:
            case AggregateFunction.COUNT:
                return len(values)
            case _ if not values:
                return None
            case AggregateFunction.SUM if item.argument.type.is_integer:
                unsigned = str(item.type.scalar) == "U64"
                low, high = (0, U64_MOST) if unsigned else (I64_LEAST, I64_MOST)
                return _fits(sum(values), low, high)
            case AggregateFunction.SUM:
                return math.fsum(values)
            case AggregateFunction.AVG if item.argument.type.is_integer:
                return sum(values) / len(values)
            case AggregateFunction.AVG:
                return math.fsum(values) / len(values)
            case AggregateFunction.MIN:
                return min(values)
            case AggregateFunction.MAX:
                return max(values)


_END = {"from": "src", "to": "dst"}


def _aggregates(expression: Expression) -> bool:
    return any(isinstance(part, Aggregate) for part in walk(expression))


def _fits(value: int, low: int = I64_LEAST, high: int = I64_MOST) -> int:
    if not low <= value <= high:
        raise OracleOverflow(value)
    return value


def compare(op: CompareOp, left: Any, right: Any) -> bool | None:
    """Compare two scalars; Python compares an integer with a float by exact value."""
    if left is None or right is None:
        return None
    match op:
        case CompareOp.EQ:
            return bool(left == right)
        case CompareOp.NE:
            return bool(left != right)
        case CompareOp.LT:
            return bool(left < right)
        case CompareOp.LE:
            return bool(left <= right)
        case CompareOp.GT:
            return bool(left > right)
        case CompareOp.GE:
            return bool(left >= right)


def combine(op: ArithmeticOp, left: Any, right: Any) -> Any:
    """Combine two numbers: integers exactly in 64 bits, `/` as a float, by zero null."""
    if left is None or right is None:
        return None
    whole = isinstance(left, int) and isinstance(right, int)
    if op is ArithmeticOp.DIV:
        return None if right == 0 else float(left) / float(right)
    if op is ArithmeticOp.MOD:
        if right == 0:
            return None
        if not whole:
            return math.fmod(left, right)
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    if not whole:
        left, right = float(left), float(right)
    match op:
        case ArithmeticOp.ADD:
            found = left + right
        case ArithmeticOp.SUB:
            found = left - right
        case _:
            found = left * right
    return _fits(found) if whole else found


def total_order(left: Any, right: Any) -> int:
    """Return the sign of a comparison in which null is lowest."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return int(left > right) - int(left < right)

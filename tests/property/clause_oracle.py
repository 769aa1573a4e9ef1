"""A third opinion on patterns, straight from the clauses as they were checked.

The oracle of plans trusts the order of steps that lowering chose. This one does not: it tries every
node and every edge for every variable and keeps the rows in which all clauses hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from omnigraph.catalog import members_of
from omnigraph.lang.gq_clauses import Binding, Block, Clause, Condition, Subquery, Traversal
from omnigraph.plan import ReadPlan
from omnigraph.plan.expression import variables_of
from omnigraph.plan.read import Direction, ExpandInto
from tests.property.query_oracle import Answer, Entity, GraphData, Oracle, Row

Check = tuple[frozenset[str], Callable[[Row], bool]]


def evaluate_clauses(
    plan: ReadPlan,
    clauses: tuple[Clause, ...],
    data: GraphData,
    parameters: Mapping[str, Any],
    now: object,
) -> Answer:
    """Return the answer of a plan whose pattern is given as clauses."""
    return _ClauseOracle(plan, clauses, data, parameters, now).answer()


class _ClauseOracle(Oracle):
    def __init__(
        self,
        plan: ReadPlan,
        clauses: tuple[Clause, ...],
        data: GraphData,
        parameters: Mapping[str, Any],
        now: object,
    ) -> None:
        super().__init__(plan, data, parameters, now)
        self._clauses = clauses

    def rows(self) -> list[Row]:
        return self._solutions(self._clauses, {})

    def _solutions(self, clauses: tuple[Clause, ...], row: Row) -> list[Row]:
        blocks = [item for item in clauses if isinstance(item, Block)]
        optional = {name for block in blocks if block.optional for name in block.variables}
        subqueries = [item for item in clauses if isinstance(item, Subquery)]
        # Known when the rest of the row is.
        paths = [c for c in clauses if isinstance(c, Traversal) and c.path_variable is not None]
        computed = optional | {item.variable for item in subqueries}
        computed |= {item.path_variable for item in paths if item.path_variable is not None}
        domains: dict[str, list[Entity]] = {}
        checks: list[Check] = []
        late: list[Check] = []
        for item in clauses:
            match item:
                case Binding():
                    domains.setdefault(item.variable, self._data.nodes[item.type_name])
                    checks.append((frozenset({item.variable}), _is_there(item.variable)))
                case Traversal():
                    domains.setdefault(item.left, self._data.nodes[item.left_type])
                    domains.setdefault(item.right, self._data.nodes[item.right_type])
                    if item.edge_variable is not None:
                        domains[item.edge_variable] = [
                            edge
                            for member in members_of(item.edge)
                            for edge in self._data.edges[member.name]
                        ]
                    checks.append(self._traversal(item))
                case Condition():
                    names = variables_of(item.expression)
                    (late if names & computed else checks).append((names, self._condition_of(item)))
                case Block() | Subquery():
                    pass
        found = list(_assign(row, [n for n in domains if n not in row], domains, checks))
        for traversal in paths:
            found = [self._with_path(_step(traversal), one) for one in found]
        for block in blocks:
            if not block.optional and not optional & set(block.outer):
                found = [one for one in found if not self._solutions(block.clauses, one)]
        for block in blocks:
            if block.optional:
                found = [new for one in found for new in self._extended(block, one)]
        for item in subqueries:
            for one in found:
                inner = self._solutions(item.clauses, one)
                one[item.variable] = self.applied(item.aggregate, inner)
        found = [one for one in found if all(check(one) for _names, check in late)]
        for block in blocks:
            if not block.optional and optional & set(block.outer):
                found = [one for one in found if not self._solutions(block.clauses, one)]
        return found

    def _extended(self, block: Block, row: Row) -> Iterator[Row]:
        found = self._solutions(block.clauses, row)
        for item in found:
            yield {**row, **{name: item[name] for name in block.variables}}
        if not found:
            yield {**row, **dict.fromkeys(block.variables)}

    def _condition_of(self, item: Condition) -> Callable[[Row], bool]:
        return lambda row: self._holds(item.expression, row)

    def _traversal(self, item: Traversal) -> Check:
        step = _step(item)
        ends: dict[str, set[str]] = {}

        def joined(row: Row) -> bool:
            left, right = row[item.left], row[item.right]
            if left is None or right is None:
                return False
            if item.edge_variable is not None:
                edge = row[item.edge_variable]
                assert edge is not None
                forward = item.forward
                if self._data.ends[self._data.type_of(edge)][0] != item.edge.source:
                    forward = not forward
                pair = (left["id"], right["id"]) if forward else (right["id"], left["id"])
                there = (edge["src"], edge["dst"]) == pair
                return there or (item.undirected and (edge["dst"], edge["src"]) == pair)
            if left["id"] not in ends:
                ends[left["id"]] = self._reached(step, left["id"])
            return right["id"] in ends[left["id"]]

        names = {item.left, item.right, item.edge_variable or item.left}
        return frozenset(names), joined


def _step(item: Traversal) -> ExpandInto:
    """Return a traversal as it is written: from left to right."""
    if item.undirected:
        direction = Direction.BOTH
    else:
        direction = Direction.OUT if item.forward else Direction.IN
    return ExpandInto(
        source=item.left,
        target=item.right,
        edges=tuple(edge.name for edge in members_of(item.edge)),
        direction=direction,
        min_hops=item.min_hops,
        max_hops=item.max_hops,
        path_variable=item.path_variable,
    )


def _is_there(variable: str) -> Callable[[Row], bool]:
    return lambda row: row[variable] is not None


def _assign(
    row: Row, names: list[str], domains: dict[str, list[Entity]], checks: list[Check]
) -> Iterator[Row]:
    """Yield every way to give the names a value, with checks as soon as they can be made."""
    now = [check for needed, check in checks if needed <= row.keys()]
    if not all(check(row) for check in now):
        return
    if not names:
        yield row
        return
    rest = [(needed, check) for needed, check in checks if not needed <= row.keys()]
    for entity in domains[names[0]]:
        yield from _assign({**row, names[0]: entity}, names[1:], domains, rest)

"""Puts resolved clauses into an order to run.

Each connected part starts with one scan (its first binding) and grows along traversals; parts that
only conditions connect are joined by these. A condition on one variable goes into the step that
introduces it; others become filters as soon as their variables are there. Conditions that can
overflow wait until all rows are found, because an overflow on a row that does not exist is no
error. Optional blocks follow the mandatory clauses, then what reads their variables. Subqueries are
for the rows that are left: those of conditions as soon as may be, those of columns at the end.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import members_of
from omnigraph.lang.gq_clauses import Binding, Block, Clause, Condition, Subquery, Traversal
from omnigraph.lang.gq_parts import Parts
from omnigraph.plan.expression import And, Expression, can_overflow, conjunction, variables_of
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


def lower(clauses: tuple[Clause, ...], outer: frozenset[str] = frozenset()) -> tuple[Step, ...]:
    """Return the steps of a block whose `outer` variables are bound already."""
    return _Lowering(clauses, outer).run()


class _Introduction(Struct, frozen=True):
    """Where a variable entered: the index of its step, and whether as the edge of it."""

    step: int
    is_edge: bool = False


class _Condition(Struct):
    """A condition and how many of its variables are not there yet."""

    expression: Expression
    variables: frozenset[str]
    missing: int


class _Lowering:
    def __init__(self, clauses: tuple[Clause, ...], outer: frozenset[str]) -> None:
        bindings: dict[str, Binding] = {}
        for item in clauses:
            if isinstance(item, Binding):
                bindings.setdefault(item.variable, item)
        self._bindings = bindings
        self._traversals = [c for c in clauses if isinstance(c, Traversal)]
        self._blocks = [c for c in clauses if isinstance(c, Block)]
        self._subqueries = [c for c in clauses if isinstance(c, Subquery)]
        self._steps: list[Step] = []
        self._bound: set[str] = set(outer)
        self._introduced: dict[str, _Introduction] = {}
        self._ready: list[_Condition] = []
        self._risky: list[Expression] = []
        self._by_variable: dict[str, list[_Condition]] = {}
        self._own: set[str] | None = None
        self._links: list[Expression] = []
        conditions = [
            part
            for item in clauses
            if isinstance(item, Condition)
            for part in _conjuncts(item.expression)
        ]
        for part in conditions:
            self._await(part)
        self._parts = Parts(bindings.values(), self._traversals, conditions, outer)

    def _await(self, expression: Expression) -> None:
        """Note which variables a condition still needs; it is ready when there are none."""
        names = variables_of(expression)
        condition = _Condition(expression, names, len(names - self._bound))
        if not condition.missing:
            self._ready.append(condition)
        for name in names - self._bound:
            self._by_variable.setdefault(name, []).append(condition)

    def run(self) -> tuple[Step, ...]:
        """Lower everything."""
        if self._bound:
            # What only reads rows from outside drops them before anything is looked for.
            self._place_conditions()
            self._follow_all()
        while (start := self._parts.next()) is not None:
            if self._bound:
                self._join(*start)
            else:
                self._scan(*start)
                self._follow_all()
        self._place_all_conditions()
        optional_variables = {
            v for block in self._blocks if block.optional for v in block.variables
        }
        late = [b for b in self._blocks if not b.optional and optional_variables & set(b.outer)]
        for block in self._blocks:
            if not block.optional and block not in late:
                self._block(block)
        self._apply([s for s in self._awaited() if not optional_variables & s.outer])
        for block in self._blocks:
            if block.optional:
                self._block(block)
        self._place_all_conditions()
        self._apply(self._awaited())
        for block in late:
            self._block(block)
        self._apply(self._subqueries)
        return tuple(self._steps)

    def _awaited(self) -> list[Subquery]:
        """Return the subqueries that conditions read; the others are for columns."""
        return [item for item in self._subqueries if item.variable in self._by_variable]

    def _apply(self, subqueries: list[Subquery]) -> None:
        """Find the values of subqueries, for the rows that are left, and what depends on them."""
        for item in subqueries:
            self._steps.append(
                Apply(
                    variable=item.variable,
                    outer=tuple(sorted(item.outer)),
                    steps=lower(item.clauses, frozenset(self._bound)),
                    aggregate=item.aggregate,
                )
            )
            self._bind(item.variable)
            self._place_all_conditions()
        self._subqueries = [item for item in self._subqueries if item not in subqueries]

    def _join(self, variable: str, type_name: str) -> None:
        """Lower a part on its own; what connects it with the others is the condition."""
        before, self._steps, self._own, self._links = self._steps, [], set(), []
        self._scan(variable, type_name)
        self._follow_all()
        part = Join(steps=tuple(self._steps), condition=conjunction(tuple(self._links)))
        self._steps, self._own = [*before, part], None

    def _scan(self, variable: str, type_name: str) -> None:
        self._steps.append(NodeScan(variable=variable, type_name=type_name))
        self._introduce(variable)
        self._place_conditions()

    def _bind(self, variable: str) -> None:
        if variable in self._bound:
            return
        self._bound.add(variable)
        if self._own is not None:
            self._own.add(variable)
        for condition in self._by_variable.pop(variable, []):
            condition.missing -= 1
            if not condition.missing:
                self._ready.append(condition)

    def _introduce(self, variable: str, *, is_edge: bool = False) -> None:
        self._bind(variable)
        self._introduced[variable] = _Introduction(len(self._steps) - 1, is_edge)

    def _follow_all(self) -> None:
        """Follow every traversal that is connected with what is bound."""
        while self._follow_connected():
            pass

    def _follow_connected(self) -> bool:
        for index, item in enumerate(self._traversals):
            if item.left in self._bound or item.right in self._bound:
                del self._traversals[index]
                self._follow(item)
                return True
        return False

    def _follow(self, item: Traversal) -> None:
        from_left = item.left in self._bound
        out = item.forward == from_left
        direction = Direction.BOTH if item.undirected else Direction.OUT if out else Direction.IN
        source, target = (item.left, item.right) if from_left else (item.right, item.left)
        if target in self._bound:
            self._steps.append(
                ExpandInto(
                    source=source,
                    target=target,
                    edges=tuple(edge.name for edge in members_of(item.edge)),
                    direction=direction,
                    min_hops=item.min_hops,
                    max_hops=item.max_hops,
                    edge_variable=item.edge_variable,
                    path_variable=item.path_variable,
                    path_backwards=item.path_variable is not None and not from_left,
                )
            )
        else:
            self._steps.append(
                Expand(
                    source=source,
                    target=target,
                    edges=tuple(edge.name for edge in members_of(item.edge)),
                    direction=direction,
                    target_type=item.right_type if from_left else item.left_type,
                    min_hops=item.min_hops,
                    max_hops=item.max_hops,
                    edge_variable=item.edge_variable,
                    path_variable=item.path_variable,
                    path_backwards=item.path_variable is not None and not from_left,
                )
            )
            self._introduce(target)
        if item.edge_variable is not None:
            self._introduce(item.edge_variable, is_edge=True)
        if item.path_variable is not None:
            self._bind(item.path_variable)
        self._place_conditions()

    def _place_conditions(self) -> None:
        ready, self._ready = self._ready, []
        for condition in ready:
            if can_overflow(condition.expression):
                self._risky.append(condition.expression)
                continue
            names = condition.variables
            if self._own is not None and not names <= self._own:
                self._links.append(condition.expression)
            elif len(names) != 1 or not self._push(condition.expression, next(iter(names))):
                self._steps.append(Filter(condition=condition.expression))

    def _place_all_conditions(self) -> None:
        self._place_conditions()
        self._steps += [Filter(condition=item) for item in self._risky]
        self._risky = []

    def _push(self, condition: Expression, variable: str) -> bool:
        place = self._introduced.get(variable)
        if place is None:
            return False
        step = self._steps[place.step]
        match step:
            case NodeScan():
                self._steps[place.step] = replace(step, condition=_join(step.condition, condition))
            case Expand() | ExpandInto() if place.is_edge:
                self._steps[place.step] = replace(
                    step, edge_condition=_join(step.edge_condition, condition)
                )
            case Expand():
                self._steps[place.step] = replace(
                    step, target_condition=_join(step.target_condition, condition)
                )
            case _:
                return False
        return True

    def _block(self, block: Block) -> None:
        steps = lower(block.clauses, frozenset(self._bound))
        if block.optional:
            self._steps.append(
                OptionalJoin(outer=block.outer, variables=block.variables, steps=steps)
            )
            for name in block.variables:
                self._bind(name)
        else:
            self._steps.append(AntiJoin(outer=block.outer, steps=steps))


def _conjuncts(expression: Expression) -> tuple[Expression, ...]:
    return expression.operands if isinstance(expression, And) else (expression,)


def _join(present: Expression | None, added: Expression) -> Expression:
    before = () if present is None else _conjuncts(present)
    return conjunction((*before, added)) or added

"""The first connected part of a pattern as a tree, and what the rest of a query needs of it.

A scan and the expansions that grow from it join variables without cycles, so the same rows come
out whichever variable the walk starts at. Variables that the rest of a query does not read
need not be listed: it is enough to know how many ways there are.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from omnigraph.plan.expression import (
    Aggregate,
    AggregateFunction,
    Expression,
    IdOf,
    PropertyOf,
    children,
    variables_of,
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
    ReadPlan,
    Step,
)

_BACK = {Direction.OUT: Direction.IN, Direction.IN: Direction.OUT, Direction.BOTH: Direction.BOTH}


class Needs(Struct, frozen=True):
    """What is read after some steps: variables (None for all), and whether copies of rows count."""

    variables: frozenset[str] | None
    bag: bool = True
    enough: int | None = None
    """How many rows, whichever they are, suffice; None if all are needed."""

    def before(self, steps: Iterable[Step]) -> frozenset[str]:
        """Return what steps read, and what is read after them."""
        needed = self.variables or frozenset()
        for step in steps:
            needed |= _needed_by_step(step)
        return needed

    def ahead_of(self, steps: Iterable[Step]) -> Needs:
        """Return what is read from before some steps on."""
        steps = tuple(steps)
        if not steps:
            return self
        known = None if self.variables is None else self.before(steps)
        return Needs(known, self.bag)


EVERYTHING = Needs(None)
NOTHING = Needs(frozenset(), bag=False)


class Variable(Struct, frozen=True):
    """A node of the tree: a type and a condition on it alone."""

    name: str
    type_name: str
    condition: Expression | None


class Link(Struct, frozen=True):
    """An edge of the tree as it is walked: from `source`, which is bound, to `target`."""

    number: int
    source: str
    target: str
    step: Expand
    direction: Direction

    @property
    def single_hop(self) -> bool:
        """Whether it is one hop: only then can it be walked from both ends."""
        return (self.step.min_hops, self.step.max_hops) == (1, 1)

    def reversed(self) -> Link:
        """Return the same edge walked from its other end."""
        return Link(self.number, self.target, self.source, self.step, _BACK[self.direction])


class Tree(Struct, frozen=True):
    """The leading part of a plan.

    `live` are the variables that later steps or the output read. Without `bag` it does not matter
    how often a row occurs; with `listed` every row is given out. `rest` are the steps after it,
    and `needs` is what is read after these.
    """

    root: str
    variables: dict[str, Variable]
    links: tuple[Link, ...]
    live: frozenset[str]
    bag: bool
    listed: bool
    rest: tuple[Step, ...]
    needs: Needs

    @property
    def can_turn(self) -> bool:
        """Whether the walk may start at any variable."""
        return all(link.single_hop for link in self.links)

    def links_from(self, name: str, *, without: frozenset[int]) -> list[Link]:
        """Return the links at a variable, walked away from it."""
        links: list[Link] = []
        for link in self.links:
            if link.number in without:
                continue
            if link.source == name:
                links.append(link)
            elif link.target == name:
                links.append(link.reversed())
        return links

    def dangling(self, link: Link) -> bool:
        """Whether nothing behind a link is read later: it only counts ways."""
        if link.target in self.live or link.step.edge_variable in self.live:
            return False
        behind = self.links_from(link.target, without=frozenset([link.number]))
        return all(self.dangling(item) for item in behind)


def plan_tree(plan: ReadPlan) -> Tree | None:
    """Return the tree a plan starts with; None when every row has to be listed."""
    if plan.ranking is not None or not plan.steps or not isinstance(plan.steps[0], NodeScan):
        return None
    needed = _needed_by_output(plan, never_null(plan.steps))
    if needed is None:
        return None
    listed = not (plan.grouped or plan.distinct)
    return steps_tree(plan.steps, Needs(needed, bag=not _ignores_copies(plan)), listed=listed)


def steps_tree(steps: tuple[Step, ...], needs: Needs, *, listed: bool) -> Tree | None:
    """Return the tree that steps start with; None when they start with no scan."""
    if not steps or not isinstance(steps[0], NodeScan) or needs.variables is None:
        return None
    scan = steps[0]
    variables = {scan.variable: Variable(scan.variable, scan.type_name, scan.condition)}
    links: list[Link] = []
    rest = steps[1:]
    for step in rest:
        if not isinstance(step, Expand) or not _is_counted(step):
            break
        links.append(Link(len(links), step.source, step.target, step, step.direction))
        variables[step.target] = Variable(step.target, step.target_type, step.target_condition)
    rest = rest[len(links) :]
    return Tree(
        root=scan.variable,
        variables=variables,
        links=tuple(links),
        live=needs.before(rest) & never_null(steps[: len(links) + 1]),
        bag=needs.bag,
        listed=listed,
        rest=rest,
        needs=needs,
    )


def hanging_tree(steps: Iterable[Step], *, bag: bool) -> Tree | None:
    """Return an inner pattern as a tree that hangs on one outer variable; None if it is not."""
    links: list[Link] = []
    variables: dict[str, Variable] = {}
    for inner in steps:
        if not isinstance(inner, Expand) or not _is_counted(inner):
            return None
        links.append(Link(len(links), inner.source, inner.target, inner, inner.direction))
        variables[inner.target] = Variable(inner.target, inner.target_type, inner.target_condition)
    outer = {link.source for link in links} - set(variables)
    if len(outer) != 1:
        return None
    return Tree(
        root=outer.pop(),
        variables=variables,
        links=tuple(links),
        live=frozenset(),
        bag=bag,
        listed=False,
        rest=(),
        needs=NOTHING,
    )


def _is_counted(step: Expand) -> bool:
    """Whether the ways over a step can be counted: it leads somewhere, and tells no path."""
    return step.min_hops <= step.max_hops and step.path_variable is None


def aggregates_of(expression: Expression) -> list[Aggregate]:
    """Return the aggregates in an expression."""
    return [item for item in walk(expression) if isinstance(item, Aggregate)]


def counts_rows(item: Aggregate, never_null: frozenset[str]) -> bool:
    """Whether an aggregate just counts rows: what it counts cannot be null."""
    if item.function is not AggregateFunction.COUNT or item.distinct:
        return False
    match item.argument:
        case None:
            return True
        case IdOf():
            return item.argument.variable in never_null
        case PropertyOf():
            return item.argument.variable in never_null and not item.argument.type.nullable
        case _:
            return False


def is_weighable(item: Aggregate) -> bool:
    """Whether an aggregate can be computed exactly from rows and how often they occur."""
    if item.function in (AggregateFunction.SUM, AggregateFunction.AVG):
        return item.argument is not None and item.argument.type.is_integer
    return True


def _ignores_copies(plan: ReadPlan) -> bool:
    if not plan.grouped:
        return plan.distinct
    once = (AggregateFunction.MIN, AggregateFunction.MAX)
    return all(
        item.distinct or item.function in once
        for column in plan.columns
        for item in aggregates_of(column.expression)
    )


def _needed_by_output(plan: ReadPlan, never_null: frozenset[str]) -> frozenset[str] | None:
    expressions = [column.expression for column in plan.columns]
    expressions += [key.expression for key in plan.sort_keys]
    if not plan.grouped:
        variables = frozenset(name for item in expressions for name in variables_of(item))
        ties = plan.sort_keys and not plan.distinct
        return variables | frozenset(plan.variables) if ties else variables
    if not all(is_weighable(item) for part in expressions for item in aggregates_of(part)):
        return None
    needed: frozenset[str] = frozenset()
    for item in expressions:
        needed |= _needed_by_expression(item, never_null)
    return needed


def _needed_by_expression(expression: Expression, never_null: frozenset[str]) -> frozenset[str]:
    if isinstance(expression, Aggregate) and counts_rows(expression, never_null):
        return frozenset()
    below: frozenset[str] = frozenset()
    parts = list(children(expression))
    if not parts:
        return variables_of(expression)
    for part in parts:
        below |= _needed_by_expression(part, never_null)
    return below


def _needed_by_step(step: Step) -> frozenset[str]:
    match step:
        case NodeScan():
            return frozenset()
        case Expand():
            return frozenset([step.source])
        case ExpandInto():
            return frozenset([step.source, step.target])
        case Filter():
            return variables_of(step.condition)
        case AntiJoin() | OptionalJoin() | Apply():
            needed = frozenset(step.outer)
            for inner in step.steps:
                needed |= _needed_by_step(inner)
            return needed
        case Join():
            # Its steps read variables of their own only.
            return frozenset() if step.condition is None else variables_of(step.condition)


def never_null(steps: Iterable[Step]) -> frozenset[str]:
    """Return the variables that steps add and that are something in every row."""
    names: set[str | None] = set()
    for step in steps:
        match step:
            case NodeScan():
                names.add(step.variable)
            case Expand():
                names |= {step.target, step.edge_variable, step.path_variable}
            case ExpandInto():
                names |= {step.edge_variable, step.path_variable}
            case Join():
                names |= never_null(step.steps)
            case _:
                pass
    return frozenset(name for name in names if name is not None)

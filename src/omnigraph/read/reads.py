"""What a plan reads of each variable: the type it has, and the columns that must be there."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from omnigraph.compute.evaluate import TYPE
from omnigraph.plan.expression import (
    EndpointOf,
    Expression,
    IdOf,
    PropertyOf,
    SubqueryValue,
    TypeOf,
    walk,
)
from omnigraph.plan.read import (
    AntiJoin,
    Apply,
    Expand,
    ExpandInto,
    Join,
    NodeScan,
    OptionalJoin,
    ReadPlan,
    Step,
)
from omnigraph.read.search import conditions_of

_ENDS = {"from": "src", "to": "dst"}


def column_name(expression: Expression) -> tuple[str, str] | None:
    """Return variable and column that an expression is; None for anything computed."""
    match expression:
        case PropertyOf():
            return expression.variable, expression.property
        case IdOf():
            return expression.variable, "id"
        case EndpointOf():
            return expression.variable, _ENDS[expression.end]
        case SubqueryValue():
            return expression.variable, "value"
        case TypeOf():
            return expression.variable, TYPE
        case _:
            return None


class Reads(Struct, frozen=True):
    """By variable: its type, and the columns any expression reads, in a fixed order.

    `types` are those of nodes, `edges` those of edges, of which there may be several.
    """

    types: dict[str, str]
    edges: dict[str, tuple[str, ...]]
    columns: dict[str, tuple[str, ...]]

    def tables(self) -> Iterator[tuple[str, str]]:
        """Yield each variable with each type that it is read from."""
        yield from self.types.items()
        for variable, names in self.edges.items():
            yield from ((variable, name) for name in names)

    def of(self, variable: str) -> tuple[str, ...]:
        """Return the columns that are read of a variable."""
        return self.columns.get(variable, ())


def reads_of(plan: ReadPlan) -> Reads:
    """Return what a plan reads."""
    read_columns: dict[str, set[str]] = {}
    for expression in _expressions(plan):
        for part in walk(expression):
            named = column_name(part)
            if named is not None:
                read_columns.setdefault(named[0], set()).add(named[1])
    if (plan.sort_keys or plan.ranking is not None) and not plan.grouped and not plan.distinct:
        for name in plan.variables:
            read_columns.setdefault(name, set()).add("id")
    types: dict[str, str] = {}
    edges: dict[str, tuple[str, ...]] = {}
    for step in all_steps(plan.steps):
        match step:
            case NodeScan():
                types[step.variable] = step.type_name
            case Expand():
                types[step.target] = step.target_type
                if step.edge_variable is not None:
                    edges[step.edge_variable] = step.edges
            case ExpandInto() if step.edge_variable is not None:
                edges[step.edge_variable] = step.edges
            case AntiJoin() | OptionalJoin() | Apply():
                # Rows outside and inside a block are matched by the ids of what they share.
                for name in step.outer:
                    read_columns.setdefault(name, set()).add("id")
            case _:
                pass
    for name, several in edges.items():
        if len(several) > 1 and name in read_columns:
            # An id is unique within one type.
            read_columns[name].add(TYPE)
    return Reads(
        types, edges, {name: tuple(sorted(columns)) for name, columns in read_columns.items()}
    )


def _expressions(plan: ReadPlan) -> Iterator[Expression]:
    yield from (column.expression for column in plan.columns)
    yield from (key.expression for key in plan.sort_keys)
    yield from conditions_of(plan.steps)


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield steps, and those inside them."""
    for step in steps:
        yield step
        if isinstance(step, AntiJoin | OptionalJoin | Join | Apply):
            yield from all_steps(step.steps)

"""Tells what the columns of a read query hold: a kind of value, or the ids of a type's entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.lang.lint import describe_type
from omnigraph.plan.expression import IdOf
from omnigraph.plan.read import (
    AntiJoin,
    Expand,
    ExpandInto,
    Join,
    NodeScan,
    OptionalJoin,
    ReadPlan,
    Step,
)


def column_types(plan: ReadPlan) -> tuple[dict[str, object], ...]:
    """Describe each column that is returned; ids of nodes and edges name the type as `entity`."""
    entities = dict(_variables(plan.steps))
    columns: list[dict[str, object]] = []
    for column in plan.columns:
        if column.hidden:
            continue
        described = {"name": column.name, **describe_type(column.type)}
        if isinstance(column.expression, IdOf) and column.expression.variable in entities:
            kind, type_name = entities[column.expression.variable]
            described["entity"] = {"kind": kind, "type_name": type_name}
        columns.append(described)
    return tuple(columns)


def _variables(steps: Iterable[Step]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the variables of a pattern with kind and type; those of `not` are never returned."""
    for step in steps:
        match step:
            case NodeScan():
                yield step.variable, ("node", step.type_name)
            case Expand():
                yield step.target, ("node", step.target_type)
                yield from _edge(step)
            case ExpandInto():
                yield from _edge(step)
            case OptionalJoin() | Join():
                yield from _variables(step.steps)
            case AntiJoin():
                pass


def _edge(step: Expand | ExpandInto) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the edge variable of a step, if its edges are of one type."""
    if step.edge_variable is not None and len(step.edges) == 1:
        yield step.edge_variable, ("edge", step.edges[0])

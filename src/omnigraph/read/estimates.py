"""How many rows a step is expected to leave for each row before it, from counts alone."""

from __future__ import annotations

import math

from omnigraph.limits import CONDITION_SHARE
from omnigraph.plan.expression import And, Compare, CompareOp, Expression
from omnigraph.plan.read import (
    AntiJoin,
    Direction,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    Step,
)
from omnigraph.read.context import Context


def growth(context: Context, step: Step) -> float:
    """Return the factor by which a step is expected to multiply the rows."""
    match step:
        case NodeScan():
            rows = context.pins[f"node:{step.type_name}"].row_count
            return rows * (1.0 if step.condition is None else CONDITION_SHARE)
        case Expand():
            kept = CONDITION_SHARE if step.target_condition is not None else 1.0
            return kept * _degree(context, step.edge, step.direction) ** step.max_hops
        case ExpandInto() | Filter():
            return CONDITION_SHARE
        case AntiJoin():
            return 1.0 - CONDITION_SHARE
        case Join():
            added = math.prod([growth(context, inner) for inner in step.steps], start=1.0)
            if step.condition is None:
                return added
            # An equality is taken to be one with a key.
            return 1.0 if _is_equality(step.condition) else added * CONDITION_SHARE
        case _:
            return 1.0


def _is_equality(condition: Expression) -> bool:
    parts = condition.operands if isinstance(condition, And) else (condition,)
    return any(isinstance(part, Compare) and part.op is CompareOp.EQ for part in parts)


def _degree(context: Context, edge_name: str, direction: Direction) -> float:
    """Return how many edges of a type a node has on average."""
    edge = context.catalog.edges[edge_name]
    edges = context.pins[f"edge:{edge_name}"].row_count
    sources = max(context.pins[f"node:{edge.source}"].row_count, 1)
    targets = max(context.pins[f"node:{edge.target}"].row_count, 1)
    match direction:
        case Direction.OUT:
            return edges / sources
        case Direction.IN:
            return edges / targets
        case _:
            return edges / sources + edges / targets

"""How many rows a step is expected to leave for each row before it, from counts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from omnigraph.catalog import Catalog, PropertyType, members_of, united
from omnigraph.limits import (
    ADJACENCY_BYTES,
    CONDITION_SHARE,
    LIST_BYTES,
    NUMBER_BYTES,
    ROW_BYTES,
    TEXT_BYTES,
)
from omnigraph.plan.expression import And, Compare, CompareOp, Expression
from omnigraph.plan.read import (
    AntiJoin,
    Direction,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    ReadPlan,
    Step,
)
from omnigraph.read.reads import reads_of
from omnigraph.read.tree import plan_tree
from omnigraph.store import Pin


class Sizes(Protocol):
    """What estimates rest on: types, and how many rows each has."""

    @property
    def catalog(self) -> Catalog:
        """The types."""

    @property
    def pins(self) -> Mapping[str, Pin]:
        """The tables."""


def working_set_bytes(context: Sizes, plan: ReadPlan) -> int:
    """Return about how much memory a query takes that runs in one process.

    Columns and adjacency of all tables it reads, and the rows it lists.
    """
    reads = reads_of(plan)
    catalog, pins = context.catalog, context.pins
    size_bytes = 0.0
    for variable, type_name in reads.tables():
        entity = catalog.entity_named(type_name)
        rows = pins[entity.table_key].row_count
        for name in {"id", *reads.of(variable)}:
            declared = entity.properties.get(name)
            size_bytes += rows * (TEXT_BYTES if declared is None else _width(declared.type))
    size_bytes += sum(pins[f"edge:{name}"].row_count * ADJACENCY_BYTES for name in plan.reads_edges)
    return math.ceil(
        size_bytes + _listed_rows(context, plan) * ROW_BYTES * (len(reads.types) + len(reads.edges))
    )


def _width(declared: PropertyType) -> int:
    if declared.vector_dim:
        return declared.vector_dim * NUMBER_BYTES // 2
    if declared.is_list:
        return LIST_BYTES
    return TEXT_BYTES if declared.is_text else NUMBER_BYTES


def _listed_rows(context: Sizes, plan: ReadPlan) -> float:
    """Return how many rows a query holds at once, at its widest; counted ways are not rows."""
    tree = plan_tree(plan)
    steps = plan.steps
    if tree is not None and not tree.listed:
        listed = tuple(link.step for link in tree.links if not tree.dangling(link))
        steps = (plan.steps[0], *listed, *tree.rest)
    rows, widest = 1.0, 0.0
    for step in steps:
        rows *= growth(context, step)
        widest = max(widest, rows)
    return widest


def growth(context: Sizes, step: Step) -> float:
    """Return the factor by which a step is expected to multiply the rows."""
    match step:
        case NodeScan():
            rows = context.pins[f"node:{step.type_name}"].row_count
            return rows * (1.0 if step.condition is None else CONDITION_SHARE)
        case Expand():
            kept = CONDITION_SHARE if step.target_condition is not None else 1.0
            return kept * _degree(context, step.edges, step.direction) ** step.max_hops
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


def _degree(context: Sizes, names: tuple[str, ...], direction: Direction) -> float:
    """Return how many edges of some types a node has on average."""
    edge = united([context.catalog.edges[name] for name in names])
    edges = sum(context.pins[member.table_key].row_count for member in members_of(edge))
    sources = max(context.pins[f"node:{edge.source}"].row_count, 1)
    targets = max(context.pins[f"node:{edge.target}"].row_count, 1)
    match direction:
        case Direction.OUT:
            return edges / sources
        case Direction.IN:
            return edges / targets
        case _:
            return edges / sources + edges / targets

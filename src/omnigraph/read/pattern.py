"""Executes the steps of a pattern."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import numpy as np

from omnigraph.compute import evaluate_condition
from omnigraph.plan.explain import step_text
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
from omnigraph.read.arrays import Mask, Rows
from omnigraph.read.context import Context
from omnigraph.read.estimates import growth
from omnigraph.read.frame import (
    Frame,
    FrameColumns,
    Source,
    check_rows,
    row_numbers,
)
from omnigraph.read.hops import reach
from omnigraph.read.joining import join_parts
from omnigraph.read.paths import expand_path, expand_path_into
from omnigraph.read.running import traced
from omnigraph.read.subqueries import ROW, apply_subquery, correlated, solutions
from omnigraph.read.topology import Topology
from omnigraph.read.tree import EVERYTHING, Needs

S = TypeVar("S", Join, Filter)


def run_steps(
    context: Context, steps: tuple[Step, ...], frame: Frame, needs: Needs = EVERYTHING
) -> Frame:
    """Run steps one after the other; `needs` says what of the result is read."""
    position = 0
    while position < len(steps):
        step = steps[position]
        if isinstance(step, Join):
            joins = _leading(steps[position:], Join)
            position += len(joins)
            filters = _leading(steps[position:], Filter)
            position += len(filters)
            later = needs.ahead_of(steps[position:])
            frame = join_parts(context, joins, filters, frame, later, run_steps)
            continue
        position += 1
        frame = traced(
            partial(step_text, step),
            partial(_step, context, step, frame),
            partial(growth, context, step),
        )
    return frame


def _leading(steps: tuple[Step, ...], kind: type[S]) -> tuple[S, ...]:
    leading: list[S] = []
    for step in steps:
        if not isinstance(step, kind):
            break
        leading.append(step)
    return tuple(leading)


def _step(context: Context, step: Step, frame: Frame) -> Frame:
    match step:
        case NodeScan():
            return _scan(context, step, frame)
        case Expand():
            return _expand(context, step, frame)
        case ExpandInto():
            return _expand_into(context, step, frame)
        case Filter():
            columns = FrameColumns(frame, context.columns)
            keep = evaluate_condition(step.condition, columns, context.parameters, context.now)
            return frame.take(row_numbers(keep))
        case AntiJoin():
            counts = solutions(context, step.steps, frame, run_steps, bag=False)
            return frame.take(np.flatnonzero(counts == 0))
        case OptionalJoin():
            return _optional(context, step, frame)
        case Join():
            return join_parts(context, (step,), (), frame, EVERYTHING, run_steps)
        case Apply():
            return apply_subquery(context, step, frame, run_steps)


def _scan(context: Context, step: NodeScan, frame: Frame) -> Frame:
    source = context.node(step.type_name)
    mask = context.matching(source, step.condition)
    if mask is None:
        numbers = np.arange(context.columns.size(source.pin), dtype=np.int64)
    else:
        numbers = row_numbers(mask)
    check_rows(frame.size * len(numbers))
    rows = np.repeat(np.arange(frame.size, dtype=np.int64), len(numbers))
    crossed = frame.take(rows)
    return crossed.with_variable(step.variable, np.tile(numbers, frame.size), source)


def _expand(context: Context, step: Expand, frame: Frame) -> Frame:
    if step.path_variable is not None:
        return expand_path(context, step, step.path_variable, frame)
    topology = context.topology(step.edges)
    starts = frame.numbers[step.source]
    edges: Rows | None = None
    if step.min_hops > step.max_hops:
        rows = targets = np.empty(0, dtype=np.int64)
    elif (step.min_hops, step.max_hops) == (1, 1):
        chosen = topology.by_pair if step.edge_variable is None else topology.by_edge
        adjacency = chosen[step.direction]
        rows, at = adjacency.follow(starts)
        targets = adjacency.targets[at]
        edges = None if adjacency.edges is None else adjacency.edges[at]
    else:
        adjacency = topology.by_pair[step.direction]
        rows, targets = reach(
            adjacency,
            starts,
            least=step.min_hops,
            most=step.max_hops,
            nodes=topology.target_count,
        )
    source = context.node(step.target_type)
    keep = _kept(context, step, source, edges, targets)
    if keep is not None:
        rows, targets = rows[keep], targets[keep]
        edges = None if edges is None else edges[keep]
    expanded = frame.take(rows).with_variable(step.target, targets, source)
    if step.edge_variable is not None and edges is not None:
        expanded = expanded.with_variable(step.edge_variable, edges, context.edge(step.edges))
    return expanded


def _kept(
    context: Context, step: Expand, source: Source, edges: Rows | None, targets: Rows
) -> Mask | None:
    keep: Mask | None = None
    mask = context.matching(source, step.target_condition)
    if mask is not None:
        keep = mask[targets]
    if step.edge_condition is not None and edges is not None:
        edge_mask = context.matching(context.edge(step.edges), step.edge_condition)
        if edge_mask is not None:
            keep = edge_mask[edges] if keep is None else keep & edge_mask[edges]
    return keep


def _expand_into(context: Context, step: ExpandInto, frame: Frame) -> Frame:
    if step.path_variable is not None:
        return expand_path_into(context, step, step.path_variable, frame)
    topology = context.topology(step.edges)
    starts, ends = frame.numbers[step.source], frame.numbers[step.target]
    if step.min_hops > step.max_hops:
        return frame.take(np.empty(0, dtype=np.int64))
    if step.edge_variable is not None:
        adjacency = topology.by_edge[step.direction]
        rows, at = adjacency.follow(starts)
        edges = adjacency.edges[at] if adjacency.edges is not None else at
        keep = adjacency.targets[at] == ends[rows]
        mask = context.matching(context.edge(step.edges), step.edge_condition)
        if mask is not None:
            keep &= mask[edges]
        kept = frame.take(rows[keep])
        return kept.with_variable(step.edge_variable, edges[keep], context.edge(step.edges))
    adjacency = topology.by_pair[step.direction]
    if step.max_hops > 1:
        width = max(_width(topology, step.direction), 1)
        rows, nodes = reach(adjacency, starts, least=step.min_hops, most=step.max_hops, nodes=width)
        return frame.take(rows[nodes == ends[rows]])
    return frame.take(np.flatnonzero(adjacency.joins(starts, ends)))


def _width(topology: Topology, direction: Direction) -> int:
    return topology.source_count if direction is Direction.IN else topology.target_count


def _optional(context: Context, step: OptionalJoin, frame: Frame) -> Frame:
    inner = correlated(context, step.steps, frame, run_steps)
    matched = inner.numbers[ROW]
    missing = np.setdiff1d(np.arange(frame.size), matched)
    rows = np.concatenate([matched, missing])
    numbers = {name: values[rows] for name, values in frame.numbers.items()}
    sources = dict(frame.sources)
    for name in step.variables:
        empty = np.full(len(missing), -1, dtype=np.int64)
        numbers[name] = np.concatenate([inner.numbers[name], empty])
        sources[name] = inner.sources[name]
    weights = None if frame.weights is None else frame.weights[rows]
    return Frame(inner.size + len(missing), numbers, sources, weights)

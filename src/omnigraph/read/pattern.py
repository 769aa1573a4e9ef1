"""Executes the steps of a pattern."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import evaluate_condition
from omnigraph.manifest import Pin
from omnigraph.plan.expression import Expression, variables_of
from omnigraph.plan.read import (
    AntiJoin,
    Direction,
    Expand,
    ExpandInto,
    Filter,
    NodeScan,
    OptionalJoin,
    Step,
)
from omnigraph.read.columns import Columns
from omnigraph.read.frame import (
    Frame,
    FrameColumns,
    Source,
    WholeColumns,
    check_rows,
    row_numbers,
)
from omnigraph.read.hops import reach
from omnigraph.read.keys import named_id
from omnigraph.read.topology import Topology, TopologySource

Array = Any
_ROW = "#row"


@dataclass(frozen=True, slots=True)
class Context:
    """What every step of one query needs: the snapshot, the values, the caches."""

    catalog: Catalog
    pins: Mapping[str, Pin]
    columns: Columns
    topologies: TopologySource
    parameters: Mapping[str, LiteralValue]
    now: datetime.datetime
    factorise: bool = True
    """Whether ways may be counted instead of listed; the results are the same."""

    def node(self, name: str) -> Source:
        """Return the source of a node type."""
        entity = self.catalog.nodes[name]
        return Source(entity, self.pins[entity.table_key])

    def edge(self, name: str) -> Source:
        """Return the source of an edge type."""
        entity = self.catalog.edges[name]
        return Source(entity, self.pins[entity.table_key])

    def topology(self, name: str) -> Topology:
        """Return the adjacency of an edge type."""
        edge = self.catalog.edges[name]
        return self.topologies.get(
            edge,
            self.pins[edge.table_key],
            self.pins[f"node:{edge.source}"],
            self.pins[f"node:{edge.target}"],
        )

    def matching(self, source: Source, condition: Expression | None) -> Array | None:
        """Return which rows of a table satisfy a condition; None for all of them."""
        if condition is None:
            return None
        whole = WholeColumns(source, self.columns)
        return np.asarray(evaluate_condition(condition, whole, self.parameters, self.now))

    def matching_rows(self, source: Source, condition: Expression, rows: Array) -> Array:
        """Return which of some rows of a table satisfy a condition on its one variable."""
        name = next(iter(variables_of(condition)), "")
        frame = Frame(len(rows), {name: rows}, {name: source})
        columns = FrameColumns(frame, self.columns)
        return np.asarray(evaluate_condition(condition, columns, self.parameters, self.now))

    def by_key(self, source: Source, condition: Expression) -> Array | None:
        """Return the row a condition names by its id; None when it names none."""
        named = named_id(source.entity, condition, self.parameters, self.now)
        if named is None:
            return None
        id, rest = named
        number = self.columns.keys(source.pin).find(id)
        if number < 0:
            return np.empty(0, dtype=np.int64)
        found = np.array([number], dtype=np.int64)
        return found if rest is None else found[self.matching_rows(source, rest, found)]


def run_steps(context: Context, steps: tuple[Step, ...], frame: Frame) -> Frame:
    """Run steps one after the other."""
    for step in steps:
        frame = _step(context, step, frame)
    return frame


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
            matched = _correlated(context, step.steps, frame).numbers[_ROW]
            return frame.take(np.setdiff1d(np.arange(frame.size), matched))
        case OptionalJoin():
            return _optional(context, step, frame)


def _scan(context: Context, step: NodeScan, frame: Frame) -> Frame:
    source = context.node(step.type_name)
    mask = context.matching(source, step.condition)
    if mask is None:
        found = np.arange(context.columns.size(source.pin), dtype=np.int64)
    else:
        found = row_numbers(mask)
    check_rows(frame.size * len(found))
    rows = np.repeat(np.arange(frame.size, dtype=np.int64), len(found))
    crossed = frame.take(rows)
    return crossed.with_variable(step.variable, np.tile(found, frame.size), source)


def _expand(context: Context, step: Expand, frame: Frame) -> Frame:
    topology = context.topology(step.edge)
    starts = frame.numbers[step.source]
    edges: Array | None = None
    if step.min_hops > step.max_hops:
        rows = targets = np.empty(0, dtype=np.int64)
    elif (step.min_hops, step.max_hops) == (1, 1):
        chosen = topology.by_pair if step.edge_variable is None else topology.by_edge
        adjacency = chosen[step.direction]
        check_rows(_fanout(adjacency.offsets, starts))
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
            reverse=step.reverse,
        )
    source = context.node(step.target_type)
    keep = _kept(context, step, source, edges, targets)
    if keep is not None:
        rows, targets = rows[keep], targets[keep]
        edges = None if edges is None else edges[keep]
    found = frame.take(rows).with_variable(step.target, targets, source)
    if step.edge_variable is not None and edges is not None:
        found = found.with_variable(step.edge_variable, edges, context.edge(step.edge))
    return found


def _fanout(offsets: Array, starts: Array) -> int:
    valid = starts[starts >= 0]
    return int((offsets[valid + 1] - offsets[valid]).sum())


def _kept(
    context: Context, step: Expand, source: Source, edges: Array | None, targets: Array
) -> Array | None:
    keep: Array | None = None
    mask = context.matching(source, step.target_condition)
    if mask is not None:
        keep = mask[targets]
    if step.edge_condition is not None and edges is not None:
        edge_mask = context.matching(context.edge(step.edge), step.edge_condition)
        if edge_mask is not None:
            keep = edge_mask[edges] if keep is None else keep & edge_mask[edges]
    return keep


def _expand_into(context: Context, step: ExpandInto, frame: Frame) -> Frame:
    topology = context.topology(step.edge)
    starts, ends = frame.numbers[step.source], frame.numbers[step.target]
    if step.min_hops > step.max_hops:
        return frame.take(np.empty(0, dtype=np.int64))
    if step.edge_variable is not None:
        adjacency = topology.by_edge[step.direction]
        rows, at = adjacency.follow(starts)
        edges = adjacency.edges[at] if adjacency.edges is not None else at
        keep = adjacency.targets[at] == ends[rows]
        mask = context.matching(context.edge(step.edge), step.edge_condition)
        if mask is not None:
            keep &= mask[edges]
        found = frame.take(rows[keep])
        return found.with_variable(step.edge_variable, edges[keep], context.edge(step.edge))
    adjacency = topology.by_pair[step.direction]
    width = max(_width(topology, step.direction), 1)
    if step.max_hops > 1:
        rows, nodes = reach(adjacency, starts, least=step.min_hops, most=step.max_hops, nodes=width)
        return frame.take(rows[nodes == ends[rows]])
    sizes = np.diff(adjacency.offsets)
    keys = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes) * width + adjacency.targets
    wanted = starts * width + ends
    joined = (starts >= 0) & (ends >= 0) & np.isin(wanted, keys)
    return frame.take(np.nonzero(joined)[0])


def _width(topology: Topology, direction: Direction) -> int:
    return topology.source_count if direction is Direction.IN else topology.target_count


def _correlated(context: Context, steps: tuple[Step, ...], frame: Frame) -> Frame:
    """Run an inner pattern with every outer row fixed; `#row` says which one a result is for."""
    inner = Frame(
        frame.size,
        {**frame.numbers, _ROW: np.arange(frame.size, dtype=np.int64)},
        dict(frame.sources),
    )
    return run_steps(context, steps, inner)


def _optional(context: Context, step: OptionalJoin, frame: Frame) -> Frame:
    found = _correlated(context, step.steps, frame)
    matched = found.numbers[_ROW]
    missing = np.setdiff1d(np.arange(frame.size), matched)
    rows = np.concatenate([matched, missing])
    numbers = {name: values[rows] for name, values in frame.numbers.items()}
    sources = dict(frame.sources)
    for name in step.variables:
        empty = np.full(len(missing), -1, dtype=np.int64)
        numbers[name] = np.concatenate([found.numbers[name], empty])
        sources[name] = found.sources[name]
    weights = None if frame.weights is None else frame.weights[rows]
    return Frame(found.size + len(missing), numbers, sources, weights)

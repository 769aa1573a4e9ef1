"""Plans of read queries.

A pattern is a sequence of steps over a bag of rows that starts as one empty row. A scan adds the
first variable, expansions follow edges, filters drop rows, joins nest a pattern. What comes after
the pattern (columns, grouping, order, cut) is part of the plan itself.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from omnigraph.catalog import PropertyType
from omnigraph.plan.expression import Aggregate, Expression, Parameter, Ranking


class Direction(StrEnum):
    """How an edge is walked from the bound side."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


class NodeScan(Struct, frozen=True, kw_only=True):
    """Add a variable ranging over all nodes of a type that satisfy a condition."""

    variable: str
    type_name: str
    condition: Expression | None = None


class Expand(Struct, frozen=True, kw_only=True):
    """Follow edges of one or several types from a bound variable to a new one.

    Types that join two different node types may go either way; `direction` is that of the first.
    Without `edge_variable` each distinct reached node gives one row; with it, each edge does. Over
    several hops a node counts at its shortest distance only; the start is reached at hop 1 if it
    has an edge to itself. `edge_condition` and `target_condition` apply to the reached side.

    `path_variable` is the shortest path to the node. It begins at the source, with `path_backwards`
    at the target; of several paths it is the one whose ids come first, compared from there.
    """

    source: str
    target: str
    edges: tuple[str, ...]
    direction: Direction
    target_type: str
    min_hops: int = 1
    max_hops: int = 1
    edge_variable: str | None = None
    path_variable: str | None = None
    path_backwards: bool = False
    edge_condition: Expression | None = None
    target_condition: Expression | None = None


class ExpandInto(Struct, frozen=True, kw_only=True):
    """Keep rows whose two bound variables are joined by an edge; fields as in `Expand`."""

    source: str
    target: str
    edges: tuple[str, ...]
    direction: Direction
    min_hops: int = 1
    max_hops: int = 1
    edge_variable: str | None = None
    path_variable: str | None = None
    path_backwards: bool = False
    edge_condition: Expression | None = None


class Filter(Struct, frozen=True, kw_only=True):
    """Keep rows whose condition is true."""

    condition: Expression


class AntiJoin(Struct, frozen=True, kw_only=True):
    """Keep rows for which the inner pattern, with `outer` fixed, has no solution."""

    outer: tuple[str, ...]
    steps: tuple[Step, ...]


class OptionalJoin(Struct, frozen=True, kw_only=True):
    """Join the inner pattern; a row without a solution stays, its new variables null."""

    outer: tuple[str, ...]
    variables: tuple[str, ...]
    steps: tuple[Step, ...]


class Join(Struct, frozen=True, kw_only=True):
    """Join another part of the pattern, which is connected by conditions only.

    Its steps start from one empty row and read none of the variables before it. Each pair of rows
    that satisfies the condition is kept, every pair without one.
    """

    steps: tuple[Step, ...]
    condition: Expression | None = None


class Apply(Struct, frozen=True, kw_only=True):
    """Give each row a value found by the inner pattern with `outer` fixed, and keep all rows.

    It is the aggregate over the solutions, or without one whether there are any. `SubqueryValue`
    reads it as `variable`.
    """

    variable: str
    outer: tuple[str, ...]
    steps: tuple[Step, ...]
    aggregate: Aggregate | None = None


Step = NodeScan | Expand | ExpandInto | Filter | AntiJoin | OptionalJoin | Join | Apply


class OutputColumn(Struct, frozen=True, kw_only=True):
    """A result column. Hidden columns exist to sort by and are not returned."""

    name: str
    expression: Expression
    type: PropertyType
    hidden: bool = False


class SortKey(Struct, frozen=True, kw_only=True):
    """One sort key; nulls are lowest."""

    expression: Expression
    descending: bool = False


class ReadPlan(Struct, frozen=True, kw_only=True):
    """A compiled read query.

    `grouped` means the columns without aggregate are the group key. With `ranking` the final
    candidate rows are ranked by it first; `sort_keys` then break ties. Remaining ties go by the
    ids of `variables` in name order (not for grouped or distinct results).
    """

    name: str
    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]
    variables: tuple[str, ...]
    columns: tuple[OutputColumn, ...]
    grouped: bool = False
    distinct: bool = False
    ranking: Ranking | None = None
    sort_keys: tuple[SortKey, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    reads_nodes: tuple[str, ...] = ()
    reads_edges: tuple[str, ...] = ()

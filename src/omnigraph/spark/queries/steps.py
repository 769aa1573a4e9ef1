"""Steps of a pattern as joins of frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.compute.evaluate import TYPE
from omnigraph.plan.expression import (
    AggregateFunction,
    And,
    Compare,
    CompareOp,
    Expression,
    Vanishing,
    can_overflow,
    variables_of,
)
from omnigraph.plan.read import (
    AntiJoin,
    Apply,
    Expand,
    ExpandInto,
    Filter,
    Join,
    NodeScan,
    OptionalJoin,
    Step,
)
from omnigraph.read.tree import EVERYTHING, Needs, hanging_tree, steps_tree
from omnigraph.spark.frames import sql_type
from omnigraph.spark.queries import counting
from omnigraph.spark.queries.aggregates import Aggregates
from omnigraph.spark.queries.hops import reached
from omnigraph.spark.queries.rows import Joins, Name, Rows, col, multiplied
from omnigraph.spark.queries.tables import Pairs, Tables
from omnigraph.spark.queries.values import join_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class Pattern:
    """Compiles the steps of one plan."""

    tables: Tables
    joins: Joins
    factorise: bool = True

    def run(self, steps: tuple[Step, ...], rows: Rows, needs: Needs = EVERYTHING) -> Rows:
        """Run steps one after the other; `needs` says what of the result is read."""
        for position, step in enumerate(steps):
            match step:
                case NodeScan():
                    part = self.tables.node(step.variable, step.type_name, step.condition)
                    rows = self._beside(rows, part, f"scan ${step.variable}: {step.type_name}")
                case Expand():
                    rows = self.expand(step, rows)
                case ExpandInto():
                    rows = self._expand_into(step, rows)
                case Filter():
                    rows = rows.kept(self.tables.expressions.condition(step.condition))
                case AntiJoin():
                    rows = self._without(step, rows)
                case OptionalJoin():
                    rows = self._optional(step, rows)
                case Apply():
                    rows = self._applied(step, rows)
                case Join():
                    rows = self._join(step, rows, needs.ahead_of(steps[position + 1 :]))
        return rows

    def _beside(self, rows: Rows, part: Rows, what: str) -> Rows:
        """Return all pairs of rows."""
        if rows.frame is None:
            return part
        return _paired(rows, part, self.joins.cross(rows, part, what))

    # ---- edges ----------------------------------------------------------------------------

    def id_of(self, variable: str) -> str:
        """Return the name of the column with the id of a variable."""
        return self.tables.names.of(variable, "id")

    def expand(self, step: Expand, rows: Rows) -> Rows:
        """Follow edges to a new variable."""
        hops = self.hops_of(step)
        if hops is None:
            return self._nothing(step, rows)
        what = f"${step.source} {'|'.join(step.edges)} ${step.target}"
        if hops == (1, 1):
            rows = self._followed(step, rows, what)
        else:
            pairs = self.tables.pairs(step.edges, step.direction)
            nodes = self.tables.size(self.tables.catalog.nodes[step.target_type])
            reachable, origin, node = reached(
                self.joins, rows, self.id_of(step.source), pairs, hops=hops, nodes=nodes
            )
            reachable = reachable.withColumnRenamed(node, self.id_of(step.target))
            side = Rows(
                frame=reachable,
                at_most=rows.at_most * nodes,
                columns=frozenset([(step.target, "id")]),
            )
            frame = self.joins.inner(rows, side, [(self.id_of(step.source), origin)], what)
            frame = frame.drop(col(origin))
            rows = rows.having(frame, side.columns, at_most=rows.at_most * nodes)
        return self._reaching(step, rows)

    def hops_of(self, step: Expand | ExpandInto) -> tuple[int, int] | None:
        """Return how many hops can be made, at least and at most; None if none can."""
        edge = self.tables.edge(step.edges)
        # Where an edge leads to another type it cannot be followed again.
        most = step.max_hops if edge.source == edge.target else min(step.max_hops, 1)
        return (step.min_hops, most) if step.min_hops <= most else None

    def _nothing(self, step: Expand, rows: Rows) -> Rows:
        from pyspark.sql import functions as F

        entity = self.tables.catalog.nodes[step.target_type]
        frame = rows.frame.where(F.lit(False))
        added: list[Name] = []
        for name in dict.fromkeys(("id", *self.tables.reads.of(step.target))):
            declared = entity.properties.get(name)
            kind = "string" if declared is None else sql_type(declared.type)
            frame = frame.withColumn(
                self.tables.names.of(step.target, name), F.lit(None).cast(kind)
            )
            added.append((step.target, name))
        return rows.having(frame, added, at_most=0)

    def edges_of(self, step: Expand | ExpandInto) -> Pairs:
        """Return what one hop follows: each pair of nodes once, or each edge if it has a name."""
        if step.edge_variable is None:
            return self.tables.pairs(step.edges, step.direction)
        return self.tables.edges(
            step.edges, step.direction, step.edge_variable, step.edge_condition
        )

    def _followed(self, step: Expand, rows: Rows, what: str) -> Rows:
        pairs = self.edges_of(step)
        source, target = self.id_of(step.source), self.id_of(step.target)
        edges = pairs.rows.frame.withColumnRenamed(pairs.end, target)
        added = pairs.rows.columns | {(step.target, "id")}
        if rows.bare == step.source:
            # Every edge has both ends, so all edges are those of all nodes.
            frame = edges.withColumnRenamed(pairs.start, source)
            return rows.having(frame, added, at_most=pairs.rows.at_most)
        side = replace(pairs.rows, frame=edges)
        frame = self.joins.inner(rows, side, [(source, pairs.start)], what).drop(col(pairs.start))
        return rows.having(frame, added, at_most=rows.at_most * pairs.rows.at_most)

    def _reaching(self, step: Expand, rows: Rows) -> Rows:
        """Keep what reaches the nodes that are meant, and add what is read of these."""
        if step.target_condition is None and self.tables.is_only_id(step.target):
            return rows
        node = self.tables.node(step.target, step.target_type, step.target_condition)
        target = self.id_of(step.target)
        key = self.tables.names.fresh("node")
        node = replace(node, frame=node.frame.withColumnRenamed(target, key))
        what = f"${step.target}: {step.target_type}"
        if self.tables.is_only_id(step.target):
            frame = self.joins.outer(rows, node, [(target, key)], "left_semi", what)
            return rows.having(frame, at_most=rows.at_most)
        frame = self.joins.inner(rows, node, [(target, key)], what).drop(col(key))
        return rows.having(frame, node.columns, at_most=rows.at_most)

    def _expand_into(self, step: ExpandInto, rows: Rows) -> Rows:
        from pyspark.sql import functions as F

        source, target = self.id_of(step.source), self.id_of(step.target)
        hops = self.hops_of(step)
        what = f"${step.source} {'|'.join(step.edges)} ${step.target}"
        if hops is None:
            return rows.kept(F.lit(False))
        if hops != (1, 1):
            pairs = self.tables.pairs(step.edges, step.direction)
            nodes = self.tables.size(
                self.tables.catalog.nodes[self.tables.reads.types[step.target]]
            )
            reachable, origin, node = reached(
                self.joins, rows, source, pairs, hops=hops, nodes=nodes
            )
            side = Rows(frame=reachable, at_most=rows.at_most * nodes)
            on = [(source, origin), (target, node)]
            frame = self.joins.outer(rows, side, on, "left_semi", what)
            return rows.having(frame, at_most=rows.at_most)
        if step.edge_variable is None:
            ends = self.tables.ends(step.edges, step.direction)
            on = [(source, ends.start), (target, ends.end)]
            frame = self.joins.outer(rows, ends.rows, on, "left_semi", what)
            return rows.having(frame, at_most=rows.at_most)
        pairs = self.edges_of(step)
        on = [(source, pairs.start), (target, pairs.end)]
        frame = self.joins.inner(rows, pairs.rows, on, what)
        frame = frame.drop(col(pairs.start), col(pairs.end))
        at_most = rows.at_most * pairs.rows.at_most
        return rows.having(frame, pairs.rows.columns, at_most=at_most)

    # ---- blocks ---------------------------------------------------------------------------

    def _without(self, step: AntiJoin, rows: Rows) -> Rows:
        tree = hanging_tree(step.steps, bag=False) if self.factorise else None
        if tree is not None and all(self.hops_of(link.step) for link in tree.links):
            key, roots = counting.having_way(self, tree, rows)
            on = [(self.id_of(tree.root), key)]
            frame = self.joins.outer(rows, roots, on, "left_anti", "not { }")
            return rows.having(frame, at_most=rows.at_most)
        inner, keys = self._inner(
            step.outer, step.steps, rows, Needs(frozenset(step.outer), bag=False)
        )
        solutions = inner.frame.select(*[col(name).alias(key) for name, key in keys]).distinct()
        side = Rows(frame=solutions, at_most=inner.at_most)
        frame = self.joins.outer(rows, side, keys, "left_anti", "not { }", null_safe=True)
        return rows.having(frame, at_most=rows.at_most)

    def _optional(self, step: OptionalJoin, rows: Rows) -> Rows:
        inner, keys = self._inner(step.outer, step.steps, rows, EVERYTHING)
        added = [(name, column) for name, column in inner.columns if name in step.variables]
        shown = [col(self.tables.names.of(*name)) for name in sorted(added)]
        frame = inner.frame.select(*[col(name).alias(key) for name, key in keys], *shown)
        side = Rows(frame=frame, at_most=inner.at_most)
        joined = self.joins.outer(rows, side, keys, "left", "optional { }", null_safe=True)
        joined = joined.drop(*[col(key) for _name, key in keys])
        return rows.having(joined, added, at_most=rows.at_most * max(inner.at_most, 1))

    def _applied(self, step: Apply, rows: Rows) -> Rows:
        """Give each row what a subquery comes to for it."""
        from pyspark.sql import functions as F

        wanted = step.aggregate
        needs = EVERYTHING if wanted is not None else Needs(frozenset(step.outer), bag=False)
        inner, keys = self._inner(step.outer, step.steps, rows, needs)
        name = self.tables.names.of(step.variable, "value")
        ids = [col(one).alias(other) for one, other in keys]
        if wanted is None:
            values = inner.frame.select(*ids).distinct().withColumn(name, F.lit(True))
        else:
            aggregates = Aggregates(inner, self.tables)
            groups = inner.frame.groupBy(*ids).agg(*aggregates.partials(0, wanted))
            value = aggregates.result(0, wanted).alias(name)
            values = groups.select(*[col(key) for _name, key in keys], value)
        side = Rows(frame=values, at_most=min(rows.at_most, inner.at_most))
        frame = self.joins.outer(rows, side, keys, "left", "subquery", null_safe=True)
        frame = frame.drop(*[col(key) for _name, key in keys])
        # Where there is no solution, there is nothing to join.
        if wanted is None:
            frame = frame.withColumn(name, F.coalesce(col(name), F.lit(False)))
        elif wanted.function is AggregateFunction.COUNT:
            frame = frame.withColumn(name, F.coalesce(col(name), F.lit(0)))
        return rows.having(frame, [(step.variable, "value")], at_most=rows.at_most)

    def _inner(
        self, outer: tuple[str, ...], steps: tuple[Step, ...], rows: Rows, needs: Needs
    ) -> tuple[Rows, list[tuple[str, str]]]:
        """Run a block for each distinct row of what it shares with the rows outside.

        Returns its rows, and by which of their columns they belong to rows outside, with a name
        for each that is not taken there.
        """
        from pyspark.sql import functions as F

        names = self.tables.names
        columns = frozenset(name for name in rows.columns if name[0] in outer)
        # What tells one row of a variable from another: the id, of edges of several types both.
        parts = [(name, part) for name in outer for part in ("id", TYPE)]
        ids = [names.of(*part) for part in parts if part[1] == "id" or part in columns]
        if not ids:
            # A block of its own: it has the same rows whatever is outside.
            ids = [names.fresh("one")]
            inside = rows.frame.select(F.lit(1).alias(ids[0])).limit(1)
            at_most = 1
        else:
            inside = rows.frame.select(*[col(names.of(*name)) for name in sorted(columns)])
            # An id determines what else is read of a row, so any of the copies will do.
            inside = inside.dropDuplicates(ids)
            at_most = rows.at_most
        start = Rows(frame=inside, columns=columns, at_most=at_most)
        inner = self.run(steps, start, needs)
        return inner, [(name, names.fresh(f"{name} inside")) for name in ids]

    # ---- parts that values connect --------------------------------------------------------

    def _join(self, step: Join, rows: Rows, needs: Needs) -> Rows:
        part = self._part(step, needs)
        what = "join"
        conditions = list(self._conjuncts(step.condition))
        keys: list[tuple[str, str]] = []
        others: list[Expression] = []
        left, right = rows, part
        for condition in conditions:
            sides = _sides(condition, rows, part)
            if sides is None or can_overflow(condition):
                others.append(condition)
                continue
            one, other = (self.tables.names.fresh("key") for _side in "ab")
            mine, theirs = sides
            left = self._keyed(left, one, mine, theirs)
            right = self._keyed(right, other, theirs, mine)
            keys.append((one, other))
        if not keys:
            joined = self._beside(rows, part, what)
        else:
            frame = self.joins.inner(left, right, keys, what)
            frame = frame.drop(*[col(name) for pair in keys for name in pair])
            joined = _paired(left, right, frame)
        for condition in others:
            joined = joined.kept(self.tables.expressions.condition(condition))
        return joined

    def _part(self, step: Join, needs: Needs) -> Rows:
        wanted = needs
        if needs.variables is not None and step.condition is not None:
            wanted = Needs(needs.variables | variables_of(step.condition), needs.bag)
        tree = steps_tree(step.steps, wanted, listed=False) if self.factorise else None
        if tree is None:
            return self.run(step.steps, Rows(), wanted)
        return self.run(tree.rest, counting.walked(self, tree), wanted)

    def _keyed(self, rows: Rows, name: str, mine: Expression, other: Expression) -> Rows:
        value = join_key(self.tables.expressions.value(mine), mine.type, other.type)
        return replace(rows, frame=rows.frame.withColumn(name, value), bare=None)

    def _conjuncts(self, condition: Expression | None) -> Iterable[Expression]:
        """Return the conditions that must all hold; one that vanished holds."""
        if isinstance(condition, Vanishing):
            parameters = self.tables.parameters
            if any(parameters[name] is None for name in condition.parameters):
                return
            condition = condition.condition
        if isinstance(condition, And):
            for item in condition.operands:
                yield from self._conjuncts(item)
        elif condition is not None:
            yield condition


def _paired(rows: Rows, part: Rows, frame: DataFrame) -> Rows:
    """Return the rows of a join of two sets of rows."""
    joined = rows.having(frame, part.columns, at_most=rows.at_most * part.at_most)
    return multiplied(joined, part)


def _sides(condition: Expression, left: Rows, right: Rows) -> tuple[Expression, Expression] | None:
    """Return what an equality compares, the left rows' value first, if each is of one side."""
    if not isinstance(condition, Compare) or condition.op is not CompareOp.EQ:
        return None
    mine, theirs = ({name for name, _column in side.columns} for side in (left, right))
    for one, other in (
        (condition.left, condition.right),
        (condition.right, condition.left),
    ):
        first, second = variables_of(one), variables_of(other)
        if first and second and first <= mine and second <= theirs:
            return one, other
    return None

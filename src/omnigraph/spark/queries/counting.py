"""Counts paths without listing them.

The scan a pattern starts with and the expansions from it are a tree. Branches of which nothing is
read become numbers: how many ways there are through them from each node, made by one aggregation
per hop, in which a node with many edges is one row per task. What is not read any more is dropped,
and rows that have become equal are merged. `omnigraph.read.walk` does the same in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from omnigraph.compute.evaluate import TYPE
from omnigraph.plan.read import Expand
from omnigraph.read.keys import named_id
from omnigraph.read.tree import Link, Tree
from omnigraph.spark.queries.hops import reached
from omnigraph.spark.queries.rows import (
    Name,
    Rows,
    checked_total,
    col,
    multiplied,
    total,
)
from omnigraph.spark.queries.tables import is_unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from omnigraph.spark.queries.steps import Pattern


def walked(pattern: Pattern, tree: Tree) -> Rows:
    """Return the rows of a tree: what is read of it, each row with its weight."""
    return _Walk(pattern, tree).run()


def having_way(pattern: Pattern, tree: Tree, rows: Rows) -> tuple[str, Rows]:
    """Return the nodes, as roots of a tree, from which there is a way through all of it."""
    walk = _Walk(pattern, tree)
    starts = rows.frame.select(col(pattern.id_of(tree.root)))
    key, roots = "", Rows()
    for link in tree.links_from(tree.root, without=frozenset()):
        ways = walk.ways(link, replace(rows, frame=starts))
        if roots.frame is None:
            key, roots = ways.key, ways.rows
            continue
        frame = pattern.joins.outer(roots, ways.rows, [(key, ways.key)], "left_semi", "and")
        roots = replace(roots, frame=frame)
    return key, roots


@dataclass(frozen=True, slots=True)
class _Ways:
    """Rows of nodes, by the column `key`, each with its number of ways as its weight."""

    key: str
    rows: Rows


@dataclass(slots=True)
class _Walk:
    pattern: Pattern
    tree: Tree

    def run(self) -> Rows:
        """Return the rows of the tree."""
        tree, tables = self.tree, self.pattern.tables
        root = self._root()
        variable = tree.variables[root]
        rows = tables.node(root, variable.type_name, variable.condition)
        bound, done = {root}, frozenset[int]()
        while links := self._ready(bound, done):
            link = links[0]
            done |= {link.number}
            if self._dangling(link, done):
                done |= self._behind(link, done)
                rows = self._weighed(rows, link)
            else:
                rows = self.pattern.expand(self._step(link), rows)
                bound.add(link.target)
            rows = self._merged(rows, self._wanted(bound, done))
        return self._merged(rows, tree.live)

    def _root(self) -> str:
        """Return where to start: at something that is read, else in the middle of the tree."""
        tree, tables = self.tree, self.pattern.tables
        if not tree.can_turn:
            return tree.root
        names = [name for name in tree.variables if name in tree.live]
        names = names or list(tree.variables)
        for name in names:
            variable = tree.variables[name]
            entity = tables.catalog.nodes[variable.type_name]
            condition = variable.condition
            if condition is not None and named_id(entity, condition, tables.parameters, tables.now):
                return name
        return min(names, key=lambda name: self._depth(name, frozenset()))

    def _depth(self, name: str, without: frozenset[int]) -> int:
        links = self.tree.links_from(name, without=without)
        return max((1 + self._depth(k.target, without | {k.number}) for k in links), default=0)

    def _ready(self, bound: set[str], done: frozenset[int]) -> list[Link]:
        """Return the links that can be walked, those that only count first."""
        links = [
            link for name in sorted(bound) for link in self.tree.links_from(name, without=done)
        ]
        return sorted(links, key=lambda link: not self._dangling(link, done | {link.number}))

    def _dangling(self, link: Link, done: frozenset[int]) -> bool:
        """Whether nothing behind a link is read."""
        live = self.tree.live
        if link.target in live or link.step.edge_variable in live:
            return False
        behind = self.tree.links_from(link.target, without=done)
        return all(self._dangling(item, done | {item.number}) for item in behind)

    def _behind(self, link: Link, done: frozenset[int]) -> frozenset[int]:
        numbers: frozenset[int] = frozenset()
        for item in self.tree.links_from(link.target, without=done):
            numbers |= {item.number} | self._behind(item, done | {item.number})
        return numbers

    def _step(self, link: Link) -> Expand:
        """Return the step that walks a link the way it is walked here."""
        variable = self.tree.variables[link.target]
        return structs.replace(
            link.step,
            source=link.source,
            target=link.target,
            direction=link.direction,
            target_type=variable.type_name,
            target_condition=variable.condition,
        )

    def _wanted(self, bound: set[str], done: frozenset[int]) -> frozenset[str]:
        """Return the variables that are read, or walked on from."""
        going_on = {name for name in bound if self.tree.links_from(name, without=done)}
        return self.tree.live | going_on

    # ---- merging --------------------------------------------------------------------------

    def _merged(self, rows: Rows, wanted: frozenset[str]) -> Rows:
        """Drop variables that are not wanted, and merge the rows that become equal."""
        from pyspark.sql import functions as F

        kept = sorted(name for name in rows.columns if name[0] in wanted)
        gone = {name[0] for name in rows.columns} - {name[0] for name in kept}
        if not gone:
            return rows
        frame = self._distinct(rows, kept) if not self.tree.bag else None
        if frame is not None:
            return replace(rows, frame=frame, columns=frozenset(kept), bare=None)
        names = self.pattern.tables.names
        keys, others = self._keys(kept)
        weight, rows_there = names.fresh("weight"), names.fresh("rows")
        sums = total(None if rows.weight is None else col(rows.weight)).alias(weight)
        # An id determines the rest of its row.
        rest = [F.first(col(names.of(*name))).alias(names.of(*name)) for name in others]
        grouped = rows.frame.groupBy(*[col(names.of(*name)) for name in keys])
        frame = grouped.agg(sums, F.count(F.lit(1)).alias(rows_there), *rest)
        # Of no rows at all there is a sum, too.
        frame = frame.where(col(rows_there) > F.lit(0)).drop(col(rows_there))
        if rows.weight is not None:
            frame = frame.withColumn(weight, checked_total(col(weight)))
        at_most = rows.at_most if keys else 1
        return Rows(frame=frame, columns=frozenset(kept), at_most=at_most, weight=weight)

    def _distinct(self, rows: Rows, kept: list[Name]) -> DataFrame:
        """Return each row once: how often it occurs matters to nothing that is computed of it."""
        from pyspark.sql import functions as F

        names = self.pattern.tables.names
        frame: DataFrame = rows.frame
        if not kept:
            return frame.select(F.lit(1).alias(names.fresh("one"))).limit(1)
        frame = frame.select(*[col(names.of(*name)) for name in kept])
        return frame.dropDuplicates([names.of(*name) for name in self._keys(kept)[0]])

    def _keys(self, kept: list[Name]) -> tuple[list[Name], list[Name]]:
        """Return the columns that tell rows apart, and those they determine."""
        known = {variable for variable, column in kept if column == "id"}
        keys = [name for name in kept if name[1] in ("id", TYPE) or name[0] not in known]
        return keys, [name for name in kept if name not in keys]

    # ---- weights --------------------------------------------------------------------------

    def _weighed(self, rows: Rows, link: Link) -> Rows:
        """Give each row as many ways as there are behind a link; rows without any go."""
        source = self.pattern.id_of(link.source)
        ways = self.ways(link, rows)
        what = f"ways by ${link.source} {'|'.join(link.step.edges)}"
        if rows.bare == link.source:
            frame = ways.rows.frame.withColumnRenamed(ways.key, source)
            kept = rows.having(frame, at_most=min(rows.at_most, ways.rows.at_most))
            return multiplied(kept, ways.rows)
        on = [(source, ways.key)]
        if ways.rows.weight is None:
            frame = self.pattern.joins.outer(rows, ways.rows, on, "left_semi", what)
            return rows.having(frame, at_most=rows.at_most)
        frame = self.pattern.joins.inner(rows, ways.rows, on, what).drop(col(ways.key))
        return multiplied(rows.having(frame, at_most=rows.at_most), ways.rows)

    def ways(self, link: Link, starts: Rows) -> _Ways:
        """Return by how many ways a tree goes on from each node that a link starts at.

        `starts` are rows that hold all nodes that are asked for.
        """
        degrees = self._degrees(link)
        if degrees is not None:
            edges, variable = "|".join(link.step.edges), self.tree.variables[link.target]
            self.pattern.joins.counted(
                f"{edges} to ${link.target}: {variable.type_name}", degrees[0]
            )
            return self._counted(link, *degrees)
        rows, key, end = self._hop(link, starts)
        rows = self._meant(link, rows, end)
        for item in self.tree.links_from(link.target, without=frozenset([link.number])):
            behind = self.ways(item, self._as_starts(item, rows, end))
            what = f"ways by ${item.source} {'|'.join(item.step.edges)}"
            on = [(end, behind.key)]
            if behind.rows.weight is None:
                frame = self.pattern.joins.outer(rows, behind.rows, on, "left_semi", what)
                rows = rows.having(frame, at_most=rows.at_most)
                continue
            frame = self.pattern.joins.inner(rows, behind.rows, on, what).drop(col(behind.key))
            rows = multiplied(rows.having(frame, at_most=rows.at_most), behind.rows)
        return self._counted(link, rows, key)

    def _degrees(self, link: Link) -> tuple[Rows, str] | None:
        """Return what workers can count of a link: single hops to nodes where nothing goes on."""
        tree, tables = self.tree, self.pattern.tables
        step = self._step(link)
        is_last = not tree.links_from(link.target, without=frozenset([link.number]))
        every_edge = step.edge_variable is not None or not tree.bag
        if not is_last or self.pattern.hops_of(step) != (1, 1) or step.edge_condition is not None:
            return None
        if not every_edge and not is_unique(tables.edge(step.edges)):
            return None
        variable = tree.variables[link.target]
        condition = variable.condition
        meant = None if condition is None else (link.target, variable.type_name, condition)
        return tables.degrees(step.edges, step.direction, meant, beside=len(tree.links))

    def _hop(self, link: Link, starts: Rows) -> tuple[Rows, str, str]:
        """Return rows of where a link starts and ends, and the names of the two columns."""
        pattern = self.pattern
        step = self._step(link)
        hops = pattern.hops_of(step)
        if hops == (1, 1):
            pairs = pattern.edges_of(step)
            both = [col(pairs.start), col(pairs.end)]
            return Rows(frame=pairs.rows.frame.select(*both), at_most=pairs.rows.at_most), *(
                pairs.start,
                pairs.end,
            )
        pairs = pattern.tables.pairs(step.edges, step.direction)
        nodes = pattern.tables.size(pattern.tables.catalog.nodes[step.target_type])
        reachable, origin, node = reached(
            pattern.joins,
            starts,
            pattern.id_of(link.source),
            pairs,
            hops=hops or (1, 0),
            nodes=nodes,
        )
        return Rows(frame=reachable, at_most=starts.at_most * nodes), origin, node

    def _as_starts(self, link: Link, rows: Rows, end: str) -> Rows:
        """Return the ends of some ways as the rows that a link goes on from."""
        if link.single_hop:
            return rows
        name = self.pattern.id_of(link.source)
        return replace(rows, frame=rows.frame.select(col(end).alias(name)))

    def _meant(self, link: Link, rows: Rows, end: str) -> Rows:
        """Keep the ways that end at a node that satisfies its condition."""
        variable = self.tree.variables[link.target]
        if variable.condition is None:
            return rows
        tables = self.pattern.tables
        node = tables.node(link.target, variable.type_name, variable.condition)
        key = tables.names.fresh("node")
        ids = node.frame.select(col(self.pattern.id_of(link.target)).alias(key))
        what = f"${link.target}: {variable.type_name}"
        side = replace(node, frame=ids)
        frame = self.pattern.joins.outer(rows, side, [(end, key)], "left_semi", what)
        return rows.having(frame, at_most=rows.at_most)

    def _counted(self, link: Link, rows: Rows, key: str) -> _Ways:
        tables = self.pattern.tables
        entity = tables.catalog.nodes[tables.reads.types[link.source]]
        nodes = min(rows.at_most, tables.size(entity))
        if not self.tree.bag:
            frame: DataFrame = rows.frame.select(col(key)).distinct()
            return _Ways(key, Rows(frame=frame, at_most=nodes))
        weight = tables.names.fresh("ways")
        sums = total(None if rows.weight is None else col(rows.weight)).alias(weight)
        frame = rows.frame.groupBy(col(key)).agg(sums)
        if rows.weight is not None:
            frame = frame.withColumn(weight, checked_total(col(weight)))
        return _Ways(key, Rows(frame=frame, at_most=nodes, weight=weight))

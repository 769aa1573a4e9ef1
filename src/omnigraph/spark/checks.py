"""Validates a parallel load on keys: joins in Spark, messages as a load in one process gives them.

One job answers a question for all types at once: a job costs more to start than small types take.
Every table that is read is recorded in the base, so a verdict cannot be overtaken.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.feather as feather
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.catalog import Cardinality, Catalog, EdgeType, Entity
from omnigraph.commits import Base
from omnigraph.intake.frames import duplicate_problem
from omnigraph.limits import (
    SPARK_HELD_ROWS_MAX,
    SPARK_PROBE_ROWS,
    SPARK_PROBE_ROWS_MAX,
    SPARK_SCAN_ROWS,
    SPARK_VIOLATIONS_MAX,
)
from omnigraph.rows import Problem, Problems, RowFile
from omnigraph.rows.problems import place_text
from omnigraph.rows.references import cardinality_problem, endpoint_problem, orphan_problem
from omnigraph.rows.validate import unique_problem
from omnigraph.spark.columns import KEYS, Unit, key_batches, missing_keys, repeats_ids, shown
from omnigraph.spark.engine import Engine, failures, joined
from omnigraph.spark.tasks import Places, bundled
from omnigraph.store import fragment_ids, new_file, reaching, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

ENDS = ("src", "dst")
_NOTED = "tag int, piece long, path string, rows long"


class Taken(Struct, frozen=True, kw_only=True):
    """A given id that exists already: `at` orders places of the input, `place` names this one."""

    at: tuple[int, int]
    entity_id: str
    place: str


class Checks(Struct):
    """The keys of one input beside those of one base. `tag` numbers what a question is about."""

    engine: Engine
    catalog: Catalog
    files: dict[str, list[RowFile]]
    places: Places
    scratch: str
    held_rows: int = SPARK_HELD_ROWS_MAX
    dropped_rows: dict[str, int] = field(default_factory=dict)
    """Rows, by table key, that stand in the files and do not count."""

    def entities(self) -> list[Entity]:
        """Return the types of the input, by table key."""
        return [self.catalog.entity_of_table(key) for key in sorted(self.files)]

    # ---- frames ---------------------------------------------------------------------------

    def _frame(self, units: Sequence[Unit]) -> DataFrame:
        groups = [
            [units[index] for index in group]
            for group in bundled([unit.rows for unit in units], SPARK_SCAN_ROWS)
        ]

        def read(task: int) -> Iterator[pa.RecordBatch]:
            return (batch for unit in groups[task] for batch in key_batches(unit))

        return self.engine.frame(len(groups), read, KEYS)

    def _new(self, entity: Entity, tag: int = 0, columns: Sequence[str] = ()) -> list[Unit]:
        """Return what to read for the input's rows of a type."""
        return self._units(entity, self.files.get(entity.table_key, []), tag, columns)

    @staticmethod
    def _units(
        entity: Entity, files: Sequence[RowFile], tag: int, columns: Sequence[str] = ()
    ) -> list[Unit]:
        return [
            Unit(
                entity=entity,
                tag=tag,
                columns=tuple(columns),
                files=tuple(files[index] for index in group),
                rows=sum(files[index].rows for index in group),
            )
            for group in bundled([item.rows for item in files], SPARK_SCAN_ROWS)
        ]

    def _old(
        self, base: Base, entity: Entity, tag: int = 0, columns: Sequence[str] = ()
    ) -> list[Unit]:
        """Return what to read for the committed rows of a type."""
        if base.pin(entity).row_count == 0:
            return []
        table = base.table(entity)
        fragments = fragment_ids(table)
        return [
            Unit(
                entity=entity,
                tag=tag,
                columns=tuple(columns),
                folder=str(table.dataset.uri),
                version=table.version,
                fragments=tuple(fragments[index][0] for index in group),
                rows=sum(fragments[index][1] for index in group),
            )
            for group in bundled([rows for _id, rows in fragments], SPARK_SCAN_ROWS)
        ]

    def _place(self, row: Row) -> tuple[str | None, int | None]:
        return self.places.of(row["piece"], row["line"])

    # ---- ids ------------------------------------------------------------------------------

    def duplicates(self, problems: Problems) -> None:
        """Report every id of the input that stood before."""
        from pyspark.sql import functions as F

        entities = self.entities()
        given = [self._given(item, tag) for tag, item in enumerate(entities)]
        units = [unit for group in self._repeating(given) for unit in group]
        if not units:
            return
        rows = self._frame(units).where("id is not null")
        rows = rows.select("tag", "id", "piece", "line", F.struct("piece", "line").alias("at"))
        groups = rows.groupBy("tag", "id").agg(F.count("*").alias("n"), F.min("at").alias("first"))
        several = groups.where("n > 1")
        if not _any(several):
            return
        again = joined(rows, several, ["tag", "id"]).where("at > first")
        for row in _first_rows(again.orderBy("tag", "piece", "line")):
            file, line = self._place(row)
            first_file, first_line = self._place(row["first"])
            other = f"line {first_line}"
            if first_file is not None and first_file != file:
                other += f" of {first_file}"
            entity = entities[row["tag"]]
            problems.add(duplicate_problem(entity, row["id"], line, other, file=file))

    def _given(self, entity: Entity, tag: int) -> list[Unit]:
        """Return what to read for the ids that the input names; edges often have none."""
        files = [item for item in self.files[entity.table_key] if item.named]
        return [replace(unit, given_only=True) for unit in self._units(entity, files, tag)]

    def _repeating(self, units: Sequence[list[Unit]]) -> list[list[Unit]]:
        """Leave out types none of whose ids stands twice, as far as a worker can hold them."""
        small = [group for group in units if group and self._fits(group)]

        def look(task: int) -> bytes:
            return b"1" if repeats_ids(small[task]) else b""

        answers = self.engine.run(len(small), look)
        again = [group for group, answer in zip(small, answers, strict=True) if answer]
        return again + [group for group in units if not self._fits(group)]

    def _fits(self, units: Sequence[Unit]) -> bool:
        return sum(unit.rows for unit in units) <= self.held_rows

    def once_each(self, policies: Mapping[str, str]) -> None:
        """Leave out all but the first or last row of an entity, where that was asked for.

        An entity is known by its id; an edge that was given none by its ends, if these are unique.
        """
        from pyspark.sql import functions as F

        self.dropped_rows = {}
        asked = [item for item in self.entities() if policies.get(item.table_key) != "refuse"]
        if not asked:
            return
        given: list[Unit] = []
        ends: list[Unit] = []
        for tag, item in enumerate(asked):
            given += [replace(unit, given_only=True) for unit in self._new(item, tag)]
            if isinstance(item, EdgeType) and item.unique_pair:
                ends += self._new(item, tag, ENDS)
        rows = self._frame(given).selectExpr("tag", "true as by_id", "id as key", "piece", "line")
        if ends:
            named = self._frame(ends).where("generated")
            rows = rows.union(named.selectExpr("tag", "false", "key", "piece", "line"))
        rows = rows.where("key is not null").withColumn("at", F.struct("piece", "line"))
        last = [tag for tag, item in enumerate(asked) if policies[item.table_key] == "last"]
        is_last = F.col("tag").isin(last) if last else F.lit(False)
        kept = F.when(is_last, F.max("at")).otherwise(F.min("at")).alias("kept")
        chosen = rows.groupBy("tag", "by_id", "key").agg(kept)
        gone = joined(rows, chosen, ["tag", "by_id", "key"]).where("at != kept")
        paths: dict[tuple[str, int], str] = {}
        for row in self._noted(gone, "line"):
            key = asked[row["tag"]].table_key
            paths[key, int(row["piece"])] = str(row["path"])
            self.dropped_rows[key] = self.dropped_rows.get(key, 0) + int(row["rows"])
        for key, files in self.files.items():
            self.files[key] = [
                replace(item, dropped=paths.get((key, item.piece))) for item in files
            ]

    def is_dropped(self, piece: int, problem: Problem) -> bool:
        """Whether a problem is about a row that does not count."""
        for item in self.files.get(problem.table_key or "", []):
            if item.piece == piece and item.dropped is not None:
                with reaching(self.engine.given):
                    return problem.line in dropped_lines(item.dropped)
        return False

    def existing(self, base: Base) -> dict[str, Taken]:
        """Return, for each table, the first given id that the base has.

        Rows that were recognised by their ends count as given too.
        """
        from pyspark.sql import functions as F

        entities = self.entities()
        old = [unit for tag, item in enumerate(entities) for unit in self._old(base, item, tag)]
        if not old:
            return {}
        touched = {unit.tag for unit in old}
        new = [unit for tag in sorted(touched) for unit in self._new(entities[tag], tag)]
        given = F.when(F.expr("fresh and not generated"), F.struct("piece", "line"))
        groups = self._frame([*new, *old]).groupBy("tag", "id")
        ids = groups.agg(F.min("fresh").alias("fresh"), F.min(given).alias("at"))
        first = ids.where("not fresh and at is not null").groupBy("tag")
        rows = _first_rows(first.agg(F.min(F.struct("at.piece", "at.line", "id")).alias("at")))
        return {
            entities[row["tag"]].table_key: Taken(
                at=(row["at"]["piece"], row["at"]["line"] or 0),
                entity_id=row["at"]["id"],
                place=place_text(*self._place(row["at"])),
            )
            for row in rows
        }

    def same_edges(self, base: Base, edge: EdgeType) -> None:
        """Give edges without an id the id of the one edge that joins the same nodes."""
        files = [replace(item, ids=None) for item in self.files[edge.table_key]]
        self.files[edge.table_key] = files
        old = self._old(base, edge, columns=ENDS)
        if not old:
            return
        fresh = self._frame(self._new(edge, columns=ENDS)).where("generated")
        present = self._frame(old).dropDuplicates(["key"]).select("key", "id")
        matches = joined(fresh.select("tag", "key", "piece", "line"), present, ["key"])
        made = self._noted(matches, "line", "id")
        paths = {int(row["piece"]): str(row["path"]) for row in made}
        self.files[edge.table_key] = [replace(item, ids=paths.get(item.piece)) for item in files]

    def _noted(self, rows: DataFrame, *columns: str) -> list[Row]:
        """Let workers write down columns of rows, for each tag and piece; return where."""
        scratch, given, names = self.scratch, self.engine.given, list(columns)

        def write(group: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
            with reaching(given):
                return _write_noted(group, table.select(names), scratch)

        groups = rows.select("tag", "piece", *names).groupBy("tag", "piece")
        with failures():
            return list(groups.applyInArrow(write, _NOTED).collect())

    # ---- uniqueness -----------------------------------------------------------------------

    def uniques(self, base: Base, problems: Problems, *, replaced: bool) -> None:
        """Report unique values that two rows of the outcome would hold."""
        from pyspark.sql import functions as F

        rules = [(item, rule.columns) for item in self.entities() for rule in item.uniques]
        if not rules:
            return
        new: list[Unit] = []
        old: list[Unit] = []
        for tag, (entity, columns) in enumerate(rules):
            new += self._new(entity, tag, columns)
            if not replaced:
                old += self._old(base, entity, tag, columns)
        rows = self._frame(new).where("key is not null")
        shape = ["tag", "key", "holder", "id", "piece", "line"]
        groups = rows.groupBy("tag", "key").agg(
            F.count("*").alias("n"),
            F.min("id").alias("holder"),
            F.max("id").alias("id"),
            F.max_by(F.struct("piece", "line"), "id").alias("at"),
        )
        violations = groups.where("n > 1").withColumns(
            {"piece": F.col("at.piece"), "line": F.col("at.line")}
        )
        violations = violations.select(*shape)
        if old:
            held = self._frame(old).where("key is not null").select("tag", "key", "id")
            own = self._frame(new).select("tag", "id")
            held = joined(held, own, ["tag", "id"], "left_anti")
            clashes = joined(rows, held.withColumnRenamed("id", "holder"), ["tag", "key"])
            violations = violations.unionByName(clashes.select(*shape))
        for row in _first_rows(violations.orderBy("tag", "piece", "line")):
            entity, columns = rules[row["tag"]]
            file, line = self._place(row)
            values = shown(entity, columns, row["key"])
            holders = (row["holder"], row["id"])
            problems.add(unique_problem(entity, columns, values, holders, line, file=file))

    # ---- references -----------------------------------------------------------------------

    def references(self, base: Base, problems: Problems, *, replaced: bool) -> None:
        """Report new edges without an end, and committed ones an overwrite would cut off."""
        ends: list[tuple[EdgeType, str, str]] = []
        asked: list[list[Unit]] = []
        for edge in self.catalog.edges.values():
            for column, name in ((ENDS[0], edge.source), (ENDS[1], edge.target)):
                units: list[Unit] = []
                if edge.table_key in self.files:
                    units = self._new(edge, len(ends), [column])
                elif replaced and f"node:{name}" in self.files:
                    units = self._old(base, edge, len(ends), [column])
                if units:
                    asked.append(units)
                    ends.append((edge, column, name))
        if not ends:
            return
        known: list[list[Unit]] = []
        for tag, (_edge, _column, name) in enumerate(ends):
            node = self.catalog.nodes[name]
            node_units = self._new(node, tag)
            if not (replaced and node.table_key in self.files):
                node_units += self._old(base, node, tag)
            known.append(node_units)
        for row in self._missing([name for *_end, name in ends], asked, known):
            edge, column, _name = ends[row["tag"]]
            if not row["fresh"]:
                problems.add(orphan_problem(edge, row["id"], column, row["key"]))
                continue
            file, line = self._place(row)
            problems.add(endpoint_problem(edge, row["id"], column, row["key"], line, file=file))

    def _missing(
        self, names: list[str], asked: list[list[Unit]], known: list[list[Unit]]
    ) -> list[Row]:
        """Return the first rows of each list whose key is no id of the type they point to.

        Ids that a worker can hold are looked up there; a join moves every row through Java.
        """
        held = [self._fits(units) for units in known]
        frames: list[DataFrame] = []
        # Ends of one type are looked up together: most of the work is to get its ids.
        alike: dict[str, tuple[list[Unit], list[Unit]]] = {}
        for name, units, ids_of, small in zip(names, asked, known, held, strict=True):
            if small:
                alike.setdefault(name, ([], ids_of))[0].extend(units)
        looked_up = [
            ([units[index] for index in group], ids_of)
            for units, ids_of in alike.values()
            for group in bundled([unit.rows for unit in units], self._probe_rows(units))
        ]
        if looked_up:

            def look_up(task: int) -> Iterator[pa.RecordBatch]:
                return missing_keys(*looked_up[task], SPARK_VIOLATIONS_MAX)

            frames.append(self.engine.frame(len(looked_up), look_up, KEYS))
        if not all(held):
            apart = [tag for tag, small in enumerate(held) if not small]
            ids = self._frame([unit for tag in apart for unit in known[tag]])
            rows = self._frame([unit for tag in apart for unit in asked[tag]])
            keys = ids.selectExpr("tag", "id as key")
            frames.append(joined(rows, keys, ["tag", "key"], "left_anti"))
        bad = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        return _first_rows(bad.orderBy("tag", "piece", "line", "id"))

    def _probe_rows(self, units: Sequence[Unit]) -> int:
        """Return how many ends one task looks up: each reads the ids of the other type."""
        share = -(-sum(unit.rows for unit in units) // self.engine.parallelism)
        return min(max(share, SPARK_PROBE_ROWS), SPARK_PROBE_ROWS_MAX)

    def cardinality(self, base: Base, problems: Problems, *, replaced: bool) -> None:
        """Report nodes that would have too few or too many edges."""
        from pyspark.sql import functions as F

        limited = [
            item
            for item in self.entities()
            if isinstance(item, EdgeType) and item.cardinality != Cardinality()
        ]
        if not limited:
            return
        new: list[Unit] = []
        old: list[Unit] = []
        for tag, edge in enumerate(limited):
            new += self._new(edge, tag, [ENDS[0]])
            if not replaced:
                old += self._old(base, edge, tag, [ENDS[0]])
        keys = self._frame(new)
        counted = keys.selectExpr("tag", "key", "1 as n", "1 as touched")
        if old:
            ids, held = keys.select("tag", "id"), self._frame(old)
            kept = joined(held, ids, ["tag", "id"], "left_anti")
            gone = joined(held, ids, ["tag", "id"], "left_semi")
            counted = counted.union(kept.selectExpr("tag", "key", "1 as n", "0 as touched"))
            counted = counted.union(gone.selectExpr("tag", "key", "0 as n", "1 as touched"))
        groups = counted.groupBy("tag", "key").agg(
            F.sum("n").alias("n"), F.max("touched").alias("touched")
        )
        wrong = F.lit(False)
        for tag, edge in enumerate(limited):
            low, high = edge.cardinality.minimum, edge.cardinality.maximum
            beyond = F.col("n") < low
            if high is not None:
                beyond = beyond | (F.col("n") > high)
            wrong = wrong | ((F.col("tag") == tag) & beyond)
        for row in _first_rows(groups.where("touched = 1").where(wrong).orderBy("tag", "key")):
            problem = cardinality_problem(limited[row["tag"]], row["key"], int(row["n"]))
            if problem is not None:
                problems.add(problem)


def _any(frame: DataFrame) -> bool:
    """Whether a frame has rows."""
    with failures():
        return bool(frame.limit(1).collect())


def _first_rows(frame: DataFrame) -> list[Row]:
    """Return the first rows, once: asking for a count before would run everything twice."""
    with failures():
        return list(frame.limit(SPARK_VIOLATIONS_MAX).collect())


def dropped_lines(path: str) -> set[int]:
    """Return the lines that a worker wrote down as not counting."""
    return set(feather.read_table(readable(path))["line"].to_pylist())


def _write_noted(group: tuple[pa.Scalar, ...], table: pa.Table, scratch: str) -> pa.Table:
    """Write down, in a worker, what was found out about lines of a piece."""
    path = os.path.join(scratch, f"{uuid.uuid4().hex}.arrow")
    with new_file(path) as out:
        feather.write_feather(table, out, compression="uncompressed")
    return pa.table(
        {
            "tag": pa.array([group[0].as_py()], pa.int32()),
            "piece": pa.array([group[1].as_py()], pa.int64()),
            "path": [path],
            "rows": pa.array([table.num_rows], pa.int64()),
        }
    )

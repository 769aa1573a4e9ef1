"""What changed between two states, as a frame, however much that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.graph import Session
from omnigraph.graph.seam import differing_tables, reach
from omnigraph.limits import SPARK_SCAN_ROWS
from omnigraph.ops.diff import ChangeFilter, changes_of
from omnigraph.rows.images import RowChanges
from omnigraph.spark.columns import image_text
from omnigraph.spark.deltas import Delta, judged
from omnigraph.spark.engine import Engine
from omnigraph.spark.session import find_session
from omnigraph.store.tables.delta import delta_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGED = "kind string, type string, id string, op string, before string, after string"


def diff(
    graph: Session,
    a: str | int,
    b: str | int,
    *,
    kinds: Iterable[str] = (),
    types: Iterable[str] = (),
    ops: Iterable[str] = (),
    session: SparkSession | None = None,
    master: str | None = None,
    group_rows: int = SPARK_SCAN_ROWS,
) -> DataFrame:
    """Return what `Graph.diff` does, as a frame with a row for each entity that differs.

    Images are JSON. Rows come in no order; the frame never moves, and nothing is read before it is
    used.
    """
    wanted = ChangeFilter.of(kinds, types, ops)
    type_ids: list[int] = []
    deltas: list[Delta] = []
    for entity, type_id, before, after in differing_tables(graph, a, b, wanted):
        parts = delta_parts(before, after)
        deltas.append(Delta(tag=len(deltas), entity=entity, differences=[parts]))
        type_ids.append(type_id)

    def judge(delta: Delta, changes: list[RowChanges]) -> pa.Table:
        rows = list(changes_of(delta.entity, type_ids[delta.tag], changes[0], wanted))
        columns = {
            "kind": [item.kind for item in rows],
            "type": [item.type_name for item in rows],
            "id": [item.id for item in rows],
            "op": [item.op for item in rows],
            "before": [image_text(item.before) for item in rows],
            "after": [image_text(item.after) for item in rows],
        }
        return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})

    engine = Engine(find_session(session, master), reach(graph))
    return judged(engine, deltas, judge, CHANGED, group_rows=group_rows)

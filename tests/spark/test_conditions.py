"""Which rows a Spark frame of a type holds: those a table was asked for, and in every use of it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

import omnigraph as og
from omnigraph.spark import read
from omnigraph.spark.connector import GraphSource
from tests.spark.worlds import NewGraph

SCHEMA = """\
node Item {
    name: String @key
    u: U32?
    q: U64?
    f: F64?
    d: Date?
    t: DateTime?
}

node Empty { name: String @key }
"""


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    day = datetime.date(2026, 1, 1)
    rows = [
        {
            "name": f"i{n}",
            "u": n,
            "q": 2**63 + n,
            "f": n / 2,
            "d": (day + datetime.timedelta(days=n)).isoformat(),
            "t": f"2026-01-01T00:00:0{n}.5Z",
        }
        for n in range(10)
    ]
    found.load([{"type": "Item", "data": row} for row in rows], mode="append")
    return found


def _names(graph: og.Graph, where: str) -> list[str]:
    source = GraphSource({"path": graph.uri, "type": "Item", "columns": "name", "where": where})
    reader: Any = source.reader(StructType())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted(name for batch in batches for name in batch.column("name").to_pylist())


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("u < 2 OR u = 7", ["i0", "i1", "i7"]),
        ("NOT (u <> 3)", ["i3"]),
        ("q >= 9223372036854775816", ["i8", "i9"]),
        ("f > 4.0 AND contains(name, '9')", ["i9"]),
        ("name LIKE '_4' OR name IN ('i5')", ["i4", "i5"]),
        ("d = date '2026-01-03'", ["i2"]),
        ("t > timestamp '2026-01-01T00:00:08Z'", ["i8", "i9"]),
        ("id IS NULL", []),
    ],
)
def test_a_condition_is_evaluated_by_the_table(
    graph: og.Graph, where: str, names: list[str]
) -> None:
    assert _names(graph, where) == names


@pytest.mark.parametrize("where", ["u > -1", "u IN ()", "f = inf", "nothing = 1", "u >"])
def test_a_condition_that_a_table_cannot_evaluate_is_refused_before_reading(
    graph: og.Graph, where: str
) -> None:
    with pytest.raises(og.BadRequestError, match=r"^where: "):
        _names(graph, where)


def test_a_frame_is_the_same_in_every_use(spark: Any, graph: og.Graph) -> None:
    """Filters of one use must not stay for another, whatever Spark is told about filters."""
    setting = "spark.sql.python.filterPushdown.enabled"
    kept = spark.conf.get(setting)
    try:
        spark.conf.set(setting, "true")
        source = spark.read.format("omnigraph").option("type", "Item").option("columns", "id,u,f")
        frame = source.load(graph.uri)
        small, large = frame.where("u < 3"), frame.where("u >= 8")
        assert (small.count(), frame.count(), large.count()) == (3, 10, 2)
        assert sorted(row["u"] for row in small.union(large).collect()) == [0, 1, 2, 8, 9]
        odd = "u > -1 and f < cast('infinity' as double) and id in ('i1', null)"
        assert frame.where(odd).count() == 1
        assert frame.where(frame.u.isin([])).count() == 0
        assert source.option("where", "u > 4").load(graph.uri).where("u < 6").count() == 1
        assert read(spark, graph.uri, "Item", columns=["u"], where="u > 4").count() == 5
        empty = spark.read.format("omnigraph").option("type", "Empty").load(graph.uri)
        assert empty.where("name = 'x'").count() == empty.count() == 0
    finally:
        spark.conf.set(setting, kept)

"""Frames and streams written by `format("omnigraph")`: one commit each, once each."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import omnigraph as og
from omnigraph.spark import write_batches
from omnigraph.spark.connector import GraphSource
from tests.spark.worlds import NewGraph

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
}

edge Knows: Person -> Person { @unique(src, dst) }
"""
PEOPLE = StructType([StructField("name", StringType()), StructField("age", IntegerType())])
KNOWS = StructType([StructField("a", StringType()), StructField("b", StringType())])


def _people(*rows: tuple[str, int | None]) -> Any:
    names, ages = zip(*rows, strict=True) if rows else ((), ())
    columns = [pa.array(names, pa.string()), pa.array(ages, pa.int32())]
    return pa.RecordBatch.from_arrays(columns, names=["name", "age"])


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


def _source(graph: og.Graph, type_name: str = "Person", **options: str) -> GraphSource:
    return GraphSource({"path": graph.uri, "type": type_name, **options})


def _write(graph: og.Graph, *parts: Any, overwrite: bool = False, **options: str) -> None:
    """Do what Spark does with a writer: tasks, then a commit elsewhere."""
    writer = _sent(_source(graph, **options).writer(PEOPLE, overwrite))
    messages = [_sent(_sent(writer).write(iter(batches))) for batches in parts]
    writer.commit([*messages, None])


def _rows(graph: og.Graph) -> dict[str, int | None]:
    graph.refresh("main")
    found = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }")
    return {row["p.name"]: row["p.age"] for row in found}


def _left(graph: og.Graph) -> list[Path]:
    return list(Path(graph.uri, "_scratch").glob("*"))


def test_a_frame_is_one_commit(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    before = len(graph.commits.list())
    _write(graph, [_people(("ann", 1)), _people(("bob", None))], [], [_people(("cy", 3))])
    assert _rows(graph) == {"ann": 1, "bob": None, "cy": 3}
    assert len(graph.commits.list()) == before + 1
    _write(graph, [_people(("ann", 9), ("di", 4))], mode="merge", actor="importer")
    assert _rows(graph) == {"ann": 9, "bob": None, "cy": 3, "di": 4}
    assert graph.commits.head().actor_id == "importer"
    _write(graph, [_people(("eve", 5))], overwrite=True)
    assert _rows(graph) == {"eve": 5}
    head = graph.commits.head()
    _write(graph, [], [_people()])
    assert graph.commits.head() == head
    assert _left(graph) == []


def test_a_frame_that_cannot_be_loaded_leaves_nothing(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    _write(graph, [_people(("ann", 1))])
    head = graph.commits.head()
    with pytest.raises(og.OmniGraphError, match="Person 'ann' already exists"):
        _write(graph, [_people(("bob", 1))], [_people(("ann", 1))])
    with pytest.raises(og.BadRequestError, match="an empty input overwrites nothing"):
        _write(graph, [], overwrite=True)
    writer = _source(graph).writer(PEOPLE, overwrite=False)
    writer.abort([writer.write(iter([_people(("bob", 1))])), None])
    assert graph.commits.head() == head
    assert _left(graph) == []


def test_an_operation_id_makes_a_frame_count_once(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    for _ in range(2):
        _write(graph, [_people(("ann", 1))], operationId="night-17")
    assert _rows(graph) == {"ann": 1}
    assert graph.commits.head().operation_id == "night-17"


def test_a_batch_of_a_stream_counts_once_however_often_it_comes(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    _write(graph, [_people(("ann", 1), ("bob", 2))])
    source = _source(graph, "Knows", fromCol="a", toCol="b", operationId="links")
    batch = pa.RecordBatch.from_pydict({"a": ["ann"], "b": ["bob"]})
    for number in (0, 0, 1, 1):
        rows = [batch] if number == 0 else []
        # Spark makes a writer for the tasks and another one for the commit.
        staged = _sent(source.streamWriter(KNOWS, overwrite=False)).write(iter(rows))
        _source(graph, "Knows", fromCol="a", toCol="b", operationId="links").streamWriter(
            KNOWS, overwrite=False
        ).commit([staged], number)
    commits = [commit.operation_id for commit in graph.commits.list()]
    assert commits.count("links:0") == 1
    assert "links:1" not in commits
    assert graph.snapshot().tables["edge:Knows"].row_count == 1
    writer = _source(graph, "Knows", fromCol="a", toCol="b").streamWriter(KNOWS, overwrite=False)
    with pytest.raises(og.BadRequestError, match="give the option 'operationId'"):
        writer.commit([writer.write(iter([batch]))], 2)
    writer.abort([writer.write(iter([batch]))], 3)
    assert _left(graph) == []


def test_events_are_applied_once(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    _write(graph, [_people(("ann", 1), ("bob", 2))])
    fields = [StructField(name, StringType()) for name in ("who", "what")]
    schema = StructType([*fields, StructField("lsn", IntegerType())])
    rows = {"who": ["ann", "ann", "cy"], "what": ["d", "u", "c"], "lsn": [5, 4, 3]}
    batch = pa.RecordBatch.from_pydict({**rows, "lsn": pa.array(rows["lsn"], pa.int32())})
    for number in (0, 0, 1):
        writer = _source(
            graph,
            mode="apply",
            mapping="who=name",
            opCol="what",
            seqCol="lsn",
            operationId="cdc",
        ).streamWriter(schema, overwrite=False)
        writer.commit([writer.write(iter([batch]))], number)
    assert _rows(graph) == {"bob": 2, "cy": None}
    # The second batch held the same events, so there was nothing to do.
    assert graph.commits.head().operation_id == "cdc:0"
    names = pa.RecordBatch.from_pydict({"name": ["bob"]})
    source = _source(graph, mode="delete")
    keys = source.writer(StructType([StructField("name", StringType())]), overwrite=False)
    keys.commit([keys.write(iter([names]))])
    assert _rows(graph) == {"cy": None}


@pytest.mark.parametrize(
    ("options", "overwrite", "message"),
    [
        ({"typ": "Person"}, False, "unknown option 'typ': did you mean 'type'"),
        ({"mode": "upsert"}, False, "unknown load mode 'upsert'"),
        ({"mode": "overwrite"}, False, "contradicts Spark's own mode, which is append"),
        ({"mode": "merge"}, True, "contradicts Spark's own mode, which is overwrite"),
        ({"mapping": "name"}, False, "mapping: expected column=property, got 'name'"),
        ({"mapping": "name=nam"}, False, "unknown column 'name' for 'node:Person'"),
        ({"type": "Persn"}, False, "unknown type 'Persn'"),
        ({"branch": "dve"}, False, "branch 'dve'"),
        ({"type": ""}, False, "the option 'type' is missing"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(
    new_graph: NewGraph, options: dict[str, str], overwrite: bool, message: str
) -> None:
    graph = new_graph(SCHEMA)
    source = GraphSource({"path": graph.uri, "type": "Person", **options})
    with pytest.raises(og.OmniGraphError, match=message):
        source.writer(PEOPLE, overwrite)
    with pytest.raises(og.OmniGraphError, match=message):
        source.streamWriter(PEOPLE, overwrite)


def test_streams_reach_a_graph_exactly_once(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph(SCHEMA)
    inbox = str(tmp_path / "in")
    checkpoints = {"sink": tmp_path / "sink", "batches": tmp_path / "batches"}

    def both(frame: Any) -> dict[str, Any]:
        pairs = frame.selectExpr("name as from", "'p0' as to")
        return {"Person": frame.selectExpr("name", "age + 100 as age"), "Knows": pairs}

    def run() -> None:
        stream = spark.readStream.schema("name string, age int").json(inbox)
        sink = stream.writeStream.format("omnigraph").option("type", "Person")
        calls = stream.writeStream.foreachBatch(
            write_batches(graph.uri, both, mode="merge", name="both")
        )
        for name, writer in (("sink", sink.option("path", graph.uri)), ("batches", calls)):
            writer = writer.option("checkpointLocation", str(checkpoints[name]))
            writer.trigger(availableNow=True).start().awaitTermination()

    people = spark.createDataFrame([(f"p{n}", n) for n in range(4)], "name string, age int")
    people.write.mode("append").json(inbox)
    run()
    head = graph.commits.head("main")
    assert _rows(graph) == {f"p{n}": n + 100 for n in range(4)}
    assert graph.snapshot().tables["edge:Knows"].row_count == 4
    for folder in checkpoints.values():
        # As if the query was killed after its commit and before Spark noted that.
        (folder / "commits" / "0").unlink()
        (folder / "commits" / ".0.crc").unlink()
    run()
    graph.refresh("main")
    assert graph.commits.head("main") == head
    assert _left(graph) == []


def test_views_are_read_and_written_in_sql(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    options = f"(path '{graph.uri}', type 'Person')"
    frame = spark.createDataFrame([("ann", 1), ("bob", 2)], "who string, age int")
    target = frame.write.format("omnigraph").option("type", "Person")
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        target.option("mapping", "who=name").save(graph.uri)
    target.option("mapping", "who=name").mode("append").save(graph.uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW people USING omnigraph OPTIONS {options}")
    spark.sql("INSERT INTO people (name, age) VALUES ('cy', 3)")
    found = spark.sql("SELECT name FROM people WHERE age > 1 ORDER BY name").collect()
    assert [row["name"] for row in found] == ["bob", "cy"]
    spark.sql("DROP VIEW people")
    assert _rows(graph) == {"ann": 1, "bob": 2, "cy": 3}

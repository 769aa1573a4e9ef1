"""What Spark users see: the data source, the stream of changes, export, measures written back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.spark import (
    connected_components,
    export,
    label_propagation,
    pagerank,
    read,
    shortest_paths,
    triangle_count,
    write,
    write_property,
)
from tests.spark.worlds import NewGraph, content, full_only

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    code: U64?
    rank: F64?
    group: String?
    hops: I32?
    seen: DateTime?
    face: Vector(2)?
}

edge Knows: Person -> Person { since: Date? }
"""
LINKS = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "f"), ("b", "c")]


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    people = [
        {
            "type": "Person",
            "data": {
                "name": name,
                "age": n,
                "code": 2**63 + n,
                "seen": f"2026-01-0{n + 1}T10:20:30.5Z",
                "face": [n, 0.5],
            },
        }
        for n, name in enumerate("abcdefg")
    ]
    knows = [{"edge": "Knows", "from": a, "to": b} for a, b in LINKS]
    found.load([*people, *knows], mode="append")
    return found


def test_a_graph_is_a_data_source(spark: Any, graph: og.Graph) -> None:
    first = graph.snapshot()
    graph.branches.create("dev")
    graph.tags.create("one")
    graph.mutate('query q() { update Person set { age: 70 } where name = "a" }')

    def people(**options: str) -> Any:
        found = spark.read.format("omnigraph").option("type", "Person").options(**options)
        return found.load(graph.uri)

    assert people().count() == 7
    wanted = people(columns="id,age").where("age >= 2 and id in ('a', 'c', 'd') and id > 'a'")
    assert sorted(tuple(row) for row in wanted.collect()) == [("c", 2), ("d", 3)]
    plan = wanted._jdf.queryExecution().toString()
    assert "PushedFilters" in plan or "age" in plan
    old = people(columns="id,age", versionAsOf=str(first.version))
    for options in (
        {"versionAsOf": first.commit.graph_commit_id},
        {"branch": "dev"},
        {"tag": "one"},
    ):
        old = old.union(people(columns="id,age", **options))
    assert [row["age"] for row in old.where("id = 'a'").collect()] == [0] * 4
    row = people().where("id = 'g' and age is not null and name like 'g%'").collect()[0]
    assert row["code"] == 2**63 + 6
    with pytest.raises(Exception, match="unknown type 'Persn'"):
        spark.read.format("omnigraph").option("type", "Persn").load(graph.uri).count()
    with pytest.raises(Exception, match="the option 'type' is missing"):
        spark.read.format("omnigraph").load(graph.uri).count()


def test_changes_are_a_stream(spark: Any, graph: og.Graph, tmp_path: Path) -> None:
    def run() -> list[tuple[str, str, str]]:
        stream = spark.readStream.format("omnigraph_changes").option("type", "Person")
        query = (
            stream.load(graph.uri)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "changes"))
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        rows = spark.read.parquet(str(tmp_path / "changes")).collect()
        return sorted((row["op"], row["type"], row["id"]) for row in rows)

    inserted = [("insert", "Person", name) for name in "abcdefg"]
    assert run() == inserted
    graph.mutate('query q() { update Person set { age: 70 } where name = "a" }')
    graph.mutate('query q() { delete Person where name = "g" }')
    assert run() == [("delete", "Person", "g"), *inserted, ("update", "Person", "a")]


@pytest.mark.parametrize(
    "form", ["csv", *(pytest.param(form, marks=full_only) for form in ("jsonl", "parquet"))]
)
def test_an_export_loads_back_as_the_same_graph(
    spark: Any, graph: og.Graph, new_graph: NewGraph, tmp_path: Path, form: str
) -> None:
    counts = export(graph, tmp_path / "out", form=form, session=spark, rows_per_file=3)
    assert counts == {"Knows": 6, "Person": 7}
    assert not list(tmp_path.glob("*.partial"))
    other = new_graph(SCHEMA, name="other")
    sources: Any = {name: tmp_path / "out" / name for name in counts}
    if form == "jsonl":
        sources = [tmp_path / "out" / name for name in counts]
    other.bulk(sources, mode="append", engine="local")
    assert content(other) == content(graph)
    with pytest.raises(og.AlreadyExistsError):
        export(graph, tmp_path / "out", form=form, session=spark)
    with pytest.raises(og.BadRequestError, match="unknown form 'xml'"):
        export(graph, tmp_path / "no", form="xml", session=spark)


def _walk(rounds: int = 20) -> dict[str, float]:
    ranks = dict.fromkeys("abcdefg", 1 / 7)
    out = {name: [b for a, b in LINKS if a == name] for name in ranks}
    for _ in range(rounds):
        loose = sum(rank for name, rank in ranks.items() if not out[name])
        new = dict.fromkeys(ranks, 0.15 / 7 + 0.85 * loose / 7)
        for name, targets in out.items():
            for target in targets:
                new[target] += 0.85 * ranks[name] / len(targets)
        ranks = new
    return ranks


def _values(frame: Any) -> dict[str, Any]:
    return {row["id"]: row[1] for row in frame.select("id", frame.columns[-1]).collect()}


MEASURES: list[tuple[Callable[[Any, Any], Any], dict[str, Any]]] = [
    (
        connected_components,
        {**dict.fromkeys("abcd", "a"), **dict.fromkeys("ef", "e"), "g": "g"},
    ),
    (triangle_count, {**dict.fromkeys("abc", 1), **dict.fromkeys("defg", 0)}),
    (
        lambda v, e: shortest_paths(v, e, ["a", "e"]),
        {"a": 0, "b": 1, "c": 2, "d": 3, "e": 0, "f": 1, "g": None},
    ),
    (
        lambda v, e: label_propagation(v, e, rounds=1),
        {"a": "b", "b": "c", "c": "b", "d": "c", "e": "f", "f": "e", "g": "g"},
    ),
]


@full_only
@pytest.mark.parametrize(("measure", "wanted"), MEASURES)
def test_measures(
    spark: Any, graph: og.Graph, measure: Callable[[Any, Any], Any], wanted: dict[str, Any]
) -> None:
    nodes = read(spark, graph.uri, "Person", columns=["id"])
    links = read(spark, graph.uri, "Knows", columns=["src", "dst"])
    assert _values(measure(nodes, links)) == wanted


def test_a_measure_is_written_back_in_one_commit(spark: Any, graph: og.Graph) -> None:
    nodes = read(spark, graph.uri, "Person", columns=["id"])
    links = read(spark, graph.uri, "Knows", columns=["src", "dst"])
    ranks = pagerank(nodes, links, rounds=3)
    wanted = _walk(3)
    assert _values(ranks) == pytest.approx(wanted)
    graph.branches.create("measured")
    before = len(graph.commits.list(branch="measured"))
    result = write_property(graph, ranks.where("id <> 'g'"), "Person", "rank", branch="measured")
    assert (result.nodes, result.branch) == ({"Person": 6}, "measured")
    assert len(graph.commits.list(branch="measured")) == before + 1
    found = read(spark, graph.uri, "Person", branch="measured").collect()
    ranked = {row["id"]: row["rank"] for row in found}
    assert ranked.pop("g") is None
    del wanted["g"]
    assert ranked == pytest.approx(wanted)
    assert {row["code"] for row in found} == {2**63 + n for n in range(7)}
    with pytest.raises(og.BadRequestError, match="Person has no property 'size'"):
        write_property(graph, ranks, "Person", "size")


def test_a_frame_is_written_as_one_commit(spark: Any, graph: og.Graph) -> None:
    frame = spark.createDataFrame([("a", "g"), ("g", "a")], "x string, y string")
    result = write(frame, graph.uri, "Knows", mode="append", from_col="x", to_col="y")
    assert result.edges == {"Knows": 2}
    assert graph.snapshot().tables["edge:Knows"].row_count == 8
    assert read(spark, graph.uri, "Knows", columns=["src"]).where("src = 'g'").count() == 1

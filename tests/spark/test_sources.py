"""Every kind of input, reading back, and the command line."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.spark import Rows, edges, load, read, vertices
from tests.spark.worlds import FULL, SCHEMA, NewGraph, content, full_only, jsonl


def test_csv_parquet_and_frames_in_one_commit(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    (tmp_path / "people.csv").write_text(
        'who,age,born,face\nann,41,2020-01-02,"[1, 2]"\n"b\nob",,,\n', encoding="utf-8"
    )
    notes = pa.table({"id": ["n1", "n2", "n3"], "text": ["x", "y", "z"]})
    pq.write_table(notes, tmp_path / "notes.parquet", row_group_size=1)
    wrote = spark.createDataFrame(
        [("ann", "n1", "author"), ("ann", "n3", None)], "a string, n string, role string"
    )
    result = load(
        graph,
        {
            "Person": Rows(data=str(tmp_path / "people.csv"), columns={"who": "name"}),
            "Note": str(tmp_path / "*.parquet"),
            "Wrote": Rows(data=wrote, from_col="a", to_col="n"),
        },
        mode="append",
        session=spark,
    )
    assert (dict(result.nodes), dict(result.edges)) == ({"Note": 3, "Person": 2}, {"Wrote": 2})
    assert len(graph.commits.list()) == 2
    found = read(spark, graph.uri, "Person", columns=["id", "age", "born", "face"])
    rows = {row["id"]: row for row in found.collect()}
    assert rows["ann"]["born"] == datetime.date(2020, 1, 2)
    assert rows["ann"]["face"] == [1.0, 2.0]
    assert rows["b\nob"]["age"] is None
    assert vertices(spark, graph.uri).count() == 5
    assert sorted(tuple(row) for row in edges(spark, graph.uri).drop("id").collect()) == [
        ("Wrote", "Person", "ann", "Note", "n1"),
        ("Wrote", "Person", "ann", "Note", "n3"),
    ]


def test_problems_name_file_and_line(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text('name,age\n"x\ny",1\nann,old\nbob,1,2\n', encoding="utf-8")
    (folder / "b.csv").write_text("name,age\ncy,7\nann,99999999999\n", encoding="utf-8")
    with pytest.raises(og.DataError) as caught:
        load(graph, {"Person": folder}, mode="append", session=spark)
    found = [(Path(str(p["file"])).name, p["line"]) for p in caught.value.problems]
    assert found == [("a.csv", 4), ("a.csv", 5), ("b.csv", 3)]
    (folder / "a.csv").write_text("name\ncy\n", encoding="utf-8")
    (folder / "b.csv").write_text("name,age\nbo,7\ncy,\n", encoding="utf-8")
    with pytest.raises(og.DataError, match=r"b.csv line 3: duplicate id 'cy' .*line 2 of .*a.csv"):
        load(graph, {"Person": folder}, mode="append", session=spark)
    assert len(graph.commits.list()) == 1


def test_an_edge_without_an_end_is_left_out_itself(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph()
    graph.load([{"type": "Person", "data": {"name": name}} for name in "abcd"], mode="append")
    (tmp_path / "knows.csv").write_text("from,to\na,b\nb,c\n,d\nd,\n", encoding="utf-8")
    frame = pa.table({"from": ["a", "b", None, "d"], "to": ["b", "c", "d", None]})
    for data in (str(tmp_path / "knows.csv"), frame):
        result = graph.bulk(
            {"Knows": data}, mode="overwrite", allow_rejects=2, engine="spark", session=spark
        )
        assert (result.rejected, dict(result.edges)) == (2, {"Knows": 2})
        ends = read(spark, graph.uri, "Knows", columns=["src", "dst"]).collect()
        assert sorted(tuple(row) for row in ends) == [("a", "b"), ("b", "c")]
    wrong = pa.table({"name": ["x", "y"], "age": ["1", "2"]})
    with pytest.raises(og.DataError, match="cannot be loaded as") as refused:
        graph.bulk({"Person": wrong}, mode="append", allow_rejects=9, engine="spark", session=spark)
    assert "line" not in refused.value.problems[0]


def test_days_outside_the_years_1_to_9999_are_refused(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph()
    far = pa.table({"name": ["x", "y"], "born": pa.array([0, 2_932_897], pa.int32())})
    for frame in (far, far.cast(pa.schema([("name", pa.string()), ("born", pa.date32())]))):
        with pytest.raises(og.DataError, match="line 2: property 'born': 2932897 is outside"):
            load(graph, {"Person": frame}, mode="append", session=spark)
    assert len(graph.commits.list()) == 1


def test_snapshots_are_read_as_they_were(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph()
    data = {"zone": 1, "name": "x", "code": 2**64 - 1, "open": True}
    graph.load([{"type": "Place", "data": data}], mode="append")
    first = graph.snapshot().version
    graph.load([{"type": "Place", "data": {"zone": 2, "name": "x"}}], mode="append")
    assert read(spark, graph.uri, "Place", version=first).count() == 1
    newest = read(spark, graph.uri, "Place", columns=["zone", "code"])
    assert {row["zone"]: row["code"] for row in newest.collect()} == {1: 2**64 - 1, 2: None}
    with pytest.raises(og.BadRequestError, match="Place has no column 'size'"):
        read(spark, graph.uri, "Place", columns=["size"])
    with pytest.raises(og.NotFoundError, match="unknown type 'Plaice'"):
        read(spark, graph.uri, "Plaice")


def test_a_branch_takes_a_load(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph()
    path = jsonl(tmp_path / "a.jsonl", [{"type": "Person", "data": {"name": "ann"}}])
    graph.branches.create("dev")
    load(graph, path, mode="append", branch="dev", session=spark)
    load(graph, path, mode="overwrite", branch="dev", session=spark)
    assert graph.snapshot("dev").tables["node:Person"].row_count == 1
    assert content(graph) == {}


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("nowhere.jsonl", "file not found"),
        ("data.csv", "does not say of which type"),
        ({"Persn": "data.csv"}, "unknown type 'Persn'"),
        ({"Person": "data.jsonl"}, "not valid JSON"),
        ({"Person": "data.xml"}, "unknown kind of file"),
        ({"Person": Rows(data="data.csv", columns={"a": "b"})}, "which Person lacks"),
        ({"Person": 7}, "cannot load an int"),
    ],
)
def test_sources_that_cannot_be_meant(
    spark: Any,
    new_graph: NewGraph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: Any,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data.csv", "data.jsonl", "data.xml"):
        (tmp_path / name).write_text("name\n", encoding="utf-8")
    with pytest.raises(og.OmniGraphError, match=message):
        load(new_graph(), sources, mode="append", session=spark)


def _code(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def test_the_command_line_chooses_its_engine(
    spark: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    og.init("g", SCHEMA).close()
    jsonl(tmp_path / "a.jsonl", [{"type": "Person", "data": {"name": "ann"}}])
    jsonl(tmp_path / "bad.jsonl", [{"type": "Person", "data": {"name": "eve", "age": "old"}}])
    load_command = ["load", "g", "--quiet", "--mode", "append", "--data"]
    spark.range(1).collect()
    assert _code([*load_command, "a.jsonl", "--engine", "spark", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_entities"] == 1
    assert _code([*load_command, "a.jsonl", "--engine", "spark"]) == 5
    assert "line 1: Person 'ann' already exists; nothing was written" in capsys.readouterr().err
    assert _code([*load_command, "bad.jsonl", "--engine", "spark"]) == 1
    error = capsys.readouterr().err
    assert "line 1: property 'age' expects I32?, got a string" in error
    assert "Traceback" not in error
    assert _code([*load_command, "a.jsonl", "--engine", "local", "--master", "local[2]"]) == 2


def test_a_hundred_types_are_one_commit(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    half = 50 if FULL else 12
    nodes = edges = range(half)
    schema = "\n".join(
        [f"node N{n} {{ name: String @key  size: I32? }}" for n in nodes]
        + [f"edge E{n}: N{n} -> N{(n + 1) % half} {{ @unique(src, dst) }}" for n in edges]
    )
    sources: dict[str, Any] = {}
    for n in nodes:
        (tmp_path / f"N{n}.csv").write_text(f"name,size\nx{n},{n}\ny{n},\n")
        sources[f"N{n}"] = tmp_path / f"N{n}.csv"
        (tmp_path / f"E{n}.jsonl").write_text(f'{{"from": "x{n}", "to": "y{(n + 1) % half}"}}\n')
        sources[f"E{n}"] = tmp_path / f"E{n}.jsonl"
    graph = new_graph(schema)
    before = len(graph.commits.list())
    found = graph.bulk(sources, mode="append", engine="spark", session=spark)
    assert found.nodes == {f"N{n}": 2 for n in nodes}
    assert found.edges == {f"E{n}": 1 for n in edges}
    assert len(graph.commits.list()) == before + 1
    counts = {key: pin.row_count for key, pin in graph.snapshot().tables.items()}
    assert counts == {**{f"node:N{n}": 2 for n in nodes}, **{f"edge:E{n}": 1 for n in edges}}
    for n in (0, half - 1):
        sizes = dict(zip(*graph.export_table(f"N{n}").select(["name", "size"]), strict=True))
        assert {str(k): v.as_py() for k, v in sizes.items()} == {f"x{n}": n, f"y{n}": None}
        (edge,) = graph.export_table(f"E{n}").to_pylist()
        assert (edge["from"], edge["to"]) == (f"x{n}", f"y{(n + 1) % half}")


@pytest.mark.parametrize("kept", [pytest.param("first", marks=full_only), "last"])
def test_the_order_of_the_inputs_decides_on_both_engines(
    spark: Any, new_graph: NewGraph, tmp_path: Path, kept: Any
) -> None:
    (tmp_path / "b.jsonl").write_text('{"type": "Person", "data": {"name": "ann", "age": 2}}\n')
    for name, age in (("a", 1), ("c", 3)):
        (tmp_path / f"{name}.csv").write_text(f"name,age\nann,{age}\n")
    rows = {
        name: og.Rows(type="Person", data=tmp_path / f"{name}.csv", duplicates=kept)
        for name in ("a", "c")
    }
    orders: list[tuple[list[Any], int]] = [
        ([rows["a"], tmp_path / "b.jsonl"], 1 if kept == "first" else 2),
        ([tmp_path / "b.jsonl", rows["c"]], 2 if kept == "first" else 3),
        ([rows["a"], tmp_path / "b.jsonl", rows["c"]], 1 if kept == "first" else 3),
    ]
    for engine in ("local", "spark"):
        graph = new_graph(name=engine)
        more = {"session": spark} if engine == "spark" else {}
        for sources, wanted in orders[:: 1 if FULL or engine == "local" else -2]:
            graph.bulk(sources, mode="merge", engine=engine, **more)
            assert graph.export_table("Person")["age"].to_pylist() == [wanted], engine

"""Files and frames of all kinds in one process: one commit, exact places, rejects."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it has no types of its own
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.graph.seam import table_at
from omnigraph.store import fragment_ids, read_fragments, write_rows
from tests.places import AnyPath

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    born: Date?
    face: Vector(2)?
    mail: String? @unique
}

node Note { text: String }

edge Knows: Person -> Person { since: Date?  @unique(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        yield found


def _people(graph: og.Graph) -> dict[str, Any]:
    rows = graph.export(types=["Person"])
    assert not isinstance(rows, int)
    return {str(row["data"]["id"]): row["data"] for row in rows}  # type: ignore[index]


def test_files_and_frames_of_all_types_are_one_commit(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        'who,age,born,face\nann,41,2020-01-02,"[1, 2]"\n"b\nob",,,\n', encoding="utf-8"
    )
    folder = tmp_path / "more"
    folder.mkdir()
    pq.write_table(pa.table({"text": ["x", "y"]}), folder / "1.parquet", row_group_size=1)
    pq.write_table(pa.table({"text": ["z"]}), folder / "2.parquet")
    knows = pd.DataFrame({"a": ["ann"], "b": ["b\nob"], "since": [datetime.date(2021, 2, 3)]})
    result = graph.bulk(
        {
            "Person": og.Rows(data=tmp_path / "people.csv", columns={"who": "name"}),
            "Note": str(folder / "*.parquet"),
            "Knows": og.Rows(data=knows, from_col="a", to_col="b"),
        },
        mode="append",
    )
    assert (dict(result.nodes), dict(result.edges)) == ({"Note": 3, "Person": 2}, {"Knows": 1})
    assert len(graph.commits.list()) == 2
    found = _people(graph)
    assert found["ann"]["face"] == [1.0, 2.0]
    assert found["b\nob"]["age"] is None
    more = pl.DataFrame({"name": ["ann", "cy"], "age": [42, 7]})
    graph.bulk({"Person": more}, mode="merge")
    assert {name: row["age"] for name, row in _people(graph).items()} == {
        "ann": 42,
        "b\nob": None,
        "cy": 7,
    }


def test_several_files_of_envelopes_are_one_input(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type": "Person", "data": {"name": "ann"}}\n')
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "c.jsonl").write_text(
        '\n{"edge": "Knows", "from": "ann", "to": "bob"}\n'
        '{"type": "Person", "data": {"name": "ann"}}'
    )
    pattern = str(tmp_path / "*.jsonl")
    with pytest.raises(og.DataError, match=r"c.jsonl line 3: duplicate id 'ann' .* line 1 of .*a."):
        graph.bulk(pattern, mode="append")
    result = graph.bulk([tmp_path / "a.jsonl"], mode="append")
    assert result.nodes == {"Person": 1}
    with pytest.raises(og.KeyConflictError, match=r"a.jsonl line 1: Person 'ann' already exists"):
        graph.bulk([tmp_path / "b.jsonl", tmp_path / "a.jsonl"], mode="append")


def test_problems_name_file_and_line(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('name,age\n"x\ny",1\nann,old\nbob,1,2\n', encoding="utf-8")
    (tmp_path / "b.csv").write_text("name,age\ncy,7\nann,99999999999\n", encoding="utf-8")
    with pytest.raises(og.DataError) as caught:
        graph.bulk({"Person": str(tmp_path / "*.csv")}, mode="append")
    found = [(Path(str(p["file"])).name, p["line"]) for p in caught.value.problems]
    assert found == [("a.csv", 4), ("a.csv", 5), ("b.csv", 3)]
    frame = pa.table({"name": ["x"], "size": [1]})
    with pytest.raises(og.DataError, match="unknown column 'size' for 'node:Person'"):
        graph.bulk({"Person": frame}, mode="append")
    pq.write_table(pa.table({"name": ["q"], "mail": ["m"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"name": ["p"], "mail": ["m"]}), tmp_path / "2.parquet")
    with pytest.raises(og.DataError, match=r"1.parquet line 1: @unique violation on Person.mail"):
        graph.bulk({"Person": str(tmp_path / "*.parquet")}, mode="append")
    assert len(graph.commits.list()) == 1


def test_bad_rows_may_be_left_out(graph: og.Graph, tmp_path: Path) -> None:
    lines = [
        '{"type": "Person", "data": {"name": "ann"}}',
        "{",
        '{"type": "Person", "data": {"name": "bob", "age": "old"}}',
        '{"edge": "Knows", "from": "ann", "to": "bob"}',
        '{"type": "Person", "data": {"name": "ann"}}',
        '{"edge": "Knows", "from": "ann", "to": "ann"}',
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines))
    rejects = tmp_path / "rejects.jsonl"
    with pytest.raises(og.DataError):
        graph.bulk(path, mode="append", allow_rejects=3, rejects=rejects)
    assert len(graph.commits.list()) == 1
    assert len(rejects.read_text().splitlines()) >= 2
    result = graph.bulk(path, mode="append", allow_rejects=4, rejects=rejects)
    assert (result.nodes, result.edges, result.rejected) == ({"Person": 1}, {"Knows": 1}, 4)
    reasons = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert sorted(item["line"] for item in reasons) == [2, 3, 4, 5]
    assert {item["file"] for item in reasons} == {str(path)}
    people = pa.table({"name": ["x", "y", "x"], "age": [1, 2, 3]})
    assert graph.bulk({"Person": people}, mode="append", allow_rejects=1).rejected == 1
    assert _people(graph)["x"]["age"] == 1
    (tmp_path / "p.csv").write_text("name,age\nu,1\nv,?\nw,3\n")
    csv = graph.bulk({"Person": tmp_path / "p.csv"}, mode="append", allow_rejects=1)
    assert (csv.nodes, csv.rejected) == ({"Person": 2}, 1)


def test_what_is_wrong_with_no_row_is_never_left_out(graph: og.Graph, tmp_path: Path) -> None:
    frame = pa.table({"name": ["x"], "size": [1]})
    with pytest.raises(og.DataError, match="unknown column"):
        graph.bulk({"Person": frame}, mode="append", allow_rejects=10)
    with pytest.raises(og.BadRequestError, match="cannot be negative"):
        graph.bulk({"Person": frame}, mode="append", allow_rejects=-1)
    with pytest.raises(og.BadRequestError, match="unknown engine"):
        graph.bulk({"Person": frame}, mode="append", engine="flink")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("nowhere.jsonl", "file not found"),
        ("data.csv", "does not say of which type"),
        ({"Persn": "data.csv"}, "unknown type 'Persn'"),
        ({"Person": "data.jsonl"}, "line 1: not valid JSON"),
        ({"Person": "data.xml"}, "unknown kind of file"),
        ({"Person": "data.parquet"}, "is not a Parquet file"),
        ({"Person": og.Rows(data="data.csv", columns={"a": "b"})}, "which Person lacks"),
        ({"Person": 7}, "cannot load an int"),
        ("empty", "no .jsonl, .ndjson, .csv, .parquet, .graphml files in"),
    ],
)
def test_sources_that_cannot_be_meant(
    graph: og.Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: Any,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("data.csv", "data.jsonl", "data.xml", "data.parquet"):
        (tmp_path / name).write_text("name\n", encoding="utf-8")
    with pytest.raises(og.OmniGraphError, match=message):
        graph.bulk(sources, mode="append")


def _run(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def test_the_command_takes_types_and_a_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    og.init("g", SCHEMA, durability="none").close()
    (tmp_path / "p.csv").write_text("name,age\nann,1\nbob,x\n")
    load = ["load", "g", "--quiet", "--mode", "append"]
    typed = [*load, "--data", "Person=p.csv"]
    assert _run(typed) == 1
    assert "line 3: property 'age': 'x' is not of type I32?" in capsys.readouterr().err
    allowed = [*typed, "--allow-rejects", "1", "--rejects", "bad.jsonl"]
    assert _run(allowed) == 0
    assert "left out 1 rejected row" in capsys.readouterr().out
    assert json.loads(Path("bad.jsonl").read_text())["line"] == 3
    Path("k.csv").write_text("a,b\nann,ann\n")
    Path("load.toml").write_text('[Knows]\ndata = "k.csv"\nfrom = "a"\nto = "b"\n')
    assert _run([*load, "--mapping", "load.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_entities"] == 1
    Path("load.toml").write_text('[Knows]\nfile = "k.csv"\n')
    assert _run([*load, "--mapping", "load.toml"]) == 1
    assert "[Knows] has no 'file'" in capsys.readouterr().err
    Path("load.toml").write_text("[Knows")
    assert _run([*load, "--mapping", "load.toml"]) == 1
    assert "is not a TOML file" in capsys.readouterr().err
    assert _run(load) == 2
    Path("load.toml").write_text('[Knows]\ndata = "k.csv"\ncolumns = { a = "from", b = "to" }\n')
    Path("k.csv").write_text("a,b\ncy,di\n")
    Path("q.csv").write_text("name\ndi\n")
    Path("a.jsonl").write_text('{"type": "Person", "data": {"name": "cy"}}\n')
    files = ["--data", "a.jsonl", "--data", "Person=q.csv", "--mapping", "load.toml"]
    assert _run([*load, *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_entities"] == 3


def test_workers_read_and_write_tables_wherever_they_are(place: AnyPath) -> None:
    with og.init(place / "g", "node Person { name: String @key }", durability="none") as graph:
        graph.bulk({"Person": pa.table({"name": ["ann", "bob"]})}, mode="append")
        found = table_at(graph, graph.snapshot(), "node:Person")
        folder = str(found.dataset.uri)
        ids = [number for number, _rows in fragment_ids(found)]
        rows = list(read_fragments(folder, found.version, ids, ["name"], where="name = 'bob'"))
        assert [row for batch in rows for row in batch.column(0).to_pylist()] == ["bob"]
        all_rows = pa.RecordBatchReader.from_batches(
            found.schema, read_fragments(folder, found.version, ids, found.schema.names)
        )
        assert len(write_rows(folder, found.version, all_rows)) == 1
        assert found.count_rows() == 2


@pytest.mark.parametrize("empty", [iter(()), pa.table({}), pl.DataFrame()])
def test_an_input_without_rows_and_columns_loads_nothing(graph: og.Graph, empty: Any) -> None:
    result = graph.bulk({"Person": [{"name": "ann"}], "Note": empty}, mode="append")
    assert result.nodes == {"Person": 1}


def test_rows_that_can_be_taken_once_are_read_as_often_as_needed(graph: og.Graph) -> None:
    people = ({"name": name, "age": age} for name, age in (("ann", 1), ("bob", 2**40)))
    rows = (og.Rows(data=people),)
    result = graph.bulk({"Person": rows}, mode="append", allow_rejects=1)
    assert (result.nodes, result.rejected) == ({"Person": 1}, 1)


def test_lines_that_end_with_a_carriage_return_alone_are_counted(
    graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "1.csv").write_bytes(b"name,age\ra1,1\ra2,x\ra3,3\ra4,4\r")
    (tmp_path / "2.csv").write_bytes(b"name,age\rb1,1\rb2,2\rb3,3\r")
    files = [tmp_path / "1.csv", tmp_path / "2.csv"]
    result = graph.bulk({"Person": files}, mode="append", allow_rejects=1)
    assert result.rejected == 1
    assert sorted(_people(graph)) == ["a1", "a3", "a4", "b1", "b2", "b3"]


@pytest.mark.parametrize("mode", ["append", "apply"])
def test_bad_lines_are_found_in_every_part_of_a_large_file(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    monkeypatch.setattr("omnigraph.intake.envelopes.LOAD_BLOCK_BYTES", 64)
    lines = [json.dumps({"name": f"p{n}", "op": "insert"}) for n in range(20)]
    if mode == "append":
        lines = [json.dumps({"name": f"p{n}"}) for n in range(20)]
    lines[15] = "no json"
    (tmp_path / "people.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(og.DataError, match="line 16: not valid JSON"):
        graph.bulk({"Person": str(tmp_path / "people.jsonl")}, mode=mode)


def test_a_large_csv_file_is_read_in_parts(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.intake.csv_files.LOAD_BLOCK_BYTES", 64)
    monkeypatch.setattr("omnigraph.intake.csv_files.SPARK_FRAME_ROWS", 10)
    text = "".join(f'"p\n{n}",{n}\n' for n in range(50))
    (tmp_path / "Person.csv").write_text(f"name,age\n{text}z,old\n", encoding="utf-8")
    with pytest.raises(og.DataError, match="line 102: property 'age': 'old' is not of type"):
        graph.bulk(str(tmp_path / "Person.csv"), mode="append")
    (tmp_path / "Person.csv").write_text(f"name,age\n{text}", encoding="utf-8")
    assert graph.bulk(str(tmp_path / "Person.csv"), mode="append").nodes == {"Person": 50}


def test_a_place_that_rejects_cannot_be_written_to_is_noticed_first(
    graph: og.Graph, tmp_path: Path
) -> None:
    before = graph.commits.head().graph_commit_id
    people = pa.table({"name": ["ann"]})
    for place in (tmp_path / "missing" / "rejects.jsonl", tmp_path):
        with pytest.raises(og.BadRequestError, match="cannot write"):
            graph.bulk(
                {"Person": people}, mode="append", rejects=place, branch="b", create_from="main"
            )
    assert graph.commits.head().graph_commit_id == before
    assert list(graph.branches.list()) == ["main"]


def test_rejects_that_cannot_be_written_hide_neither_a_commit_nor_an_error(
    graph: og.Graph, tmp_path: Path
) -> None:
    place = tmp_path / "out"
    (tmp_path / "p.csv").write_text("name,age\nann,1\nbob,old\n", encoding="utf-8")

    def load(allowed: int) -> og.LoadResult:
        place.mkdir()
        return graph.bulk(
            {"Person": tmp_path / "p.csv"},
            mode="append",
            allow_rejects=allowed,
            rejects=place / "rejects.jsonl",
            progress=lambda _done: shutil.rmtree(place, ignore_errors=True),
        )

    with pytest.raises(og.DataError, match="'old' is not of type"):
        load(0)
    found = load(1)
    assert (found.nodes, found.rejected) == ({"Person": 1}, 1)
    assert found.commit == graph.commits.head()
    assert str(found.warning).startswith(f"the rejected rows could not be written to {place}")


@pytest.mark.parametrize("kept", ["first", "last"])
def test_of_several_records_the_order_of_the_inputs_decides(
    graph: og.Graph, tmp_path: Path, kept: Any
) -> None:
    (tmp_path / "a.csv").write_text("name,age\nann,1\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(
        '{"type":"Person","data":{"name":"ann","age":2}}\n', encoding="utf-8"
    )
    rows = og.Rows(type="Person", data=str(tmp_path / "a.csv"), duplicates=kept)
    graph.bulk([rows, str(tmp_path / "b.jsonl")], mode="append")
    assert _people(graph)["ann"]["age"] == (1 if kept == "first" else 2)


def test_lines_are_numbered_by_file_wherever_envelopes_stand(
    graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("name,age\nann,1\nbob,x\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"type":"Person","data":{"name":"cy"}}\nno\n', "utf-8")
    (tmp_path / "c.csv").write_text("name,age\ndi,1\n\nann,4\nel,y\n", encoding="utf-8")
    rows = [og.Rows(type="Person", data=str(tmp_path / name)) for name in ("a.csv", "c.csv")]
    with pytest.raises(og.DataError) as caught:
        graph.bulk([rows[0], str(tmp_path / "b.jsonl"), rows[1]], mode="append")
    places = [(Path(str(item["file"])).name, item["line"]) for item in caught.value.problems]
    assert places == [("a.csv", 3), ("b.jsonl", 2), ("c.csv", 5)]

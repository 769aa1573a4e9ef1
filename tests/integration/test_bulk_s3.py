"""Inputs in a bucket of a real S3 server: objects, folders and patterns, of every form."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.pipeline import read_pipeline, run_pipeline
from omnigraph.store import locate, new_file, open_file
from tests.integration.conftest import Cli
from tests.places import S3Path, new_prefix
from tests.servers.seaweed import Seaweed

SCHEMA = """\
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


def _put(place: S3Path, name: str, data: bytes) -> None:
    locate(f"{place}/{name}").files.replace(f"{place}/{name}", data, sync=False)


@pytest.fixture
def place(s3: Seaweed) -> S3Path:
    found = new_prefix(s3.bucket)
    _put(found, "in/a.jsonl", b'{"type":"Person","data":{"name":"ann"}}\n')
    _put(found, "in/b.ndjson", b'\xef\xbb\xbf{"type":"Person","data":{"name":"bob"}}\n')
    _put(found, "in/.c.jsonl", b"no JSON\n")
    _put(found, "in/deep/d.jsonl", b"no JSON\n")
    _put(found, "people/1.csv", b"who,age\ncy,3\n")
    _put(found, "people/2.csv", b"who,age\ndi,\n")
    out = io.BytesIO()
    pq.write_table(pa.table({"from": ["ann"], "to": ["cy"]}), out)
    _put(found, "knows.parquet", out.getvalue())
    _put(found, "empty/readme.txt", b"")
    return found


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as found:
        yield found


def _entities(graph: og.Graph) -> list[dict[str, object]]:
    found = graph.export()
    assert not isinstance(found, int)
    return list(found)


def test_objects_folders_and_patterns_are_loaded(graph: og.Graph, place: S3Path) -> None:
    people = og.Rows(data=f"{place}/people/", columns={"who": "name"})
    assert graph.bulk(f"{place}/in/?.*json*", mode="append").nodes == {"Person": 2}
    done: list[int] = []
    found = graph.bulk(
        {"Person": people, "Knows": f"{place}/knows.parquet"}, mode="append", progress=done.append
    )
    assert (found.nodes, found.edges) == ({"Person": 2}, {"Knows": 1})
    assert done[-1] > 0
    assert graph.load(f"{place}/in/a.jsonl", mode="merge").nodes == {"Person": 1}


def test_a_folder_that_an_export_wrote_loads_from_a_bucket(
    graph: og.Graph, place: S3Path, tmp_path: Path
) -> None:
    graph.load(
        [
            {"type": "Person", "data": {"name": ""}},
            {"type": "Person", "data": {"name": "ann", "age": 3}},
            {"edge": "Knows", "from": "", "to": "ann", "data": {"id": "e"}},
        ],
        mode="append",
    )
    graph.export(tmp_path / "out", format="csv")
    graph.export(tmp_path / "out.graphml")
    for path in (tmp_path / "out").iterdir():
        _put(place, f"out/{path.name}", path.read_bytes())
    _put(place, "out.graphml", (tmp_path / "out.graphml").read_bytes())
    for name in ("out", "out/mapping.toml", "out.graphml"):
        with og.init(
            tmp_path / f"copy-{name.replace('/', '-')}", SCHEMA, durability="none"
        ) as copy:
            copy.bulk(f"{place}/{name}", mode="append")
            assert _entities(copy) == _entities(graph)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("in/nothing.jsonl", og.NotFoundError, "file not found: s3://"),
        ("in/*.csv", og.NotFoundError, "file not found: s3://"),
        ("nowhere", og.NotFoundError, "file not found: s3://"),
        ("empty", og.NotFoundError, r"no .jsonl, .ndjson, .csv, .parquet, .graphml files in s3://"),
        ("people/1.csv", og.BadRequestError, "does not say of which type"),
    ],
)
def test_what_is_not_there_is_named(
    graph: og.Graph, place: S3Path, name: str, error: type[og.OmniGraphError], message: str
) -> None:
    with pytest.raises(error, match=message):
        graph.bulk(f"{place}/{name}", mode="append")
    with pytest.raises(og.NotFoundError, match="file not found"):
        graph.load(f"{place}/in/nothing.jsonl", mode="append")


def test_problems_name_object_and_line(graph: og.Graph, place: S3Path) -> None:
    _put(place, "people/2.csv", b"who,age\ndi,\nei,old\n")
    people = og.Rows(data=f"{place}/people/*.csv", columns={"who": "name"})
    with pytest.raises(og.DataError) as caught:
        graph.bulk({"Person": people}, mode="append")
    [problem] = caught.value.problems
    assert (problem["file"], problem["line"]) == (f"{place}/people/2.csv", 3)


def test_a_bucket_that_is_closed_is_a_storage_error(
    graph: og.Graph, place: S3Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(og.StorageError, match="s3://") as caught:
        graph.bulk(f"{place}/in/a.jsonl", mode="append")
    assert "wrong" not in str(caught.value)


def test_the_command_line_takes_addresses(place: S3Path, tmp_path: Path, cli: Cli) -> None:
    og.init(tmp_path / "cli", SCHEMA, durability="none").close()
    mapping = tmp_path / "map.toml"
    mapping.write_text(f'[Person]\ndata = "{place}/people"\ncolumns = {{ who = "name" }}\n')
    common = ("--mode", "append", "--quiet", "--json")
    shown = cli("load", str(tmp_path / "cli"), "--data", f"{place}/in/[ab].*", *common)
    assert shown.code == 0
    assert json.loads(shown.out)["total_entities"] == 2
    shown = cli("load", str(tmp_path / "cli"), "--mapping", str(mapping), *common)
    assert json.loads(shown.out)["total_entities"] == 2


def test_objects_are_read_by_ranges(place: S3Path) -> None:
    data = bytes(range(256)) * 1000
    with new_file(f"{place}/bytes") as out:
        out.write(data)
    with open_file(f"{place}/bytes") as handle:
        assert handle.seek(-3, io.SEEK_END) == len(data) - 3
        assert handle.read() == data[-3:]
        handle.seek(70_000)
        assert handle.read(300) == data[70_000:70_300]
        handle.seek(0)
        assert handle.readline() == data[: data.index(b"\n") + 1]
    with pytest.raises(ValueError, match="stop"), new_file(f"{place}/never"):
        raise ValueError("stop")
    with pytest.raises(FileNotFoundError):
        open_file(f"{place}/never")


def test_a_pipeline_in_which_only_the_content_of_an_object_changes(
    place: S3Path, tmp_path: Path
) -> None:
    mapping = f'[Person]\ndata = "{place}/people/1.csv"\ncolumns = {{ who = "name" }}\n'
    _put(place, "crew.toml", mapping.encode())
    (tmp_path / "in.toml").write_text(f'mapping = "{place}/crew.toml"\n', encoding="utf-8")
    first = read_pipeline(tmp_path / "in.toml").input_id()
    assert read_pipeline(tmp_path / "in.toml").input_id() == first
    _put(place, "people/1.csv", b"who,age\ncy,4\n")
    assert read_pipeline(tmp_path / "in.toml").input_id() != first


def test_a_pipeline_may_lie_in_a_bucket_with_all_its_files(
    graph: og.Graph, place: S3Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = 'columns = { who = "name" }'
    checks = 'query nobody() { match { $p: Person  $p.name = "" } return { $p.name } }'
    _put(place, "jobs/checks.gq", checks.encode())
    _put(place, "jobs/people.csv", b"who,age\ncy,3\nbad,x\n")
    text = 'rejects = "rejects.jsonl"\nallow_rejects = 1\nqueries = "checks.gq"\n'
    text += 'checks = ["nobody"]\n'
    _put(place, "jobs/in.toml", f'{text}[Person]\ndata = "people.csv"\n{rules}\n'.encode())
    _put(place, "jobs/mapped.toml", f'{text}mapping = "crew.toml"\n'.encode())
    _put(place, "jobs/crew.toml", f'[Person]\ndata = "people.csv"\n{rules}\n'.encode())
    report = run_pipeline(graph, read_pipeline(f"{place}/jobs/in.toml"), run_id="r1")
    assert (report.ok, report.rows_in, report.rejected) == (True, 2, 1)
    with open_file(f"{place}/jobs/rejects.jsonl") as handle:
        assert json.loads(handle.read())["line"] == 3
    report = run_pipeline(graph, read_pipeline(f"{place}/jobs/mapped.toml"), run_id="r2")
    assert report.ok
    assert not list(tmp_path.glob("s3:*"))


def test_a_graph_tells_a_pipeline_how_to_reach_the_input(
    s3: Seaweed, place: S3Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = s3.options()
    og.init(f"{place}/g", SCHEMA, storage_options=given).close()
    text = f'[Person]\ndata = "{place}/people/1.csv"\ncolumns = {{ who = "name" }}\n'
    (tmp_path / "in.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with og.open(f"{place}/g", storage_options=given) as graph:
        report = run_pipeline(graph, read_pipeline(tmp_path / "in.toml"))
    assert (report.ok, report.rows_in) == (True, 1)

"""Ways in and out of the command line: parameters, standard input, files by their ending."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from tests.integration.conftest import Cli

QUERIES = """\
query by($name: String, $least: I32?) {
    match { $p: Person { name: $name }  $p.age >= $least? }
    return { $p.name as name, $p.age as age }
}
"""
EXPECTED = [{"name": "ann", "age": 31}]


@pytest.fixture
def place(tmp_path: Path) -> str:
    (tmp_path / "q.gq").write_text(QUERIES, encoding="utf-8")
    schema = "node Person { name: String @key  age: I32? }"
    with og.init(tmp_path / "g", schema, durability="none") as graph:
        graph.load([{"type": "Person", "data": {"name": "ann", "age": 31}}], mode="append")
    return str(tmp_path / "g")


def asked(place: str, *more: str) -> tuple[str, ...]:
    return ("query", "--store", place, "--query", "q.gq", *more)


def test_parameters_are_given_one_by_one(cli: Cli, place: str) -> None:
    found = cli(*asked(place, "--param", "name=ann", "--param", "least=30", "--json"))
    assert found.json["rows"] == EXPECTED
    found = cli(*asked(place, "--param", "$name=ann", "--param", "least=null", "--json"))
    assert found.json["rows"] == EXPECTED
    mixed = cli(*asked(place, "--params", '{"name": "ann"}', "--param", "least=99", "--json"))
    assert mixed.json["rows"] == []
    (Path(place).parent / "p.json").write_text('{"name": "ann"}', encoding="utf-8")
    assert cli(*asked(place, "--params-file", "p.json", "--json")).json["rows"] == EXPECTED


@pytest.mark.parametrize(
    "named", [("{}",), ("by", "{}"), ("by", "--store", "{}"), ("--store", "{}")]
)
def test_a_query_finds_its_graph_as_other_commands_do(
    cli: Cli, place: str, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    words = [word.format(place) for word in named]
    found = cli("query", *words, "--query", "q.gq", "--param", "name=ann", "--json")
    assert found.json["rows"] == EXPECTED, found.err
    monkeypatch.chdir(Path(place).parent)
    relative = [word.format("g") for word in named]
    found = cli("query", *relative, "--query", "q.gq", "--param", "name=ann", "--json")
    assert found.json["rows"] == EXPECTED, found.err


def test_a_mutation_finds_its_graph_as_other_commands_do(cli: Cli, place: str) -> None:
    add = 'query add() { insert Person { name: "bob" } }'
    assert "changed main via add: 1 node" in cli("mutate", place, "-e", add, "--quiet").out


def test_a_name_is_a_query_when_the_graph_is_named_otherwise(
    cli: Cli, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(place).parent)
    monkeypatch.setenv("OMNIGRAPH_STORE", place)
    found = cli("query", "g", "--query", "q.gq", "--param", "name=ann")
    assert (found.code, "no query named 'g'" in found.err) == (3, True)


@pytest.mark.parametrize("name", ["o.csv", "o.json", "o.jsonl", "o.parquet", "o.arrow", "o.txt"])
def test_a_file_is_written_as_its_ending_says(
    cli: Cli, place: str, tmp_path: Path, name: str
) -> None:
    assert cli(*asked(place, "--param", "name=ann", "--out", name)).code == 0
    content = (tmp_path / name).read_bytes()
    if name == "o.csv":
        assert list(csv.DictReader(io.StringIO(content.decode()))) == [{"name": "ann", "age": "31"}]
    elif name == "o.json":
        assert json.loads(content)["rows"] == EXPECTED
    elif name == "o.jsonl":
        assert json.loads(content.splitlines()[1]) == EXPECTED[0]
    elif name == "o.parquet":
        assert pq.read_table(tmp_path / name).to_pylist() == EXPECTED
    elif name == "o.arrow":
        assert pa.ipc.open_stream(content).read_all().to_pylist() == EXPECTED
    else:
        assert b"ann  | 31" in content


def test_a_format_that_is_said_wins_over_the_ending(cli: Cli, place: str, tmp_path: Path) -> None:
    assert cli(*asked(place, "--param", "name=ann", "--out", "o.dat", "--format", "csv")).code == 0
    assert (tmp_path / "o.dat").read_text(encoding="utf-8") == "name,age\nann,31\n"


def test_an_export_follows_the_ending_too(cli: Cli, place: str, tmp_path: Path) -> None:
    assert cli("export", place, "--type", "Person", "--out", "p.parquet").code == 0
    assert pq.read_table(tmp_path / "p.parquet")["name"].to_pylist() == ["ann"]
    assert cli("export", place, "--out", "p.jsonl").code == 0
    assert json.loads((tmp_path / "p.jsonl").read_bytes())["data"]["name"] == "ann"


def test_the_module_is_the_program_and_reads_standard_input(place: str) -> None:
    line = json.dumps({"type": "Person", "data": {"name": "bob"}})
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "omnigraph", "load", place, "--data", "-", "--mode", "append"],
        input=line.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"1 node, 0 edges" in done.stdout
    with og.open(place, mode="ro") as graph:
        assert graph.get("Person", "bob") == {"id": "bob", "name": "bob", "age": None}

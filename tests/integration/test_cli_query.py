"""`omnigraph query`: its formats, options and exit codes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.limits import I64_MAX
from omnigraph.read import frame
from tests.integration.conftest import Cli
from tests.integration.helpers import head, load, node, run

SCHEMA = """\
node Person {
    name: String @key
    note: String?
    age: I64?
    tags: [String]?
    born: Date?
}
"""
QUERIES = """\
query all() {
    match { $p: Person }
    return { $p.name as name, $p.note as note, $p.age as age, $p.tags as tags, $p.born as born }
    order { $p.name }
}
query older($than: I64, $tag: String?) {
    match { $p: Person $p.age > $than $p.tags contains $tag? }
    return { $p.name as name }
    order { $p.name }
}
query none() { match { $p: Person { name: "?" } } return { $p.name as name, $p.age as age } }
query boom() { match { $p: Person } return { $p.age + 9223372036854775807 } }
query add($n: String) { insert Person { name: $n } }
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli") / "club"
    with og.init(place, SCHEMA, durability="none") as graph:
        values = {"note": 'say "hi",\nthen go', "age": 41, "tags": ["x", "é"], "born": "2000-01-02"}
        load(graph, [node("Person", name="ann", **values), node("Person", name="bob")])
    return place


@pytest.fixture
def store(template: Path, tmp_path: Path) -> str:
    place = tmp_path / "club"
    shutil.copytree(template, place)
    (tmp_path / "people.gq").write_text(QUERIES, encoding="utf-8")
    return str(place)


@pytest.fixture
def ask(cli: Cli, store: str) -> Cli:
    return lambda *arguments: cli("query", "--store", store, "--query", "people.gq", *arguments)


# ---- formats ------------------------------------------------------------------------------


def test_table_is_the_usual_format(ask: Cli) -> None:
    shown = ask("all")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == ask("all", "--format", "table").out
    assert shown.out.splitlines() == [
        "2 rows from branch main via all",
        "name | note               | age  | tags       | born",
        "-----+--------------------+------+------------+-----------",
        'ann  | say "hi",\\nthen go | 41   | ["x", "é"] | 2000-01-02',
        "bob  | null               | null | null       | null",
    ]


def test_table_columns_line_up(ask: Cli) -> None:
    lines = ask("all").out.splitlines()
    rule = [index for index, char in enumerate(lines[2]) if char == "+"]
    assert set(lines[2]) == {"-", "+"}
    for line in (lines[1], *lines[3:]):
        assert [line[index] for index in rule] == ["|"] * len(rule)
    assert "\\n" in lines[3]
    assert lines[4].split(" | ")[1].strip() == "null"


def test_one_row_is_a_row(ask: Cli) -> None:
    assert ask("older", "--params", '{"than": 40}').out == (
        "1 row from branch main via older\nname\n----\nann\n"
    )


def test_an_empty_table_has_its_head(ask: Cli) -> None:
    assert ask("none").out == "0 rows from branch main via none\nname | age\n-----+----\n"
    assert ask("none", "--format", "kv").out == "0 rows from branch main via none\n(no rows)\n"
    assert ask("none", "--format", "csv").out == "name,age\n"
    assert ask("none", "--json").json["rows"] == []


def test_wide_cells_are_cut(cli: Cli, store: str) -> None:
    with og.open(store, durability="none") as graph:
        run(graph, "insert Person { name: $n }", n=("String", "w" * 200))
    text = 'query q() { match { $p: Person $p.name starts_with "w" } return { $p.name } }'
    lines = cli("query", "--store", store, "-e", text).out.splitlines()
    assert lines[3] == "w" * 79 + "…"
    assert "w" * 200 in cli("query", "--store", store, "-e", text, "--format", "kv").out
    assert "w" * 200 in cli("query", "--store", store, "-e", text, "--format", "csv").out


def test_kv(ask: Cli) -> None:
    assert ask("all", "--format", "kv").out == (
        "2 rows from branch main via all\n\n"
        'row 1\nname: ann\nnote: say "hi",\\nthen go\nage: 41\ntags: ["x", "é"]\n'
        "born: 2000-01-02\n\n"
        "row 2\nname: bob\nnote: null\nage: null\ntags: null\nborn: null\n"
    )


def test_csv(ask: Cli) -> None:
    found = list(csv.reader(io.StringIO(ask("all", "--format", "csv").out)))
    assert found == [
        ["name", "note", "age", "tags", "born"],
        ["ann", 'say "hi",\nthen go', "41", '["x", "é"]', "2000-01-02"],
        ["bob", "null", "null", "null", "null"],
    ]


def test_jsonl(ask: Cli) -> None:
    lines = [json.loads(line) for line in ask("all", "--format", "jsonl").out.splitlines()]
    assert lines[0] == {
        "kind": "metadata",
        "query_name": "all",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 2,
    }
    assert lines[1]["note"] == 'say "hi",\nthen go'
    assert lines[2] == {"name": "bob", "note": None, "age": None, "tags": None, "born": None}


def test_json_is_the_wire_form(ask: Cli, store: str) -> None:
    found = ask("all", "--json")
    assert found.json == ask("all", "--format", "json").json
    assert ask("all", "--format", "csv", "--json").json == found.json
    with og.open(store, mode="ro") as graph:
        assert found.json == graph.query(QUERIES, name="all").to_json()


def test_arrow_and_parquet_files(ask: Cli, store: str, tmp_path: Path) -> None:
    assert ask("all", "--format", "arrow", "--out", "all.arrow").out == ""
    assert ask("all", "--format", "parquet", "--out", "all.parquet").code == 0
    with og.open(store, mode="ro") as graph:
        expected = graph.query(QUERIES, name="all").to_arrow()
    assert pa.ipc.open_stream((tmp_path / "all.arrow").read_bytes()).read_all() == expected
    assert pq.read_table(tmp_path / "all.parquet").to_pylist() == expected.to_pylist()


def test_text_formats_into_a_file(ask: Cli, tmp_path: Path) -> None:
    for form in ("table", "kv", "csv", "jsonl", "json"):
        shown = ask("all", "--format", form)
        assert ask("all", "--format", form, "--out", "out.txt").out == ""
        assert (tmp_path / "out.txt").read_text(encoding="utf-8") == shown.out


# ---- options ------------------------------------------------------------------------------


def test_parameters_from_the_command_line_and_from_a_file(ask: Cli, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"than": 0, "tag": "é"}', encoding="utf-8")
    assert ask("older", "--params-file", "p.json", "--format", "csv").out == "name\nann\n"
    assert ask("older", "--params", '{"than": 41}', "--format", "csv").out == "name\n"
    assert ask("older", "--params", '{"than": "7"}', "--format", "csv").out == "name\nann\n"
    assert ask("older", "--params", "{}", "--params-file", "p.json").code == 2


def test_a_single_query_needs_no_name(cli: Cli, store: str) -> None:
    text = "query q() { match { $p: Person } return { count(*) as n } }"
    assert cli("query", "--store", store, "-e", text, "--format", "csv").out == "n\n2\n"


def test_older_versions_and_commits(ask: Cli, store: str) -> None:
    with og.open(store, durability="none") as graph:
        version, commit = graph.snapshot().version, head(graph)
        run(graph, 'delete Person where name = "ann"')
    assert ask("all").out.startswith("1 row from branch main via all\n")
    assert ask("all", "--snapshot", commit).out.startswith(f"2 rows from snapshot {commit} via all")
    assert ask("all", "--version", str(version), "--json").json["row_count"] == 2
    assert ask("all", "--snapshot", commit, "--json").json["graph_commit_id"] == commit
    assert ask("all", "--version", "1", "--json").json["rows"] == []
    assert ask("all", "--version", str(version), "--snapshot", commit).code == 2


# ---- exit codes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("nobody",), 3, "nobody"),
        ((), 1, "name"),
        (("add", "--params", '{"n": "z"}'), 1, "query 'add' writes; use it as a mutation"),
        (("older",), 1, "parameter 'than'"),
        (("older", "--params", '{"than": "x"}'), 1, "parameter 'than'"),
        (("older", "--params", "{"), 1, "not valid JSON"),
        (("older", "--params", "[]"), 1, "must be a JSON object"),
        (("boom",), 1, "overflow"),
        (("all", "--snapshot", "NONE"), 3, "NONE"),
        (("all", "--branch", "dev"), 3, "dev"),
        (("all", "--format", "parquet"), 2, "--out"),
        (("all", "--format", "xml"), 2, "xml"),
        (("all", "-e", "query q() { }"), 2, "--query"),
        (("all", "--params-file", "missing.json"), 3, "missing.json"),
    ],
)
def test_failures_exit_with_their_codes(
    ask: Cli, arguments: tuple[str, ...], code: int, text: str
) -> None:
    shown = ask(*arguments)
    assert (shown.code, shown.out) == (code, "")
    assert text in shown.err


def test_more_failures(cli: Cli, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "query q() { match { $p: Person } return { $p.names } }"
    broken = cli("query", "--store", store, "-e", text)
    assert broken.code == 1
    assert "error[T6]" in broken.err
    assert cli("query", "--store", store).code == 2
    assert cli("query", "--store", "nowhere", "-e", text).code == 3
    assert cli("query", "--store", store, "--query", "missing.gq").code == 3
    monkeypatch.setattr(frame, "QUERY_ROWS_MAX", 1)
    assert cli("query", "--store", store, "--query", "people.gq", "all").code == 8


def test_queries_write_nothing(ask: Cli, store: str, tmp_path: Path) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in Path(store).rglob("*"))
    assert ask("all").code == 0
    assert sorted((p, p.stat().st_mtime_ns) for p in Path(store).rglob("*")) == before


def test_large_integers_stay_whole(cli: Cli, store: str) -> None:
    with og.open(store, durability="none") as graph:
        run(graph, "insert Person { name: $n, age: $a }", n=("String", "z"), a=("I64", I64_MAX))
    text = 'query q() { match { $p: Person { name: "z" } } return { $p.age as age } }'
    assert f'"age": {I64_MAX}' in cli("query", "--store", store, "-e", text, "--json").out

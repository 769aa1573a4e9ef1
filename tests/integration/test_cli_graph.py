"""The commands that work on a graph: what they print, and how they exit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import PEOPLE, files, head, jsonl, rows, run

DATA = jsonl(
    '{"type":"Person","data":{"name":"a","age":1}}',
    '{"type":"Person","data":{"name":"b"}}',
    '{"edge":"knows","from":"a","to":"b","data":{"id":"e"}}',
)
ADD = """\
query add($n: String) { insert Person { name: $n } }
query drop() { delete Person where name = "zz" }
"""


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path) -> None:
    (tmp_path / "people.pg").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "people.jsonl").write_bytes(DATA)
    (tmp_path / "people.gq").write_text(ADD, encoding="utf-8")


@pytest.fixture
def loaded(cli: Cli, tmp_path: Path) -> str:
    place = str(tmp_path / "club")
    assert cli("init", place, "--schema", "people.pg").code == 0
    assert cli("load", place, "--data", "people.jsonl", "--mode", "append").code == 0
    return place


def person_names(place: str) -> set[str]:
    with og.open(place, mode="ro") as graph:
        return set(rows(graph, "Person"))


def newest(place: str) -> str:
    with og.open(place, mode="ro") as graph:
        return head(graph)


# ---- init ---------------------------------------------------------------------------------


def test_init_creates_a_graph(cli: Cli, tmp_path: Path) -> None:
    shown = cli("init", "club", "--schema", "people.pg")
    place = tmp_path / "club"
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == f"initialized {place} (2 node types, 2 edge types)\n"
    with og.open(place, mode="ro") as graph:
        assert graph.schema_source == PEOPLE


def test_init_as_json(cli: Cli, tmp_path: Path) -> None:
    shown = cli("init", "club", "--schema", "people.pg", "--json")
    assert shown.json == {"uri": str(tmp_path / "club"), "internal_schema_version": 4}


def test_init_failures_exit_with_their_codes(cli: Cli, loaded: str, tmp_path: Path) -> None:
    again = cli("init", loaded, "--schema", "people.pg", "--json")
    assert again.code == 5
    assert (again.json["type"], again.json["code"]) == ("already_initialized", "conflict")
    assert cli("init", "other", "--schema", "none.pg").code == 3
    (tmp_path / "bad.pg").write_text("node {", encoding="utf-8")
    broken = cli("init", "other", "--schema", "bad.pg")
    assert broken.code == 1
    assert broken.err.startswith("bad.pg:1:6: error[P00]")
    assert cli("init", "other").code == 2
    assert not (tmp_path / "other").exists()


def test_init_force_replaces_stray_schema_files(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "club").mkdir()
    (tmp_path / "club" / "_schema.pg").write_text("", encoding="utf-8")
    refused = cli("init", "club", "--schema", "people.pg")
    assert refused.code == 5
    assert refused.err.endswith("help: remove them, or repeat with force\n")
    assert cli("init", "club", "--schema", "people.pg", "--force").code == 0


# ---- load ---------------------------------------------------------------------------------


def test_load_says_what_it_loaded(cli: Cli, loaded: str) -> None:
    shown = cli("load", loaded, "--data", "people.jsonl", "--mode", "merge")
    assert shown.code == 0
    assert shown.err == f"omnigraph load -> {loaded} (direct, local)\n"
    lines = shown.out.splitlines()
    assert lines[0] == f"loaded {loaded} branch main (merge): 2 nodes, 1 edge"
    assert [line.split() for line in lines[1:3]] == [["node:Person", "2"], ["edge:Knows", "1"]]
    assert lines[3] == f"commit {newest(loaded)}"


def test_load_as_json_carries_counts_and_commit(cli: Cli, loaded: str) -> None:
    shown = cli(
        "load", "--store", loaded, "--data", "people.jsonl", "--mode", "merge", "--json", "--quiet"
    )
    found = shown.json
    assert shown.err == ""
    assert found["tables"] == [
        {"table_key": "node:Person", "rows_loaded": 2},
        {"table_key": "edge:Knows", "rows_loaded": 1},
    ]
    assert (found["uri"], found["mode"], found["total_entities"]) == (loaded, "merge", 3)
    assert found["commit"]["graph_commit_id"] == newest(loaded)


def test_a_dry_run_writes_nothing(cli: Cli, loaded: str, tmp_path: Path) -> None:
    before = files(loaded)
    (tmp_path / "more.jsonl").write_bytes(jsonl('{"type":"Person","data":{"name":"c"}}'))
    shown = cli("load", loaded, "--data", "more.jsonl", "--mode", "append", "--dry-run")
    assert shown.code == 0
    assert shown.out.startswith(f"checked {loaded} branch main (append): 1 node, 0 edges\n")
    assert "commit" not in shown.out
    assert files(loaded) == before


def test_a_dry_run_of_a_mutation_writes_nothing(cli: Cli, loaded: str) -> None:
    before = files(loaded)
    add = ("mutate", "-e", 'query add() { insert Person { name: "new" } }', "--store", loaded)
    shown = cli(*add, "--dry-run")
    assert shown.code == 0
    assert shown.out == (
        "would change main via add: 1 node, 0 edges\ndry run; nothing was written\n"
    )
    found = cli(*add, "--dry-run", "--json").json
    assert (found["dry_run"], found["commit"], found["affected_nodes"]) == (True, None, 1)
    assert files(loaded) == before
    assert "dry_run" not in cli(*add, "--json").json


def test_an_empty_file_is_a_warning(cli: Cli, loaded: str, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    shown = cli("load", loaded, "--data", "empty.jsonl", "--mode", "merge", "--quiet")
    assert shown.code == 0
    assert shown.err == "warning: the input holds no entities; nothing was committed\n"
    assert cli("load", loaded, "--data", "empty.jsonl", "--mode", "overwrite").code == 1


def test_load_failures_exit_with_their_codes(cli: Cli, loaded: str, tmp_path: Path) -> None:
    (tmp_path / "taken.jsonl").write_bytes(DATA.splitlines(keepends=True)[0])
    taken = cli("load", loaded, "--data", "taken.jsonl", "--mode", "append", "--json")
    assert taken.code == 5
    assert taken.json["key_conflict"] == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "a",
    }
    (tmp_path / "bad.jsonl").write_bytes(b"{\n")
    assert cli("load", loaded, "--data", "bad.jsonl", "--mode", "merge").code == 1
    assert cli("load", loaded, "--data", "none.jsonl", "--mode", "merge").code == 3
    assert cli("load", "nowhere", "--data", "people.jsonl", "--mode", "merge").code == 3
    other = cli("load", loaded, "--data", "people.jsonl", "--mode", "merge", "--branch", "x")
    assert other.code == 3
    assert "branch 'x' does not exist" in other.err
    assert cli("load", loaded, "--data", "people.jsonl").code == 2
    assert cli("load", loaded, "--data", "people.jsonl", "--mode", "replace").code == 2
    assert cli("load", "--data", "people.jsonl", "--mode", "merge").code == 2
    twice = cli("load", loaded, "--store", loaded, "--data", "people.jsonl", "--mode", "merge")
    assert twice.code == 2
    assert cli("load", "http://h/g", "--data", "people.jsonl", "--mode", "merge").code == 1


# ---- mutate -------------------------------------------------------------------------------


def mutate(cli: Cli, place: str, *arguments: str) -> tuple[int, str, str]:
    done = cli("mutate", "--store", place, "--query", "people.gq", *arguments)
    return done.code, done.out, done.err


def test_mutate_says_what_it_changed(cli: Cli, loaded: str) -> None:
    code, out, err = mutate(cli, loaded, "add", "--params", '{"n":"c"}', "--as", "ann")
    assert code == 0
    assert err == f"omnigraph mutate -> {loaded} (direct, local)\n"
    assert out == f"changed main via add: 1 node, 0 edges by ann\ncommit {newest(loaded)}\n"
    code, out, _err = mutate(cli, loaded, "drop")
    assert (code, out) == (
        0,
        "changed main via drop: 0 nodes, 0 edges\nnothing changed; no commit was made\n",
    )


def test_mutate_as_json(cli: Cli, loaded: str, tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"n": "c"}', encoding="utf-8")
    _code, out, _err = mutate(cli, loaded, "add", "--params-file", "params.json", "--json")
    found = json.loads(out)
    assert (found["affected_nodes"], found["affected_edges"]) == (1, 0)
    assert (found["query_name"], found["branch"], found["actor_id"]) == ("add", "main", None)
    assert found["commit"]["graph_commit_id"] == newest(loaded)


def test_mutate_takes_the_query_as_text(cli: Cli, loaded: str) -> None:
    text = 'query q() { insert Person { name: "t" } }'
    assert cli("mutate", "--store", loaded, "-e", text, "--quiet").err == ""
    assert "t" in person_names(loaded)


def test_if_commit_lost_exits_with_4_and_names_both(cli: Cli, loaded: str) -> None:
    current = newest(loaded)
    code, _out, _err = mutate(cli, loaded, "add", "--params", '{"n":"c"}', "--if-commit", current)
    assert code == 0
    lost = mutate(cli, loaded, "add", "--params", '{"n":"d"}', "--if-commit", current, "--json")
    assert lost[0] == 4
    body = json.loads(lost[1])
    assert body["precondition_failure"] == {"expected": current, "actual": newest(loaded)}
    load_lost = cli(
        "load", loaded, "--data", "people.jsonl", "--mode", "merge", "--if-commit", current
    )
    assert load_lost.code == 4
    assert person_names(loaded) == {"a", "b", "c"}


def test_an_operation_id_is_applied_once(cli: Cli, loaded: str) -> None:
    arguments = ("add", "--params", '{"n":"c"}', "--operation-id", "op-1", "--json")
    first = json.loads(mutate(cli, loaded, *arguments)[1])
    again = json.loads(mutate(cli, loaded, *arguments)[1])
    assert first["commit"] == again["commit"]
    assert (first["repeated"], again["repeated"], again["affected_nodes"]) == (False, True, None)
    shown = mutate(cli, loaded, *arguments[:-1])[1]
    assert shown.startswith("already changed main via add, by this operation id\ncommit ")
    with og.open(loaded, mode="ro") as graph:
        assert len(graph.commits.list()) == 3


def test_mutate_failures_exit_with_their_codes(cli: Cli, loaded: str) -> None:
    assert mutate(cli, loaded)[0] == 1
    assert mutate(cli, loaded, "add")[0] == 1
    assert mutate(cli, loaded, "add", "--params", "[1]")[0] == 1
    assert mutate(cli, loaded, "add", "--params", "{")[0] == 1
    assert mutate(cli, loaded, "add", "--params", "{}", "--params-file", "x")[0] == 2
    assert mutate(cli, loaded, "add", "--params-file", "none.json")[0] == 3
    assert mutate(cli, loaded, "-e", ADD)[0] == 2
    assert cli("mutate", "--store", loaded).code == 2
    assert cli("mutate", "--store", loaded, "--query", "none.gq").code == 3
    assert cli("mutate", "--store", loaded, "-e", "query q() { insert Nope { a: 1 } }").code == 1
    assert cli("mutate", "--store", "nowhere", "-e", ADD, "drop").code == 3
    assert mutate(cli, loaded, "drop", "--as", " ")[0] == 1
    reading = "query q() { match { $p: Person } return { $p.name } }"
    assert cli("mutate", "--store", loaded, "-e", reading).code == 1


def test_a_stale_strict_write_exits_with_5(
    cli: Cli, loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = og.Graph.mutate

    def overtaken(self: og.Graph, *arguments: object, **options: object) -> og.MutationResult:
        with og.open(loaded, durability="none") as other:
            run_real(other, 'insert Person { name: "first" }')
        return real(self, *arguments, **options)  # type: ignore[arg-type]

    def run_real(graph: og.Graph, body: str) -> None:
        real(graph, f"query q() {{ {body} }}")

    monkeypatch.setattr(og.Graph, "mutate", overtaken)
    text = 'query q() { update Person set { age: 9 } where name = "a" }'
    shown = cli("mutate", "--store", loaded, "-e", text, "--json")
    assert shown.code == 5
    assert shown.json["type"] == "version_conflict"
    assert shown.json["manifest_conflict"]["table_key"] == "node:Person"


# ---- reading ------------------------------------------------------------------------------


def test_snapshot_shows_every_table(cli: Cli, loaded: str) -> None:
    shown = cli("snapshot", loaded)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[:4] == [
        "branch main",
        "manifest_version 2",
        "internal_schema_version 4",
        f"commit {newest(loaded)}",
    ]
    assert [line.split() for line in lines[4:]] == [
        ["edge:Knows", "1", "rows", "version", "2"],
        ["edge:Wrote", "0", "rows", "version", "1"],
        ["node:Paper", "0", "rows", "version", "1"],
        ["node:Person", "2", "rows", "version", "2"],
    ]


def test_snapshot_as_json_at_a_version_and_a_commit(cli: Cli, loaded: str) -> None:
    now = cli("snapshot", loaded, "--json").json
    assert now["manifest_version"] == now["graph_manifest_version"] == 2
    assert [item["row_count"] for item in now["tables"]] == [1, 0, 0, 2]
    assert now["datasets"][3]["type_name"] == "Person"
    old = cli("snapshot", "--store", loaded, "--version", "1", "--json").json
    assert [item["row_count"] for item in old["tables"]] == [0, 0, 0, 0]
    by_commit = cli("snapshot", loaded, "--commit", old["graph_commit_id"], "--json").json
    assert by_commit == old


def test_snapshot_failures_exit_with_their_codes(cli: Cli, loaded: str) -> None:
    assert cli("snapshot", loaded, "--version", "9").code == 3
    assert cli("snapshot", loaded, "--commit", "nope").code == 3
    assert cli("snapshot", loaded, "--commit", "nope", "--version", "1").code == 2
    assert cli("snapshot", loaded, "--branch", "x").code == 3
    assert cli("snapshot", "nowhere").code == 3
    assert cli("snapshot").code == 2
    missing = cli("snapshot", "nowhere", "--json")
    assert (missing.json["type"], missing.json["code"]) == ("not_found", "not_found")


def test_export_prints_what_load_reads(cli: Cli, loaded: str, tmp_path: Path) -> None:
    shown = cli("export", loaded)
    assert (shown.code, shown.err) == (0, "")
    assert [json.loads(line)["data"]["id"] for line in shown.out.splitlines()] == ["a", "b", "e"]
    (tmp_path / "dump.jsonl").write_text(shown.out, encoding="utf-8")
    assert cli("init", "copy", "--schema", "people.pg").code == 0
    assert cli("load", "copy", "--data", "dump.jsonl", "--mode", "overwrite").code == 0
    assert cli("export", "copy").out == shown.out


def test_export_selects_types_versions_and_a_file(cli: Cli, loaded: str, tmp_path: Path) -> None:
    only = cli("export", loaded, "--type", "Knows", "--type", "Paper").out
    assert [json.loads(line)["edge"] for line in only.splitlines()] == ["Knows"]
    assert cli("export", loaded, "--version", "1").out == ""
    written = cli("export", loaded, "--out", "out.jsonl", "--commit", newest(loaded))
    assert (written.out, written.err) == ("", "wrote 3 lines to out.jsonl\n")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == cli("export", loaded).out
    unknown = cli("export", loaded, "--type", "Nope")
    assert (unknown.code, unknown.err) == (
        3,
        "error: unknown export type 'Nope'\nhelp: there are: Knows, Paper, Person, Wrote\n",
    )


def test_commit_list_shows_and_filters(cli: Cli, loaded: str) -> None:
    mutate(cli, loaded, "add", "--params", '{"n":"c"}', "--as", "ann")
    lines = cli("commit", "list", loaded).out.splitlines()
    assert [line.split()[0] for line in lines] == [
        item["graph_commit_id"] for item in cli("commit", "list", loaded, "--json").json["commits"]
    ]
    assert [line.split()[1] for line in lines] == ["v3", "v2", "v1"]
    assert [line.split()[-2:] for line in lines] == [
        ["mutation", "ann"],
        ["load", "-"],
        ["init", "-"],
    ]
    by_ann = cli("commit", "list", "--uri", loaded, "--filter", "actor=ann", "--json").json
    assert [item["actor_id"] for item in by_ann["commits"]] == ["ann"]
    assert len(cli("commit", "list", loaded, "--limit", "1").out.splitlines()) == 1
    assert cli("commit", "list", loaded, "--filter", "actor=eve").out == "(no commits)\n"
    assert cli("commit", "list", loaded, "--since", "2100-01-01").out == "(no commits)\n"
    assert len(cli("commit", "list", loaded, "--until", "2100-01-01").out.splitlines()) == 3


def test_commit_list_failures_exit_with_their_codes(cli: Cli, loaded: str) -> None:
    assert cli("commit", "list", loaded, "--filter", "kind=load").code == 1
    assert cli("commit", "list", loaded, "--since", "soon").code == 1
    assert cli("commit", "list", loaded, "--limit", "-1").code == 2
    assert cli("commit", "list", loaded, "--branch", "x").code == 3
    assert cli("commit", "list", "nowhere").code == 3


def test_commit_show_tells_what_moved(cli: Cli, loaded: str) -> None:
    newest_id = newest(loaded)
    shown = cli("commit", "show", newest_id, loaded)
    assert shown.code == 0
    assert f"graph_commit_id: {newest_id}" in shown.out
    assert "  node:Person: +2 rows (version 2)" in shown.out
    assert "  edge:Knows: +1 row (version 2)" in shown.out
    assert "node:Paper" not in shown.out
    found = cli("commit", "show", newest_id, "--uri", loaded, "--json").json
    assert (found["graph_commit_id"], found["kind"]) == (newest_id, "load")
    assert cli("commit", "show", "nope", loaded).code == 3


def test_schema_show_prints_the_source(cli: Cli, loaded: str) -> None:
    assert cli("schema", "show", loaded).out == PEOPLE
    assert cli("schema", "show", "--store", loaded, "--json").json == {"schema_source": PEOPLE}
    assert cli("schema", "show", "nowhere").code == 3


def test_reading_commands_change_no_byte(cli: Cli, loaded: str) -> None:
    before = files(loaded)
    for arguments in (
        ("snapshot", loaded),
        ("export", loaded),
        ("commit", "list", loaded),
        ("commit", "show", newest(loaded), loaded),
        ("schema", "show", loaded),
    ):
        assert cli(*arguments).code == 0
    assert files(loaded) == before


# ---- the environment ----------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["full", "none"])
def test_durability_follows_the_environment(
    cli: Cli, loaded: str, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", durability)
    synced: list[str] = []
    monkeypatch.setattr("omnigraph.store.files.durability.fsync", synced.append)
    assert mutate(cli, loaded, "add", "--params", '{"n":"c"}')[0] == 0
    assert bool(synced) == (durability == "full")


def test_an_unknown_durability_is_refused(
    cli: Cli, loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "maybe")
    shown = cli("snapshot", loaded)
    assert (shown.code, shown.err) == (
        1,
        "error: OMNIGRAPH_DURABILITY must be full or none, not 'maybe'\n",
    )


def test_an_unknown_durability_is_refused_by_init(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "maybe")
    assert cli("init", "club", "--schema", "people.pg").code == 1


def test_an_unwritable_export_target_is_reported(cli: Cli, loaded: str) -> None:
    assert cli("export", loaded, "--out", "none/out.jsonl").code == 1


def test_the_installed_program_runs(loaded: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        [str(Path(sys.executable).parent / "omnigraph"), "export", loaded, "--type", "Person"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2


def test_a_closed_pipe_ends_the_program_quietly(loaded: str) -> None:
    with og.open(loaded, durability="none") as graph:
        for number in range(3):
            run(graph, f'insert Paper {{ title: "{"x" * 50_000}{number}" }}')
    program = Path(sys.executable).parent / "omnigraph"
    done = subprocess.run(  # noqa: S603 - our own program
        ["/bin/sh", "-c", f"'{program}' export '{loaded}' | head -c 10 >/dev/null"],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert b"Traceback" not in done.stderr

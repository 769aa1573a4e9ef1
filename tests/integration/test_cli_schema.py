"""`schema plan` and `schema apply` on a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph, load, node, rows

OLD = "node Person { slug: String @key  name: String?  age: I32? }\n"
NEW = 'node Person { slug: String @key  title: String? @rename_from("name")  age: I64? }\n'
STRICT = OLD.replace("age: I32?", "age: I32")


@pytest.fixture
def graph(new_graph: NewGraph, tmp_path: Path) -> og.Graph:
    made = new_graph(OLD)
    load(made, [node("Person", slug="ann", name="Ann", age=3), node("Person", slug="bob")])
    (tmp_path / "new.pg").write_text(NEW)
    (tmp_path / "strict.pg").write_text(STRICT)
    (tmp_path / "short.pg").write_text("node Person { slug: String @key }\n")
    (tmp_path / "bad.pg").write_text(OLD.replace("age: I32?", "age: Bool?"))
    return made


def test_a_plan_of_a_graph_counts_rows(cli: Cli, graph: og.Graph) -> None:
    found = cli("schema", "plan", graph.uri, "--schema", "new.pg")
    assert found.code == 0
    assert found.out.splitlines() == [
        "supported: yes",
        "widen property 'Person.age' (I32? -> I64?) on node 'Person' [1 row]",
        "rename property 'Person.name' -> 'Person.title' on node 'Person'",
    ]
    found = cli("schema", "plan", "--store", graph.uri, "--schema", "new.pg", "--json")
    assert found.json["step_count"] == 2
    assert [step["affected_rows"] for step in found.json["steps"]] == [1, 0]
    assert found.json["applied"] is False
    assert graph.schema.plan(NEW).supported


def test_a_plan_names_the_rows_that_stand_against_it(cli: Cli, graph: og.Graph) -> None:
    found = cli("schema", "plan", graph.uri, "--schema", "strict.pg", "--check")
    assert found.code == 3
    assert "problem: Person 'bob' has no value for age, which the new schema requires" in found.out
    assert cli("schema", "plan", graph.uri, "--schema", "bad.pg").code == 0
    assert cli("schema", "plan", graph.uri, "--schema", "bad.pg", "--check").code == 3


def test_apply_changes_the_graph(cli: Cli, graph: og.Graph) -> None:
    found = cli("schema", "apply", graph.uri, "--schema", "new.pg", "--as", "ann")
    assert found.code == 0
    assert found.out.splitlines()[-2:] == ["applied: yes", "manifest_version: 3"]
    assert found.err.startswith("omnigraph schema apply -> ")
    assert rows(graph, "Person")["ann"] == {"slug": "ann", "title": "Ann", "age": 3}
    assert graph.commits.head().actor_id == "ann"
    assert cli("schema", "show", graph.uri).out == NEW
    again = cli("schema", "apply", graph.uri, "--schema", "new.pg", "--json", "--quiet")
    assert again.err == ""
    assert (again.json["applied"], again.json["steps"]) == (False, [])
    assert again.json["manifest_version"] == again.json["graph_manifest_version"] == 3


def test_apply_refuses_and_says_why(cli: Cli, graph: og.Graph) -> None:
    found = cli("schema", "apply", graph.uri, "--schema", "strict.pg")
    assert found.code == 1
    assert "Person 'bob' has no value for age" in found.err
    found = cli("schema", "apply", graph.uri, "--schema", "bad.pg")
    assert found.code == 1
    assert "[OG-MF-106]" in found.err
    graph.branches.create("dev")
    found = cli("schema", "apply", graph.uri, "--schema", "new.pg")
    assert found.code != 0
    assert "found non-main branches: dev" in found.err
    assert "merge or delete them first" in found.err
    missing = cli("schema", "apply", graph.uri, "--schema", "none.pg")
    assert "none.pg" in missing.err
    moved = cli("schema", "apply", graph.uri, "--schema", "new.pg", "--if-commit", "x" * 26)
    assert moved.code != 0


def test_drops_are_asked_about_at_a_terminal_only(
    cli: Cli, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(
        "click.confirm", lambda *_args, **_options: (_ for _ in ()).throw(SystemExit(1))
    )
    assert cli("schema", "apply", graph.uri, "--schema", "short.pg").code == 1
    assert "age" in rows(graph, "Person")["ann"]
    assert cli("schema", "apply", graph.uri, "--schema", "short.pg", "--yes").code == 0
    assert rows(graph, "Person")["ann"] == {"slug": "ann"}

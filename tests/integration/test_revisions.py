"""States are named the way people write them, wherever a state is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.policy import load_policy
from tests.integration.conftest import Cli

SCHEMA = "node P { k: String @key  v: I64? }"
PUT = 'query put($v: I64) { update P set { v: $v } where k = "a" }'
READ = "query q() { match { $p: P } return { $p.v as v } }"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A graph whose only row counts commits on main (1 to 4), 20 on dev, merged as the last."""
    found = str(tmp_path / "g")
    with og.init(found, SCHEMA, durability="none") as graph:
        graph.load([{"type": "P", "data": {"k": "a", "v": 1}}], mode="append")
        for value in (2, 3):
            graph.mutate(PUT, {"v": value})
        graph.tags.create("v3")
        graph.mutate(PUT, {"v": 4})
        graph.branches.create("dev", "main~1")
        graph.mutate(PUT, {"v": 20}, branch="dev")
        graph.branches.merge("dev", resolve="theirs")
    return found


@pytest.fixture
def graph(place: str) -> Iterator[og.Graph]:
    with og.open(place, durability="none") as found:
        yield found


def value(graph: og.Graph, name: str, branch: str | None = None) -> object:
    return graph.query(READ, commit=name, branch=branch).scalar()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HEAD", 20),
        ("main", 20),
        ("HEAD~1", 4),
        ("main^", 4),
        ("main^1^1", 3),
        ("main~3", 2),
        ("main^2", 20),
        ("main^2~1", 3),
        ("dev~1", 3),
        ("v3", 3),
        ("v3~1", 2),
        ("main@2", 1),
        ("3", 2),
        ("main@{now}", 20),
        ("@{now}~1", 4),
        ("2999-01-01", 20),
    ],
)
def test_a_state_is_found_by_its_name(graph: og.Graph, name: str, expected: int) -> None:
    assert value(graph, name) == expected
    commit = graph.commits.get(name)
    assert value(graph, commit.graph_commit_id) == expected
    assert len(graph.diff(name, commit.graph_commit_id)) == 0


def test_head_is_that_of_the_branch_asked_about(graph: og.Graph) -> None:
    assert value(graph, "HEAD", "dev") == 20
    assert value(graph, "HEAD~1", "dev") == 3


def test_a_commit_is_found_by_how_its_id_begins(graph: og.Graph) -> None:
    head = graph.commits.head().graph_commit_id
    known = {c.graph_commit_id for name in graph.branches.list() for c in graph.commits.list(name)}
    unique = next(
        head[:size]
        for size in range(4, 27)
        if sum(other.startswith(head[:size]) for other in known) == 1
    )
    assert graph.commits.get(unique).graph_commit_id == head
    assert graph.commits.get(unique.lower()).graph_commit_id == head
    with pytest.raises(og.NotFoundError, match="commits begin with") as caught:
        graph.commits.get(head[:4])
    assert head in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "why", "hint"),
    [
        ("mainn", "is not a branch", "did you mean 'main'"),
        ("deb", "is not a branch", "did you mean 'dev'"),
        ("zzzz", "is not a branch", "branch@version"),
        ("main~99", "is the first one", "5 of 99 steps"),
        ("main~1^2", "is not a merge", "0 of 1 steps"),
        ("main@{soon}", "is not a point in time", "5 minutes ago"),
        ("main@{2001-01-01}", "did not exist", None),
        ("main@99", "version", None),
        ("nope@{now}", "'nope'", None),
    ],
)
def test_a_name_of_nothing_says_what_may_be_meant(
    graph: og.Graph, name: str, why: str, hint: str | None
) -> None:
    with pytest.raises(og.NotFoundError, match=why) as caught:
        value(graph, name)
    assert hint is None or hint in str(caught.value.hint)


def test_writes_that_name_a_commit_take_any_name(graph: og.Graph) -> None:
    made = graph.branches.revert("HEAD")
    assert made is not None
    assert value(graph, "HEAD") == 4
    graph.branches.create("old", "main@{now}~2")
    assert value(graph, "HEAD", "old") == 4
    tagged = graph.tags.create("t", commit="main~3")
    assert tagged.version == graph.commits.get("main~3").manifest_version


def test_names_of_hidden_branches_are_not_told(place: str, tmp_path: Path) -> None:
    bundle = tmp_path / "p.yaml"
    bundle.write_text(
        "version: 1\ngroups: {all: [eve]}\nprotected_branches: [dev]\nrules:\n"
        "  - {id: r, allow: {actors: {group: all}, actions: [read], branch_scope: unprotected}}\n",
        encoding="utf-8",
    )
    with og.open(place, mode="ro", actor="eve", policy=load_policy(bundle)) as graph:
        with pytest.raises(og.NotFoundError) as caught:
            graph.commits.get("deb")
        assert "dev" not in str(caught.value.hint)
        with pytest.raises(og.PolicyDeniedError):
            graph.query(READ, commit="dev~1")


def test_the_graph_is_found_by_a_variable_or_in_the_folder(
    cli: Cli, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = cli("branch", "list")
    assert (nowhere.code, "OMNIGRAPH_STORE" in nowhere.err) == (2, True)
    monkeypatch.setenv("OMNIGRAPH_STORE", place)
    assert cli("branch", "list").out == "main\ndev\n"
    assert cli("query", "-e", READ, "--format", "csv").out == "v\n20\n"
    assert cli("branch", "list", str(tmp_path / "none")).code == 3
    monkeypatch.delenv("OMNIGRAPH_STORE")
    monkeypatch.chdir(place)
    assert cli("branch", "list").out == "main\ndev\n"
    assert cli("query", "-e", READ, "--format", "csv").out == "v\n20\n"


def test_the_command_line_names_states_the_same_way(cli: Cli, place: str) -> None:
    shown = cli("query", "-e", READ, "--store", place, "--at", "main~3", "--format", "csv")
    assert shown.out == "v\n2\n"
    assert '"v":2' in cli("export", place, "--at", "main~3").out.replace(" ", "")
    assert "manifest_version 3" in cli("snapshot", place, "--at", "main~3").out
    assert cli("diff", "HEAD~1", "HEAD", place).out.endswith("v: 4 -> 20\n")
    assert cli("commit", "show", "HEAD^2", place).code == 0
    assert cli("branch", "create", "x", place, "--from", "HEAD~1").code == 0
    assert cli("tag", "create", "t", place, "--at", "v3~1").code == 0
    wrong = cli("query", "-e", READ, "--store", place, "--at", "mainn")
    assert (wrong.code, "did you mean 'main'?" in wrong.err) == (3, True)
    both = cli("query", "-e", READ, "--store", place, "--at", "main", "--version", "2")
    assert both.code == 2

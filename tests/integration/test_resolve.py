"""Entity resolution on a graph: what is found, and what a proposal makes of nodes and edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError, ConflictError, DataError, NotFoundError
from omnigraph.pipeline import read_pipeline, run_pipeline
from omnigraph.resolve import Comparison, Key, Resolved, Rules, propose, resolve
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph

SCHEMA = """
node Person {
    mail: String @key
    name: String
    city: String?
    seen: Date?
    bio: String?
    bio_vector: Vector(8)? @embed(bio)
}
node Firm { name: String @key }
node Note { text: String }
edge Knows: Person -> Person { since: I32?  @unique(src, dst) }
edge Works: Person -> Firm { role: String? }
edge About: Note -> Person
"""
RULES = Rules(
    type="Person",
    blocks=[Key("name", by="prefix", length=3)],
    compare=[Comparison("name", by="edit", weight=2.0), Comparison("city", by="normalised")],
    threshold=0.85,
    survivor="most_edges",
    properties={"*": "first", "bio": "longest"},
)
FILE = """
type = "Person"
blocks = [{ property = "name", by = "prefix", length = 3 }]
compare = [
    { property = "name", by = "edit", weight = 2.0 },
    { property = "city", by = "normalised" },
]
threshold = 0.85
survivor = "most_edges"
properties = { "*" = "first", bio = "longest" }
"""


def _person(mail: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": "Person", "data": {"mail": mail, "name": name, **more}}


def _edge(kind: str, source: str, target: str, **data: Any) -> dict[str, Any]:
    return {"edge": kind, "from": source, "to": target, "data": data}


PEOPLE = [
    _person("ann@x", "Ann Lee", city="Bonn", bio="short"),
    _person("lee@x", "ann leé", city="BONN", bio="much longer", seen="2024-05-01"),
    _person("bob@x", "Bob Hill"),
    _person("cy@x", "Cy Young", city="Ulm"),
    {"type": "Firm", "data": {"name": "acme"}},
    {"type": "Note", "data": {"id": "n", "text": "hello"}},
    _edge("Knows", "ann@x", "bob@x", id="k1", since=1),
    _edge("Knows", "lee@x", "bob@x", id="k2", since=2),
    _edge("Knows", "ann@x", "lee@x", id="k3"),
    _edge("Knows", "cy@x", "ann@x", id="k4", since=4),
    _edge("Works", "ann@x", "acme", id="w1", role="boss"),
    _edge("Works", "lee@x", "acme", id="w2", role="clerk"),
    _edge("About", "n", "ann@x", id="a1"),
]


@pytest.fixture
def people(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(SCHEMA)
    graph.load(PEOPLE, mode="append")
    return graph


def _state(graph: og.Graph, branch: str) -> dict[str, Any]:
    lines: Any = graph.export(branch=branch)
    found: dict[str, Any] = {}
    for line in lines:
        data = {name: value for name, value in line["data"].items() if value is not None}
        ends = (line.get("from"), line.get("to"))
        found[data.pop("id")] = data if "type" in line else (*ends, data)
    return found


def test_a_proposal_is_one_commit_on_a_branch(people: og.Graph) -> None:
    before = _state(people, "main")
    found = resolve(people, RULES)
    assert found.pairs.to_pylist() == [
        {"left": "ann@x", "right": "lee@x", "score": 1.0, "name_edit": 1.0, "city_normalised": 1.0}
    ]
    assert found.clusters.to_pylist() == [
        {"cluster": 0, "id": "ann@x", "survivor": "ann@x"},
        {"cluster": 0, "id": "lee@x", "survivor": "ann@x"},
    ]
    checked = propose(people, found, branch="same", dry_run=True)
    assert checked.dry_run
    assert people.branches.list() == ["main"]
    report = propose(people, found, branch="same", actor="ann")
    commit = people.commits.head("same")
    assert (commit.graph_commit_id, commit.actor_id) == (report.commit, "ann")
    assert commit.parent_commit_id == found.commit
    assert commit.message == "resolve: merge 1 Person node into others that are the same"
    after = _state(people, "same")
    vector = before["lee@x"].get("bio_vector")
    assert after["ann@x"].pop("bio_vector", None) == vector
    assert after["ann@x"] == {
        "mail": "ann@x",
        "name": "Ann Lee",
        "city": "Bonn",
        "bio": "much longer",
        "seen": 19_844,
    }
    # An equal edge that was there before stays; edges without @unique are all kept.
    assert {name: after.get(name) for name in ("k1", "k2", "k3", "k4", "w1", "w2", "a1")} == {
        "k1": ("ann@x", "bob@x", {"since": 1}),
        "k2": None,
        "k3": None,
        "k4": ("cy@x", "ann@x", {"since": 4}),
        "w1": ("ann@x", "acme", {"role": "boss"}),
        "w2": ("ann@x", "acme", {"role": "clerk"}),
        "a1": ("n", "ann@x", {}),
    }
    assert "lee@x" not in after
    assert _state(people, "main") == before
    assert report.edges == {
        "Knows": {"redirected": 0, "collapsed": 1, "loops": 1},
        "Works": {"redirected": 1, "collapsed": 0, "loops": 0},
    }
    people.branches.merge("same", "main")
    assert resolve(people, RULES).plan.is_empty


def test_a_proposal_is_made_once(people: og.Graph) -> None:
    found = resolve(people, RULES)
    first = propose(people, found, branch="same")
    people.load([_person("dee@x", "Dee")], mode="append", branch="same")
    again = propose(people, resolve(people, RULES), branch="same")
    assert (again.commit, again.repeated) == (first.commit, True)
    other = propose(people, found, branch="other", operation_id="mine")
    assert propose(people, found, branch="other", operation_id="mine").commit == other.commit
    assert people.branches.list() == ["main", "other", "same"]


def test_a_branch_that_moved_is_not_written_to(people: og.Graph) -> None:
    found = resolve(people, RULES)
    people.load([_person("dee@x", "Dee")], mode="append")
    with pytest.raises(ConflictError) as raised:
        propose(people, found, branch="main")
    assert "is not in the state that was looked at" in raised.value.message
    assert propose(people, resolve(people, RULES), branch="main").commit is not None
    assert "lee@x" not in _state(people, "main")


def test_nodes_without_a_key_are_known_by_their_ids(new_graph: NewGraph) -> None:
    graph = new_graph("node N { t: String  at: I32? }\nedge E: N -> N")
    rows: list[dict[str, Any]] = [
        {"type": "N", "data": {"id": name, "t": text, "at": at}}
        for name, text, at in [("1", "x", 1), ("2", "X!", 3), ("3", "x", None), ("4", "y", 9)]
    ]
    loops = [_edge("E", "1", "2", id="gone"), _edge("E", "3", "3", id="own")]
    graph.load([*rows, *loops], mode="append")
    rules = Rules(
        type="N",
        blocks=[Key("t", by="normalised")],
        compare=[Comparison("t", by="normalised")],
        threshold=1.0,
        survivor="newest",
        newest_by="at",
    )
    propose(graph, resolve(graph, rules), branch="same")
    after = _state(graph, "same")
    assert after == {
        "2": {"t": "X!", "at": 3},
        "4": {"t": "y", "at": 9},
        "own": ("2", "2", {}),
    }


def test_large_blocks_and_clusters_are_reported(new_graph: NewGraph) -> None:
    graph = new_graph("node N { id_: String @key  t: String  kind: String }")
    rows = [("a1", "x"), ("a2", "x"), ("a3", "x"), ("b1", "y"), ("b2", "y")]
    graph.load(
        [{"type": "N", "data": {"id_": n, "t": t, "kind": "k"}} for n, t in rows], mode="append"
    )
    rules = Rules(
        type="N",
        blocks=[Key("t"), Key("kind")],
        compare=[Comparison("t")],
        threshold=1.0,
        block_nodes_max=4,
        cluster_nodes_max=2,
    )
    found = resolve(graph, rules)
    assert found.skipped.to_pylist() == [{"block": 1, "key": "k", "nodes": 5}]
    report = found.report()
    assert (report.clusters, report.clusters_too_large, report.merged) == (2, 1, 1)
    assert report.largest_clusters == ({"nodes": 3, "lowest_id": "a1"},)
    survivors = {row["id"]: row["survivor"] for row in found.clusters.to_pylist()}
    assert survivors == {"a1": None, "a2": None, "a3": None, "b1": "b1", "b2": "b1"}


def test_a_merged_state_that_breaks_a_rule_is_refused(new_graph: NewGraph) -> None:
    graph = new_graph("node N { t: String @key }\nedge E: N -> N @card(0..1)")
    names = ["a x", "a-x", "b", "c"]
    graph.load(
        [
            *({"type": "N", "data": {"t": name}} for name in names),
            _edge("E", "a x", "b"),
            _edge("E", "a-x", "c"),
        ],
        mode="append",
    )
    rules = Rules(
        type="N",
        blocks=[Key("t", by="normalised")],
        compare=[Comparison("t", by="normalised")],
        threshold=1.0,
    )
    found = resolve(graph, rules)
    for dry_run in (True, False):
        with pytest.raises(DataError):
            propose(graph, found, branch="same", dry_run=dry_run)
    assert len(_state(graph, "main")) == 6


def test_an_empty_type_has_nothing_to_merge(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    found: Resolved = resolve(graph, RULES)
    assert (found.nodes, found.compared, found.pairs.num_rows) == (0, 0, 0)
    assert propose(graph, found, branch="same").commit is None
    assert graph.branches.list() == ["main"]
    with pytest.raises(NotFoundError):
        resolve(graph, RULES, branch="nowhere")
    with pytest.raises(BadRequestError, match="takes no Spark"):
        resolve(graph, RULES, engine="local", master="local[1]")


def test_the_command_shows_what_it_found(cli: Cli, tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load(PEOPLE, mode="append")
    (tmp_path / "rules.toml").write_text(FILE)
    args = ("resolve", "--store", "g", "--rules", "rules.toml")
    assert "--branch" in cli(*args).err
    dry = cli(*args, "--dry-run", "--out", "found")
    assert dry.code == 0
    assert dry.out.splitlines() == [
        "Person on main: 4 nodes",
        "  1 pair compared, 1 match",
        "  1 cluster, 1 node to merge",
        "  Knows: 0 edges redirected, 1 collapsed, 1 loop dropped",
        "  Works: 1 edge redirected, 0 collapsed, 0 loops dropped",
        "dry run: nothing was written",
        "clusters:",
        "  ann@x",
        "    <- lee@x  1.000",
    ]
    assert pq.read_table(tmp_path / "found" / "pairs.parquet").num_rows == 1
    done = cli(*args, "--branch", "same", "--json").json
    assert (done["merged"], done["proposed_on"], done["repeated"]) == (1, "same", False)
    assert cli(*args, "--branch", "same", "--json").json["repeated"] is True
    (tmp_path / "rules.toml").write_text(FILE.replace("0.85", "85"))
    wrong = cli(*args, "--dry-run")
    assert (wrong.code, "at most 1, not 85" in wrong.err) == (1, True)
    (tmp_path / "rules.toml").write_text(FILE.replace('"city"', '"cty"'))
    wrong = cli(*args, "--dry-run")
    assert (wrong.code, "did you mean 'city'?" in wrong.err) == (1, True)
    assert cli("resolve", "--store", "g", "--rules", "nowhere.toml", "--dry-run").code == 3
    assert cli("resolve", "g", "--rules", "nowhere.toml", "--dry-run").code == 3


PIPELINE = """
branch = "in-{run}"
[resolve]
rules = "rules.toml"
[then]
merge = "main"
delete_branch = true
[[Person]]
data = "people.csv"
"""


def test_a_pipeline_merges_what_it_loaded(new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph(SCHEMA)
    (tmp_path / "rules.toml").write_text(FILE)
    (tmp_path / "in.toml").write_text(PIPELINE)
    (tmp_path / "people.csv").write_text("mail,name,city\nann@x,Ann Lee,Bonn\nlee@x,ann lee,bonn\n")
    pipeline = read_pipeline(tmp_path / "in.toml")
    report = run_pipeline(graph, pipeline, run_id="one")
    steps = {step.name: (str(step.outcome), step.detail) for step in report.steps}
    assert [*steps] == ["load", "resolve", "merge", "delete_branch"]
    assert steps["resolve"] == ("done", "1 Person node merged on branch in-one")
    assert sorted(_state(graph, "main")) == ["ann@x"]
    again = run_pipeline(graph, pipeline, run_id="one")
    assert {str(step.outcome) for step in again.steps} == {"done_before"}
    # The loaded node that was merged comes back with the same input, and is merged again.
    assert run_pipeline(graph, pipeline, run_id="two").ok
    assert sorted(_state(graph, "main")) == ["ann@x"]


def test_a_pipeline_proposes_on_a_branch_of_its_own(new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph(SCHEMA)
    (tmp_path / "rules.toml").write_text(FILE)
    inline = '[resolve]\nbranch = "same-{run}"\n' + FILE
    text = inline + '[[Person]]\ndata = "people.csv"\n'
    (tmp_path / "in.toml").write_text(text)
    (tmp_path / "people.csv").write_text("mail,name,city\nann@x,Ann Lee,Bonn\nlee@x,ann lee,bonn\n")
    for outcome in ("done", "done_before"):
        report = run_pipeline(graph, read_pipeline(tmp_path / "in.toml"), run_id="one")
        assert [str(step.outcome) for step in report.steps][1] == outcome
    assert sorted(_state(graph, "main")) == ["ann@x", "lee@x"]
    assert sorted(_state(graph, "same-one")) == ["ann@x"]
    (tmp_path / "in.toml").write_text(text.replace('branch = "same-{run}"\n', ""))
    with pytest.raises(BadRequestError, match="would write to main"):
        read_pipeline(tmp_path / "in.toml")
    (tmp_path / "in.toml").write_text(text.replace("0.85", "2"))
    with pytest.raises(BadRequestError, match="at most 1, not 2"):
        read_pipeline(tmp_path / "in.toml")

"""History: commits, their chain, and the graph as it was at any of them."""

from __future__ import annotations

import contextlib
import datetime
import itertools

import pytest

import omnigraph as og
from omnigraph.ids import is_ulid
from tests.integration.helpers import edge, load, node, pins, rows, run


@pytest.fixture
def story(graph: og.Graph) -> og.Graph:
    """Version 1 is empty; then a load, an insert, an update and a delete."""
    graph.load(
        [
            node("Person", name="a", age=1),
            node("Person", name="b"),
            edge("Knows", "a", "b", id="e"),
        ],
        mode="append",
        actor="ann",
    )
    graph.mutate('query q() { insert Person { name: "c" } }', actor="bob")
    graph.mutate('query q() { update Person set { age: 2 } where name = "a" }', actor="ann")
    graph.mutate('query q() { delete Person where name = "b" }')
    return graph


AT = {
    1: {},
    2: {"a": {"name": "a", "age": 1}, "b": {"name": "b"}},
    3: {"a": {"name": "a", "age": 1}, "b": {"name": "b"}, "c": {"name": "c"}},
    4: {"a": {"name": "a", "age": 2}, "b": {"name": "b"}, "c": {"name": "c"}},
    5: {"a": {"name": "a", "age": 2}, "c": {"name": "c"}},
}


# ---- commits ------------------------------------------------------------------------------


def test_commits_are_listed_newest_first_as_one_chain(story: og.Graph) -> None:
    found = story.commits.list()
    assert [item.kind for item in found] == ["mutation", "mutation", "mutation", "load", "init"]
    assert [item.manifest_version for item in found] == [5, 4, 3, 2, 1]
    for child, parent in itertools.pairwise(found):
        assert child.parent_commit_id == parent.graph_commit_id
        assert child.graph_commit_id > parent.graph_commit_id
    assert found[-1].parent_commit_id is None
    assert {item.merged_parent_commit_id for item in found} == {None}
    assert all(is_ulid(item.graph_commit_id) for item in found)


def test_head_and_get_return_the_same_commit(story: og.Graph) -> None:
    newest = story.commits.head()
    assert newest == story.commits.list()[0]
    for item in story.commits.list():
        assert story.commits.get(item.graph_commit_id) == item
    with pytest.raises(og.NotFoundError, match="'nope' is not a branch, tag, commit id or version"):
        story.commits.get("nope")


def test_commits_are_filtered_by_actor_and_cut(story: og.Graph) -> None:
    versions = [item.manifest_version for item in story.commits.list(actor="ann")]
    assert versions == [4, 2]
    assert [item.manifest_version for item in story.commits.list(limit=2)] == [5, 4]
    assert [item.manifest_version for item in story.commits.list(actor="ann", limit=1)] == [4]
    assert story.commits.list(actor="nobody") == []
    assert story.commits.list(limit=0) == []


def test_commits_are_filtered_by_time(story: og.Graph) -> None:
    second = story.commits.list()[-2]
    since = [item.manifest_version for item in story.commits.list(since=second.created_at)]
    until = [item.manifest_version for item in story.commits.list(until=second.created_at)]
    assert since == [5, 4, 3, 2]
    assert until == [2, 1]
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    assert story.commits.list(since=later) == []


def test_a_time_without_a_zone_is_utc_or_refused(story: og.Graph) -> None:
    naive = datetime.datetime(2020, 1, 1)
    with contextlib.suppress(og.BadRequestError):
        assert len(story.commits.list(since=naive)) == 5


def test_a_commit_knows_when_and_on_the_wire(story: og.Graph) -> None:
    newest = story.commits.head()
    age = datetime.datetime.now(datetime.UTC) - newest.created_at
    assert datetime.timedelta(0) <= age < datetime.timedelta(hours=1)
    assert newest.to_json()["created_at"] == newest.created_at_us
    assert newest.to_json()["graph_commit_id"] == newest.graph_commit_id


def test_another_branch_has_no_history(story: og.Graph) -> None:
    for call in (story.commits.list, story.commits.head):
        with pytest.raises(og.NotFoundError, match="branch 'x' does not exist"):
            call("x")


# ---- time travel --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_every_version_reads_as_it_was(story: og.Graph, version: int) -> None:
    assert rows(story, "Person", version=version) == AT[version]
    snapshot = story.snapshot(version=version)
    assert snapshot.version == version
    assert snapshot.tables["node:Person"].row_count == len(AT[version])
    assert snapshot.commit.manifest_version == version
    by_commit = story.snapshot(commit=snapshot.commit.graph_commit_id)
    assert by_commit == snapshot


def test_every_version_reads_the_same_from_a_cold_handle(story: og.Graph) -> None:
    with og.open(story.uri, mode="ro") as cold:
        for version, expected in AT.items():
            assert rows(cold, "Person", version=version) == expected
            assert cold.snapshot(version=version) == story.snapshot(version=version)


@pytest.mark.parametrize("version", [0, -1, 6, 10**9])
def test_an_unknown_version_is_not_found(story: og.Graph, version: int) -> None:
    with pytest.raises(og.NotFoundError, match=f"graph version {version} does not exist"):
        story.snapshot(version=version)
    with pytest.raises(og.NotFoundError):
        story.entity_at("node:Person", "a", version=version)


def test_a_snapshot_never_moves(story: og.Graph) -> None:
    held = story.snapshot()
    before = (held.version, dict(held.tables), held.commit)
    load(story, [node("Person", name="z")])
    assert (held.version, dict(held.tables), held.commit) == before
    assert story.snapshot().version == held.version + 1


def test_a_snapshot_names_every_table_in_order(story: og.Graph) -> None:
    found = story.snapshot()
    keys = ["edge:Knows", "edge:Wrote", "node:Paper", "node:Person"]
    assert list(found.tables) == keys
    wire = found.to_json()
    assert isinstance(wire["tables"], list)
    assert [item["table_key"] for item in wire["tables"]] == keys
    assert wire["internal_schema_version"] == og.INTERNAL_SCHEMA_VERSION
    assert wire["manifest_version"] == 5


def test_an_entity_is_read_before_and_after_each_change(story: og.Graph) -> None:
    def person(name: str, version: int) -> object:
        found = story.entity_at("node:Person", name, version=version)
        return None if found is None else found["data"]

    assert person("a", 1) is None
    assert person("a", 3) == {"id": "a", "age": 1, "mail": None, "name": "a"}
    assert person("a", 4) == {"id": "a", "age": 2, "mail": None, "name": "a"}
    assert person("b", 4) is not None
    assert person("b", 5) is None
    assert person("nobody", 5) is None


def test_an_edge_is_read_with_its_ends(story: og.Graph) -> None:
    assert story.entity_at("edge:Knows", "e", version=2) == {
        "edge": "Knows",
        "from": "a",
        "to": "b",
        "data": {"id": "e", "since": None, "weight": 1.0},
    }
    assert story.entity_at("edge:Knows", "e", version=5) is None


def test_an_unknown_table_is_not_found(story: og.Graph) -> None:
    for key in ("node:Nobody", "Person", ""):
        with pytest.raises(og.NotFoundError, match="no table"):
            story.entity_at(key, "a", version=2)


# ---- two handles --------------------------------------------------------------------------


def test_another_handle_sees_a_commit_without_refresh(graph: og.Graph) -> None:
    with og.open(graph.uri, mode="ro") as reader:
        run(graph, 'insert Person { name: "a" }')
        assert rows(reader, "Person") == {"a": {"name": "a"}}
        assert reader.commits.head() == graph.commits.head()


def test_a_stale_insert_is_prepared_again_and_the_chain_stays_linear(graph: og.Graph) -> None:
    with og.open(graph.uri, durability="none") as other:
        run(graph, 'insert Person { name: "a" }')
        run(other, 'insert Person { name: "b" }')
        run(graph, 'insert Person { name: "c" }')
        assert set(rows(other, "Person")) == {"a", "b", "c"}
        found = other.commits.list()
    parents = [item.parent_commit_id for item in found]
    assert parents == [item.graph_commit_id for item in found[1:]] + [None]


def test_a_strict_update_on_a_stale_handle_fails_until_it_syncs(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a")])
    with og.open(graph.uri, durability="none") as other:
        run(graph, 'insert Person { name: "b" }')
        for body in (
            'update Person set { age: 1 } where name = "a"',
            'delete Person where name = "a"',
        ):
            with pytest.raises(og.VersionConflictError) as refused:
                run(other, body)
            assert refused.value.table_key == "node:Person"
            assert refused.value.retryable
        with pytest.raises(og.VersionConflictError):
            other.load([node("Person", name="z")], mode="overwrite")
        other.refresh("main")
        run(other, 'update Person set { age: 1 } where name = "a"')
        assert rows(graph, "Person")["a"]["age"] == 1


def test_a_strict_write_ignores_moves_of_other_tables(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a")])
    with og.open(graph.uri, durability="none") as other:
        run(graph, 'insert Paper { title: "t" }')
        run(other, 'update Person set { age: 1 } where name = "a"')
        assert pins(other)["node:Person"] == 3

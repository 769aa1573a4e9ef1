"""Branches: making, listing, reading, writing and deleting them, alone and behind one's back."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import lance
import pytest

import omnigraph as og
from omnigraph.commits import branches as directory
from omnigraph.failpoints import Failpoint, armed
from omnigraph.ops import compact_tail as fold
from omnigraph.store import delete_branch
from omnigraph.store.tables import compaction as maintenance
from tests.integration.helpers import NewGraph, files
from tests.integration.merging import SCHEMA, drop, link, pins, put, state
from tests.places import dataset


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    put(found, "main", a=1, b=1)
    link(found, "main", "ab", "a", "b")
    return found


def slots(graph: og.Graph) -> list[str]:
    folder = os.path.join(graph.uri, "__recovery")
    return os.listdir(folder) if os.path.isdir(folder) else []


# ---- names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["dev", "x/y/z", "2024", "v1.2-rc_3", "ü/日本", "tree/data", "a" * 128, "01J" + "0" * 23],
)
def test_a_good_name_can_be_used_for_everything(graph: og.Graph, name: str) -> None:
    made = graph.branches.create(name)
    assert (made.name, made.parent) == (name, "main")
    assert graph.branches.exists(name)
    put(graph, name, c=3)
    graph.branches.create("child", from_=name)
    assert state(graph, "child") == state(graph, name)
    with og.open(graph.uri, durability="none") as other:
        assert other.branches.list() == graph.branches.list()
        assert state(other, name) == state(graph, name)
    graph.branches.delete("child")
    graph.branches.merge(name, delete_source=True)
    assert graph.branches.list() == ["main"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            "main",
            "__x",
            "_x",
            "-x",
            ".x",
            "x.",
            "a b",
            "a//b",
            "/a",
            "a/",
            "a/.b",
            "a..b",
        ),
        *("a.lock", "a/b.lock", "a@1", "a\\b", "a\nb", "a\0b", "a%2Fb", "a:b", "a*"),
        *("__schema_apply_lock__", "a" * 129, "/".join("a" * 64), "日" * 100),
    ],
)
def test_a_bad_name_is_refused(graph: og.Graph, name: str) -> None:
    before = files(graph.uri)
    with pytest.raises(og.BadRequestError):
        graph.branches.create(name)
    assert files(graph.uri) == before


@pytest.mark.parametrize("name", ["a/b", "a", "a/b/c", "main/x"])
def test_names_must_not_be_folders_of_each_other(graph: og.Graph, name: str) -> None:
    graph.branches.create("a/b")
    with pytest.raises(og.AlreadyExistsError):
        graph.branches.create(name)
    assert graph.branches.list() == ["main", "a/b"]
    graph.branches.create("a/bc")
    graph.branches.create("ab")


# ---- what a branch costs and shares -------------------------------------------------------


def test_making_a_branch_touches_the_manifest_only(graph: og.Graph) -> None:
    before = files(graph.uri)
    graph.branches.create("dev")
    after = files(graph.uri)
    assert all(after[name] == digest for name, digest in before.items())
    assert all(name.startswith("__manifest/") for name in after.keys() - before.keys())
    assert graph.commits.head("dev") == graph.commits.head()


def test_reading_a_branch_writes_nothing_and_shares_every_table(graph: og.Graph) -> None:
    graph.branches.create("dev")
    before = files(graph.uri)
    with og.open(graph.uri, mode="ro") as reader:
        assert state(reader, "dev") == state(reader)
        assert pins(reader, "dev") == pins(reader, "main")
    assert files(graph.uri) == before


def test_the_first_write_forks_only_the_table_it_touches(graph: og.Graph) -> None:
    graph.branches.create("dev")
    shared = pins(graph, "dev")
    link(graph, "dev", "ba", "b", "a")
    after = pins(graph, "dev")
    assert after["node:Item"] == shared["node:Item"]
    assert after["edge:Link"][0] != shared["edge:Link"][0]
    first = after["edge:Link"][0]
    link(graph, "dev", "bb", "b", "b")
    assert pins(graph, "dev")["edge:Link"][0] == first
    assert pins(graph, "main") == shared
    drop(graph, "dev", "a")
    assert pins(graph, "dev")["node:Item"][0] != shared["node:Item"][0]
    assert pins(graph, "main") == shared


def test_branches_do_not_see_each_other(graph: og.Graph) -> None:
    graph.branches.create("one")
    graph.branches.create("two")
    before = state(graph)
    put(graph, "one", a=10)
    put(graph, "two", a=20, c=1)
    assert state(graph) == before
    assert state(graph, "one") != state(graph, "two")
    found = graph.query("query q() { match { $i: Item } return { $i.slug } }", branch="two")
    assert len(found) == 3


def test_a_branch_of_a_branch_inherits_its_state(graph: og.Graph) -> None:
    graph.branches.create("one")
    put(graph, "one", c=1)
    made = graph.branches.create("two", from_="one")
    assert made.parent is not None
    assert made.parent.startswith("one.")
    put(graph, "two", d=1)
    put(graph, "one", c=2)
    assert set(state(graph, "two")) - set(state(graph)) == {("Item", "c"), ("Item", "d")}
    assert [c.graph_commit_id for c in graph.commits.list("two")][2:] == [
        c.graph_commit_id for c in graph.commits.list("main")
    ]


@pytest.mark.full_only
def test_folding_a_branch_keeps_inherited_indexes_readable(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    with (
        mock.patch.object(fold, "TAIL_FRAGMENTS", 2),
        mock.patch.object(maintenance, "TIER_FRAGMENTS_MIN", 2),
    ):
        parent = "main"
        for depth in range(4):
            for number in range(5):
                put(graph, parent, **{f"x{depth}{number}": 1, f"x{number}": depth})
            child = f"b{depth}"
            graph.branches.create(child, from_=parent)
            parent = child
        with og.open(graph.uri, durability="none") as cold:
            for branch in cold.branches.list():
                for slug in [f"x{n}" for n in range(5)]:
                    put(cold, branch, **{slug: 7})
                kinds = {c.kind for c in cold.commits.list(branch)}
                assert "optimize" in kinds


# ---- where a branch may start -------------------------------------------------------------


def test_a_branch_starts_from_any_state(graph: og.Graph) -> None:
    states = {graph.snapshot().version: state(graph)}
    for number in range(3):
        put(graph, "main", a=10 + number)
        states[graph.snapshot().version] = state(graph)
    commits = {c.manifest_version: c.graph_commit_id for c in graph.commits.list()}
    middle = sorted(states)[1]
    starts: list[str | int] = [commits[middle], middle, str(middle), f"main@{middle}", "then"]
    graph.tags.create("then", version=middle)
    for number, from_ in enumerate(starts):
        graph.branches.create(f"b{number}", from_=from_)
        assert state(graph, f"b{number}") == states[middle], from_
        put(graph, f"b{number}", own=number)
    assert state(graph) == states[max(states)]


def test_a_branch_starts_from_a_state_its_parent_inherited(graph: og.Graph) -> None:
    old = graph.snapshot().version
    wanted = state(graph)
    put(graph, "main", a=5)
    graph.branches.create("dev")
    put(graph, "dev", a=6)
    made = graph.branches.create("early", from_=f"dev@{old}")
    assert state(graph, "early") == wanted
    assert made.parent == "main"
    graph.branches.delete("dev")
    put(graph, "early", z=1)
    assert ("Item", "z") in state(graph, "early")


@pytest.mark.parametrize("from_", ["nope", "01J" + "0" * 23, "main@99", "nope@1", 99, 0, -1])
def test_a_start_that_does_not_exist_is_refused(graph: og.Graph, from_: str | int) -> None:
    with pytest.raises(og.NotFoundError):
        graph.branches.create("dev", from_=from_)
    assert graph.branches.list() == ["main"]


def test_loading_makes_the_branch_it_names(graph: og.Graph) -> None:
    rows = [{"type": "Item", "data": {"slug": "n"}}]
    found = graph.load(rows, mode="append", branch="new", create_from="main")
    assert (found.branch_created, found.base_branch, found.branch) == (True, "main", "new")
    rows = [{"type": "Item", "data": {"slug": "m"}}]
    again = graph.load(rows, mode="append", branch="new", create_from="main")
    assert not again.branch_created
    assert {("Item", "n"), ("Item", "m")} <= set(state(graph, "new"))
    with pytest.raises(og.NotFoundError):
        graph.load(rows, mode="append", branch="other")
    graph.load(rows, mode="merge", branch="other", create_from="main", dry_run=True)
    assert graph.branches.list() == ["main", "new"]


# ---- time travel --------------------------------------------------------------------------


def test_time_travel_on_a_branch_reaches_before_its_fork(graph: og.Graph) -> None:
    seen: dict[int, dict[tuple[str, str], str]] = {graph.snapshot().version: state(graph)}
    stamps = {graph.snapshot().version: graph.commits.head().created_at}
    put(graph, "main", a=2)
    graph.branches.create("dev")
    put(graph, "main", a=99)
    for number in range(3):
        put(graph, "dev", a=100 + number)
        head = graph.commits.head("dev")
        seen[head.manifest_version] = state(graph, "dev")
        stamps[head.manifest_version] = head.created_at
    with og.open(graph.uri, mode="ro") as cold:
        for handle in (graph, cold):
            for version, wanted in seen.items():
                assert state(handle, "dev", version=version) == wanted
                assert state(handle, "dev", timestamp=stamps[version]) == wanted
                commit = handle.snapshot("dev", version=version).commit.graph_commit_id
                assert state(handle, "main", commit=commit) == wanted
            newest = max(seen)
            found = handle.entity_at("node:Item", "a", version=newest, branch="dev")
            assert found is not None
            for bad in (0, newest + 1):
                with pytest.raises(og.NotFoundError):
                    handle.snapshot("dev", version=bad)
            with pytest.raises(og.NotFoundError):
                handle.snapshot("dev", timestamp=datetime.datetime(2000, 1, 1))
            with pytest.raises(og.BadRequestError):
                handle.snapshot("dev", version=1, tag="x")


def test_a_snapshot_stays_while_its_branch_moves(graph: og.Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", a=5)
    kept = graph.snapshot("dev")
    wanted = state(graph, "dev")
    put(graph, "dev", a=6)
    assert state(graph, "dev", version=kept.version) == wanted


# ---- deleting -----------------------------------------------------------------------------


def test_a_branch_nobody_wrote_to_goes_at_once(graph: og.Graph) -> None:
    before = files(graph.uri)
    graph.branches.create("dev")
    graph.branches.delete("dev")
    assert graph.branches.list() == ["main"]
    assert files(graph.uri) == before


def test_cleanup_takes_a_deleted_branch_and_its_own_tables(graph: og.Graph) -> None:
    before = files(graph.uri)
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    link(graph, "dev", "ca", "c", "a")
    graph.branches.delete("dev")
    assert graph.branches.list() == ["main"]
    assert slots(graph) == []
    planned = graph.cleanup(keep=100)
    assert files(graph.uri) != before
    done = graph.cleanup(keep=100, dry_run=False)
    assert files(graph.uri) == before
    assert done.bytes == planned.bytes > 0
    assert sum(item.forks_removed for item in done.tables) == 2


def test_what_cannot_be_deleted(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError):
        graph.branches.delete("main")
    with pytest.raises(og.NotFoundError):
        graph.branches.delete("nope")
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    graph.branches.create("child", from_="dev")
    with pytest.raises(og.ConflictError, match="child"):
        graph.branches.delete("dev")
    graph.branches.delete("child")
    graph.tags.create("t", branch="dev")
    with pytest.raises(og.ConflictError, match="carries tags: t"):
        graph.branches.delete("dev")
    graph.tags.delete("t")
    graph.branches.delete("dev")


def test_a_branch_nobody_wrote_to_whose_child_was_merged_can_be_deleted(graph: og.Graph) -> None:
    before = graph.branches.list()
    graph.branches.create("dev")
    graph.branches.create("child", from_="dev")
    put(graph, "child", c=1)
    graph.branches.merge("child", delete_source=True)
    graph.branches.delete("dev")
    assert graph.branches.list() == before
    graph.cleanup(keep=100, dry_run=False)
    assert graph._engine.lines.directory.retired() == []
    assert ("Item", "c") in state(graph)


def test_a_name_is_free_again_before_any_cleanup(graph: og.Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    graph.branches.delete("dev")
    assert graph.branches.list() == ["main"]
    graph.branches.create("dev")
    put(graph, "dev", d=1)
    assert ("Item", "c") not in state(graph, "dev")


def test_merged_rows_outlive_their_branch(graph: og.Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    link(graph, "dev", "ca", "c", "a")
    wanted = state(graph, "dev")
    graph.branches.merge("dev", delete_source=True)
    with og.open(graph.uri, mode="ro") as cold:
        assert state(cold) == wanted


# ---- behind one's back --------------------------------------------------------------------

USES: dict[str, Callable[[og.Graph], object]] = {
    "read": lambda g: state(g, "dev"),
    "query": lambda g: g.query("query q() { match { $i: Item } return { $i.v } }", branch="dev"),
    "snapshot": lambda g: g.snapshot("dev"),
    "history": lambda g: g.commits.list("dev"),
    "head": lambda g: g.commits.head("dev"),
    "refresh": lambda g: g.refresh("dev"),
    "write": lambda g: put(g, "dev", z=1),
    "merge from": lambda g: g.branches.merge("dev"),
    "merge into": lambda g: g.branches.merge("main", "dev"),
    "plan": lambda g: g.branches.merge_plan("dev"),
    "branch": lambda g: g.branches.create("other", from_="dev"),
    "tag": lambda g: g.tags.create("t", branch="dev"),
    "delete": lambda g: g.branches.delete("dev"),
}


@pytest.mark.parametrize("use", USES)
def test_a_branch_another_handle_deleted_is_not_found(graph: og.Graph, use: str) -> None:
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    state(graph, "dev")
    with og.open(graph.uri, durability="none") as other:
        other.branches.delete("dev")
    with pytest.raises(og.NotFoundError):
        USES[use](graph)
    assert graph.branches.list() == ["main"]
    graph.refresh()


def test_a_commit_of_a_deleted_branch_is_not_found(graph: og.Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    commit = graph.commits.head("dev").graph_commit_id
    with og.open(graph.uri, durability="none") as other:
        other.branches.delete("dev")
    for look in (
        lambda: state(graph, commit=commit),
        lambda: graph.commits.get(commit),
        lambda: graph.branches.create("again", from_=commit),
    ):
        with pytest.raises(og.NotFoundError):
            look()


def test_a_new_branch_of_an_old_name_is_another_branch(graph: og.Graph) -> None:
    graph.branches.create("dev")
    put(graph, "dev", old=1)
    first = graph.branches.details()[1].id
    commit = graph.commits.head("dev").graph_commit_id
    with og.open(graph.uri, durability="none") as other:
        other.branches.delete("dev")
        other.branches.create("dev")
        put(other, "dev", new=1)
    assert graph.branches.details()[1].id != first
    assert ("Item", "old") not in state(graph, "dev")
    put(graph, "dev", newer=1)
    assert {("Item", "new"), ("Item", "newer")} <= set(state(graph, "dev"))
    assert commit not in {c.graph_commit_id for c in graph.commits.list("dev")}


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.WRITE_POST_CAPTURE,
        Failpoint.WRITE_POST_VALIDATE_PRE_STAGE,
        Failpoint.WRITE_POST_STAGE,
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_a_writer_never_follows_a_namesake(graph: og.Graph, point: Failpoint, again: bool) -> None:
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    with og.open(graph.uri, durability="none") as other:

        def replace() -> None:
            other.branches.delete("dev")
            if again:
                other.branches.create("dev")

        with armed(point, replace), pytest.raises(og.OmniGraphError) as error:
            put(graph, "dev", late=1)
        assert error.value.kind in ("not_found", "storage"), error.value
        if again:
            assert state(other, "dev") == state(other)
            assert graph.commits.head("dev") == graph.commits.head()
        assert slots(graph) == []
    put(graph, "main", fine=1)


def test_a_delete_waits_for_the_write_that_holds_the_branch(graph: og.Graph) -> None:
    """The writer is past its last look: the deletion comes after its commit."""
    graph.branches.create("dev")
    script = (
        "import sys, omnigraph as og\n"
        "with og.open(sys.argv[1], durability='none') as g: g.branches.delete('dev')\n"
    )
    started: list[subprocess.Popen[bytes]] = []

    def delete() -> None:
        command = [sys.executable, "-c", script, graph.uri]
        started.append(subprocess.Popen(command))  # noqa: S603 - our own script

    with armed(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT, delete):
        put(graph, "dev", c=1)
    assert started[0].wait(timeout=60) == 0
    assert graph.branches.list() == ["main"]


def test_a_read_only_handle_changes_nothing(graph: og.Graph) -> None:
    graph.branches.create("dev")
    before = files(graph.uri)
    with og.open(graph.uri, mode="ro") as reader:
        for change in (
            lambda: reader.branches.create("x"),
            lambda: reader.branches.delete("dev"),
            lambda: reader.branches.merge("dev"),
            lambda: reader.tags.create("t"),
            lambda: reader.tags.delete("t"),
            lambda: put(reader, "dev", c=1),
        ):
            with pytest.raises(og.BadRequestError):
                change()
        assert reader.branches.list() == ["main", "dev"]
    assert files(graph.uri) == before


# ---- tags ---------------------------------------------------------------------------------


def test_tags_name_states_for_good(graph: og.Graph) -> None:
    graph.branches.create("dev")
    wanted = {"first": state(graph)}
    graph.tags.create("first")
    put(graph, "dev", c=1)
    wanted["second"] = state(graph, "dev")
    graph.tags.create("second", branch="dev")
    head = graph.commits.head("dev")
    graph.tags.create("third", commit=head.graph_commit_id)
    graph.tags.create("fourth", timestamp=head.created_at, branch="dev")
    wanted["third"] = wanted["fourth"] = wanted["second"]
    put(graph, "dev", c=2)
    put(graph, "main", c=3)
    with og.open(graph.uri, mode="ro") as cold:
        for handle in (graph, cold):
            assert [tag.name for tag in handle.tags.list()] == [
                "first",
                "fourth",
                "second",
                "third",
            ]
            for name, found in wanted.items():
                assert state(handle, None, tag=name) == found  # type: ignore[arg-type]
    assert graph.tags.list()[2].to_json()["branch"] == "dev"


@pytest.mark.parametrize(
    "name", ["", "a/b", "main", "omnigraph_x", "a b", "..", "x.lock", "_x", "\xfc", "v1-\u65e5"]
)
def test_a_bad_tag_name_is_refused(graph: og.Graph, name: str) -> None:
    with pytest.raises(og.BadRequestError):
        graph.tags.create(name)
    assert graph.tags.list() == []


def test_a_tag_that_cannot_be_listed_can_be_deleted(graph: og.Graph) -> None:
    """Earlier releases made them, and from then on no tag was found and no branch deleted."""
    lance.dataset(f"{graph.uri}/__manifest").tags.create("\xfc", 1)
    with pytest.raises(og.OmniGraphError):
        graph.tags.list()
    graph.tags.delete("\xfc")
    assert graph.tags.list() == []
    with pytest.raises(og.NotFoundError):
        graph.tags.delete("\xfc")


def test_a_tag_is_made_once(graph: og.Graph) -> None:
    graph.tags.create("t")
    with pytest.raises(og.AlreadyExistsError):
        graph.tags.create("t", version=1)
    graph.tags.delete("t")
    with pytest.raises(og.NotFoundError):
        graph.tags.delete("t")
    with pytest.raises(og.NotFoundError):
        graph.snapshot(tag="t")
    with pytest.raises(og.NotFoundError):
        graph.tags.create("t", branch="nope")
    with pytest.raises(og.NotFoundError):
        graph.tags.create("t", version=99)


def test_a_tag_on_an_inherited_state_rests_on_the_parent(graph: og.Graph) -> None:
    version = graph.snapshot().version
    put(graph, "main", a=3)
    graph.branches.create("dev")
    tag = graph.tags.create("t", branch="dev", version=version)
    assert tag.branch.name == "main"
    graph.branches.delete("dev")
    assert graph.snapshot(tag="t").version == version


@pytest.mark.parametrize("ref_goes", [True, False])
def test_a_branch_without_its_ref_is_deleted_whatever_its_folder_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref_goes: bool
) -> None:
    graph = og.init(tmp_path / "busy", "node P { k: String @key }", durability="none")
    graph.branches.create("dev")
    inner = delete_branch

    def busy(files: Any, root: str, name: str) -> None:
        if ref_goes:
            inner(files, root, name)
        raise og.StorageError("the folder is not empty")

    monkeypatch.setattr(directory, "delete_branch", busy)
    if ref_goes:
        graph.branches.delete("dev")
        assert graph.branches.list() == ["main"]
    else:
        with pytest.raises(og.StorageError, match="not empty"):
            graph.branches.delete("dev")
        assert graph.branches.list() == ["main", "dev"]
    graph.close()


def test_a_refused_first_write_leaves_nothing(graph: og.Graph) -> None:
    """A table's line of versions is begun before it is known whether the write is good."""
    graph.branches.create("dev")
    before = files(graph.uri)
    with pytest.raises(og.DataError, match="not found"):
        link(graph, "dev", "new", "a", "nobody")
    assert files(graph.uri) == before
    link(graph, "dev", "new", "a", "b")
    assert "new" in str(state(graph, "dev"))


def test_what_vanished_while_its_owner_was_stopped_is_a_conflict(new_graph: NewGraph) -> None:
    """An owner that was out for longer than its lease may find branches gone that it listed."""
    graph = new_graph(SCHEMA)
    directory = graph._engine.lines.directory
    with pytest.raises(og.NotFoundError), directory.control():
        directory.find("gone")

    class Lapsed:
        lapsed = True

        def __init__(self, slot: Any) -> None:
            self.remove, self.__slot = slot.remove, slot

        def __enter__(self) -> Lapsed:
            self.__slot.__enter__()
            return self

        def __exit__(self, *error: object) -> None:
            self.__slot.__exit__(*error)

    take = directory._slots.take
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory._slots, "take", lambda name, body: Lapsed(take(name, body)))
        stopped = pytest.raises(og.ConflictError, match="it went while this was stopped")
        with stopped, directory.control():
            directory.find("gone")
    graph.branches.create("after")


def test_a_branch_in_sight_is_never_removed_for_good(graph: og.Graph) -> None:
    """Whoever purges found it out of sight earlier; its maker may have finished it since."""
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    found = state(graph, "dev")
    directory = graph._engine.lines.directory
    with directory.control():
        directory.purge([directory.find("dev")])
    assert state(graph, "dev") == found


def test_a_first_write_whose_own_table_was_taken_for_left_behind_is_made_again(
    graph: og.Graph,
) -> None:
    graph.branches.create("dev")
    root = graph.snapshot().tables["node:Item"].path

    def overtake() -> None:
        with og.open(graph.uri, durability="none") as other:
            link(other, "dev", "ba", "b", "a")
        table = dataset(f"{graph.uri}/{root}")
        (unpublished,) = [name for name in table.branches.list() if name.startswith("dev.")]
        table.branches.delete(unpublished)

    with armed(Failpoint.WRITE_POST_STAGE, overtake):
        put(graph, "dev", c=1)
    assert {"a", "b", "c", "ab", "ba"} == {name for _type, name in state(graph, "dev")}
    assert slots(graph) == []

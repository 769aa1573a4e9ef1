"""Maintenance beside branches, old handles and namesakes: nothing gets stuck, nothing mixed up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, Pause, armed
from omnigraph.ops import cleanup
from omnigraph.store import Journal, locate
from omnigraph.store.tables import workers
from omnigraph.store.upkeep import reclaim
from tests.places import AnyPath, dataset, names_in, remove_tree

SCHEMA = """
node P { k: String @key  v: I64? }
edge K: P -> P
"""
ADD = "query add($k: String, $v: I64) { insert P { k: $k, v: $v } }"
SET = "query set_v($k: String, $v: I64) { update P set { v: $v } where k = $k }"
DROP = "query drop($v: I64) { delete P where v < $v }"
ALL = "query all() { match { $p: P } return { $p.k as k, $p.v as v } }"
ONE = "query one($k: String) { match { $p: P { k: $k } } return { $p.v as v } }"


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    return place / "g"


@pytest.fixture
def graph(root: AnyPath) -> Iterator[og.Graph]:
    with og.init(root, SCHEMA, durability="none") as found:
        for number in range(10):
            found.mutate(ADD, {"k": f"k{number}", "v": number})
        yield found


def values(graph: og.Session, **at: object) -> dict[str, int]:
    return {row["k"]: row["v"] for row in graph.query(ALL, **at)}  # type: ignore[arg-type]


def fresh(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, durability="none")


# ---- an optimized branch can be written to --------------------------------------------------


def test_an_optimized_branch_is_written_to(graph: og.Graph) -> None:
    graph.optimize()
    graph.branches.create("b")
    graph.mutate(DROP, {"v": 3}, branch="b")
    graph.optimize("b")
    for handle in (graph, fresh(graph)):
        handle.mutate(ADD, {"k": f"x{id(handle)}", "v": 1}, branch="b")
        handle.mutate(SET, {"k": "k5", "v": 50}, branch="b")
        assert [row["v"] for row in handle.query(ONE, {"k": "k5"}, branch="b")] == [50]
        handle.optimize("b")
    assert graph.branches.merge("b").outcome == "fast_forward"
    assert "k0" not in values(graph)


def test_many_small_writes_and_optimizes_on_a_branch(graph: og.Graph) -> None:
    """Segments of its indexes lie with the parent and with the branch; all are found."""
    graph.optimize()
    graph.branches.create("b")
    for number in range(12):
        graph.mutate(ADD, {"k": f"b{number}", "v": 100 + number}, branch="b")
        graph.mutate(SET, {"k": f"k{number % 10}", "v": 200}, branch="b")
        graph.optimize("b")
    with fresh(graph) as other:
        for number in range(12):
            assert len(other.query(ONE, {"k": f"b{number}"}, branch="b")) == 1
        other.mutate(ADD, {"k": "last", "v": 1}, branch="b")
        assert len(values(other, branch="b")) == 23


def test_repair_brings_back_a_branch_whose_indexes_were_lost(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier releases compacted inherited fragments, and Lance sought their index elsewhere."""
    graph.optimize()
    graph.branches.create("b")
    graph.mutate(DROP, {"v": 3}, branch="b")
    with monkeypatch.context() as patch:
        patch.setattr(workers, "indexed_elsewhere", lambda _table: set())
        graph.optimize("b")
    with fresh(graph) as other:
        with pytest.raises(og.OmniGraphError):
            other.mutate(ADD, {"k": "x", "v": 1}, branch="b")
        (found,) = [t for t in other.repair("b").tables if t.action != "no_op"]
        assert (found.classification, found.action) == ("lost_index", "preview")
        report = other.repair("b", confirm=True)
        assert report.commit is not None
        other.mutate(ADD, {"k": "x", "v": 1}, branch="b")
        assert all(item.action == "no_op" for item in other.repair("b").tables)
    with fresh(graph) as other:
        assert set(values(other, branch="b")) == {*(f"k{n}" for n in range(3, 10)), "x"}


# ---- cleanup after branches of branches ------------------------------------------------------


@pytest.mark.parametrize("written_before", [False, True])
def test_branches_of_branches_are_cleaned_up(graph: og.Graph, written_before: bool) -> None:
    graph.branches.create("b0")
    if written_before:
        graph.mutate(ADD, {"k": "b0", "v": 0}, branch="b0")
    graph.branches.create("b1", "b0")
    graph.branches.create("b2", "b1")
    for name in ("b0", "b1", "b2"):
        graph.mutate(SET, {"k": "k1", "v": 7}, branch=name)
    for name in ("b2", "b1", "b0"):
        graph.branches.delete(name)
    for _again in range(2):
        report = graph.cleanup(keep=1, grace=0, dry_run=False)
        assert [item.error for item in report.tables if item.error] == []
    path = graph.snapshot().tables["node:P"].path
    assert names_in(f"{graph.uri}/{path}/_refs/branches") == []
    assert names_in(f"{graph.uri}/__manifest/_refs/branches") == []
    graph.mutate(ADD, {"k": "after", "v": 1})
    assert len(values(graph)) == 11


# ---- handles that looked earlier ------------------------------------------------------------


@pytest.mark.parametrize("query", [SET, DROP])
def test_a_handle_that_looked_before_maintenance_writes_on(graph: og.Graph, query: str) -> None:
    with fresh(graph) as earlier:
        assert len(values(earlier)) == 10
        graph.optimize()
        graph.cleanup(keep=1, grace=0, dry_run=False)
        earlier.mutate(query, {"k": "k1", "v": 2} if query == SET else {"v": 2})
    with fresh(graph) as late:
        assert values(late)
        graph.refresh()
        graph.mutate(SET, {"k": "k3", "v": 30})
        graph.optimize()
        graph.cleanup(keep=1, grace=0, dry_run=False)
        with pytest.raises(og.VersionConflictError):
            late.mutate(SET, {"k": "k4", "v": 40})


# ---- a state is readable, or it was reclaimed -------------------------------------------------


def test_what_a_branch_was_made_from_stays(graph: og.Graph) -> None:
    point = graph.snapshot().version
    graph.branches.create("b")
    graph.mutate(SET, {"k": "k1", "v": 100}, branch="b")
    for number in range(3):
        graph.mutate(SET, {"k": "k0", "v": number})
        graph.optimize()
    graph.cleanup(keep=1, grace=0, dry_run=False)
    for handle in (graph, fresh(graph)):
        assert len(values(handle, version=point)) == 10
        assert len(handle.diff(point, "b")) == 1
        handle.tags.create(f"t{id(handle)}", version=point)


def test_a_state_that_was_given_up_is_given_up_for_everybody(graph: og.Graph) -> None:
    newest = graph.snapshot().version
    commit = graph.commits.head().graph_commit_id
    warm = fresh(graph)
    assert len(values(warm, version=newest)) == 10
    graph.branches.create("b")
    graph.mutate(ADD, {"k": "b", "v": 1}, branch="b")
    graph.branches.delete("b")
    for number in range(3):
        graph.mutate(SET, {"k": "k0", "v": number})
    graph.optimize()
    graph.cleanup(keep=1, grace=0, dry_run=False)
    graph.cleanup(keep=1, grace=0, dry_run=False)
    for handle in (graph, warm, fresh(graph), og.open(graph.uri, mode="ro")):
        for read in (
            lambda: values(handle, version=newest),  # noqa: B023 - called at once
            lambda: values(handle, commit=commit),  # noqa: B023
            lambda: handle.snapshot(version=newest),  # noqa: B023
            lambda: list(handle.export(version=newest)),  # type: ignore[arg-type]  # noqa: B023
            lambda: handle.diff(newest, "main"),  # noqa: B023
        ):
            with pytest.raises(og.VersionReclaimedError):
                read()
    for make in (
        lambda: graph.tags.create("t", version=newest),
        lambda: graph.branches.create("again", newest),
    ):
        with pytest.raises(og.VersionReclaimedError):
            make()
    assert graph.tags.list() == []
    assert graph.branches.list() == ["main"]


def test_who_names_a_state_while_a_cleanup_begins_gets_it_or_is_told(graph: og.Graph) -> None:
    """A tag made after the floors rose: the cleanup looks again, or its maker is refused."""
    old = graph.snapshot().version
    for number in range(3):
        graph.mutate(SET, {"k": "k0", "v": number})
    with fresh(graph) as other:
        directory = other._engine.lines.directory
        capture = other._engine.lines.main.manifest.at_version(old)

        def name_it() -> None:
            # As a maker does whose control lapsed without its knowing.
            lance_tags = directory._main.view.dataset.tags
            lance_tags.create("late", capture.version)

        with armed(Failpoint.CLEANUP_POST_FLOOR, name_it):
            graph.cleanup(keep=1, grace=0, dry_run=False)
    with fresh(graph) as reader:
        assert len(values(reader, tag="late")) == 10


def test_a_merge_names_no_state_that_was_given_up_meanwhile(graph: og.Graph) -> None:
    """Later merges start from what it names: it takes the newer state of its source instead."""
    graph.branches.create("b")
    graph.mutate(ADD, {"k": "b0", "v": 0}, branch="b")
    pause = Pause()
    with armed(Failpoint.WRITE_POST_STAGE, pause):
        merge = threading.Thread(target=lambda: graph.branches.merge("b"))
        merge.start()
        assert pause.reached.wait(30)
        with fresh(graph) as other:
            for number in range(1, 4):
                other.mutate(ADD, {"k": f"b{number}", "v": number}, branch="b")
            other.optimize("b")
            other.cleanup(keep=1, grace=0, dry_run=False)
        pause.released.set()
        merge.join(60)
    assert {"b0", "b1", "b2", "b3"} <= values(graph).keys()
    graph.mutate(ADD, {"k": "b4", "v": 4}, branch="b")
    graph.mutate(ADD, {"k": "m", "v": 4})
    assert graph.branches.merge("b").outcome == "merged"
    assert {"b4", "m"} <= values(graph).keys()


# ---- panics, object ids, leftovers ------------------------------------------------------------


def test_a_type_dropped_and_added_again_has_rows_of_its_own_in_the_manifest(
    graph: og.Graph, root: AnyPath
) -> None:
    more = SCHEMA + "node Q { k: String @key }\n"
    for _again in range(3):
        graph.schema.apply(more)
        graph.load([{"type": "Q", "data": {"k": "q"}}], mode="append")
        graph.schema.apply(SCHEMA, allow_data_loss=True)
    rows = dataset(root / "__manifest").to_table(columns=["object_id"])["object_id"].to_pylist()
    assert len(rows) == len(set(rows))


# ---- namesakes --------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [0, 10, 15])
def test_a_handle_does_not_write_into_another_graph_at_its_place(
    graph: og.Graph, root: AnyPath, commits: int
) -> None:
    remove_tree(root)
    with og.init(root, SCHEMA, durability="none") as another:
        for number in range(commits):
            another.mutate(ADD, {"k": f"n{number}", "v": number})
        for work in (
            lambda: graph.mutate(ADD, {"k": "x", "v": 1}),
            lambda: values(graph),
            lambda: graph.branches.create("b"),
            lambda: graph.optimize(),
            lambda: graph.cleanup(keep=1, grace=0, dry_run=False),
        ):
            with pytest.raises(og.NotFoundError, match="another one"):
                work()
        another.mutate(ADD, {"k": "still", "v": 1})
        assert len(values(another)) == commits + 1
    with fresh(graph) as reader:
        assert len(values(reader)) == commits + 1


def test_a_branch_that_a_cleanup_removes_while_it_is_opened_was_deleted(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first branch that a handle opens is looked at once more: the graph may have moved."""
    graph.branches.create("b")
    graph.mutate(ADD, {"k": "b", "v": 1}, branch="b")
    found = Journal._open
    removed: list[str] = []

    def after_removal(journal: Journal) -> Any:
        if "tree" in journal.path and not removed:
            removed.append(journal.path)
            graph.branches.delete("b")
            graph.cleanup(keep=1, grace=0, dry_run=False)
        return found(journal)

    with fresh(graph) as reader:
        monkeypatch.setattr(Journal, "_open", after_removal)
        with pytest.raises(og.NotFoundError, match="branch 'b' was deleted"):
            reader.query(ALL, branch="b")
    assert removed


def test_a_view_of_a_branch_is_of_this_branch_and_no_namesake(graph: og.Graph) -> None:
    view = graph.branch("b")
    view.mutate(ADD, {"k": "old", "v": 1})
    graph.branches.delete("b")
    with pytest.raises(og.NotFoundError):
        view.query(ALL)
    graph.branches.create("b")
    for work in (
        lambda: view.query(ALL),
        lambda: view.mutate(ADD, {"k": "new", "v": 1}),
        lambda: view.merge(),
        lambda: view.delete(),
        lambda: view.head(),
        lambda: view.diff(),
    ):
        with pytest.raises(og.NotFoundError, match="another of this name"):
            work()
    assert len(graph.branch("b").query(ALL)) == 10


# ---- sessions ---------------------------------------------------------------------------------


def test_closing_a_session_leaves_the_graph_open(graph: og.Graph) -> None:
    with graph.as_actor("bob") as bob:
        bob.mutate(ADD, {"k": "bob", "v": 1})
    with graph.session() as session:
        session.mutate(ADD, {"k": "session", "v": 1})
    with pytest.raises(og.BadRequestError, match="closed"):
        session.mutate(ADD, {"k": "late", "v": 1})
    graph.mutate(ADD, {"k": "still", "v": 1})
    assert len(values(graph)) == 13
    assert [item.actor_id for item in graph.commits.list(limit=3)] == [None, None, "bob"]


def test_a_session_owns_its_base(graph: og.Graph) -> None:
    """What one session looks at does not count as seen by another."""
    mine, yours = graph.session(), graph.session()
    seen = values(mine)["k1"]
    with fresh(graph) as other:
        other.mutate(SET, {"k": "k1", "v": 100})
    looked = threading.Thread(target=lambda: values(yours))
    looked.start()
    looked.join(30)
    with pytest.raises(og.VersionConflictError):
        mine.mutate(SET, {"k": "k1", "v": seen + 1})
    yours.mutate(SET, {"k": "k1", "v": 101})
    assert values(graph)["k1"] == 101


def test_a_merge_under_way_keeps_the_state_it_takes_in(graph: og.Graph, root: AnyPath) -> None:
    """Its commit will name that state as a parent, and the next merge starts from it."""
    graph.branches.create("dev")
    graph.mutate(ADD, {"k": "on dev", "v": 1}, branch="dev")
    graph.mutate(ADD, {"k": "on main", "v": 1})
    with og.open(root, durability="none", upkeep=False) as other:

        def move_on_and_clean_up() -> None:
            for number in range(3):
                other.mutate(ADD, {"k": f"later {number}", "v": 1})
            other.cleanup(keep=1, grace=0, dry_run=False)

        with armed(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT, move_on_and_clean_up):
            graph.branches.merge("main", "dev")
    graph.mutate(ADD, {"k": "on dev again", "v": 1}, branch="dev")
    with og.open(root, durability="none", upkeep=False) as fresh:
        # A handle that has the state open already would not notice that it is gone.
        assert fresh.branches.merge("main", "dev").outcome == "merged"
        assert fresh.branches.merge("dev").commit is not None
        assert set(values(fresh)) == set(values(fresh, branch="dev"))


def test_a_merge_whose_source_is_deleted_meanwhile_says_so(graph: og.Graph, root: AnyPath) -> None:
    graph.branches.create("dev")
    graph.mutate(ADD, {"k": "on dev", "v": 1}, branch="dev")
    graph.mutate(ADD, {"k": "on main", "v": 1})
    with og.open(root, durability="none", upkeep=False) as fresh:

        def delete_and_clean_up() -> None:
            graph.branches.delete("dev")
            graph.cleanup(keep=1, grace=0, dry_run=False)

        with (
            armed(Failpoint.WRITE_POST_CAPTURE, delete_and_clean_up),
            pytest.raises(og.NotFoundError, match="branch 'dev' was deleted") as caught,
        ):
            fresh.branches.merge("dev")
        assert not isinstance(caught.value, og.VersionReclaimedError)


def test_blame_meets_what_a_killed_cleanup_left(graph: og.Graph, root: AnyPath) -> None:
    """Its floor says that a version is given up, whichever of its files is gone already."""
    for number in range(40):
        graph.mutate(SET, {"k": "k0", "v": 100 + number})
    path = graph.snapshot().tables["node:P"].path
    old = graph.commits.list()[20]

    def die() -> None:
        raise RuntimeError("killed")

    with armed(Failpoint.CLEANUP_POST_PLAN, die), pytest.raises(RuntimeError, match="killed"):
        graph.cleanup(keep=1, grace=0, dry_run=False)
    gone = set(names_in(root / path / "data")) - used_files(graph)
    assert gone, "the small fragments were not folded"
    files = locate(root)
    for name in gone:
        files.files.delete(files.path(path, "data", name))
    with og.open(root, mode="ro") as fresh:
        with pytest.raises(og.VersionReclaimedError):
            fresh.commits.last_change("P", "k1")
        with pytest.raises(og.VersionReclaimedError):
            fresh.commits.changes(old.graph_commit_id)
        with pytest.raises(og.ChangeFeedGapError):
            fresh.feed.poll("beginning")


def used_files(graph: og.Graph) -> set[str]:
    """Return the data files of the newest version of the table."""
    pin = graph.snapshot().tables["node:P"]
    fragments = graph._engine.tables.open(pin.path, pin.version).fragments()
    return {item.path for fragment in fragments for item in fragment.data_files()}


@pytest.mark.parametrize("table", ["__manifest", "nodes/"])
def test_a_cleanup_that_meets_the_deletion_of_a_branch_is_repeated(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Lance reads the file of every branch it has listed, and one of them may be gone by then."""
    met: list[str] = []

    def remove_versions(tables: Any, path: str, versions: Any, *, dry_run: bool) -> Any:
        if path.startswith(table) and not met:
            met.append(path)
            raise og.StorageError("a file is missing: _refs/branches/b2.json")
        return reclaim.remove_versions(tables, path, versions, dry_run=dry_run)

    graph.mutate(ADD, {"k": "x", "v": 1})
    monkeypatch.setattr(cleanup, "remove_versions", remove_versions)
    report = graph.cleanup(keep=1, grace=0, dry_run=False)
    assert len(met) == 1
    assert [item.error for item in report.tables if item.error is not None] == []
    assert graph.cleanup(keep=1, grace=0).versions == 0


def test_what_came_through_a_deleted_branch_is_still_where_merges_start(graph: og.Graph) -> None:
    """Main took a state of `one` through `two`, of which nothing but its history is left."""
    for name in ("one", "two"):
        graph.branches.create(name)
    graph.mutate(ADD, {"k": "of one", "v": 1}, branch="one")
    graph.branches.merge("one", "two")
    graph.mutate(ADD, {"k": "of two", "v": 1}, branch="two")
    graph.branches.merge("two", "main", delete_source=True)
    for number in range(3):
        graph.mutate(ADD, {"k": "later", "v": number}, branch="one")
        graph.mutate(SET, {"k": "k1", "v": number})
    graph.cleanup(keep=1, grace=0, dry_run=False)
    with fresh(graph) as again:
        assert again.branches.merge("one", "main").outcome == "merged"
        assert values(again)["later"] == 2

"""Optimize, repair and cleanup: what they change, and what they must never change."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import clock
from omnigraph.failpoints import Failpoint, Pause, armed, error
from omnigraph.limits import ORPHAN_AGE_S
from omnigraph.ops import cleanup as cleanup_operation
from omnigraph.store.tables.torn_versions import version_name
from tests.faults.rig import assert_sound
from tests.movable_clock import MovableClock
from tests.places import AnyPath, dataset

SCHEMA = """
node P { k: String @key  v: I64? }
node Q { k: String @key }
edge K: P -> P
"""
ADD = "query add($k: String, $v: I64) { insert P { k: $k, v: $v } }"
SET = "query set_v($k: String, $v: I64) { update P set { v: $v } where k = $k }"
ALL = "query all() { match { $p: P } return { $p.k as k, $p.v as v } }"


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    return place / "g"


@pytest.fixture
def graph(root: AnyPath) -> Iterator[og.Graph]:
    with og.init(root, SCHEMA, durability="none") as found:
        for number in range(8):
            found.mutate(ADD, {"k": f"k{number}", "v": number})
        yield found


def values(graph: og.Graph, **at: object) -> dict[str, int]:
    return {row["k"]: row["v"] for row in graph.query(ALL, **at)}  # type: ignore[arg-type]


def table_path(graph: og.Graph) -> str:
    return f"{graph.uri}/{graph.snapshot().tables['node:P'].path}"


def fresh(graph: og.Graph) -> og.Graph:
    """Open a second handle: it has nothing in memory that the disk does not have."""
    return og.open(graph.uri, durability="none")


# ---- optimize -----------------------------------------------------------------------------


def test_optimize_changes_no_entity(graph: og.Graph, root: AnyPath) -> None:
    before = values(graph)
    report = graph.optimize()
    assert report.commit is not None
    assert report.commit.kind == "optimize"
    done = {item.table_key: item for item in report.tables}
    assert (done["node:P"].fragments_removed, done["node:P"].fragments_added) == (8, 1)
    assert done["node:P"].committed
    assert not done["node:Q"].committed
    assert values(graph) == before
    assert graph.optimize().commit is None
    assert graph.commits.changes(report.commit.graph_commit_id).changes == ()
    assert_sound(root)


def test_optimize_works_on_a_branch_and_leaves_what_it_inherits(graph: og.Graph) -> None:
    graph.branches.create("dev")
    graph.mutate(ADD, {"k": "dev", "v": 1}, branch="dev")
    report = graph.optimize("dev")
    done = {item.table_key: item for item in report.tables}
    assert done["node:P"].committed
    assert done["edge:K"].skipped == "inherited"
    assert set(values(graph, branch="dev")) == {*(f"k{n}" for n in range(8)), "dev"}
    assert set(values(graph)) == {f"k{n}" for n in range(8)}


def test_a_strict_write_after_optimize_is_not_stale(graph: og.Graph) -> None:
    values(graph)
    with fresh(graph) as other:
        other.optimize()
    graph.mutate(SET, {"k": "k1", "v": 100})
    assert values(graph)["k1"] == 100


def test_optimize_never_shows_what_a_parked_writer_has_not_published(
    graph: og.Graph, root: AnyPath
) -> None:
    pause = Pause()
    with armed(Failpoint.PUBLISH_POST_TABLE_COMMIT, pause):
        writer = threading.Thread(target=lambda: graph.mutate(ADD, {"k": "late", "v": 1}))
        writer.start()
        assert pause.reached.wait(30)
        with fresh(graph) as other:
            helper = threading.Thread(target=other.optimize)
            helper.start()
            with og.open(graph.uri, mode="ro") as reader:
                assert "late" not in values(reader)
            pause.released.set()
            writer.join(30)
            helper.join(30)
            assert "late" in values(other)
    assert_sound(root)


def test_a_failed_optimize_leaves_the_graph_as_it_was(graph: og.Graph, root: AnyPath) -> None:
    before = values(graph)
    for point in (Failpoint.OPTIMIZE_BEFORE_COMPACT, Failpoint.OPTIMIZE_AFTER_COMPACT_PRE_INDEX):
        with armed(point, error), pytest.raises(og.StorageError):
            graph.optimize()
        # It was undone at once: nothing is left for recovery.
        assert graph.maintenance.pending_writes() == []
        graph.mutate(ADD, {"k": str(point), "v": 0})
        before[str(point)] = 0
        assert values(graph) == before
    assert_sound(root)


def test_optimize_beside_writers_fails_nobody(graph: og.Graph) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []
    written: list[str] = []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as problem:
                failures.append(problem)
                stop.set()

        return run

    def write() -> None:
        with fresh(graph) as own:
            for number in range(25):
                own.mutate(ADD, {"k": f"w{number}", "v": number})
                written.append(f"w{number}")
        stop.set()

    def maintain() -> None:
        with fresh(graph) as own:
            while not stop.is_set():
                own.optimize()
                own.cleanup(keep=5, grace=0, dry_run=False)

    threads = [threading.Thread(target=guarded(work)) for work in (write, maintain)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures
    with fresh(graph) as reader:
        assert set(values(reader)) == {*(f"k{n}" for n in range(8)), *written}


# ---- repair -------------------------------------------------------------------------------


def test_repair_heals_foreign_maintenance_and_refuses_foreign_rows(graph: og.Graph) -> None:
    path = table_path(graph)
    dataset(path).optimize.compact_files()
    (found,) = [t for t in graph.repair().tables if t.action != "no_op"]
    assert (found.classification, found.action) == ("verified_maintenance", "preview")
    report = graph.repair(confirm=True)
    assert report.commit is not None
    assert report.commit.actor_id == "omnigraph:repair"
    rows = pa.table({"id": ["x"], "k": ["x"], "v": [1]}, schema=dataset(path).schema)
    lance.write_dataset(rows, dataset(path), mode="append")
    report = graph.repair(confirm=True)
    assert report.refused
    assert "x" not in values(graph)
    skipped = {t.table_key: t.skipped for t in graph.optimize().tables}
    assert skipped["node:P"] == "drift_needs_repair"
    with pytest.raises(og.BadRequestError, match="force"):
        graph.repair(force=True)
    forced = graph.repair(confirm=True, force=True)
    assert forced.commit is not None
    assert forced.commit.actor_id == "omnigraph:repair:force"
    assert "x" in values(graph)
    assert all(t.action == "no_op" for t in graph.repair().tables)


# ---- cleanup ------------------------------------------------------------------------------


def test_cleanup_keeps_what_it_was_told(graph: og.Graph) -> None:
    newest = graph.snapshot().version
    preview = graph.cleanup(keep=3, grace=0)
    assert preview.dry_run
    assert preview.versions > 0
    with fresh(graph) as reader:
        assert len(values(reader, version=2)) == 1
    done = graph.cleanup(keep=3, grace=0, dry_run=False)
    assert (done.versions, done.bytes) == (preview.versions, preview.bytes)
    assert all(item.error is None for item in done.tables)
    with fresh(graph) as reader:
        assert len(values(reader)) == 8
        assert len(values(reader, version=newest - 2)) == 6
        with pytest.raises(og.VersionReclaimedError, match="no longer kept"):
            values(reader, version=newest - 3)
        assert len(reader.commits.list()) == newest
        reader.mutate(ADD, {"k": "after", "v": 1})
    assert graph.cleanup(keep=100, grace=0).versions == 0
    assert_sound_now(graph)


def assert_sound_now(graph: og.Graph) -> None:
    """The audit reads every published version; after a cleanup only the newest must be there."""
    for pin in graph.snapshot().tables.values():
        table = dataset(f"{graph.uri}/{pin.path}", version=pin.version)
        assert table.count_rows() == pin.row_count


def test_cleanup_keeps_what_was_current_a_moment_ago(graph: og.Graph) -> None:
    assert graph.cleanup(keep=1, dry_run=False).versions == 0
    assert graph.cleanup(older_than=3600, grace=0).versions == 0
    assert graph.cleanup(keep=1, older_than=3600, grace=0).versions == 0


def test_cleanup_keeps_what_branches_tags_and_merges_need(graph: og.Graph) -> None:
    graph.tags.create("early", version=3)
    graph.branches.create("lazy")
    graph.branches.create("busy")
    for number in range(6):
        graph.mutate(SET, {"k": "k0", "v": 100 + number})
        graph.mutate(SET, {"k": "k1", "v": 200 + number}, branch="busy")
    before = {name: values(graph, branch=name) for name in graph.branches.list()}
    graph.optimize()
    assert graph.cleanup(keep=1, grace=0, dry_run=False).versions > 0
    with fresh(graph) as reader:
        assert {name: values(reader, branch=name) for name in before} == before
        assert len(values(reader, tag="early")) == 2
        assert reader.branches.merge("busy").outcome == "merged"
        merged = values(reader)
        assert (merged["k0"], merged["k1"]) == (105, 205)


def test_a_handle_that_slept_through_a_cleanup_sees_what_came_after(
    graph: og.Graph, root: AnyPath
) -> None:
    """Its version is kept by a tag, the one after it is gone: that is not the end of history."""
    with fresh(graph) as sleeper:
        assert len(values(sleeper)) == 8
        graph.tags.create("here")
        graph.mutate(ADD, {"k": "x", "v": 1})
        graph.mutate(ADD, {"k": "y", "v": 2})
        assert graph.cleanup(keep=1, grace=0, dry_run=False).versions > 0
        seen = graph.snapshot().version
        following = root / "__manifest" / "_versions" / f"{2**64 - seen:020d}.manifest"
        assert not following.exists()
        assert len(values(sleeper)) == 10
        assert len(values(sleeper, tag="here")) == 8
        sleeper.mutate(ADD, {"k": "z", "v": 3})
    assert len(values(graph)) == 11


def test_cleanup_leaves_a_line_that_may_still_be_written_to(graph: og.Graph) -> None:
    graph.branches.create("dev")
    pause = Pause()
    with armed(Failpoint.WRITE_POST_STAGE, pause):
        write = threading.Thread(target=lambda: graph.mutate(ADD, {"k": "x", "v": 1}, branch="dev"))
        write.start()
        assert pause.reached.wait(30)
        with fresh(graph) as other:
            other.cleanup(keep=1, grace=0, dry_run=False)
        pause.released.set()
        write.join(30)
    with fresh(graph) as reader:
        assert "x" in values(reader, branch="dev")


def test_the_age_of_a_state_goes_by_the_clock(graph: og.Graph) -> None:
    moved = MovableClock()
    with clock.using(moved):
        assert graph.cleanup(older_than=86_400.0).versions == 0
        moved.advance(2 * 86_400.0)
        assert graph.cleanup(older_than=3 * 86_400.0).versions == 0
        assert graph.cleanup(older_than=86_400.0, dry_run=False).versions > 0
    assert values(graph) == {f"k{number}": number for number in range(8)}
    with pytest.raises(og.VersionReclaimedError):
        values(graph, version=2)


def test_what_interrupted_work_left_goes_when_it_is_old(graph: og.Graph) -> None:
    moved = MovableClock()
    graph.branches.create("dev")
    with armed(Failpoint.FORK_POST_CREATE, error), pytest.raises(og.StorageError):
        graph.mutate(ADD, {"k": "x", "v": 1}, branch="dev")
    with clock.using(moved):
        assert graph.cleanup(keep=5).tables[1].forks_removed == 0
        moved.advance(ORPHAN_AGE_S + 60)
        assert graph.cleanup(keep=5).tables[1].forks_removed == 1


def test_cleanup_removes_what_interrupted_work_left(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("dev")
    with armed(Failpoint.FORK_POST_CREATE, error), pytest.raises(og.StorageError):
        graph.mutate(ADD, {"k": "x", "v": 1}, branch="dev")
    assert graph.cleanup(keep=5, grace=0).tables[1].forks_removed == 0
    monkeypatch.setattr(cleanup_operation, "ORPHAN_AGE_S", -1.0)
    assert graph.cleanup(keep=5, grace=0).tables[1].forks_removed == 1
    graph.cleanup(keep=5, grace=0, dry_run=False)
    assert graph.cleanup(keep=5, grace=0).tables[1].forks_removed == 0
    graph.mutate(ADD, {"k": "x", "v": 1}, branch="dev")
    assert "x" in values(graph, branch="dev")


@pytest.mark.parametrize("point", [Failpoint.CLEANUP_POST_PLAN, Failpoint.CLEANUP_PRE_MANIFEST])
def test_an_interrupted_cleanup_is_finished_by_the_next(graph: og.Graph, point: Failpoint) -> None:
    with armed(point, error), pytest.raises(og.StorageError):
        graph.cleanup(keep=2, grace=0, dry_run=False)
    with fresh(graph) as reader:
        assert len(values(reader)) == 8
        reader.cleanup(keep=2, grace=0, dry_run=False)
        assert reader.cleanup(keep=2, grace=0).versions == 0
        reader.mutate(ADD, {"k": "after", "v": 1})


@pytest.mark.parametrize(
    "options", [{"keep": 0}, {"keep": -1}, {"older_than": -5.0}], ids=["0", "-1", "age"]
)
def test_cleanup_refuses_rules_that_make_no_sense(
    graph: og.Graph, options: dict[str, float]
) -> None:
    with pytest.raises(og.BadRequestError):
        graph.cleanup(**options)  # type: ignore[arg-type]


def test_the_feed_tells_a_gap(graph: og.Graph) -> None:
    page = graph.feed.poll("beginning", limit=1)
    graph.cleanup(keep=2, grace=0, dry_run=False)
    with fresh(graph) as reader, pytest.raises(og.ChangeFeedGapError):
        reader.feed.poll(cursor=page.cursor)


def test_a_closed_graph_is_not_written_to(graph: og.Graph) -> None:
    graph.close()
    graph.close()
    with pytest.raises(og.BadRequestError, match="closed") as refused:
        graph.mutate(ADD, {"k": "late", "v": 1})
    assert refused.value.hint == "open it again"
    with fresh(graph) as reader:
        assert len(values(reader)) == 8


@pytest.mark.local
def test_a_version_that_is_being_removed_was_reclaimed(graph: og.Graph, root: AnyPath) -> None:
    """Its data goes before its own file: who reads it then meets a missing file."""
    with fresh(graph) as reader:
        pin = reader.snapshot().tables["node:P"]
        table = reader._engine.tables.open(pin.path, pin.version)
        folder = str(root / pin.path)
        data = [f"{folder}/data/{item.path}" for f in table.fragments() for item in f.data_files()]
        os.unlink(data[0])
        with pytest.raises(og.StorageError, match="missing"):
            table.scan()
        later = threading.Timer(0.1, os.unlink, [f"{folder}/{version_name(pin.version)}"])
        later.start()
        with pytest.raises(og.VersionReclaimedError):
            table.scan()
        later.join()

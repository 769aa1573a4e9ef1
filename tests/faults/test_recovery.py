"""Recovery as callers and operators meet it: interrupted, doubled, watched, repeated."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph import clock, failpoints
from omnigraph.commits import RecoveryKind, Verdict, publisher, slot_name
from omnigraph.failpoints import Failpoint
from tests.faults.conftest import LEASE_S
from tests.faults.matrix import (
    BROKEN,
    FULL,
    RECOVERIES,
    Stage,
    break_write,
    check_record,
    check_settled,
    foresee,
)
from tests.faults.rig import (
    ADD,
    ADD_FIRM,
    DROP,
    NAME,
    assert_sound,
    put_slot,
    slots_of,
    state_of,
)
from tests.faults.victim import OPERATION, Zygote, write
from tests.movable_clock import MovableClock
from tests.places import AnyPath, S3Path, hashes, remove_tree

NEWER_INTENT = b'{"format": 99, "tables": [], "invented": "later"}'


@pytest.fixture
def root(stage: Stage) -> AnyPath:
    return stage.fresh("insert")


@pytest.fixture
def graph(root: AnyPath) -> Iterator[og.Graph]:
    with og.open(root, durability="none", actor="me") as found:
        yield found


@pytest.fixture(scope="module")
def zygotes(stage: Stage) -> Iterator[tuple[Zygote, Zygote]]:
    """Two processes that know how to reach what the stage is on."""
    with Zygote() as first, Zygote() as second:
        yield first, second


# ---- recovery that is itself interrupted --------------------------------------------------


@pytest.mark.parametrize("kind", ["finish", "undo"])
def test_a_recovery_whose_lease_lapses_leaves_the_slot_to_the_next(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The lease may be renewed a moment later: the slot must not go with the tables moved."""
    (state, records), root = stage.healed(kind), stage.fresh(kind)
    lapses = 0

    def check(_tenure: object) -> None:
        nonlocal lapses
        lapses += 1
        raise publisher.HeadMoved(may_land=True)

    before = slots_of(root)
    with monkeypatch.context() as patch:
        patch.setattr(publisher._Tenure, "check", check)
        og.open(root, durability="none").close()
    assert lapses
    assert slots_of(root) == before
    og.open(root, durability="none").close()
    check_settled(root, state, records, kind)
    remove_tree(root)


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("point", RECOVERIES)
def test_a_recovery_interrupted_twice_is_finished_by_the_third(
    stage: Stage, zygotes: tuple[Zygote, Zygote], kind: str, point: Failpoint
) -> None:
    """R-15: the same end as without the interruptions, and one row on record."""
    (state, records), root = stage.healed(kind), stage.fresh(kind)
    for _turn in range(2):
        if FULL:
            zygotes[0].run("reopen", root, point=point, number=1)
        else:
            with failpoints.armed(point, failpoints.error), contextlib.suppress(og.StorageError):
                og.open(root, durability="none").close()
    og.open(root, durability="none").close()
    check_settled(root, state, records, f"{kind}, {point}")
    remove_tree(root)


@pytest.mark.parametrize("kind", BROKEN)
def test_two_processes_that_recover_at_once_leave_one_record(
    stage: Stage, zygotes: tuple[Zygote, Zygote], kind: str
) -> None:
    state, records = stage.healed(kind)
    for _turn in range(20 if FULL else 3):
        root = stage.fresh(kind)
        threads = [threading.Thread(target=zygote.run, args=("reopen", root)) for zygote in zygotes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The one that came second may have found the first alive, and left everything to it.
        check_settled(root, state, records, kind)
        remove_tree(root)


@pytest.mark.parametrize("kind", ["finish", "undo"])
@pytest.mark.parametrize("point", RECOVERIES)
def test_a_recovery_under_way_is_left_alone(stage: Stage, kind: str, point: Failpoint) -> None:
    root = stage.fresh(kind)
    wanted = foresee(root)
    pause = failpoints.Pause()
    failpoints.arm(point, pause)
    thread = threading.Thread(target=lambda: og.open(root, durability="none").close())
    thread.start()
    reached = pause.reached.wait(20 if (kind, point) != ("finish", skipped()) else 0.5)
    failpoints.disarm()
    if reached:
        with og.open(root, durability="none") as other:
            assert other.maintenance.recovered == []
            (pending,) = other.maintenance.pending_writes()
            assert pending.alive
    pause.released.set()
    thread.join()
    assert reached == ((kind, point) != ("finish", skipped()))
    check_record(root, wanted.records, f"{kind}, {point}")


def skipped() -> Failpoint:
    """Return the boundary that finishing a write does not pass."""
    return Failpoint.RECOVERY_POST_RESTORE


# ---- handles that stay open ---------------------------------------------------------------


def test_a_long_lived_handle_undoes_a_dead_peers_partial_write(
    root: AnyPath, graph: og.Graph
) -> None:
    before = state_of(graph)
    with og.open(root, durability="none") as peer:
        break_write(peer, "undo")
    graph.mutate(ADD_FIRM, {"s": "f9"})
    assert state_of(graph).keys() - before.keys() == {("Firm", "f9")}
    assert before.keys() <= state_of(graph).keys()
    assert [row["recovery_kind"] for row in assert_sound(root).recoveries] == ["RolledBack"]


def test_a_long_lived_handle_finishes_a_dead_peers_whole_write(
    root: AnyPath, graph: og.Graph
) -> None:
    with og.open(root, durability="none") as peer:
        break_write(peer, "finish")
    assert ("Person", "new") not in state_of(graph)
    graph.mutate(ADD_FIRM, {"s": "f9"})
    assert ("Person", "new") in state_of(graph)
    assert [row["recovery_kind"] for row in assert_sound(root).recoveries] == ["RolledForward"]


def refresh(graph: og.Graph, root: AnyPath) -> None:
    """Refresh; in an object store again when the owners of slots are known to be dead."""
    graph.refresh()
    if isinstance(root, S3Path):
        later = MovableClock()
        later.advance(LEASE_S + 0.2)
        with clock.using(later):
            graph.refresh()


def named(root: AnyPath) -> dict[str, str]:
    """Return the files of a graph, but for manifest rows that no version names yet.

    A write that failed may still be putting them out.
    """
    return {name: found for name, found in hashes(root).items() if "__manifest/data/" not in name}


def test_refresh_finishes_and_never_undoes(root: AnyPath, graph: og.Graph) -> None:
    """R-09."""
    with og.open(root, durability="none") as peer:
        break_write(peer, "undo")
        left = slots_of(root)
        before = named(root)
        refresh(graph, root)
        assert slots_of(root) == left
        assert named(root) == before
        assert graph.maintenance.recoveries() == []
    graph.mutate(ADD, {"s": "again"})
    with og.open(root, durability="none") as peer:
        break_write(peer, "finish")
        refresh(graph, root)
        assert ("Person", "new") in state_of(graph)
    assert [r.recovery_kind for r in graph.maintenance.recoveries()] == [
        "RolledBack",
        "RolledForward",
    ]
    assert_sound(root)


def test_a_reader_never_finishes_anything(root: AnyPath, graph: og.Graph) -> None:
    break_write(graph, "finish")
    with og.open(root, mode="ro") as reader:
        reader.refresh()
        assert ("Person", "new") not in state_of(reader)
        with pytest.raises(og.BadRequestError, match="read-only"):
            reader.maintenance.recover()
        assert len(reader.maintenance.pending_writes()) == 1
    assert len(slots_of(root)) == 1


def test_slots_are_settled_one_after_the_other(root: AnyPath, graph: og.Graph) -> None:
    """R-06: each on the state that the one before it left."""
    with failpoints.armed(Failpoint.PUBLISH_PRE_SLOT_DELETE, failpoints.error):
        graph.mutate(ADD, {"s": "done"})
    put_slot(root, "main@torn.json", b"{")
    break_write(graph, "finish")
    assert len(graph.maintenance.pending_writes()) == 3
    assert sorted(graph.maintenance.recover()) == [
        Verdict.ALREADY_DECIDED,
        Verdict.NEVER_ARMED,
        Verdict.ROLLED_FORWARD,
    ]
    assert {("Person", "done"), ("Person", "new")} <= state_of(graph).keys()
    assert len(assert_sound(root).recoveries) == 1


def test_an_interrupt_at_any_boundary_frees_the_branch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-04: Ctrl-C is no error of ours, and must not keep the lock either."""
    monkeypatch.setattr(publisher, "SLOT_WAIT_S", 5 * LEASE_S)

    def interrupt() -> None:
        raise KeyboardInterrupt

    root = stage.fresh("delete")
    with og.open(root, durability="none") as graph:
        for number, cell in enumerate(stage.cells("insert")):
            with (
                contextlib.suppress(KeyboardInterrupt),
                failpoints.armed(cell.point, interrupt, hit=cell.hit),
            ):
                graph.mutate(ADD, {"s": f"cut{number}"})
            graph.mutate(ADD, {"s": f"next{number}"})
        assert all(("Person", f"next{n}") in state_of(graph) for n in range(number + 1))
    og.open(root, durability="none").close()
    assert_sound(root)


# ---- an operation repeated after its answer was lost --------------------------------------


@pytest.mark.parametrize("healer", ["itself", "same process", "other process"])
@pytest.mark.parametrize("action", ["insert", "update", "delete", "load", "overwrite"])
def test_a_repeated_operation_is_applied_once(
    stage: Stage, zygotes: tuple[Zygote, Zygote], action: str, healer: str
) -> None:
    root = stage.fresh(action)
    with og.open(root, durability="none", actor="me") as graph:
        with (
            failpoints.armed(Failpoint.PUBLISH_PRE_CAS, failpoints.error),
            pytest.raises(og.OutcomeUnknownError) as unknown,
        ):
            write(graph, action)
        assert unknown.value.operation_id == OPERATION
        assert unknown.value.retryable
        if healer == "same process":
            with og.open(root, durability="none") as other:
                other.mutate(ADD_FIRM, {"s": "f9"})
        if healer == "other process":
            assert zygotes[0].run("reopen", root)["answer"]["error"] is None
        write(graph, action)
        once = state_of(graph)
        write(graph, action)
        assert state_of(graph) == once
        (made,) = assert_sound(root).by_operation(OPERATION)
    (record,) = og.open(root, mode="ro").maintenance.recoveries()
    assert (record.graph_commit_id, record.operation_id) == (made["object_id"], OPERATION)
    assert (record.recovery_kind, record.recovery_for_actor) == ("RolledForward", "me")
    remove_tree(root)


def test_a_repeated_operation_says_so(root: AnyPath, graph: og.Graph) -> None:
    """Unless the call that lost its answer learns the outcome itself: then the counts are known."""
    with failpoints.armed(Failpoint.PUBLISH_CAS_ANSWER_LOST, failpoints.error):
        done = graph.mutate(DROP, {"s": "p0"}, operation_id="one")
    assert (done.repeated, done.affected_nodes, done.affected_edges) == (False, 1, 5)
    again = graph.mutate(DROP, {"s": "p0"}, operation_id="one")
    assert (again.repeated, again.affected_nodes, again.affected_edges) == (True, None, None)
    assert again.commit == done.commit


def test_a_commit_somebody_else_made_of_the_same_operation_is_a_repetition(
    root: AnyPath, graph: og.Graph
) -> None:
    """Both prepare the write; the counts of the one that lost are not those of the commit."""
    with og.open(root, durability="none") as other:
        theirs: list[og.MutationResult] = []

        def overtake() -> None:
            failpoints.disarm()
            theirs.append(other.mutate(NAME, {"s": "p1", "n": "x"}, operation_id="one"))

        failpoints.arm(Failpoint.WRITE_POST_STAGE, overtake)
        mine = graph.mutate(NAME, {"s": "p1", "n": "x"}, operation_id="one")
    assert mine.commit == theirs[0].commit
    assert (mine.repeated, theirs[0].repeated) == (True, False)
    assert len(assert_sound(root).by_operation("one")) == 1


# ---- what an operator sees ----------------------------------------------------------------


def test_the_record_says_who_was_undone_and_how_far(root: AnyPath, graph: og.Graph) -> None:
    pins = {key: pin.version for key, pin in graph.snapshot().tables.items()}
    break_write(graph, "undo")
    assert graph.maintenance.recover() == [Verdict.ROLLED_BACK]
    assert graph.maintenance.recover() == []
    (record,) = graph.maintenance.recoveries()
    assert record.recovery_kind is RecoveryKind.ROLLED_BACK
    assert (record.recovery_for_actor, record.writer_kind) == ("victim", "mutation")
    assert record.operation_id == OPERATION
    assert len(record.tables) == 2
    for table in record.tables:
        assert table.to_version == pins[table.table_key]
        assert table.from_version == pins[table.table_key] + 1
    commit = graph.commits.head()
    assert commit.graph_commit_id == record.graph_commit_id
    assert (commit.kind, commit.actor_id) == ("recovery", "omnigraph:recovery")
    assert commit.recovery_for_actor == "victim"
    assert graph.commits.list(actor="omnigraph:recovery") == [commit]


def test_a_finished_write_keeps_its_commit_id_and_names_its_author(
    root: AnyPath, graph: og.Graph
) -> None:
    """R-02."""
    break_write(graph, "finish")
    (pending,) = graph.maintenance.pending_writes()
    assert graph.maintenance.recover() == [Verdict.ROLLED_FORWARD]
    (record,) = graph.maintenance.recoveries()
    commit = graph.commits.get(record.graph_commit_id)
    assert commit.operation_id == pending.operation_id == OPERATION
    assert (commit.actor_id, commit.recovery_for_actor) == ("omnigraph:recovery", "victim")
    (table,) = record.tables
    assert (table.table_key, table.to_version - table.from_version) == ("node:Person", 1)


def test_pending_writes_tell_the_living_from_the_dead(root: AnyPath, graph: og.Graph) -> None:
    assert graph.maintenance.pending_writes() == []
    pause = failpoints.Pause()
    failpoints.arm(Failpoint.PUBLISH_PRE_CAS, pause)
    with og.open(root, durability="none", actor="them") as other:
        thread = threading.Thread(target=lambda: other.mutate(ADD, {"s": "x"}, operation_id="one"))
        thread.start()
        assert pause.reached.wait(20)
        failpoints.disarm()
        (pending,) = graph.maintenance.pending_writes()
        assert (pending.alive, pending.operation_id) == (True, "one")
        assert (pending.actor_id, pending.writer_kind) == ("them", "mutation")
        assert (pending.tables, pending.branch) == (("node:Person",), "main")
        assert graph.maintenance.recover() == []
        pause.released.set()
        thread.join()
    assert graph.maintenance.pending_writes() == []
    graph.refresh()
    break_write(graph, "undo")
    (pending,) = graph.maintenance.pending_writes()
    assert (pending.alive, pending.actor_id) == (False, "victim")
    assert len(pending.tables) == 3


def test_a_handle_for_another_actor_shares_the_graph(root: AnyPath, graph: og.Graph) -> None:
    other = graph.as_actor("ann")
    assert (graph.actor, other.actor, other.uri) == ("me", "ann", graph.uri)
    made = other.mutate(ADD, {"s": "x"}).commit
    assert made is not None
    assert made.actor_id == "ann"
    # It is the same graph, but each handle remembers what it has seen.
    with pytest.raises(og.VersionConflictError):
        graph.mutate(NAME, {"s": "x", "n": "y"})
    graph.refresh()
    mine = graph.mutate(NAME, {"s": "x", "n": "y"}).commit
    assert mine is not None
    assert mine.actor_id == "me"
    with pytest.raises(og.BadRequestError, match="blank"):
        graph.as_actor(" ")


# ---- intents of another make --------------------------------------------------------------


@pytest.mark.parametrize("head", ["current", "older"])
def test_an_intent_of_a_newer_release_is_refused_and_kept(
    root: AnyPath, graph: og.Graph, head: str
) -> None:
    """R-17."""
    commits = graph.commits.list()
    name = slot_name("main", commits[0 if head == "current" else -1].graph_commit_id)
    put_slot(root, name, NEWER_INTENT)
    with pytest.raises(og.OmniGraphError) as refused:
        og.open(root, durability="none")
    assert f"{name} has format 99, which is newer" in refused.value.message
    assert refused.value.hint == "resolve it with the release that wrote it, then go on"
    with pytest.raises(og.OmniGraphError, match="newer"):
        graph.maintenance.recover()
    with og.open(root, mode="ro") as reader:
        (pending,) = reader.maintenance.pending_writes()
        assert (pending.slot, pending.operation_id, pending.alive) == (name, None, False)
        assert state_of(reader)
    assert (root / "__recovery" / name).read_bytes().endswith(NEWER_INTENT)


def test_a_torn_intent_shows_as_unreadable_and_goes(root: AnyPath, graph: og.Graph) -> None:
    name = slot_name("main", graph.commits.head().graph_commit_id)
    put_slot(root, name, b'{"format": 1, "operation')
    (pending,) = graph.maintenance.pending_writes()
    assert (pending.operation_id, pending.tables) == (None, ())
    assert graph.maintenance.recover() == [Verdict.NEVER_ARMED]
    assert graph.maintenance.recoveries() == []
    assert_sound(root)

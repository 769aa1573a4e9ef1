"""A write that stops at any boundary leaves the graph as it was, or as intended.

Every cell runs once with an error in the process, which then goes on. One cell per boundary, drawn
by a printed seed, runs with kill -9; OMNIGRAPH_FAULTS=full kills in every cell, and OMNIGRAPH_SEED
repeats a draw.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from tests.faults.matrix import (
    AFTER,
    BEFORE,
    BROKEN,
    ELSEWHERE,
    FULL,
    GROUP,
    SEED,
    WRITES,
    Cell,
    Stage,
    break_write,
    chance,
    check_reopened,
    check_settled,
    demanded,
    final_state,
    foresee,
    numbered,
)
from tests.faults.rig import ADD, SCHEMA, State, recoveries_of, slots_of, state_of
from tests.faults.victim import Zygote, write
from tests.places import AnyPath, remove_tree

PUBLISHED = {
    Failpoint.PUBLISH_CAS_ANSWER_LOST,
    Failpoint.PUBLISH_POST_MANIFEST_COMMIT,
    Failpoint.PUBLISH_PRE_SLOT_DELETE,
}


# ---- an error in a process that goes on ---------------------------------------------------


@pytest.mark.full_only
@pytest.mark.parametrize("writer", WRITES)
def test_an_error_at_any_boundary_of_a_write(stage: Stage, writer: str) -> None:
    states = stage.ends(writer)
    for cell, tables in numbered(stage.cells(writer)):
        root, error = stage.fresh(writer), None
        with og.open(root, durability="none", actor="me") as graph:
            try:
                with failpoints.armed(cell.point, failpoints.error, hit=cell.hit):
                    write(graph, writer)
            except og.OmniGraphError as caught:
                error = caught
            (outcome,) = demanded(cell, tables, killed=False)
            foreseen = foresee(root)
            assert foreseen.visible == (outcome == AFTER), str(cell)
            check_error(cell, error, outcome)
            graph.mutate(ADD, {"s": "again"})
            state = state_of(graph)
        check_state(cell, state, states[outcome])
        # The slot of an older head is in nobody's way; an open takes it away, and nothing else.
        og.open(root, durability="none").close()
        check_settled(root, state, foreseen.records, str(cell))
        assert slots_of(root) == [], str(cell)
        remove_tree(root)


def check_error(cell: Cell, error: og.OmniGraphError | None, outcome: str) -> None:
    """No error means done, a storage error means that nothing ever will be."""
    if error is None:
        assert outcome == AFTER, str(cell)
    elif not isinstance(error, og.OutcomeUnknownError):
        assert isinstance(error, og.StorageError), f"{cell}: {error!r}"
        assert outcome == BEFORE, str(cell)


def check_state(cell: Cell, state: State, wanted: State) -> None:
    assert ("Person", "again") in state, str(cell)
    assert {key: row for key, row in state.items() if key != ("Person", "again")} == wanted, cell


@pytest.mark.full_only
@pytest.mark.parametrize("kind", BROKEN)
def test_an_error_at_any_boundary_of_a_recovery(stage: Stage, kind: str) -> None:
    state, wanted = stage.healed(kind)
    for cell in stage.cells(kind):
        root = stage.fresh("insert")
        with og.open(root, durability="none") as graph, og.open(root, durability="none") as other:
            break_write(other, kind)
            with (
                contextlib.suppress(og.StorageError),
                failpoints.armed(cell.point, failpoints.error, hit=cell.hit),
            ):
                graph.maintenance.recover()
            graph.mutate(ADD, {"s": "again"})
            check_state(cell, state_of(graph), state)
        again = final_state(root)
        og.open(root, durability="none").close()
        # The write above may have restored the table itself, as part of its own commit.
        swept = kind != "sweep" or recoveries_of(root)
        records = wanted if swept else []
        check_settled(root, again, records, str(cell))
        remove_tree(root)


@pytest.mark.full_only
def test_an_error_at_any_boundary_of_an_init(stage: Stage) -> None:
    for cell in stage.cells("init"):
        root = stage.fresh("init")
        with (
            failpoints.armed(cell.point, failpoints.error, hit=cell.hit),
            pytest.raises(og.StorageError),
        ):
            og.init(root, SCHEMA, durability="none")
        check_created(cell, root)
        remove_tree(root)


def check_created(cell: Cell, root: AnyPath) -> None:
    """There is a graph, or none and then one can be made; what was left is no obstacle."""
    if cell.point is Failpoint.INIT_POST_MANIFEST_CREATE:
        with pytest.raises(og.AlreadyInitializedError):
            og.init(root, SCHEMA, durability="none")
    else:
        with pytest.raises(og.NotFoundError):
            og.open(root, durability="none")
        og.init(root, SCHEMA, durability="none").close()
    assert not (root / "__init_claim.json").exists(), str(cell)
    check_settled(root, {}, [], str(cell))


# ---- visibility ---------------------------------------------------------------------------


@pytest.mark.full_only
@pytest.mark.parametrize("writer", [*(name for name in WRITES if name != "fold"), GROUP])
def test_readers_see_nothing_before_the_publish_and_all_after_it(stage: Stage, writer: str) -> None:
    states, root = stage.ends(writer), stage.fresh(writer)
    seen: dict[Failpoint, tuple[State, State]] = {}
    with og.open(root, durability="none") as graph, og.open(root, mode="ro") as reader:

        def look(point: Failpoint) -> None:
            seen[point] = (state_of(reader), final_state(root))

        for point in Failpoint:
            failpoints.arm(point, partial(look, point))
        write(graph, writer)
        failpoints.disarm()
    assert Failpoint.PUBLISH_PRE_CAS in seen
    for point, found in seen.items():
        published = point in PUBLISHED
        assert found == (states[AFTER if published else BEFORE],) * 2, f"{writer}, {point}"


# ---- kill -9 ------------------------------------------------------------------------------


@pytest.mark.full_only
def test_kill_minus_nine(stage: Stage, zygote: Zygote) -> None:
    cells = [
        (cell, tables)
        for writer in (*WRITES, GROUP, *BROKEN, "init")
        for cell, tables in numbered(stage.cells(writer))
    ]
    points = {cell.point for cell, _ in cells}
    assert points | ELSEWHERE == set(Failpoint), "a boundary that no writer passes"
    if not FULL:
        dice = chance()
        drawn = sorted(points)
        groups = [cell for cell in cells if cell[0].writer == GROUP]
        cells = [dice.choice([c for c in cells if c[0].point is point]) for point in drawn]
        cells += dice.sample(groups, 4)
    print(f"OMNIGRAPH_SEED={SEED}, {len(cells)} kills")  # noqa: T201 - to repeat it
    for cell, tables in cells:
        root = stage.fresh(cell.writer)
        action = "reopen" if cell.writer in BROKEN else cell.writer
        outcome = zygote.run(action, root, point=cell.point, number=cell.hit)
        assert outcome["killed"], f"{cell}: {outcome}"
        if cell.writer == "init":
            check_created(cell, root)
        elif cell.writer in BROKEN:
            state, records = stage.healed(cell.writer)
            check_reopened(root, [state], records, str(cell))
        else:
            check_killed_write(cell, tables, root, stage.ends(cell.writer))
        remove_tree(root)


def check_killed_write(cell: Cell, tables: int, root: AnyPath, states: dict[str, State]) -> None:
    foreseen = foresee(root)
    outcome = AFTER if foreseen.visible else BEFORE
    assert outcome in demanded(cell, tables, killed=True), str(cell)
    check_reopened(root, [states[outcome]], foreseen.records, str(cell))

"""A schema change that stops anywhere leaves the old schema and its rows, or the new ones."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from omnigraph.store import locate, newest_version
from tests.faults.matrix import RECOVERIES, Stage, drawn, final_state, full_only
from tests.faults.rig import ADD, State, slots_of, state_of
from tests.faults.victim import DESCRIBED, MIGRATED, OPERATION, Zygote, write
from tests.places import AnyPath, copy_tree, names_in, remove_tree

CELLS_DRAWN_ON_S3 = 1
WRITERS = {"schema": MIGRATED, "metadata": DESCRIBED}
LANDED = {
    Failpoint.PUBLISH_CAS_ANSWER_LOST,
    Failpoint.PUBLISH_POST_MANIFEST_COMMIT,
    Failpoint.SCHEMA_POST_MANIFEST_COMMIT,
    Failpoint.SCHEMA_BETWEEN_FILES,
    Failpoint.SCHEMA_POST_FILES,
    Failpoint.PUBLISH_PRE_SLOT_DELETE,
}
Cell = tuple[Failpoint, int]


def cells_of(stage: Stage, writer: str) -> list[Cell]:
    """List every boundary a schema change passes, with how often it was passed before."""
    root = stage.fresh("plain")
    with og.open(root, durability="none") as graph, failpoints.recorded() as passed:
        write(graph, writer)
    remove_tree(root)
    seen: Counter[Failpoint] = Counter()
    found: list[Cell] = []
    for point in passed:
        seen[point] += 1
        found.append((point, seen[point]))
    return found


def ends_of(stage: Stage, writer: str) -> tuple[State, State]:
    root = stage.fresh("plain")
    before = final_state(root)
    with og.open(root, durability="none") as graph:
        write(graph, writer)
        after = state_of(graph)
    remove_tree(root)
    return before, after


def assert_coherent(root: AnyPath, place: str) -> None:
    """Head, root files and tables agree, and nothing is left to resolve."""
    with og.open(root, mode="ro") as graph:
        head = graph.commits.head()
        kept = [name.removesuffix(".json") for name in names_in(root / "_schema_history")]
        assert head.schema_hash.removeprefix("sha256:") in kept, place
        state = json.loads((root / "__schema_state.json").read_bytes())
        assert head.schema_hash == state["ir_hash"], place
        tables = graph.snapshot().tables
        assert set(tables) == {entity.table_key for entity in graph.catalog.entities()}, place
        for pin in tables.values():
            assert newest_version(locate(root).files, str(root / pin.path)) == pin.version, (
                f"{place}: {pin.path}"
            )
        operations = [c.operation_id for c in graph.commits.list()]
        assert len(set(operations)) == len(operations), place
    assert slots_of(root) == [], place


def check_reopened(root: AnyPath, writer: str, wanted: State, place: str) -> None:
    """Recover by opening, twice, then write; then repeat the interrupted change."""
    with og.open(root, durability="none") as graph:
        assert state_of(graph) == wanted, place
    assert_coherent(root, place)
    with og.open(root, durability="none") as graph:
        assert graph.maintenance.recovered == [], place
        graph.mutate(ADD, {"s": "probe"})
        assert set(state_of(graph)) == {*wanted, ("Person", "probe")}, place
        write(graph, writer)
        assert graph.schema.plan(WRITERS[writer]).is_empty, place
    assert_coherent(root, place)


def check_resident(resident: og.Graph, root: AnyPath, wanted: State, place: str) -> None:
    """A handle that was open all the time resolves the dead writer by itself."""
    resident.mutate(ADD, {"s": "probe"})
    found = state_of(resident)
    assert found.pop(("Person", "probe")), place
    assert found == wanted, place
    og.open(root, durability="none").close()
    assert_coherent(root, place)


@pytest.mark.full_only
@pytest.mark.parametrize("writer", WRITERS)
def test_an_error_at_any_boundary_leaves_one_schema(stage: Stage, writer: str) -> None:
    before, after = ends_of(stage, writer)
    cells = cells_of(stage, writer)
    assert {point for point, _hit in cells} >= {
        Failpoint.SCHEMA_POST_HISTORY,
        Failpoint.PUBLISH_PRE_CAS,
        Failpoint.SCHEMA_BETWEEN_FILES,
    }
    for point, hit in cells:
        place = f"{writer} failed at {point}, time {hit}"
        root = stage.fresh("plain")
        with og.open(root, durability="none") as graph:
            with failpoints.armed(point, failpoints.error, hit=hit):
                try:
                    write(graph, writer)
                    failed = False
                except og.OmniGraphError:
                    failed = True
            assert failed or point in LANDED, place
            graph.mutate(ADD, {"s": "probe"})
            found = state_of(graph)
            found.pop(("Person", "probe"))
            assert found == (after if point in LANDED else before), place
        og.open(root, durability="none").close()
        assert_coherent(root, place)
        with og.open(root, durability="none") as graph:
            write(graph, writer)
            found = state_of(graph)
            assert found.keys() == {*after, ("Person", "probe")}, place
        assert_coherent(root, place)
        remove_tree(root)


@pytest.mark.parametrize("writer", ["schema", full_only("metadata")])
def test_a_kill_at_any_boundary_leaves_one_schema(
    backend: str, zygote: Zygote, stage: Stage, writer: str
) -> None:
    before, after = ends_of(stage, writer)
    cells = cells_of(stage, writer)
    for point, hit in cells if backend == "local" else drawn(cells, CELLS_DRAWN_ON_S3):
        place = f"{writer} killed at {point}, time {hit}"
        root = stage.fresh("plain")
        with og.open(root, durability="none") as resident:
            assert zygote.run(writer, root, point=point, number=hit)["killed"], place
            copy = root.with_name("copy")
            copy_tree(root, copy)
            wanted = after if point in LANDED else before
            with og.open(copy, mode="ro") as reader:
                assert state_of(reader) == wanted, place
            check_reopened(copy, writer, wanted, place)
            check_resident(resident, root, wanted, place)
        remove_tree(copy)
        remove_tree(root)


@pytest.mark.full_only
def test_a_killed_recovery_of_a_schema_change_is_finished_by_the_next_one(
    zygote: Zygote, stage: Stage
) -> None:
    before, _after = ends_of(stage, "schema")
    broken = stage.fresh("plain")
    assert zygote.run("schema", broken, point=Failpoint.PUBLISH_POST_EFFECTS, number=1)["killed"]
    for point in RECOVERIES:
        root = broken.with_name("recovering")
        copy_tree(broken, root)
        outcome = zygote.run("reopen", root, point=point, number=1)
        check_reopened(root, "schema", before, f"recovery stopped at {point}: {outcome}")
        remove_tree(root)


@pytest.mark.full_only
def test_writers_before_and_after_see_one_order(stage: Stage) -> None:
    """A write prepared under the old schema and a change of schema cannot overtake each other."""
    root = stage.fresh("plain")
    with og.open(root, durability="none") as graph, og.open(root, durability="none") as other:
        with failpoints.armed(Failpoint.WRITE_POST_STAGE, lambda: write(other, "schema")):
            graph.mutate(ADD, {"s": "late"})
        found = state_of(graph)
        assert '"kind": "new"' in found[("Person", "late")]
        assert [c.kind for c in graph.commits.list()][:2] == ["mutation", "schema_apply"]
    assert_coherent(root, "race")


@pytest.mark.full_only
def test_the_operation_id_of_a_change_is_found_again(stage: Stage) -> None:
    root = stage.fresh("plain")
    with og.open(root, durability="none") as graph:
        with failpoints.armed(Failpoint.SCHEMA_BETWEEN_FILES, failpoints.error):
            first = graph.schema.apply(MIGRATED, operation_id=OPERATION)
        again = graph.schema.apply(MIGRATED, operation_id=OPERATION)
    assert first.commit is not None
    assert first.commit == again.commit

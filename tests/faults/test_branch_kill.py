"""A process killed while it makes, first writes to, merges or deletes a branch breaks nothing.

The matrix is generated as in `test_kill`: every call that changes the disk, before and after it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.manifest import RecoveryKind
from tests.faults.rig import ADD, DROP, MEET, NAME, State, new_graph, slots_of, state_of
from tests.faults.victim import OPERATION, Zygote

FULL = os.environ.get("OMNIGRAPH_FAULTS", "") == "full"
WRITES = ("branch_insert", "branch_drop", "merge", "merge_back")
CONTROL = ("branch_create", "branch_delete", "lazy_delete")
DECIDES = {
    "branch_create": "branch",
    "branch_delete": "branch_delete",
    "lazy_delete": "line_delete",
}
Case = tuple[str, int, str]
World = dict[str, State]


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as found:
        yield found


def grow(root: Path, action: str) -> None:
    """Make the graph an action starts from."""
    new_graph(root)
    with og.open(root, durability="none") as graph:
        graph.branches.create("dev")
        graph.branches.create("lazy")
        if action in ("merge", *CONTROL):
            graph.mutate(ADD, {"s": "mine"}, branch="dev")
            graph.mutate(DROP, {"s": "p0"}, branch="dev")
            graph.mutate(MEET, {"i": "k9", "a": "p1", "b": "mine"}, branch="dev")
        if action in ("merge", "merge_back"):
            graph.mutate(NAME, {"s": "p5", "n": "changed"})
            graph.mutate(MEET, {"i": "k8", "a": "p2", "b": "p3"})


def world_of(graph: og.Graph) -> World:
    return {name: state_of(graph, branch=name) for name in graph.branches.list()}


def read(root: Path) -> World:
    with og.open(root, mode="ro") as graph:
        return world_of(graph)


def cases(steps: dict[str, int]) -> list[Case]:
    found = [(call, n, "before") for call, count in sorted(steps.items()) for n in range(count)]
    both = set(steps) if FULL else {"commit", "publish", "fork", *DECIDES.values()}
    return found + [(call, n, "after") for call, n, _ in found if call in both]


def expected(action: str, steps: dict[str, int], case: Case) -> set[str]:
    """Which outcomes are right."""
    call, number, side = case
    if action in CONTROL:
        return {side} if call == DECIDES[action] else {"before", "after"}
    match call:
        case "commit":
            done = number + (side == "after")
            return {"after"} if done >= steps["commit"] else {"before"}
        case "publish":
            return {"after"}
        case "stage" | "fork":
            return {"before"}
        case _:
            return {"before", "after"}


def assert_heads_are_published(root: Path) -> None:
    """Every line of versions a branch owns stands at its published version."""
    with og.open(root, mode="ro") as graph:
        for info in graph.branches.details():
            for key, pin in graph.snapshot(info.name).tables.items():
                if info.id.owns(pin.table_branch):
                    head = lance.dataset(str(root / pin.path)).version
                    assert head == pin.version, f"{info.name} {key}"


def assert_works(root: Path, wanted: list[World], place: str) -> None:
    """Open twice, look, write to every branch, and repeat the interrupted operation."""
    with og.open(root, durability="none") as graph:
        found = world_of(graph)
        assert found in wanted, place
    assert not slots_of(root), place
    assert_heads_are_published(root)
    with og.open(root, durability="none") as graph:
        assert graph.recovered == [], place
        assert world_of(graph) == found, place
        for name in graph.branches.list():
            graph.mutate(ADD, {"s": "probe"}, branch=name)
            assert set(state_of(graph, branch=name)) == {*found[name], ("Person", "probe")}, place
        lines = {n: [c.operation_id for c in graph.commits.list(n)] for n in graph.branches.list()}
        assert all(found.count(OPERATION) <= 1 for found in lines.values()), place
    assert not slots_of(root), place
    assert_heads_are_published(root)


@pytest.mark.parametrize("action", [*WRITES, *CONTROL])
def test_a_killed_process_leaves_all_or_nothing(
    zygote: Zygote, tmp_path: Path, action: str
) -> None:
    pristine = tmp_path / "pristine"
    grow(pristine, action)
    before = read(pristine)
    whole = tmp_path / "whole"
    shutil.copytree(pristine, whole)
    with og.open(whole, durability="none") as settled:
        # A copy is pointed to its own files when its branches are first used.
        world_of(settled)
    answer = zygote.run(action, whole)["answer"]
    assert answer["error"] is None
    steps: dict[str, int] = answer["steps"]
    after = read(whole)
    assert after != before
    for case in cases(steps):
        call, number, side = case
        root = tmp_path / "root"
        shutil.copytree(pristine, root)
        place = f"{action}: killed {side} {call} {number} of {steps}"
        with og.open(root, durability="none") as resident:
            world_of(resident)
            assert zygote.run(action, root, call=call, number=number, side=side)["killed"], place
            copy = tmp_path / "copy"
            shutil.copytree(root, copy)
            names = expected(action, steps, case)
            wanted = [after if name == "after" else before for name in names]
            assert_works(copy, wanted, place)
            # A handle that was open all the time goes on by itself.
            for name in resident.branches.list():
                resident.mutate(ADD, {"s": "probe"}, branch=name)
            found = world_of(resident)
            for rows in found.values():
                del rows[("Person", "probe")]
            assert found in wanted, place
        shutil.rmtree(root)
        shutil.rmtree(copy)


@pytest.mark.parametrize("action", ["branch_create", "branch_delete"])
def test_the_interrupted_can_be_repeated(zygote: Zygote, tmp_path: Path, action: str) -> None:
    for side in ("before", "after"):
        for call in ("link", "branch", "branch_delete", "unlink"):
            root = tmp_path / f"{side}{call}"
            grow(root, action)
            zygote.run(action, root, call=call, number=0, side=side)
            with og.open(root, durability="none") as graph:
                if action == "branch_create" and not graph.branches.exists("new"):
                    graph.branches.create("new", from_="dev")
                if action == "branch_delete" and graph.branches.exists("dev"):
                    graph.branches.delete("dev")
                    graph.branches.create("dev")
                names = graph.branches.list()
                assert ("new" in names) or action == "branch_delete"
                for name in names:
                    graph.mutate(ADD, {"s": "probe"}, branch=name)
            assert not slots_of(root)


def kill_between_tables(zygote: Zygote, root: Path) -> None:
    """A writer on `dev` dies after one of its tables moved."""
    grow(root, "branch_drop")
    assert zygote.run("branch_drop", root, call="commit", number=0, side="after")["killed"]
    assert len(slots_of(root)) == 1


def test_the_slot_of_a_branch_that_is_gone_is_discarded_and_recorded(
    zygote: Zygote, tmp_path: Path
) -> None:
    """R-08: the reference is what makes a branch exist; without it its slot means nothing."""
    root = tmp_path / "graph"
    kill_between_tables(zygote, root)
    wanted = read(root)["main"]
    manifest = lance.dataset(str(root / "__manifest"))
    (name,) = [item for item in manifest.branches.list() if item.startswith("dev.")]
    manifest.branches.delete(name)
    for recovered in (["branch_gone"], []):
        with og.open(root, durability="none") as graph:
            assert [str(item) for item in graph.recovered] == recovered
            assert state_of(graph) == wanted
            records = graph.recoveries()
            assert [r.recovery_kind for r in records] == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]
            assert records[0].operation_id == OPERATION
            assert graph.branches.list() == ["main", "lazy"]
    with og.open(root, durability="none") as graph:
        graph.branches.create("dev")
        graph.mutate(ADD, {"s": "probe"}, branch="dev")
    assert not slots_of(root)


def test_a_branch_with_an_interrupted_write_can_be_deleted(zygote: Zygote, tmp_path: Path) -> None:
    root = tmp_path / "graph"
    grow(root, "branch_drop")
    with og.open(root, durability="none") as graph:
        assert zygote.run("branch_drop", root, call="commit", number=0, side="after")["killed"]
        graph.branches.delete("dev")
        assert graph.branches.list() == ["main", "lazy"]
    assert not slots_of(root)


def test_an_interrupted_write_on_one_branch_does_not_stop_another(
    zygote: Zygote, tmp_path: Path
) -> None:
    root = tmp_path / "graph"
    grow(root, "branch_drop")
    with og.open(root, durability="none") as graph:
        assert zygote.run("branch_drop", root, call="commit", number=0, side="after")["killed"]
        graph.mutate(ADD, {"s": "probe"})
        graph.mutate(ADD, {"s": "probe"}, branch="lazy")
        assert len(slots_of(root)) == 1
        graph.mutate(ADD, {"s": "probe"}, branch="dev")
        assert ("Person", "p0") in state_of(graph, branch="dev")
    assert not slots_of(root)
    assert_heads_are_published(root)


def test_a_half_made_branch_is_no_branch(tmp_path: Path) -> None:
    """Its folder without its reference: what a death inside the making leaves."""
    root = tmp_path / "graph"
    grow(root, "merge")
    with og.open(root, durability="none") as graph:
        made = graph.branches.create("half")
    (root / "__manifest" / "_refs" / "branches" / f"{made.id.incarnation}.json").unlink()
    with og.open(root, durability="none") as graph:
        assert not graph.branches.exists("half")
        graph.branches.create("half")
        graph.mutate(ADD, {"s": "probe"}, branch="half")
        graph.branches.delete("half")

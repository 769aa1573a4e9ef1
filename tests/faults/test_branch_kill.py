"""A process killed while it makes, first writes to, merges or deletes a branch breaks nothing.

The matrix is generated, and drawn from, as in `test_kill`: every call that changes the disk, before
and after it.
"""

from __future__ import annotations

import os

import pytest

import omnigraph as og
from omnigraph.commits import RecoveryKind
from omnigraph.ops import cleanup
from omnigraph.store import locate
from tests.faults.matrix import drawn, full_only
from tests.faults.rig import ADD, DROP, MEET, NAME, SCHEMA, State, new_graph, slots_of, state_of
from tests.faults.victim import OPERATION, Zygote
from tests.places import AnyPath, copy_tree, dataset, files_below, remove_tree

FULL = os.environ.get("OMNIGRAPH_FAULTS", "") == "full"
WRITES = ("branch_insert", "branch_drop", "merge", "merge_checked", "merge_back")
CONTROL = ("branch_create", "branch_delete", "lazy_delete")
DECIDES = {
    "branch_create": "branch",
    "branch_delete": "branch_delete",
    "lazy_delete": "line_delete",
}
DRAWN_ON_S3 = ("merge", "branch_create")
CASES_DRAWN = {"local": 6, "s3": 1}
Case = tuple[str, int, str]
World = dict[str, State]


def grow(root: AnyPath, action: str) -> None:
    """Make the graph an action starts from."""
    new_graph(root)
    with og.open(root, durability="none") as graph:
        graph.branches.create("dev")
        graph.branches.create("lazy")
        if action in ("merge", "merge_checked", *CONTROL):
            graph.mutate(ADD, {"s": "mine"}, branch="dev")
            graph.mutate(DROP, {"s": "p0"}, branch="dev")
            graph.mutate(MEET, {"i": "k9", "a": "p1", "b": "mine"}, branch="dev")
        if action in ("merge", "merge_checked", "merge_back"):
            graph.mutate(NAME, {"s": "p5", "n": "changed"})
            graph.mutate(MEET, {"i": "k8", "a": "p2", "b": "p3"})


def world_of(graph: og.Graph) -> World:
    return {name: state_of(graph, branch=name) for name in graph.branches.list()}


def read(root: AnyPath) -> World:
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


def assert_heads_are_published(root: AnyPath) -> None:
    """Every line of versions a branch owns stands at its published version."""
    with og.open(root, mode="ro") as graph:
        for info in graph.branches.details():
            for key, pin in graph.snapshot(info.name).tables.items():
                if info.id.owns(pin.table_branch):
                    head = dataset(root / pin.path).version
                    assert head == pin.version, f"{info.name} {key}"


def assert_works(root: AnyPath, wanted: list[World], told: str) -> None:
    """Open twice, look, write to every branch, and repeat the interrupted operation."""
    with og.open(root, durability="none") as graph:
        found = world_of(graph)
        assert found in wanted, told
    assert not slots_of(root), told
    assert_heads_are_published(root)
    with og.open(root, durability="none") as graph:
        assert graph.maintenance.recovered == [], told
        assert world_of(graph) == found, told
        for name in graph.branches.list():
            graph.mutate(ADD, {"s": "probe"}, branch=name)
            assert set(state_of(graph, branch=name)) == {*found[name], ("Person", "probe")}, told
        lines = {n: [c.operation_id for c in graph.commits.list(n)] for n in graph.branches.list()}
        assert all(found.count(OPERATION) <= 1 for found in lines.values()), told
    assert not slots_of(root), told
    assert_heads_are_published(root)


@pytest.mark.parametrize(
    "action", [full_only(name, unless=name in DRAWN_ON_S3) for name in (*WRITES, *CONTROL)]
)
def test_a_killed_process_leaves_all_or_nothing(
    backend: str, zygote: Zygote, place: AnyPath, action: str
) -> None:
    pristine = place / "pristine"
    grow(pristine, action)
    before = read(pristine)
    whole = place / "whole"
    copy_tree(pristine, whole)
    with og.open(whole, durability="none") as settled:
        # A copy is pointed to its own files when its branches are first used.
        world_of(settled)
    answer = zygote.run(action, whole)["answer"]
    assert answer["error"] is None
    steps: dict[str, int] = answer["steps"]
    after = read(whole)
    assert after != before
    for case in drawn(cases(steps), CASES_DRAWN[backend]):
        root, copy = place / "root", place / "copy"
        copy_tree(pristine, root)
        names = expected(action, steps, case)
        wanted = [after if name == "after" else before for name in names]
        told = f"{action}: killed {case} of {steps}"
        with og.open(root, durability="none") as resident:
            world_of(resident)
            kill(zygote, action, root, case, told)
            copy_tree(root, copy)
            assert_works(copy, wanted, told)
            assert_resident_works(resident, wanted, told)
        remove_tree(root)
        remove_tree(copy)


def kill(zygote: Zygote, action: str, root: AnyPath, case: Case, told: str) -> None:
    call, number, side = case
    assert zygote.run(action, root, call=call, number=number, side=side)["killed"], told


def assert_resident_works(resident: og.Graph, wanted: list[World], told: str) -> None:
    """A handle that was open all the time goes on by itself."""
    for name in resident.branches.list():
        resident.mutate(ADD, {"s": "probe"}, branch=name)
    found = world_of(resident)
    for rows in found.values():
        del rows[("Person", "probe")]
    assert found in wanted, told


@pytest.mark.full_only
@pytest.mark.parametrize("action", ["branch_create", "branch_delete"])
def test_the_interrupted_can_be_repeated(zygote: Zygote, place: AnyPath, action: str) -> None:
    for side in ("before", "after"):
        for call in ("link", "branch", "branch_delete", "unlink"):
            root = place / f"{side}{call}"
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


def kill_between_tables(zygote: Zygote, root: AnyPath) -> None:
    """A writer on `dev` dies after one of its tables moved."""
    grow(root, "branch_drop")
    assert zygote.run("branch_drop", root, call="commit", number=0, side="after")["killed"]
    assert len(slots_of(root)) == 1


@pytest.mark.full_only
def test_the_slot_of_a_branch_that_is_gone_is_discarded_and_recorded(
    zygote: Zygote, place: AnyPath
) -> None:
    """R-08: the reference is what makes a branch exist; without it its slot means nothing."""
    root = place / "graph"
    kill_between_tables(zygote, root)
    wanted = read(root)["main"]
    manifest = dataset(root / "__manifest")
    (name,) = [item for item in manifest.branches.list() if item.startswith("dev.")]
    manifest.branches.delete(name)
    for recovered in (["branch_gone"], []):
        with og.open(root, durability="none") as graph:
            assert [str(item) for item in graph.maintenance.recovered] == recovered
            assert state_of(graph) == wanted
            records = graph.maintenance.recoveries()
            assert [r.recovery_kind for r in records] == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]
            assert records[0].operation_id == OPERATION
            assert graph.branches.list() == ["main", "lazy"]
    with og.open(root, durability="none") as graph:
        graph.branches.create("dev")
        graph.mutate(ADD, {"s": "probe"}, branch="dev")
    assert not slots_of(root)


@pytest.mark.full_only
def test_a_branch_with_an_interrupted_write_can_be_deleted(zygote: Zygote, place: AnyPath) -> None:
    root = place / "graph"
    grow(root, "branch_drop")
    with og.open(root, durability="none") as graph:
        assert zygote.run("branch_drop", root, call="commit", number=0, side="after")["killed"]
        graph.branches.delete("dev")
        assert graph.branches.list() == ["main", "lazy"]
    assert not slots_of(root)


@pytest.mark.full_only
def test_an_interrupted_write_on_one_branch_does_not_stop_another(
    zygote: Zygote, place: AnyPath
) -> None:
    root = place / "graph"
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


@pytest.mark.full_only
def test_a_half_made_branch_is_no_branch(place: AnyPath) -> None:
    """Its folder without its reference: what a death inside the making leaves."""
    root = place / "graph"
    grow(root, "merge")
    with og.open(root, durability="none") as graph:
        made = graph.branches.create("half")
    reference = f"__manifest/_refs/branches/{made.id.uid}.json"
    assert (root / reference).exists()
    locate(root).files.delete(f"{root}/{reference}")
    with og.open(root, durability="none") as graph:
        assert not graph.branches.exists("half")
        graph.branches.create("half")
        graph.mutate(ADD, {"s": "probe"}, branch="half")
        graph.branches.delete("half")


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_merge_killed_while_it_is_checked_leaves_no_branch(
    zygote: Zygote, place: AnyPath, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """What it leaves is space: in nobody's way, and gone with the next cleanup once it is old."""
    root = place / "graph"
    grow(root, "merge_checked")
    before = read(root)
    if side == "before":
        assert zygote.run("merge_checked", root, call="commit", number=0, side="after")["killed"]
    else:
        assert zygote.run("merge_checked", root, point="fork.post_trial", number=1)["killed"]
    left = {name for name, _ in files_below(root) if "merge-check" in name}
    assert left
    assert not slots_of(root)
    with og.open(root, durability="none") as graph:
        assert graph.maintenance.recovered == []
        assert graph.branches.list() == ["main", "dev", "lazy"]
        assert world_of(graph) == before
        for name in ("dev", "lazy"):
            graph.branches.delete(name)
        graph.schema.apply(SCHEMA.replace("level: I64?", "level: I64?  age: I32?"))
        graph.cleanup(keep=1, grace=0, dry_run=False)
        assert left <= {name for name, _ in files_below(root)}, "a check may be under way"
        monkeypatch.setattr(cleanup, "ORPHAN_AGE_S", -60.0)
        graph.cleanup(keep=1, grace=0, dry_run=False)
        assert not any("merge-check" in name for name, _ in files_below(root))
        assert ("Person", "p0") in state_of(graph)

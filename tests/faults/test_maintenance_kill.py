"""Maintenance that dies at any call that changes the disk changes no row and stops nobody.

Cases are generated as in `test_kill`, from the calls each action makes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from omnigraph.ops import cleanup
from omnigraph.store import Tables
from omnigraph.store.upkeep.reclaim import Reclaimed
from tests.faults.matrix import drawn, full_only
from tests.faults.rig import ADD, MEET, State, new_graph, slots_of, state_of
from tests.faults.victim import Zygote
from tests.places import AnyPath, copy_tree, remove_tree

CASES_DRAWN = {"local": 3, "s3": 1}


@pytest.fixture(scope="module")
def pristine(folder: AnyPath) -> AnyPath:
    """A graph with something to do for each kind of maintenance."""
    root = folder / "maintained"
    new_graph(root)
    with og.open(root, durability="none") as graph:
        graph.schema.apply(graph.schema_source + "\nnode Short { name: String @key }\n")
        graph.load([{"type": "Short", "data": {"name": "s"}}], mode="append")
        graph.schema.apply(graph.schema_source.replace("node Short { name: String @key }", ""))
        graph.branches.create("merged")
        graph.mutate(ADD, {"s": "mine"}, branch="merged")
        graph.branches.merge("merged", delete_source=True)
        for number in range(12):
            graph.mutate(ADD, {"s": f"q{number}"})
            graph.mutate(MEET, {"i": f"m{number}", "a": "p0", "b": f"q{number}"})
        graph.branches.create("dev")
        graph.mutate(ADD, {"s": "theirs"}, branch="dev")
    return root


def world(root: AnyPath) -> dict[str, State]:
    with og.open(root, mode="ro") as graph:
        return {name: state_of(graph, branch=name) for name in graph.branches.list()}


def copied(pristine: AnyPath, root: AnyPath) -> AnyPath:
    """Copy a graph, and point its branches to the copy's own files."""
    copy_tree(pristine, root)
    with og.open(root, durability="none") as graph:
        state_of(graph, branch="dev")
    return root


def maintain(root: AnyPath, action: str) -> None:
    with og.open(root, durability="none") as graph:
        match action:
            case "index":
                graph.maintenance.ensure_indices()
            case "optimize":
                graph.optimize()
            case "cleanup":
                report = graph.cleanup(keep=2, grace=0, dry_run=False)
                assert [item.error for item in report.tables if item.error] == []
                assert graph._engine.lines.directory.retired() == []


@pytest.mark.parametrize("action", [full_only("index"), "optimize", full_only("cleanup")])
def test_killed_maintenance_changes_nothing_and_can_be_repeated(
    backend: str, zygote: Zygote, pristine: AnyPath, place: AnyPath, action: str
) -> None:
    before = world(pristine)
    whole = copied(pristine, place / "whole")
    answer = zygote.run(action, whole)["answer"]
    assert answer["error"] is None
    steps: dict[str, int] = answer["steps"]
    if action == "cleanup":
        assert {"remove_versions", "remove_forks", "erase_table", "line_delete"} <= set(steps)
    else:
        assert steps["publish"] == (2 if action == "optimize" else 1)
    assert world(whole) == before
    cases = [
        (call, number, side)
        for call, count in sorted(steps.items())
        for number in range(count)
        for side in ("before", "after")
    ]
    for call, number, side in drawn(cases, CASES_DRAWN[backend]):
        root = copied(pristine, place / "root")
        told = f"{action}: killed {side} {call} {number} of {steps}"
        assert zygote.run(action, root, call=call, number=number, side=side)["killed"], told
        assert world(root) == before, told
        with og.open(root, durability="none") as graph:
            for name in graph.branches.list():
                graph.mutate(ADD, {"s": "probe"}, branch=name)
        maintain(root, action)
        found = world(root)
        for rows in found.values():
            assert rows.pop(("Person", "probe")), told
        assert found == before, told
        assert not slots_of(root), told
        remove_tree(root)


class Killed(BaseException):
    """Stands for the end of a process."""


def data_files_of(tables: Tables, path: str, version: int) -> set[str]:
    fragments = tables.open(path, version).dataset.get_fragments()
    return {file.path for fragment in fragments for file in fragment.data_files()}


def removed_in_part(
    tables: Tables, path: str, versions: Sequence[int], *, dry_run: bool
) -> Reclaimed:
    """Remove the data files of versions, and die before their own files go."""
    assert not dry_run
    kept = data_files_of(tables, path, tables.open_latest(path).version)
    gone = {file for version in versions for file in data_files_of(tables, path, version)} - kept
    if not gone:
        return Reclaimed()
    for file in gone:
        tables.files.delete(f"{tables.folder(path)}/data/{file}")
    raise Killed


def test_a_cleanup_killed_between_files_leaves_no_damage(
    place: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who missed a file of a version that was given up is told so, and a write looks again."""
    root = place / "graph"
    new_graph(root)
    people = "query q() { match { $p: Person } return { $p.slug, $p.name } }"
    with og.open(root, durability="none") as early, og.open(root, durability="none") as graph:
        graph.mutate(ADD, {"s": "one"})
        old = graph.commits.head().graph_commit_id

        def others() -> None:
            failpoints.disarm()
            for number in range(3):
                graph.mutate(ADD, {"s": f"q{number}"})
            graph.optimize()
            with monkeypatch.context() as patch:
                patch.setattr(cleanup, "remove_versions", removed_in_part)
                with pytest.raises(Killed):
                    graph.cleanup(keep=1, grace=0, dry_run=False)

        with failpoints.armed(Failpoint.WRITE_POST_CAPTURE, others):
            early.mutate(ADD, {"s": "one"})
        with og.open(root, mode="ro") as reader, pytest.raises(og.VersionReclaimedError):
            reader.query(people, commit=old)
        graph.cleanup(keep=1, grace=0, dry_run=False)
        found = {row["p.slug"] for row in graph.query(people)}
        assert {"one", "q0", "q1", "q2"} <= found

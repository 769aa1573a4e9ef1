"""Every writer, every boundary it passes, and what must be left when it stops there.

The cells are generated: each writer is run once while its boundaries are recorded. What must come
of a stopped write is foreseen from the disk, read with Lance alone.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from tests.faults.rig import (
    ADD,
    SCHEMA,
    State,
    assert_sound,
    intent_of,
    new_graph,
    recoveries_of,
    slots_of,
    state_of,
)
from tests.faults.victim import FOLD_AT, OPERATION, write
from tests.places import AnyPath, copy_tree, dataset, remove_tree

FULL = os.environ.get("OMNIGRAPH_FAULTS", "") == "full"
SEED = os.environ.get("OMNIGRAPH_SEED") or time.strftime("%Y%m%d%H%M%S")
WRITES = ("insert", "update", "delete", "load", "overwrite", "fold")
GROUP = "group"
"""Several writes in one publish: all of them happen, or none."""
# What recovery meets: a write to finish, one to undo, and a table that moved without a slot.
BROKEN = ("finish", "undo", "sweep")

# Boundaries of branches, schema changes, cleanups and clusters have tests of their own.
ELSEWHERE = {
    point
    for point in Failpoint
    if str(point).startswith(("branch_", "fork.", "cleanup.", "schema.", "cluster."))
}

BEFORE, AFTER = "before", "after"
T = TypeVar("T")
UNTOUCHED = {
    Failpoint.WRITE_POST_CAPTURE,
    Failpoint.WRITE_POST_VALIDATE_PRE_STAGE,
    Failpoint.WRITE_POST_STAGE,
    Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT,
    # The table behind this boundary is not committed, so the write cannot be complete.
    Failpoint.PUBLISH_PRE_TABLE_COMMIT,
}
RECOVERIES = tuple(point for point in Failpoint if point.startswith("recovery."))


@dataclass(frozen=True, slots=True)
class Cell:
    """One place to stop: the n-th time a writer passes a boundary."""

    writer: str
    point: Failpoint
    hit: int

    def __str__(self) -> str:
        return f"{self.writer} stopped at {self.point}, time {self.hit} (OMNIGRAPH_SEED={SEED})"


def chance() -> random.Random:
    """Return the dice of this run."""
    return random.Random(SEED)  # noqa: S311 - a test, not a secret


def drawn(cases: list[T], number: int) -> list[T]:
    """Return all cases, or the draw of this run."""
    print(f"OMNIGRAPH_SEED={SEED}")  # noqa: T201 - to repeat the draw
    return cases if FULL else chance().sample(cases, min(number, len(cases)))


def full_only(*values: object, unless: bool = False) -> Any:
    """Return a parameter that is left out on S3 but in full runs."""
    return pytest.param(*values, marks=() if unless else pytest.mark.full_only)


class Stage:
    """Graphs to stop writers on, made once and copied for every cell."""

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder
        self._made: dict[str, AnyPath] = {}
        self._count = 0
        self._cells: dict[str, list[Cell]] = {}
        self._ends: dict[str, dict[str, State]] = {}
        self._healed: dict[str, tuple[State, list[str]]] = {}

    def fresh(self, writer: str) -> AnyPath:
        """Return a new copy of the graph a writer starts from."""
        self._count += 1
        root = self.folder / f"cell{self._count}"
        if writer != "init":
            copy_tree(self._pristine(writer), root)
        return root

    def _pristine(self, writer: str) -> AnyPath:
        name = writer if writer in ("fold", *BROKEN) else "plain"
        if name not in self._made:
            root = self.folder / name
            new_graph(root)
            with og.open(root, durability="none") as graph:
                if name == "fold":
                    for number in range(FOLD_AT - 1):
                        graph.mutate(ADD, {"s": f"tail{number}"})
                if name in BROKEN:
                    break_write(graph, name)
            self._made[name] = root
        return self._made[name]

    def ends(self, writer: str) -> dict[str, State]:
        """Return the state before a write and after it."""
        if writer not in self._ends:
            root = self.fresh(writer)
            before = final_state(root)
            with og.open(root, durability="none") as graph:
                write(graph, writer)
                self._ends[writer] = {BEFORE: before, AFTER: state_of(graph)}
            remove_tree(root)
        return self._ends[writer]

    def healed(self, kind: str) -> tuple[State, list[str]]:
        """Return the state an undisturbed recovery leaves, and what it records."""
        if kind not in self._healed:
            root = self.fresh(kind)
            records = foresee(root).records
            og.open(root, durability="none").close()
            check_record(root, records, kind)
            self._healed[kind] = (final_state(root), records)
            remove_tree(root)
        return self._healed[kind]

    def cells(self, writer: str) -> list[Cell]:
        """List every boundary a writer passes when nothing stops it."""
        if writer not in self._cells:
            self._cells[writer] = self._run(writer)
        return self._cells[writer]

    def _run(self, writer: str) -> list[Cell]:
        root = self.fresh(writer)
        with failpoints.recorded() as passed:
            if writer == "init" or writer in BROKEN:
                open_or_init(writer, root)
            else:
                with og.open(root, durability="none") as graph:
                    passed.clear()
                    write(graph, writer)
        remove_tree(root)
        seen: Counter[Failpoint] = Counter()
        found: list[Cell] = []
        for point in passed:
            seen[point] += 1
            found.append(Cell(writer, point, seen[point]))
        if writer == "fold":
            # The write before the fold is "insert".
            ends = [cell.point for cell in found].index(Failpoint.PUBLISH_PRE_SLOT_DELETE)
            found = found[ends + 1 :]
        return found


def open_or_init(writer: str, root: AnyPath) -> None:
    """Run a writer that is no write: creation, or the recovery in a read-write open."""
    if writer == "init":
        og.init(root, SCHEMA, durability="none").close()
    else:
        og.open(root, durability="none").close()


def break_write(graph: og.Graph, kind: str) -> None:
    """Interrupt a write so that recovery has to finish it, undo it, or sweep up after it."""
    victim = graph.as_actor("victim")
    if kind == "finish":
        stop = failpoints.armed(Failpoint.PUBLISH_POST_EFFECTS, failpoints.error)
    elif kind == "undo":
        stop = failpoints.armed(Failpoint.PUBLISH_PRE_TABLE_COMMIT, failpoints.error)
    else:
        stop = failpoints.armed(Failpoint.PUBLISH_POST_TABLE_COMMIT, _conflict)
    try:
        with stop:
            write(victim, "delete" if kind == "undo" else "insert")
    except (og.OutcomeUnknownError, InjectedConflict):
        return
    raise AssertionError("the write was not interrupted")


class InjectedConflict(og.ConflictError):
    """A table that keeps moving, as far as a write can tell."""


def _conflict() -> None:
    raise InjectedConflict("an injected conflict")


# ---- what must be left --------------------------------------------------------------------


def demanded(cell: Cell, tables: int, *, killed: bool) -> set[str]:
    """Say which outcomes a boundary allows a plain write."""
    if cell.writer == "fold":
        return {AFTER}
    if cell.point in UNTOUCHED:
        return {BEFORE}
    if killed and cell.point is Failpoint.PUBLISH_POST_TABLE_COMMIT and cell.hit < tables:
        # Tables are committed side by side: the others may have landed when the process died.
        return {BEFORE, AFTER}
    return {AFTER}


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What recovery must do with a graph as it lies there."""

    visible: bool
    records: list[str]


def foresee(root: AnyPath) -> Foreseen:
    """Judge an interrupted write from the disk, as the commit protocol's table says."""
    commits, pins = _manifest(root)
    head = max(commits.values(), key=lambda commit: int(commit["seq"]))["object_id"]
    visible = any(c["operation_id"] == OPERATION for c in commits.values())
    records = [row["recovery_kind"] for row in recoveries_of(root)]
    noted = {row["graph_commit_id"] for row in recoveries_of(root)}
    behind = {str(pin["location"]) for pin in pins.values() if _head(root, pin) > _version(pin)}
    for name in slots_of(root):
        intent = intent_of(root, name)
        landed = commits.get(intent["commit_id"]) or commits.get(intent["rollback_id"])
        members = [item["commit_id"] for item in intent.get("members", [intent])]
        behind -= {table["path"] for table in intent["tables"]}
        if landed is not None:
            made = members if landed["object_id"] == intent["commit_id"] else [landed["object_id"]]
            if landed["actor_id"] == "omnigraph:recovery":
                records += [_kind(landed, intent) for name in made if name not in noted]
        elif intent["head_commit_id"] == head and intent["tables"]:
            next_is_ours = [_next_is_ours(root, table) for table in intent["tables"]]
            moved = [_moved(root, table) for table in intent["tables"]]
            if all(next_is_ours):
                records += ["RolledForward"] * len(members)
                visible = visible or intent["operation_id"] == OPERATION
            elif any(moved):
                records.append("RolledBack")
    return Foreseen(visible, records + (["RolledBack"] if behind else []))


def _manifest(root: AnyPath) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    commits: dict[str, dict[str, Any]] = {}
    pins: dict[str, dict[str, Any]] = {}
    for row in dataset(root / "__manifest").to_table().to_pylist():
        known = {**row, **json.loads(row["metadata"])}
        if row["object_type"] == "graph_commit":
            commits[row["object_id"]] = known
        elif row["object_type"] == "table_version":
            other = pins.get(row["table_key"])
            if other is None or int(other["seq"]) < int(known["seq"]):
                pins[row["table_key"]] = known
    return commits, pins


def _kind(commit: dict[str, Any], intent: dict[str, Any]) -> str:
    forward = commit["object_id"] == intent["commit_id"] and intent["kind"] != "recovery"
    return "RolledForward" if forward else "RolledBack"


def _version(pin: dict[str, Any]) -> int:
    return int(pin["table_version"])


def _head(root: AnyPath, pin: dict[str, Any]) -> int:
    return int(dataset(root / pin["location"]).version)


def _moved(root: AnyPath, table: dict[str, Any]) -> bool:
    head = int(dataset(root / table["path"]).version)
    return head > int(table["expected_version"])


def _next_is_ours(root: AnyPath, table: dict[str, Any]) -> bool:
    if not _moved(root, table):
        return False
    following = int(table["expected_version"]) + 1
    found = dataset(root / table["path"], version=following)
    try:
        made: Any = found.read_transaction(following)
    except TypeError:
        # The library cannot describe every compaction; none of them is a staged write.
        return False
    return str(made.uuid) == str(table["transaction_uuid"])


# ---- checks -------------------------------------------------------------------------------


def check_record(root: AnyPath, records: list[str], place: str) -> None:
    """The graph is sound, and what recovery did is on record, no more and no less."""
    found = assert_sound(root)
    assert [row["recovery_kind"] for row in found.recoveries] == records, place
    assert len(found.by_operation(OPERATION)) <= 1, place


def check_reopened(root: AnyPath, wanted: list[State], records: list[str], place: str) -> None:
    """Recover by opening, twice, then write; then repeat the interrupted operation."""
    with og.open(root, durability="none") as graph:
        found = state_of(graph)
        assert found in wanted, place
    check_settled(root, found, records, place)
    with og.open(root, durability="none") as graph:
        graph.mutate(ADD, {"s": "new"}, operation_id=OPERATION)
        made = [commit for commit in graph.commits.list() if commit.operation_id == OPERATION]
    assert len(made) == 1, place


def check_settled(root: AnyPath, state: State, records: list[str], place: str) -> None:
    """Nothing is left to recover, and the graph can be written and is sound."""
    with og.open(root, durability="none") as graph:
        assert graph.maintenance.recovered == [], place
        assert state_of(graph) == state, place
        graph.mutate(ADD, {"s": "after all"})
        assert set(state_of(graph)) == {*state, ("Person", "after all")}, place
    check_record(root, records, place)


def final_state(root: AnyPath) -> State:
    """Return what a reader sees."""
    with og.open(root, mode="ro") as graph:
        return state_of(graph)


def numbered(cells: list[Cell]) -> Iterator[tuple[Cell, int]]:
    """Yield cells with the number of tables their writer moves."""
    tables = sum(cell.point is Failpoint.PUBLISH_POST_TABLE_COMMIT for cell in cells)
    for cell in cells:
        yield cell, tables

"""Every row of the merge's truth table, and every pair of operations, on nodes and on edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph
from tests.integration.merging import (
    SCHEMA,
    Conflicts,
    drop,
    link,
    listed,
    pins,
    put,
    state,
    unlink,
)

WAYS = [("python", "dev", "main"), ("python", "main", "dev"), ("command line", "dev", "main")]
DIRECTIONS = pytest.mark.parametrize(("merge", "source", "target"), WAYS, indirect=["merge"])
KINDS = pytest.mark.parametrize("kind", ["node", "edge"])


@dataclass(frozen=True)
class Answer:
    """What a merge said, whichever way it was asked for."""

    outcome: str | None = None
    commit: dict[str, Any] | None = None
    conflicts: Conflicts | None = None


Merge = Callable[[og.Graph, str, str], Answer]


def _in_python(graph: og.Graph, source: str, target: str) -> Answer:
    try:
        done = graph.branches.merge(source, target)
    except og.MergeConflictError as error:
        return Answer(conflicts=listed(error.conflicts))
    return Answer(done.outcome, None if done.commit is None else done.commit.to_json())


@pytest.fixture
def merge(request: pytest.FixtureRequest) -> Merge:
    if request.param == "python":
        return _in_python
    cli: Cli = request.getfixturevalue("cli")

    def on_the_command_line(graph: og.Graph, source: str, target: str) -> Answer:
        shown = cli("branch", "merge", source, graph.uri, "--into", target, "--json")
        if shown.code == 5:
            assert shown.json["type"] == "merge_conflict"
            return Answer(conflicts=listed(shown.json["merge_conflicts"]))
        assert shown.code == 0
        assert (shown.json["source"], shown.json["target"]) == (source, target)
        return Answer(shown.json["outcome"], shown.json["commit"])

    return on_the_command_line


@dataclass(frozen=True)
class Row:
    """One row of the truth table; None is an absent entity, numbers are its value."""

    base: int | None
    source: int | None
    target: int | None
    result: int | str | None

    def __str__(self) -> str:
        return f"{self.base}-{self.source}-{self.target}"


TRUTH = [
    Row(None, None, None, None),
    Row(None, 2, None, 2),
    Row(None, None, 3, 3),
    Row(None, 2, 2, 2),
    Row(None, 2, 3, "divergent_insert"),
    Row(1, 1, 1, 1),
    Row(1, 2, 1, 2),
    Row(1, 1, 3, 3),
    Row(1, 2, 2, 2),
    Row(1, 2, 3, "divergent_update"),
    Row(1, None, 1, None),
    Row(1, 1, None, None),
    Row(1, None, None, None),
    Row(1, None, 3, "delete_vs_update"),
    Row(1, 2, None, "delete_vs_update"),
]


def _set(graph: og.Graph, branch: str, kind: str, *, before: int | None, after: int | None) -> None:
    if before == after:
        return
    if kind == "node":
        drop(graph, branch, "x") if after is None else put(graph, branch, x=after)
    elif after is None:
        unlink(graph, branch, "x")
    else:
        link(graph, branch, "x", "a", "b", after)


def _value(graph: og.Graph, branch: str, kind: str) -> int | None:
    name = "Item" if kind == "node" else "Link"
    for row in graph.export(branch=branch, types=[name]):  # type: ignore[union-attr]  # no dest
        data = row["data"]
        assert isinstance(data, dict)
        if data["id"] == "x":
            assert data["v"] is None or isinstance(data["v"], int)
            return data["v"]
    return None


@KINDS
@DIRECTIONS
@pytest.mark.parametrize("row", TRUTH, ids=str)
def test_a_row_of_the_truth_table(
    new_graph: NewGraph, merge: Merge, row: Row, kind: str, source: str, target: str
) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=0, b=0)
    _set(graph, "main", kind, before=None, after=row.base)
    graph.branches.create("dev")
    # Beside the row, each side adds one of its own: the histories part in every case.
    put(graph, source, only_source=7)
    put(graph, target, only_target=8)
    _set(graph, source, kind, before=row.base, after=row.source)
    _set(graph, target, kind, before=row.base, after=row.target)
    before, versions = state(graph, target), pins(graph, target)
    theirs, ours = graph.commits.head(source), graph.commits.head(target)
    if isinstance(row.result, str):
        key = "node:Item" if kind == "node" else "edge:Link"
        for _repeat in range(2):
            assert merge(graph, source, target) == Answer(conflicts=[(key, "x", row.result)])
        assert state(graph, target) == before
        assert pins(graph, target) == versions
        assert graph.commits.head(target) == ours
        return
    other = state(graph, source)
    done = merge(graph, source, target)
    assert done.outcome == "merged"
    assert done.commit is not None
    assert done.commit["parent_commit_id"] == ours.graph_commit_id
    assert done.commit["merged_parent_commit_id"] == theirs.graph_commit_id
    assert _value(graph, target, kind) == row.result
    found = state(graph, target)
    assert ("Item", "only_source") in found
    assert ("Item", "only_target") in found
    assert state(graph, source) == other
    assert merge(graph, source, target) == Answer("already_up_to_date")
    assert graph.commits.head(target).to_json() == done.commit
    assert merge(graph, target, source).outcome == "fast_forward"
    assert state(graph, source) == found


# ---- pairs of operations ------------------------------------------------------------------

Do = Callable[[og.Graph, str, str], None]


def _noop(graph: og.Graph, branch: str, side: str) -> None:
    pass


def _add_node(graph: og.Graph, branch: str, side: str) -> None:
    put(graph, branch, fresh=10 if side == "source" else 20)


def _del_node(graph: og.Graph, branch: str, side: str) -> None:
    drop(graph, branch, "a")


def _add_edge(graph: og.Graph, branch: str, side: str) -> None:
    # Without an id of its own, as people write them: each side's edge is another one.
    text = "query q($f: String, $t: String) { insert Link { from: $f, to: $t } }"
    graph.mutate(text, {"f": "a", "t": "b"}, branch=branch)


def _del_edge(graph: og.Graph, branch: str, side: str) -> None:
    unlink(graph, branch, "bc")


def _set_prop(graph: og.Graph, branch: str, side: str) -> None:
    text = "query q($v: I32) { update Item set { v: $v } where slug = 'a' }".replace("'", '"')
    graph.mutate(text, {"v": 30 if side == "source" else 40}, branch=branch)


def _net_zero(graph: og.Graph, branch: str, side: str) -> None:
    put(graph, branch, brief=1)
    drop(graph, branch, "brief")


OPERATIONS: dict[str, Do] = {
    "noop": _noop,
    "addNode": _add_node,
    "delNode": _del_node,
    "addEdge": _add_edge,
    "delEdge": _del_edge,
    "setProp": _set_prop,
    "netZero": _net_zero,
}
CONFLICTS: dict[tuple[str, str], tuple[str, str | None, str]] = {
    ("addNode", "addNode"): ("node:Item", "fresh", "divergent_insert"),
    ("delNode", "addEdge"): ("edge:Link", None, "orphan_edge"),
    ("delNode", "setProp"): ("node:Item", "a", "delete_vs_update"),
    ("addEdge", "delNode"): ("edge:Link", None, "orphan_edge"),
    ("setProp", "delNode"): ("node:Item", "a", "delete_vs_update"),
    ("setProp", "setProp"): ("node:Item", "a", "divergent_update"),
}
UNSUPPORTED = ("dropProp", "addLabel", "removeLabel")
"""Operations graphs elsewhere have. One that the language gains must take its place above."""


def _expected_outcome(ours: str, theirs: str) -> str:
    if theirs == "noop":
        return "already_up_to_date"
    if (theirs, ours) in CONFLICTS:
        return "conflicts"
    return "fast_forward" if ours == "noop" else "merged"


def _expected_state(
    graph: og.Graph, base: dict[tuple[str, str], str], source: str, target: str
) -> dict[tuple[str, str], str]:
    """Return the base with both sides' changes, which do not meet."""
    found = dict(base)
    for branch in (source, target):
        side = state(graph, branch)
        for key in base.keys() - side.keys():
            found.pop(key, None)
        found |= {key: row for key, row in side.items() if base.get(key) != row}
    return found


@DIRECTIONS
@pytest.mark.parametrize("theirs", OPERATIONS)
@pytest.mark.parametrize("ours", OPERATIONS)
def test_a_pair_of_operations(
    new_graph: NewGraph, merge: Merge, theirs: str, ours: str, source: str, target: str
) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=0, b=0, c=0)
    link(graph, "main", "bc", "b", "c")
    base = state(graph)
    graph.branches.create("dev")
    before_links = {key for key in base if key[0] == "Link"}
    OPERATIONS[theirs](graph, source, "source")
    OPERATIONS[ours](graph, target, "target")
    before, versions, head = state(graph, target), pins(graph, target), graph.commits.head(target)
    wanted = _expected_state(graph, base, source, target)
    plan = graph.branches.merge_plan(source, target)
    assert plan.outcome == _expected_outcome(ours, theirs)
    if (theirs, ours) in CONFLICTS:
        key, entity_id, kind = CONFLICTS[(theirs, ours)]
        if entity_id is None:
            added = {**state(graph, source), **before}.keys() - before_links
            entity_id = next(name for type_name, name in added if type_name == "Link")
        exact: Conflicts = [(key, entity_id, kind)]
        assert listed(plan.conflicts) == exact
        assert merge(graph, source, target) == Answer(conflicts=exact)
        assert (state(graph, target), pins(graph, target)) == (before, versions)
        assert graph.commits.head(target) == head
        return
    assert plan.is_clean
    theirs_head = graph.commits.head(source).graph_commit_id
    done = merge(graph, source, target)
    assert done.outcome == plan.outcome
    assert state(graph, target) == wanted
    if theirs == "noop":
        assert done.commit is None
        assert graph.commits.head(target) == head
    else:
        assert done.commit is not None
        assert done.commit["parent_commit_id"] == head.graph_commit_id
        assert done.commit["merged_parent_commit_id"] == theirs_head
    if theirs in ("noop", "netZero"):
        assert pins(graph, target) == versions
    assert merge(graph, source, target) == Answer("already_up_to_date")


@pytest.mark.parametrize("operation", UNSUPPORTED)
def test_what_the_language_lacks_has_no_cell(operation: str, new_graph: NewGraph) -> None:
    words = {"dropProp": "drop Item.v", "addLabel": "label Item", "removeLabel": "unlabel Item"}
    graph = new_graph(SCHEMA)
    with pytest.raises(og.CompileError):
        graph.mutate(f"query q() {{ {words[operation]} }}")

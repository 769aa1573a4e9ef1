"""Values of every type survive a merge exactly, and small differences are seen."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

import omnigraph as og
from omnigraph.ops import compact_tail as fold
from omnigraph.store.tables import compaction as maintenance
from omnigraph.store.tables import delta
from tests.integration.helpers import NewGraph
from tests.integration.merging import listed, pins, state

TYPES: dict[str, tuple[str, list[Any]]] = {
    "text": ("String?", [None, "", " ", "null", "a, b"]),
    "texts": ("[String]?", [None, [], [""], ["a, b"], ["a", "b"]]),
    "whole": ("I64?", [None, 0, -1, 2**53 + 1]),
    "float": ("F64?", [None, 0.0, -0.0, 1e-300]),
    "single": ("F32?", [None, 0.0, -0.0, 0.5]),
    "floats": ("[F64]?", [None, [], [0.0], [-0.0]]),
    "flag": ("Bool?", [None, False, True]),
    "day": ("Date?", [None, "1970-01-01", "1969-12-31", "2024-02-29"]),
    "days": ("[Date]?", [None, [], ["1970-01-01"], ["2024-02-29"]]),
    "moment": ("DateTime?", [None, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.001Z"]),
    "vector": ("Vector(2)?", [None, [0.0, 0.0], [0.0, -0.0], [1.0, 2.0]]),
    "blob": ("Blob?", [None, "base64:", "base64:AA==", "base64:AAA="]),
    "word": ("enum(red, blue)?", [None, "red", "blue"]),
}


def cell(graph: og.Graph, branch: str, value: Any) -> None:
    graph.load([{"type": "T", "data": {"k": "x", "p": value}}], mode="merge", branch=branch)


def kept(graph: og.Graph, branch: str) -> str:
    return json.dumps(json.loads(state(graph, branch)[("T", "x")])["data"]["p"])


@pytest.mark.parametrize("name", TYPES)
def test_every_pair_of_different_values_is_a_conflict(new_graph: NewGraph, name: str) -> None:
    """M-09: null is not empty, a list is not its text, zero has a sign."""
    declared, values = TYPES[name]
    graph = new_graph(f"node T {{ k: String @key p: {declared} }}")
    graph.load(
        [{"type": "T", "data": {"k": f"{i}-{j}"}} for i in range(5) for j in range(5)],
        mode="append",
    )
    graph.branches.create("dev")
    size = range(len(values))
    for branch, pick in (("dev", 0), ("main", 1)):
        rows = [
            {"type": "T", "data": {"k": f"{i}-{j}", "p": values[(i, j)[pick]]}}
            for i in size
            for j in size
        ]
        graph.load(rows, mode="merge", branch=branch)
    # Null is what the base holds: a side that leaves it null changed nothing.
    wanted = [
        ("node:T", f"{i}-{j}", "divergent_update")
        for i in size
        for j in size
        if i != j and values[i] is not None and values[j] is not None
    ]
    assert listed(graph.branches.merge_plan("dev").conflicts) == sorted(wanted)
    done = graph.branches.merge("dev", resolve="theirs")
    assert done.outcome == "merged"


@pytest.mark.parametrize("name", TYPES)
def test_each_value_is_taken_kept_and_decided_exactly(new_graph: NewGraph, name: str) -> None:
    declared, values = TYPES[name]
    graph = new_graph(f"node T {{ k: String @key p: {declared} }}")
    cell(graph, "main", values[1])
    for number, value in enumerate(values[2:]):
        dev = f"dev{number}"
        graph.branches.create(dev)
        cell(graph, dev, value)
        wanted = kept(graph, dev)
        before = kept(graph, "main")
        assert wanted != before, "the two values are one"
        graph.branches.merge(dev)
        assert kept(graph, "main") == wanted
        cell(graph, dev, values[1])
        cell(graph, "main", None)
        # Written down as people would, the value becomes the merged one.
        graph.branches.merge(dev, resolve={"T/x": {"p": value}})
        assert kept(graph, "main") == wanted


# ---- after folds --------------------------------------------------------------------------

WIDE = """\
node T { k: String @key p: I64? }
edge E: T -> T { p: I64? }
"""


@contextlib.contextmanager
def folding() -> Iterator[None]:
    """Fold and compact after every second write."""
    with (
        mock.patch.object(fold, "TAIL_FRAGMENTS", 2),
        mock.patch.object(maintenance, "TIER_FRAGMENTS_MIN", 2),
    ):
        yield


def nodes(graph: og.Graph, branch: str, start: int, stop: int, value: int) -> None:
    rows = [{"type": "T", "data": {"k": f"{i:04}", "p": value}} for i in range(start, stop)]
    graph.load(rows, mode="merge", branch=branch)


@pytest.mark.parametrize("take_max", [8_192, 4], ids=["take", "scan"])
@pytest.mark.parametrize("folded", ["main", "dev", "both"])
def test_compaction_on_either_side_changes_no_outcome(
    new_graph: NewGraph, folded: str, take_max: int
) -> None:
    graph = new_graph(WIDE)
    nodes(graph, "main", 0, 100, 0)
    graph.branches.create("dev")
    with mock.patch.object(delta, "_TAKE_ROWS_MAX", take_max):
        for branch, start in (("dev", 0), ("main", 30)):
            quiet = contextlib.nullcontext() if folded not in (branch, "both") else folding()
            with quiet:
                for step in range(4):
                    nodes(graph, branch, start + 10 * step, start + 10 * step + 5, 1)
                    text = "query q($k: String) { delete T where k = $k }"
                    graph.mutate(text, {"k": f"{start + 10 * step + 7:04}"}, branch=branch)
                nodes(graph, branch, 200 + start, 220 + start, 2)
        kinds = {b: {c.kind for c in graph.commits.list(b)} for b in ("main", "dev")}
        for branch in ("main", "dev"):
            assert ("optimize" in kinds[branch]) == (folded in (branch, "both"))
        theirs, ours = state(graph, "dev"), state(graph)
        plan = graph.branches.merge_plan("dev")
        assert plan.is_clean, listed(plan.conflicts)
        graph.branches.merge("dev")
    wanted = {key: row for key, row in ours.items() if key in theirs or int(key[1]) >= 200}
    wanted |= {
        key: row
        for key, row in theirs.items()
        if json.loads(row)["data"]["p"] in (1, 2) and (key in ours or int(key[1]) >= 200)
    }
    assert state(graph) == wanted


def test_unchanged_rows_keep_their_version_stamps(new_graph: NewGraph) -> None:
    """M-12: a merge writes changed rows only."""
    graph = new_graph(WIDE)
    nodes(graph, "main", 0, 10, 0)
    graph.branches.create("dev")
    nodes(graph, "dev", 3, 4, 1)
    nodes(graph, "main", 8, 9, 1)

    def stamps() -> dict[str, int]:
        path, version = pins(graph, "main")["node:T"]
        columns = ["id", "_row_last_updated_at_version"]
        rows = graph._engine.tables.open(path, version).scan(columns=columns)
        return {row["id"]: row[columns[1]] for row in rows.to_pylist()}

    before = stamps()
    graph.branches.merge("dev")
    after = stamps()
    assert [key for key in before if before[key] != after[key]] == ["0003"]


# ---- rules that hold after the rows are merged --------------------------------------------

RULES = """\
node P {
    k: String @key
    mail: String? @unique
    a: String?
    b: I32?
    @unique(a, b)
}

node Q { k: String @key }

edge Owns: P -> Q @card(0..2)
edge Needs: P -> Q @card(1..3)
"""


def load(graph: og.Graph, branch: str, *rows: dict[str, Any]) -> None:
    graph.load(rows, mode="merge", branch=branch)


def p(k: str, **data: object) -> dict[str, Any]:
    return {"type": "P", "data": {"k": k, **data}}


def e(name: str, key: str, source: str, target: str) -> dict[str, Any]:
    return {"edge": name, "from": source, "to": target, "data": {"id": key}}


@pytest.fixture
def ruled(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(RULES)
    people = [p("x"), p("y")]
    things = [{"type": "Q", "data": {"k": k}} for k in "abc"]
    needs = [e("Needs", f"n{k}{q}", k, q) for k in "xy" for q in "ab"]
    load(graph, "main", *people, *things, *needs)
    graph.branches.create("dev")
    return graph


def refused(graph: og.Graph) -> list[tuple[str, str | None, str]]:
    before = state(graph)
    with pytest.raises(og.MergeConflictError) as error:
        graph.branches.merge("dev", "main")
    assert state(graph) == before
    return listed(error.value.conflicts)


def test_a_unique_value_given_on_both_sides(ruled: og.Graph) -> None:
    load(ruled, "dev", p("x", mail="m"))
    load(ruled, "main", p("y", mail="m"))
    ((key, entity_id, kind),) = refused(ruled)
    assert (key, kind) == ("node:P", "unique_violation")
    assert entity_id in ("x", "y")


def test_a_unique_tuple_given_on_both_sides(ruled: og.Graph) -> None:
    load(ruled, "dev", p("x", a="1", b=1))
    load(ruled, "main", p("y", a="1", b=1))
    assert [item[2] for item in refused(ruled)] == ["unique_violation"]
    load(ruled, "main", p("y", a="1", b=11))
    assert ruled.branches.merge("dev").outcome == "merged"


def test_a_unique_value_moved_on_one_side_is_free(ruled: og.Graph) -> None:
    load(ruled, "main", p("x", mail="m"))
    ruled.branches.merge("main", "dev")
    load(ruled, "main", p("x"))
    load(ruled, "dev", p("y"))
    ruled.branches.merge("main", "dev")
    load(ruled, "dev", p("y", mail="m"))
    assert ruled.branches.merge("dev").outcome == "fast_forward"


def test_too_many_edges_together(ruled: og.Graph) -> None:
    load(ruled, "dev", e("Owns", "d1", "x", "a"), e("Owns", "d2", "x", "b"))
    load(ruled, "main", e("Owns", "m1", "x", "c"))
    assert refused(ruled) == [("edge:Owns", "x", "cardinality_violation")]


def test_too_few_edges_together(ruled: og.Graph) -> None:
    ruled.mutate('query q() { delete Needs where id = "nxa" }', branch="dev")
    ruled.mutate('query q() { delete Needs where id = "nxb" }')
    assert refused(ruled) == [("edge:Needs", "x", "cardinality_violation")]


def test_every_orphan_is_listed(ruled: og.Graph) -> None:
    ruled.mutate('query q() { delete P where k = "x" }', branch="dev")
    load(ruled, "main", e("Owns", "m1", "x", "a"), e("Owns", "m2", "x", "b"))
    assert refused(ruled) == [
        ("edge:Owns", "m1", "orphan_edge"),
        ("edge:Owns", "m2", "orphan_edge"),
    ]

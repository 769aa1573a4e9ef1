"""Random rules on random nodes: vectors of Arrow, parts of workers and a plain model agree."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog import NodeType
from omnigraph.lang import compile_schema
from omnigraph.resolve import Comparison, Key, Rules
from omnigraph.resolve.clusters import CLUSTER, MEMBER, clusters_of
from omnigraph.resolve.features import features
from omnigraph.resolve.finding import Matches, all_matches
from omnigraph.resolve.merging import merge_plan
from omnigraph.rows import rows_schema
from omnigraph.spark.resolving import compare_in_parts
from tests.property.resolve_model import Row, resolved

pytest.importorskip("rapidfuzz")

SCHEMA = """
node P { name: String?  city: String?  year: I32?  note: String?  v: Vector(2)? }
edge Plain: P -> P
edge Once: P -> P { @unique(src, dst) }
"""
CATALOG = compile_schema(SCHEMA).catalog
NODE = CATALOG.nodes["P"]
NAMES = ["Ann Lee", "ann  lee", "Lee, Ann", "Änn Lée", "Anne Lee", "Bob", "bob", "Bo", "...", ""]

names = st.sampled_from([None, *NAMES])
numbers = st.sampled_from([None, 1, 2, 3])
vectors = st.sampled_from([None, [0.0, 0.0], [1.0, 0.0], [1.0, 0.125], [0.0, 1.0], [-1.0, 0.0]])
shares = st.sampled_from([0.3, 0.5, 0.8, 1.0])
keys = st.one_of(
    st.builds(Key, st.sampled_from(["name", "city", "year"])),
    st.builds(
        Key, st.just("name"), by=st.sampled_from(["normalised", "prefix", "initials", "words"])
    ),
    st.builds(Key, st.just("name"), by=st.just("prefix"), length=st.integers(1, 3)),
)
comparisons = st.one_of(
    st.builds(Comparison, st.sampled_from(["name", "city", "year"])),
    st.builds(
        Comparison,
        st.sampled_from(["name", "city"]),
        by=st.sampled_from(["normalised", "edit", "words"]),
        weight=st.sampled_from([0.5, 1.0, 3.0]),
        threshold=st.none() | shares,
    ),
    st.builds(
        Comparison, st.just("v"), by=st.just("vector"), measure=st.sampled_from(["cosine", "l2"])
    ),
)
values = st.sampled_from(["survivor", "first", "longest", "newest"])
all_rules = st.builds(
    Rules,
    type=st.just("P"),
    blocks=st.lists(keys | st.lists(keys, min_size=1, max_size=2), min_size=1, max_size=3),
    compare=st.lists(comparisons, min_size=1, max_size=3, unique_by=lambda item: item.name),
    threshold=shares,
    survivor=st.sampled_from(["lowest_id", "most_edges", "newest"]),
    newest_by=st.just("year"),
    properties=st.fixed_dictionaries(
        {}, optional={"note": values, "name": values, "*": st.sampled_from(["first", "newest"])}
    ),
    block_nodes_max=st.integers(2, 8),
    cluster_nodes_max=st.integers(2, 6),
)


@st.composite
def worlds(draw: Any) -> tuple[list[Row], list[Row]]:
    ids = draw(st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=12))
    nodes = [
        {
            "id": name,
            "name": draw(names),
            "city": draw(names),
            "note": draw(names),
            "year": draw(numbers),
            "v": draw(vectors),
        }
        for name in ids
    ]
    ends = st.tuples(st.sampled_from(ids), st.sampled_from(ids)) if ids else st.nothing()
    pairs = draw(st.lists(ends, max_size=10, unique=True)) if ids else []
    edges = [{"id": f"e{at}", "src": src, "dst": dst} for at, (src, dst) in enumerate(pairs)]
    return nodes, edges


def _table(nodes: list[Row]) -> Any:
    return pa.Table.from_pylist(nodes, schema=rows_schema(NODE))


def _in_parts(nodes: list[Row], rules: Rules, tasks: int, parts: int) -> Matches:
    """Compare as workers do, each reading every so many nodes."""

    def run(count: int, work: Callable[[int], bytes]) -> list[bytes]:
        return [work(number) for number in range(count)]

    def batches(task: int) -> Any:
        return iter(_table(nodes[task::tasks]).to_batches())

    with tempfile.TemporaryDirectory() as scratch:
        return compare_in_parts(run, tasks, batches, rules, parts=parts, scratch=scratch)


@given(worlds(), all_rules, st.integers(1, 3), st.integers(1, 4))
def test_engines_and_a_plain_model_find_the_same(
    world: tuple[list[Row], list[Row]], rules: Rules, tasks: int, parts: int
) -> None:
    nodes, edges = world
    rules.check(CATALOG)
    found = all_matches(features(_table(nodes), rules), rules)
    apart = _in_parts(nodes, rules, tasks, parts)
    assert apart.pairs.equals(found.pairs)
    assert apart.compared == found.compared
    assert sorted(apart.large) == sorted(found.large)
    for unique in (False, True):
        wanted = resolved(rules, nodes, edges, unique=unique)
        assert found.compared == wanted.compared
        assert set(found.large) == wanted.skipped
        rows = [tuple(row.values()) for row in found.pairs.to_pylist()]
        assert {row[:2]: row[2:] for row in rows} == wanted.pairs
        clusters = clusters_of(found.pairs)
        assert {*clusters[MEMBER].to_pylist()} == {*wanted.becomes}
        small = [wanted.becomes[name] is not None for name in clusters[MEMBER].to_pylist()]
        members = clusters.filter(pa.array(small, pa.bool_()))
        assert _merged(rules, NODE, nodes, edges, members, unique=unique) == (
            {name: stays for name, stays in wanted.becomes.items() if stays is not None},
            wanted.nodes,
            wanted.edges,
        )


def _merged(
    rules: Rules, node: NodeType, nodes: list[Row], edges: list[Row], members: Any, *, unique: bool
) -> tuple[dict[str, str], dict[str, Row], dict[str, tuple[str, str]]]:
    """Return what each node becomes, and all nodes and edges after the events of a plan."""
    edge = CATALOG.edges["Once" if unique else "Plain"]
    ids = {*members[MEMBER].to_pylist()}
    mine = [row for row in sorted(nodes, key=lambda row: str(row["id"])) if row["id"] in ids]
    touched = [row for row in edges if {row["src"], row["dst"]} & ids]
    rows = pa.Table.from_pylist(touched, schema=rows_schema(edge))
    plan = merge_plan(node, rules, members, _table(mine), [(edge, rows)])
    assert plan.merged == len(ids) - len({*members[CLUSTER].to_pylist()})
    left = {row["id"]: dict(row) for row in nodes}
    for event in plan.nodes.to_pylist():
        if event.pop("#op") == "delete":
            del left[event["id"]]
        else:
            left[event["id"]] |= event
    ends = {row["id"]: (row["src"], row["dst"]) for row in edges}
    for moves in plan.edges.values():
        for event in moves.events.to_pylist():
            if event["#op"] == "delete":
                del ends[event["id"]]
            else:
                ends[event["id"]] = (event["#from"], event["#to"])
    pairs = plan.survivors.to_pylist()
    return {item["id"]: item["survivor"] for item in pairs}, left, ends

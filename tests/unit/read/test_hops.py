"""Reaching nodes over several hops, on random graphs, against a plain search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.plan.read import Direction
from omnigraph.read.hops import reach
from omnigraph.read.topology import Ends, Topology
from omnigraph.read.walk import distinct_nodes

NODES = 6
PAIRS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=14)
STARTS = st.lists(st.integers(-1, NODES - 1), max_size=5)


def reached(pairs: set[tuple[int, int]], start: int, least: int, most: int) -> list[int]:
    """Return nodes by shortest distance; the start is reached at hop 1 by its own loop."""
    distance = {start: 0}
    for hop in range(1, most + 1):
        for one, two in pairs:
            if distance.get(one) == hop - 1 and two not in distance:
                distance[two] = hop
    found = {node for node, hop in distance.items() if hop > 0 and least <= hop <= most}
    return sorted(found | {start} if least == 1 and (start, start) in pairs else found)


@given(pairs=PAIRS, starts=STARTS, least=st.integers(1, 4), more=st.integers(0, 4))
def test_reach_agrees_with_a_plain_search(
    pairs: list[tuple[int, int]], starts: list[int], least: int, more: int
) -> None:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    topology = Topology(
        Ends(ends[:, 0], ends[:, 1], np.arange(len(pairs))),
        source_count=NODES,
        target_count=NODES,
        rows=len(pairs),
    )
    forward = set(pairs)
    backward = {(two, one) for one, two in pairs}
    most = least + more
    for direction, edges, back in (
        (Direction.OUT, forward, backward),
        (Direction.IN, backward, forward),
        (Direction.BOTH, forward | backward, forward | backward),
    ):
        rows, nodes = reach(
            topology.by_pair[direction],
            np.array(starts, dtype=np.int64),
            least=least,
            most=most,
            nodes=NODES,
        )
        found = sorted(zip(rows.tolist(), nodes.tolist(), strict=True))
        known = [(row, start) for row, start in enumerate(starts) if start >= 0]
        ahead = [(row, node) for row, start in known for node in reached(edges, start, least, most)]
        assert found == ahead
        # From the other end: the nodes from which a walk along the edges would reach the start.
        assert found == [
            (row, node)
            for row, start in known
            for node in range(NODES)
            if start in reached(back, node, least, most)
        ]


@given(pairs=PAIRS, asked=st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5)), max_size=9))
def test_pairs_are_found(pairs: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    topology = Topology(
        Ends(ends[:, 0], ends[:, 1], None),
        source_count=NODES,
        target_count=NODES,
        rows=len(pairs),
    )
    wanted = np.array(asked, dtype=np.int64).reshape(-1, 2)
    found = topology.by_pair[Direction.OUT].joins(wanted[:, 0], wanted[:, 1])
    assert found.tolist() == [pair in pairs for pair in asked]


@given(pairs=PAIRS, more=PAIRS)
def test_a_patched_topology_equals_a_new_one(
    pairs: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    first, added = (np.array(p, dtype=np.int32).reshape(-1, 2) for p in (pairs, more))
    # The nodes of the added edges may be new, and one end of an edge may be nowhere.
    added = np.where(added == NODES - 1, -1, added + 2).astype(np.int32)

    def make(ends: np.ndarray, nodes: int) -> Topology:
        return Topology(
            Ends(ends[:, 0], ends[:, 1], None),
            source_count=nodes,
            target_count=nodes,
            rows=len(ends),
        )

    base = make(first, NODES)
    for direction in Direction:
        _made = base.by_pair[direction]
    patched = base.extended(added[:, 0], added[:, 1], (NODES + 2, NODES + 2))
    whole = (added >= 0).all(axis=1)
    fresh = make(np.concatenate([first, added[whole]]), NODES + 2)
    for direction in Direction:
        for one, two in (
            (patched.by_pair[direction], fresh.by_pair[direction]),
            (patched.by_edge[direction], fresh.by_edge[direction]),
        ):
            assert one.offsets.tolist() == two.offsets.tolist()
            assert one.targets.tolist() == two.targets.tolist()
    positions = [*range(len(first)), *(len(first) + np.flatnonzero(whole)).tolist()]
    assert patched.ends.positions().tolist() == positions


@pytest.mark.parametrize("size", [40, 4_000_000])
def test_different_nodes_are_found_among_few_and_among_many(size: int) -> None:
    nodes = np.array([7, 3, 39, 3, 0, 7], dtype=np.int32)
    assert distinct_nodes(nodes, size).tolist() == [0, 3, 7, 39]
    assert distinct_nodes(nodes[:0], size).tolist() == []

"""Reaching nodes over several hops, on random graphs, against a plain search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.plan.read import Direction
from omnigraph.read.hops import reach
from omnigraph.read.topology import Topology

NODES = 6
PAIRS = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=14)
STARTS = st.lists(st.integers(-1, NODES - 1), max_size=5)


def reached(pairs: set[tuple[int, int]], start: int, least: int, most: int) -> list[int]:
    """Return nodes by shortest distance; a self-loop gives its node one hop after it is found."""
    distance = {start: 0}
    for hop in range(1, most + 1):
        for one, two in pairs:
            if distance.get(one) == hop - 1 and two not in distance:
                distance[two] = hop
    found = {node for node, hop in distance.items() if hop > 0 and least <= hop <= most}
    found |= {n for n, hop in distance.items() if (n, n) in pairs and least <= hop + 1 <= most}
    return sorted(found)


@given(pairs=PAIRS, starts=STARTS, least=st.integers(1, 4), more=st.integers(0, 4))
def test_reach_agrees_with_a_plain_search(
    pairs: list[tuple[int, int]], starts: list[int], least: int, more: int
) -> None:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    topology = Topology(
        sources=ends[:, 0],
        targets=ends[:, 1],
        edges=np.arange(len(pairs)),
        source_count=NODES,
        target_count=NODES,
    )
    forward = set(pairs)
    backward = {(two, one) for one, two in pairs}
    most = least + more
    for direction, edges, back in (
        (Direction.OUT, forward, backward),
        (Direction.IN, backward, forward),
        (Direction.BOTH, forward | backward, forward | backward),
    ):

        def found(*, reverse: bool, direction: Direction = direction) -> list[tuple[int, int]]:
            rows, nodes = reach(
                topology.by_pair[direction],
                np.array(starts, dtype=np.int64),
                least=least,
                most=most,
                nodes=NODES,
                reverse=reverse,
            )
            return sorted(zip(rows.tolist(), nodes.tolist(), strict=True))

        known = [(row, start) for row, start in enumerate(starts) if start >= 0]
        ahead = [(row, node) for row, start in known for node in reached(edges, start, least, most)]
        assert found(reverse=False) == ahead
        # In reverse: the nodes from which a walk along the edges would reach the start.
        assert found(reverse=True) == [
            (row, node)
            for row, start in known
            for node in range(NODES)
            if start in reached(back, node, least, most)
        ]

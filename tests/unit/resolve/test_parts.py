"""Texts, blocks and clusters: what the random tests would meet too seldom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.resolve import Comparison, Key, Rules
from omnigraph.resolve.blocks import find_blocks
from omnigraph.resolve.clusters import components
from omnigraph.resolve.features import normalised
from omnigraph.resolve.scores import distinct, pairs_schema


def _keys(*values: str | None) -> Any:
    return pa.chunked_array([pa.array(values, pa.string())])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("  Émile  ZOLA ", "emile zola"),
        ("O'Neil, Ann-Marie", "o neil ann marie"),
        ("ﬁnance №5", "finance no5"),
        ("東京 タワー", "東京 タワー"),
        ("--", None),
        ("", None),
        (None, None),
    ],
)
def test_texts_are_compared_without_case_accents_and_punctuation(
    given: str | None, wanted: str | None
) -> None:
    assert normalised(pa.array([given], pa.string())).to_pylist() == [wanted]


def test_pairs_of_blocks_are_all_there_however_they_are_cut() -> None:
    keys = _keys("b", "a", None, "b", "a", "c", "b", "a", "a")
    for at_once in (1, 2, 3, 100):
        blocks = find_blocks(keys, 10)
        found = [
            (int(blocks.order[one]), int(blocks.order[other]))
            for left, right in blocks.pairs(at_once)
            for one, other in zip(left, right, strict=True)
        ]
        wanted = [(0, 3), (0, 6), (1, 4), (1, 7), (1, 8), (3, 6), (4, 7), (4, 8), (7, 8)]
        assert sorted(found) == wanted
        assert blocks.pair_count == len(wanted)
        assert all(len(left) <= max(at_once, 3) for left, _right in blocks.pairs(at_once))


def test_a_large_block_is_left_out_and_named() -> None:
    blocks = find_blocks(_keys("a", "b", "a", "a", "b"), 2)
    assert blocks.large == (("a", 3),)
    assert blocks.order.tolist() == [1, 4]


def test_a_long_chain_is_one_cluster() -> None:
    chain = np.random.default_rng(7).permutation(5_000)
    found = components(chain[:-1], chain[1:], len(chain))
    assert set(found.tolist()) == {0}
    apart = components(np.array([1, 4], np.int64), np.array([3, 2], np.int64), 6)
    assert apart.tolist() == [0, 1, 2, 1, 2, 5]


def test_a_pair_that_shares_several_blocks_stands_once() -> None:
    rules = Rules(type="P", blocks=[Key("n")], compare=[Comparison("n")], threshold=0.5)
    names = pairs_schema(rules).names
    rows = [("b", "c", 1.0, 1.0), ("a", "c", 1.0, 1.0), ("a", "b", 1.0, 1.0), ("a", "c", 1.0, 1.0)]
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    found = distinct(table.cast(pairs_schema(rules)))
    ends = [(row["left"], row["right"]) for row in found.to_pylist()]
    assert ends == [("a", "b"), ("a", "c"), ("b", "c")]

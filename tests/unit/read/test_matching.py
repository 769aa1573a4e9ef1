"""Hash joins find the pairs that `=` finds equal, and no others."""

from __future__ import annotations

import datetime
import math
import random

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.compute import key_tables
from omnigraph.compute.compare import compare
from omnigraph.compute.joins import JoinKeys, JoinSide, join_sides
from omnigraph.plan.expression import CompareOp
from omnigraph.read.matching import Matches, Runs

MOMENT = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
BIG = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), None]
HUGE = [0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, None]
WILD: list[float | None] = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e300]
WILD += [math.nan, math.inf, -math.inf, None]
COLUMNS = {
    "i32": pa.array([0, 1, -1, 2**31 - 1, -(2**31), None], pa.int32()),
    "i64": pa.array(BIG, pa.int64()),
    "u32": pa.array([0, 1, 2**32 - 1, None], pa.uint32()),
    "u64": pa.array(HUGE, pa.uint64()),
    "f32": pa.array([0.0, -0.0, 0.5, 0.1, 16777216.0, math.nan, math.inf, None], pa.float32()),
    "f64": pa.array(WILD, pa.float64()),
    "text": pa.array(["", "a", "a\0", "é", "e\u0301", "abcdefgh", "abcdefghi", None]),
    "plain": pa.array(["", "a", "b", "abcdefgh", None]),
    "long": pa.array(["x" * 100, "x" * 99 + "y", "a", None], pa.large_string()),
    "empty": pa.array(["", "", None], pa.string()),
    "bool": pa.array([True, False, None]),
    "date": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None], pa.date32()),
    "datetime": pa.array([MOMENT, MOMENT + datetime.timedelta(0, 0, 1000), None]).cast(
        pa.timestamp("ms", tz="UTC")
    ),
    "bytes": pa.array([b"", b"\0", b"a", None], pa.large_binary()),
    "none": pa.array([], pa.int64()),
}
NUMBERS = ["i32", "i64", "u32", "u64", "f32", "f64", "none"]
TEXTS = ["text", "plain", "long", "empty"]
PAIRS = [(a, b) for a in NUMBERS for b in NUMBERS] + [(a, b) for a in TEXTS for b in TEXTS]
PAIRS += [(name, name) for name in ("bool", "date", "datetime", "bytes")]


def pairs_of(found: Matches) -> list[tuple[int, int]]:
    left, right = found.runs().listed()
    return sorted(zip(left.tolist(), right.tolist(), strict=True))


def equal_pairs(
    left: pa.Array, right: pa.Array, op: CompareOp = CompareOp.EQ
) -> list[tuple[int, int]]:
    """Compare every pair of rows."""
    rows = [(i, j) for i in range(len(left)) for j in range(len(right))]
    if not rows:
        return []
    one = left.take(pa.array([i for i, _j in rows]))
    other = right.take(pa.array([j for _i, j in rows]))
    verdicts = compare(one, other, op).to_pylist()
    return [pair for pair, verdict in zip(rows, verdicts, strict=True) if verdict]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_join_pairs_what_a_comparison_finds_equal(one: str, other: str) -> None:
    left, right = COLUMNS[one], COLUMNS[other]
    # Rows repeat, in another order, and the columns are pieces of longer ones.
    left = pa.concat_arrays([left, left.take(pa.array(range(len(left))[::-1], pa.int64()))]).slice(
        1
    )
    found = Matches.of(*join_sides([(left, right)]))
    assert pairs_of(found) == equal_pairs(left, right)
    assert pairs_of(Matches.of(*join_sides([(right, left)]))) == equal_pairs(right, left)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_an_order_pairs_what_a_comparison_finds_in_order(one: str, other: str, op: str) -> None:
    left, right = COLUMNS[one], COLUMNS[other]
    runs = Runs.beside(CompareOp(op), left, right)
    if runs is None:
        return
    rows, others = runs.listed()
    found = sorted(zip(rows.tolist(), others.tolist(), strict=True))
    assert found == equal_pairs(left, right, CompareOp(op))
    weights = np.arange(1, len(right) + 1, dtype=np.int64)
    sums = [sum(weights[j] for i, j in found if i == row) for row in range(len(left))]
    assert runs.sums(weights).tolist() == sums
    assert runs.sums(None).tolist() == [
        sum(i == row for i, _j in found) for row in range(len(left))
    ]


def test_not_a_number_is_equal_to_no_integer_and_on_no_side_of_it() -> None:
    integers = pa.array([0, 1, 2**53, 2**63 - 1, None])
    strange = pa.array([math.nan] * 5)
    for op in CompareOp:
        wanted = [op is CompareOp.NE] * 4 + [None]
        assert compare(integers, strange, op).to_pylist() == wanted
        assert compare(strange, integers, op).to_pylist() == wanted
        assert compare(integers, strange[0], op).to_pylist() == wanted
        assert compare(integers[0], strange[0], op).as_py() is wanted[0]


def test_numbers_of_one_kind_and_dates_have_an_order() -> None:
    for one, other in [("i32", "i64"), ("f32", "f64"), ("u64", "u64"), ("date", "date")]:
        assert Runs.beside(CompareOp.LT, COLUMNS[one], COLUMNS[other]) is not None
    assert Runs.beside(CompareOp.LT, COLUMNS["i64"], COLUMNS["f64"]) is None


def test_several_equalities_hold_together() -> None:
    r = random.Random(5)  # noqa: S311
    rows = [[r.choice(["a", "b", None]) for _ in range(300)] for _side in range(2)]
    numbers = [[r.choice([1, 2, 3, None]) for _ in range(300)] for _side in range(2)]
    left, right = join_sides(
        [
            (pa.array(rows[0]), pa.array(rows[1])),
            (pa.array(numbers[0], pa.int64()), pa.array(numbers[1], pa.float64())),
        ]
    )
    both = [
        (i, j)
        for i in range(300)
        for j in range(300)
        if rows[0][i] is not None
        and rows[0][i] == rows[1][j]
        and numbers[0][i] is not None
        and numbers[0][i] == numbers[1][j]
    ]
    assert pairs_of(Matches.of(left, right)) == both


def test_blocks_hold_the_pairs_of_the_whole_join() -> None:
    r = np.random.default_rng(3)
    left, right = pa.array(r.integers(0, 9, 200)), pa.array(r.integers(3, 12, 150))
    runs = Matches.of(*join_sides([(left, right)])).runs()
    blocks = list(runs.blocks(97))
    assert all(len(rows) <= 97 for rows, _others in blocks)
    listed = [np.concatenate([block[side] for block in blocks]) for side in (0, 1)]
    whole = runs.listed()
    assert [listed[0].tolist(), listed[1].tolist()] == [whole[0].tolist(), whole[1].tolist()]
    assert runs.pairs == len(whole[0])


def test_keys_are_compared_when_their_hashes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        JoinKeys, "hashes", lambda keys: np.full(len(keys.known), 7, dtype=np.uint64)
    )
    monkeypatch.setattr(key_tables, "JOIN_ROUNDS_MAX", 3)
    left = pa.array([5, 1, 2, 3, None, 9, 5, 1])
    right = pa.array([1, 2, 5, 5, 8, None, 3])
    assert pairs_of(Matches.of(*join_sides([(left, right)]))) == equal_pairs(left, right)
    assert pairs_of(Matches.of(*join_sides([(right, left)]))) == equal_pairs(right, left)


def test_many_rows_are_matched_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_tables, "JOIN_CHUNK_ROWS", 64)
    r = np.random.default_rng(4)
    left, right = r.permutation(5000), r.permutation(5000)[:3000]
    words = pa.array([f"k{number}" for number in right])
    sides = join_sides([(pa.array([f"k{number}" for number in left]), words)])
    assert isinstance(sides[0], JoinSide)
    found = dict(pairs_of(Matches.of(*sides)))
    assert len(found) == 3000
    assert all(left[i] == right[j] for i, j in found.items())

"""Parts of a pattern that only values connect are joined, not multiplied."""

from __future__ import annotations

import datetime
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.compute import evaluate_condition
from omnigraph.lang import compile_query
from omnigraph.plan import ReadPlan
from omnigraph.read import Reader, execute
from omnigraph.read import joining as joining_module

SCHEMA = """
node Left { slug: String @key  number: I64?  word: String?  share: F64?  other: I64 }
node Right { slug: String @key  number: I32?  word: String?  other: I64 }
edge Next: Right -> Right
"""
ROWS = 20_000
PAIRED = ROWS // 2
MEMORY_MAX = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    folder: Path = tmp_path_factory.mktemp("joins")
    with og.init(folder / "g", SCHEMA, durability="none", upkeep=False) as made:
        numbers = list(range(ROWS))
        left = {
            "slug": [f"l{number}" for number in numbers],
            "number": pa.array(numbers, pa.int64()),
            "word": [f"w{number}" if number % 10 else None for number in numbers],
            "share": [float(number) for number in numbers],
            "other": [number % 7 for number in numbers],
        }
        right = {
            "slug": [f"r{number}" for number in numbers],
            "number": pa.array([number + PAIRED for number in reversed(numbers)], pa.int32()),
            "word": [f"w{number + PAIRED}" for number in reversed(numbers)],
            "other": [number % 5 for number in numbers],
        }
        made.load_table("Left", pa.table(left), mode="append")
        made.load_table("Right", pa.table(right), mode="append")
        ends = [("r1", "r2"), ("r2", "r3"), ("r3", "r1")]
        made.load([{"edge": "Next", "from": a, "to": b} for a, b in ends], mode="append")
        yield made


def ask(graph: og.Graph, text: str, **params: Any) -> list[tuple[Any, ...]]:
    found = graph.query(text if text.startswith("query") else f"query q() {{ {text} }}", params)
    return [tuple(row.values()) for row in found.to_pylist()]


EQUAL = [
    ("$a: Left $b: Right { number: $a.number }", PAIRED),
    ("$a: Left $b: Right $a.number = $b.number", PAIRED),
    ("$a: Left $b: Right $b.number = $a.share", PAIRED),
    ("$b: Right $a: Left { word: $b.word }", PAIRED - PAIRED // 10),
    ("$a: Left $b: Right $a.number = $b.number $a.word = $b.word", PAIRED - PAIRED // 10),
    ("$a: Left not { $b: Right { number: $a.number } }", ROWS - PAIRED),
    ("$a: Left not { $b: Right $b.word = $a.word }", ROWS - PAIRED + PAIRED // 10),
    ("$a: Left not { $b: Right $b.number = $a.number $b.other > $a.other }", None),
    ("$a: Left optional { $b: Right { number: $a.number } }", ROWS),
    ("$a: Left $b: Right $a.number = $b.number $a.other < $b.other", None),
]


@pytest.mark.parametrize(("pattern", "rows"), EQUAL)
def test_twenty_thousand_rows_join_at_once(graph: og.Graph, pattern: str, rows: int | None) -> None:
    shown = "$a.slug, $a.other, $b.slug" if "$b" in pattern.split("not {")[0] else "$a.slug"
    ask(graph, f"match {{ {pattern} }} return {{ count(*) as n }}")
    begun = time.process_time()
    ((count,),) = ask(graph, f"match {{ {pattern} }} return {{ count(*) as n }}")
    result = graph.query(f"query q() {{ match {{ {pattern} }} return {{ {shown} }} }}")
    assert time.process_time() - begun < 2.0
    assert result.num_rows == count
    if rows is not None:
        assert count == rows


def test_a_join_pairs_the_rows_with_equal_values(graph: og.Graph) -> None:
    found = ask(
        graph,
        "match { $a: Left $b: Right { number: $a.number } }"
        " return { $a.number as x, $b.number as y }",
    )
    assert sorted(found) == [(n, n) for n in range(PAIRED, ROWS)]


def test_an_optional_join_keeps_rows_without_a_partner(graph: og.Graph) -> None:
    found = ask(
        graph,
        "match { $a: Left optional { $b: Right { number: $a.number } } }"
        " return { $a.number as x, $b.number as y }",
    )
    assert sorted(found, key=lambda row: row[0]) == [
        (n, n if n >= PAIRED else None) for n in range(ROWS)
    ]


def test_joined_rows_are_counted_without_being_listed(graph: og.Graph) -> None:
    # 80 million pairs have equal remainders.
    both = "match { $a: Left $b: Right { other: $a.other } }"
    left = Counter(n % 7 for n in range(ROWS))
    right = Counter(n % 5 for n in range(ROWS))
    tracemalloc.start()
    ((count,),) = ask(graph, f"{both} return {{ count(*) as n }}")
    groups = dict(ask(graph, f"{both} return {{ $a.other as k, count(*) as n }}"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == sum(left[key] * right[key] for key in left)
    assert groups == {key: left[key] * right[key] for key in range(5)}
    assert peak < MEMORY_MAX


def test_an_unconnected_product_is_counted_without_being_listed(graph: og.Graph) -> None:
    assert ask(graph, "match { $a: Left $b: Right } return { count(*) as n }") == [(ROWS**2,)]
    three = "match { $a: Left $b: Right $c: Left $c.number < 10 } return { count(*) as n }"
    assert ask(graph, three) == [(ROWS**2 * 10,)]
    per = "match { $a: Left $a.number < 3 $b: Right } return { $a.slug as k, count($b) as n }"
    assert sorted(ask(graph, per)) == [(f"l{n}", ROWS) for n in range(3)]
    distinct = "match { $a: Left $b: Right } return distinct { $a.other as k }"
    assert sorted(ask(graph, distinct)) == [(n,) for n in range(7)]
    nothing = "match { $a: Left $b: Right $b.number < 0 } return { count(*) as n }"
    assert ask(graph, nothing) == [(0,)]


def test_more_rows_than_any_number_holds_are_refused(graph: og.Graph) -> None:
    clauses = " ".join(f"$v{n}: Left" for n in range(5))
    with pytest.raises(og.QueryError, match="does not fit in 64 bits"):
        ask(graph, f"match {{ {clauses} }} return {{ count(*) as n }}")


BLOCKS = [
    ("$a.number < $b.number", lambda a, b: a["number"] < b["number"]),
    (
        "$b.word starts_with $a.word",
        lambda a, b: bool(a["word"]) and b["word"].startswith(a["word"]),
    ),
    ("$a.other = $b.other $a.number > $b.number", None),
]


@pytest.mark.parametrize(("condition", "holds"), BLOCKS)
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_other_conditions_are_evaluated_in_blocks(
    graph: og.Graph, condition: str, holds: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining_module, "JOIN_BLOCK_ROWS", block)
    few = "$a: Left $a.number < 60 $b: Right $b.number < 10030"
    holds = holds or (lambda a, b: a["other"] == b["other"] and a["number"] > b["number"])
    columns = "$x.slug as slug, $x.number as number, $x.word as word, $x.other as other"
    lefts = graph.query(
        f"query q() {{ match {{ $x: Left $x.number < 60 }} return {{ {columns} }} }}"
    ).to_pylist()
    rights = graph.query(
        f"query q() {{ match {{ $x: Right $x.number < 10030 }} return {{ {columns} }} }}"
    ).to_pylist()
    pairs = sorted((a["slug"], b["slug"]) for a in lefts for b in rights if holds(a, b))
    pattern = f"match {{ {few} {condition} }}"
    assert sorted(ask(graph, f"{pattern} return {{ $a.slug as a, $b.slug as b }}")) == pairs
    assert ask(graph, f"{pattern} return {{ count(*) as n }}") == [(len(pairs),)]
    counts = Counter(a for a, _b in pairs)
    grouped = dict(ask(graph, f"{pattern} return {{ $a.slug as a, count(*) as n }}"))
    assert grouped == counts
    without = ask(
        graph,
        f"match {{ $a: Left $a.number < 60 not {{ {few} {condition} }} }}"
        " return { $a.slug as a }",
    )
    assert {row[0] for row in without} == {a["slug"] for a in lefts} - set(counts)


def test_a_range_join_of_many_rows_stays_in_its_memory(graph: og.Graph) -> None:
    # 20 million pairs are looked at, a block at a time.
    pattern = "match { $a: Left $a.number < 1000 $b: Right $a.number + 0.5 < $b.number }"
    orders = "match { $a: Left $b: Right $a.number >= $b.number }"
    tracemalloc.start()
    ((blocks,),) = ask(graph, f"{pattern} return {{ count(*) as n }}")
    ((sorted_,),) = ask(graph, f"{orders} return {{ count(*) as n }}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert blocks == 1000 * ROWS
    assert sorted_ == sum(n - PAIRED + 1 for n in range(PAIRED, ROWS))
    assert peak < 2 * MEMORY_MAX


def test_long_texts_are_compared_in_small_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters, rows = 20_000, 80
    monkeypatch.setattr(joining_module, "JOIN_SAMPLE_ROWS", 16)
    monkeypatch.setattr(joining_module, "JOIN_BLOCK_BYTES", 100 * letters)
    seen: list[int] = []
    evaluate = evaluate_condition

    def noted(condition: Any, columns: Any, *rest: Any) -> Any:
        seen.append(columns.rows)
        return evaluate(condition, columns, *rest)

    monkeypatch.setattr(joining_module, "evaluate_condition", noted)
    schema = (
        "node A { slug: String @key  text: String }\nnode B { slug: String @key  word: String }"
    )
    with og.init(tmp_path / "g", schema, durability="none", upkeep=False) as graph:
        texts = [f"{number:06d}".rjust(letters, "x") for number in range(rows)]
        slugs = [f"s{number}" for number in range(rows)]
        graph.load_table("A", pa.table({"slug": slugs, "text": texts}), mode="append")
        words = [f"{number:06d}" for number in range(rows)]
        graph.load_table("B", pa.table({"slug": slugs, "word": words}), mode="append")
        found = ask(
            graph, "match { $a: A $b: B $a.text contains $b.word } return { $a.slug, $b.slug }"
        )
    assert sorted(found) == sorted((slug, slug) for slug in slugs)
    assert sum(seen) == rows * rows
    assert max(seen) <= 100


def test_parts_are_joined_where_conditions_connect_them(graph: og.Graph) -> None:
    """The first two are connected through the third only."""
    text = (
        "match { $a: Left $b: Left $c: Right $a.number = $c.number $c.word = $b.word }"
        " return { count(*) as n }"
    )
    assert ask(graph, text) == [(PAIRED - PAIRED // 10,)]
    plan = graph.explain(f"query q() {{ {text} }}").plan
    assert "join on ($a.number = $c.number)" in plan
    assert "join every row" not in plan


def test_parts_with_edges_are_joined_whole(graph: og.Graph) -> None:
    text = "match { $a: Left $x next $y $y.number = $a.number } return { $a.number as n, $x, $y }"
    found = ask(graph, text)
    assert sorted(found) == sorted(
        (PAIRED + ROWS - 1 - int(y[1:]), x, y)
        for x, y in (("r1", "r2"), ("r2", "r3"), ("r3", "r1"))
        if PAIRED + ROWS - 1 - int(y[1:]) < ROWS
    )
    assert ask(graph, "match { $x next $y $a: Left } return { count(*) as n }") == [(3 * ROWS,)]


def test_a_vanishing_equality_leaves_the_product(graph: og.Graph) -> None:
    text = (
        "query q($n: I64?) { match { $a: Left $a.number < 5 $b: Right $b.other = 0"
        " $b.number = $a.number + $n? } return { count(*) as n } }"
    )
    assert ask(graph, text, n=None) == [(5 * ROWS // 5,)]
    assert ask(graph, text, n=PAIRED) in ([(1,)], [(0,)])


def test_the_plan_and_the_profile_show_the_join(graph: og.Graph) -> None:
    text = (
        "query q() { match { $a: Left $b: Right { number: $a.number } $a.other < $b.other }"
        " return { count(*) as n } }"
    )
    shown = graph.explain(text)
    assert shown.plan.split("\n")[1:4] == [
        "  scan $a: Left",
        "  join on (($b.number = $a.number) and ($a.other < $b.other))",
        "    scan $b: Right",
    ]
    steps = [stage.text for stage in shown.stages]
    assert "hash join on ($b.number = $a.number), then ($a.other < $b.other)" in steps


def test_listed_and_counted_joins_agree(graph: og.Graph) -> None:
    listing = Reader(graph._engine.tables, factorise=False)
    text = (
        "query q() { match { $a: Left $a.number > 19000 $b: Right { number: $a.number } }"
        " return { $b.other as k, count(*) as n, sum($a.number) as s } }"
    )
    compiled = compile_query(text, graph.catalog).plan
    assert isinstance(compiled, ReadPlan)
    now = datetime.datetime.now(datetime.UTC)
    table = listing.execute(compiled, graph.catalog, graph.snapshot().tables, {}, now=now)
    listed = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert listed == sorted(ask(graph, text))


def test_an_equality_of_a_calculation_is_looked_up(graph: og.Graph) -> None:
    text = "match { $a: Left $b: Right $b.number = $a.number + 1 } return { count(*) as n }"
    assert ask(graph, text) == [(PAIRED + 1,)]
    steps = [stage.text for stage in graph.explain(f"query q() {{ {text} }}").stages]
    assert any(step.startswith("hash join on") for step in steps)


def test_an_overflow_on_a_row_that_is_not_joined_is_no_error(graph: og.Graph) -> None:
    large = "$b.number = $a.number * 1000000000000000"
    few = "$a: Left $a.number > 19990 $b: Right"
    with pytest.raises(og.QueryError, match="overflow"):
        ask(graph, f"match {{ {few} {large} }} return {{ count(*) as n }}")
    text = f"match {{ {few} {large} $b.slug = $a.word }} return {{ count(*) as n }}"
    assert ask(graph, text) == [(0,)]


STOPPING = [
    "$a: Left $b: Right",
    "$a: Left $b: Right $a.number < $b.number",
    "$a: Left $b: Right { other: $a.other }",
    "$a: Left $b: Right $c: Left",
    "$c: Left $a: Left $b: Right $c.number = $a.number",
]


@pytest.mark.parametrize("pattern", STOPPING)
def test_a_limit_without_an_order_stops_early(graph: og.Graph, pattern: str) -> None:
    # All of them would be from 80 million to 8 trillion rows.
    text = f"match {{ {pattern} }} return {{ $a.number as x, $b.number as y }} limit 7 offset 3"
    begun = time.process_time()
    found = ask(graph, text)
    assert time.process_time() - begun < 2.0
    assert len(found) == 7
    if "<" in pattern:
        assert all(x < y for x, y in found)
    listed = "".join(f", ${name}.slug" for name in "abc" if f"${name}:" in pattern)
    every = ask(graph, text.replace("as y }", f"as y{listed} }}"))
    assert len(set(every)) == 7


def test_a_limit_goes_on_until_there_are_enough_rows(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "PIECE_ROWS", 1)
    rows = "match { $a: Left $a.number % 5000 = 4999 } return { $a.number as x }"
    assert sorted(ask(graph, f"{rows} limit 100")) == [(4999,), (9999,), (14999,), (19999,)]
    assert len(ask(graph, f"{rows} limit 2 offset 1")) == 2
    assert ask(graph, f"{rows} limit 5 offset 4") == []
    assert ask(graph, f"{rows} limit 0") == []
    shown = graph.explain(f"query q() {{ {rows} limit 3 }}").stages
    assert len({stage.text for stage in shown}) == len(shown)

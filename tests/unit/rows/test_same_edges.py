"""Which edges are one edge under several ids."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.rows.same_edges import key_columns, same_keys, unified
from tests.unit.rows.arrow_rows import catalog_of, changes, rows_in, table

CATALOG = catalog_of("""
node P { slug: String @key @unique }
edge Plain: P -> P { v: I32? }
edge Pair: P -> P { v: I32? @unique(src, dst) }
edge Dated: P -> P { day: I32? @unique(src, dst, day) }
edge Badge: P -> P { badge: I32? @unique(badge) @unique(src, dst, badge) }
""")
PAIR = CATALOG.edges["Pair"]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("P", []),
        ("Plain", []),
        ("Pair", [["dst", "src"]]),
        ("Dated", [["day", "dst", "src"]]),
        ("Badge", [["badge", "dst", "src"]]),
    ],
)
def test_both_ends_and_the_unique_columns_make_an_edge(name: str, columns: list[list[str]]) -> None:
    assert key_columns(CATALOG.entity_named(name)) == columns


def edge(ends: str, v: int | None = None) -> dict[str, str | int | None]:
    return {"src": ends[0], "dst": ends[1], "v": v}


def test_ids_that_share_a_key_have_one_that_stands_for_them() -> None:
    rows = {"c": edge("ab"), "b": edge("ab"), "d": edge("xy")}
    assert same_keys(key_columns(PAIR), table(PAIR, rows)) == {"b": "b", "c": "b"}


def test_an_edge_that_moved_links_those_it_met() -> None:
    rows = [("a", "ab"), ("b", "ab"), ("b", "cd"), ("c", "cd"), ("e", "ef")]
    found = [table(PAIR, {name: edge(ends)}) for name, ends in rows]
    assert same_keys(key_columns(PAIR), pa.concat_tables(found)) == dict.fromkeys("abc", "a")


def test_keys_with_a_null_are_the_keys_of_no_edge() -> None:
    dated = CATALOG.edges["Dated"]
    rows = {name: {"src": "a", "dst": "b", "day": None} for name in "xy"}
    assert same_keys(key_columns(dated), table(dated, rows)) == {}


def test_an_edge_added_on_both_sides_has_the_id_of_the_target() -> None:
    found = unified(
        PAIR,
        changes(PAIR, {}, {"t": edge("ab", 1), "u": edge("bc", 1)}),
        changes(PAIR, {}, {"o": edge("ab", 2)}),
        {},
    )
    assert rows_in(found.theirs.inserted) == {"o": edge("ab", 1), "u": edge("bc", 1)}
    assert rows_in(found.ours.inserted) == {"o": edge("ab", 2)}


def test_a_change_reaches_an_edge_that_was_replaced_here() -> None:
    base = {"x": edge("ab", 1)}
    found = unified(
        PAIR,
        changes(PAIR, base, {"x": edge("ab", 5)}),
        changes(PAIR, base, {"y": edge("ab", 1)}),
        {},
    )
    assert rows_in(found.theirs.new) == {"y": edge("ab", 5)}
    assert found.ours.is_empty


def test_a_replacement_there_is_a_change_under_the_id_it_has_here() -> None:
    base = {"x": edge("ab", 1)}
    found = unified(
        PAIR,
        changes(PAIR, base, {"y": edge("ab", 5)}),
        changes(PAIR, base, {"x": edge("ab", 2)}),
        {},
    )
    assert rows_in(found.theirs.new) == {"x": edge("ab", 5)}
    assert found.theirs.inserted.num_rows == found.theirs.deleted.num_rows == 0


def test_edges_of_other_ends_keep_their_ids() -> None:
    theirs = changes(PAIR, {}, {"t": edge("ab")})
    ours = changes(PAIR, {}, {"o": edge("ba")})
    found = unified(PAIR, theirs, ours, {})
    assert (found.theirs, found.ours) == (theirs, ours)

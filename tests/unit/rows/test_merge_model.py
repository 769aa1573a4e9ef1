"""The three-way merge of Arrow tables does what the model does row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import Entity
from omnigraph.rows.three_way import Conflict, Decision, Side, by_property, merge_table
from omnigraph.rows.virtual_base import BaseTree, Join, leaves, rebased, renumbered
from tests.property import merge_model
from tests.property.base_model import Start
from tests.unit.rows.arrow_rows import Rows, applied, catalog_of, changes, table

CATALOG = catalog_of("""
node Item { a: I32? b: String? }
node Person { slug: String @key }
edge Works: Person -> Person { role: I32? @unique(src, dst) }
edge Knows: Person -> Person { role: I32? }
""")
ITEM, WORKS, KNOWS = CATALOG.nodes["Item"], CATALOG.edges["Works"], CATALOG.edges["Knows"]
STATES = 7
"""Those a merge may start from, then theirs and ours."""

Plain = dict[str, dict[str, Any]]
Tree = int | tuple["Tree", int, "Tree | None"]
"""A state by its number, or two merged from what they have in common."""


def distinct_ends(rows: Plain) -> Plain:
    """Return rows of which no two join the same nodes: what a table with @unique can hold."""
    found: Plain = {}
    seen: set[tuple[str, str]] = set()
    for key in sorted(rows):
        ends = rows[key]["src"], rows[key]["dst"]
        if ends not in seen:
            seen.add(ends)
            found[key] = rows[key]
    return found


items = st.dictionaries(
    st.sampled_from("pqr"),
    st.fixed_dictionaries({"a": st.sampled_from([None, 0, 1]), "b": st.sampled_from("xy")}),
)
edges = st.dictionaries(
    st.sampled_from(["e1", "e2", "e3", "e4"]),
    st.fixed_dictionaries(
        {"src": st.sampled_from("ab"), "dst": st.just("c"), "role": st.sampled_from([0, 1])}
    ),
)
single_edges = edges.map(distinct_ends)
# Each id with ends of its own, two of them with the same.
still_edges = st.fixed_dictionaries(
    {},
    optional={
        name: st.fixed_dictionaries(
            {"src": st.just(src), "dst": st.just("c"), "role": st.sampled_from([0, 1])}
        )
        for name, src in (("e1", "a"), ("e2", "a"), ("e3", "b"))
    },
).map(distinct_ends)
pairs = st.tuples(st.just(0), st.just(1), st.sampled_from([None, 3]))
trees = st.one_of(
    pairs, st.tuples(st.one_of(st.just(0), pairs), st.just(2), st.sampled_from([None, 4]))
)
resolutions = st.sampled_from([None, "ours", "theirs"])


def decision(resolve: str | None, *, joins: bool) -> Any:
    def decide(conflict: Conflict) -> Decision:
        found = by_property(conflict) if joins else None
        if found is not None or resolve is None:
            return found
        return Side(resolve)

    return decide


def row_of(entity: Entity, image: Mapping[str, Any]) -> Any:
    """Return decided values as a row; without blobs and dates an image holds plain values."""
    values = dict(image["data"])
    ends = {"src": image["from"], "dst": image["to"]} if "from" in image else {}
    return table(entity, {values.pop("id"): {**ends, **values}})


def engine_tree(tree: Tree) -> BaseTree:
    if isinstance(tree, int):
        return tree
    left, right, base = tree
    return Join(engine_tree(left), right, None if base is None else engine_tree(base))


def model_tree(tree: Tree) -> merge_model.Tree:
    if isinstance(tree, int):
        return str(tree)
    left, right, base = tree
    return merge_model.Join(
        model_tree(left), str(right), None if base is None else model_tree(base)
    )


def merged(
    entity: Entity, tree: Tree, states: list[Plain], resolve: str | None, *, joins: bool
) -> tuple[Rows, dict[str, str]]:
    """Merge with the engine; the last two states are theirs and ours."""
    found = renumbered(engine_tree(tree), {number: number for number in range(STATES)})
    anchor, *others = dict.fromkeys(leaves(found))
    start, theirs, ours = states[anchor], states[-2], states[-1]
    since = rebased(
        found,
        changes(entity, start, theirs),
        changes(entity, start, ours),
        {number: changes(entity, start, states[number]) for number in others},
    )
    decide = decision(resolve, joins=joins)
    outcome = merge_table(entity, since.theirs, since.ours, decide, row_of, since.undefined)
    return applied(outcome.change, ours), {str(c.entity_id): c.kind for c in outcome.conflicts}


def expected(
    entity: Entity, tree: Tree, states: list[Plain], resolve: str | None, *, joins: bool
) -> tuple[Rows, dict[str, str]]:
    named = {str(number): rows for number, rows in enumerate(states)}
    base: dict[str, Start] = merge_model.starts(model_tree(tree), named)
    return merge_model.merge_type(
        entity.name, base, states[-2], states[-1], resolve=resolve, by_property=joins
    )


@settings(max_examples=100)
@given(st.lists(items, min_size=3, max_size=3), resolutions, st.booleans())
def test_nodes_merge_from_one_state(states: list[Plain], resolve: str | None, joins: bool) -> None:
    states = [states[0]] * (STATES - 2) + states[1:]
    assert merged(ITEM, 0, states, resolve, joins=joins) == expected(
        ITEM, 0, states, resolve, joins=joins
    )


@settings(max_examples=100)
@given(trees, st.lists(items, min_size=STATES, max_size=STATES), resolutions, st.booleans())
def test_nodes_merge_from_states_merged_into_one(
    tree: Tree, states: list[Plain], resolve: str | None, joins: bool
) -> None:
    assert merged(ITEM, tree, states, resolve, joins=joins) == expected(
        ITEM, tree, states, resolve, joins=joins
    )


@settings(max_examples=100)
@given(st.lists(edges, min_size=3, max_size=3), resolutions)
def test_edges_that_may_be_many_keep_their_ids(states: list[Plain], resolve: str | None) -> None:
    states = [states[0]] * (STATES - 2) + states[1:]
    assert merged(KNOWS, 0, states, resolve, joins=False) == expected(
        KNOWS, 0, states, resolve, joins=False
    )


@settings(max_examples=100)
@given(st.lists(single_edges, min_size=3, max_size=3), resolutions, st.booleans())
def test_edges_of_which_one_joins_two_nodes_are_judged_as_one(
    states: list[Plain], resolve: str | None, joins: bool
) -> None:
    states = [states[0]] * (STATES - 2) + states[1:]
    assert merged(WORKS, 0, states, resolve, joins=joins) == expected(
        WORKS, 0, states, resolve, joins=joins
    )


@settings(max_examples=100)
@given(trees, st.lists(still_edges, min_size=STATES, max_size=STATES), resolutions, st.booleans())
def test_edges_judged_as_one_merge_from_states_merged_into_one(
    tree: Tree, states: list[Plain], resolve: str | None, joins: bool
) -> None:
    assert merged(WORKS, tree, states, resolve, joins=joins) == expected(
        WORKS, tree, states, resolve, joins=joins
    )


def test_an_edge_replaced_by_one_that_equals_a_guess_is_no_silent_loss() -> None:
    """Two states disagree on the role, so nothing is known of it; either choice is a conflict."""
    one, other = ({"e1": {"src": "a", "dst": "c", "role": role}} for role in (0, 1))
    ours = {"e2": {"src": "a", "dst": "c", "role": 0}}
    states: list[Plain] = [one, other, {}, {}, {}, other, ours]
    found = merged(WORKS, (0, 1, None), states, None, joins=False)
    assert found == (ours, {"e2": "divergent_update"})


def test_an_id_both_sides_gave_to_different_edges_stays_theirs() -> None:
    theirs = {name: {"src": src, "dst": "c", "role": 0} for name, src in (("e1", "b"), ("e2", "a"))}
    ours = {"e1": {"src": "a", "dst": "c", "role": 1}}
    states: list[Plain] = [{}] * 5 + [theirs, ours]
    assert merged(WORKS, 0, states, None, joins=False)[1] == {"e1": "divergent_insert"}
    assert merged(WORKS, 0, states, "theirs", joins=False) == (theirs, {})


def test_joins_of_equal_states_are_left_out() -> None:
    tree = Join(Join(0, 1, 2), 3, 4)
    assert list(leaves(tree)) == [0, 1, 2, 3, 4]
    assert renumbered(tree, {n: n for n in range(5)}) == tree
    assert renumbered(tree, {0: 0, 1: 0, 2: 2, 3: 3, 4: 4}) == Join(0, 3, 4)
    assert renumbered(tree, {0: 0, 1: 1, 2: 0, 3: 3, 4: 4}) == Join(1, 3, 4)
    assert renumbered(tree, dict.fromkeys(range(5), 0)) == 0

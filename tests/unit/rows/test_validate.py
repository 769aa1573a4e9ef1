"""The checks of a write, on a captured state that is only a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import AcceptedSchema, Catalog, Entity, accept_initial
from omnigraph.commits.base import Base
from omnigraph.commits.changes import ChangeSet
from omnigraph.rows.problems import Problems
from omnigraph.rows.validate import check_values, validate
from tests.unit.rows.arrow_rows import Rows, catalog_of, table

VALUES = catalog_of("""
node Item {
    size: I32?
    code: String?
    state: enum(on, off)?
    weight: F64?
    parts: [F64]?
    name: String
    @range(size, 0..10)
    @check(code, "^[a-z]+$")
}
""").nodes["Item"]
GOOD = {"size": 10, "code": "ab", "state": "on", "weight": 0.5, "parts": [1.0], "name": "n"}

GRAPH = catalog_of("""
node Person { mail: String? @unique }
node Firm { }
edge Works: Person -> Firm @card(0..2) { since: I32? @unique(src, dst) }
edge Knows: Person -> Person { }
""")
State = dict[str, dict[str, dict[str, Any]]]
"""Rows by table key and id."""


# ---- values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": None}, "missing required property 'name'"),
        ({"size": -1}, "@range violation on Item.size: value -1 < min 0"),
        ({"size": 11}, "@range violation on Item.size: value 11 > max 10"),
        (
            {"code": "a1"},
            "@check violation on Item.code: value 'a1' does not match pattern '^[a-z]+$'",
        ),
        ({"state": "odd"}, "invalid enum value 'odd' for Item.state (expected: off, on)"),
        (
            {"weight": float("inf")},
            "property 'weight': expected a finite number, got inf",
        ),
        (
            {"parts": [1.0, float("nan")]},
            "property 'parts': expected a finite number, got [1.0, nan]",
        ),
    ],
)
def test_a_value_that_breaks_a_rule_is_named_with_its_row(
    values: Mapping[str, Any], message: str
) -> None:
    problems = Problems()
    check_values(VALUES, table(VALUES, {"fine": GOOD, "bad": {**GOOD, **values}}), problems)
    assert [(item.message, item.entity_id) for item in problems.items] == [(message, "bad")]


def test_values_at_their_bounds_and_nulls_are_fine() -> None:
    problems = Problems()
    empty = {**dict.fromkeys(GOOD), "name": ""}
    check_values(VALUES, table(VALUES, {"low": {**GOOD, "size": 0}, "none": empty}), problems)
    assert problems.items == []


# ---- a captured state ---------------------------------------------------------------------


@dataclass
class Captured:
    """What `Base` tells about a captured graph, from plain rows."""

    schema: AcceptedSchema
    rows: State
    read: set[str] = field(default_factory=set)

    def row_count(self, entity: Entity) -> int:
        self.read.add(entity.table_key)
        return len(self.rows[entity.table_key])

    def scan(self, entity: Entity, columns: Sequence[str], where: str | None) -> Any:
        self.read.add(entity.table_key)
        # More rows than asked for are allowed: the caller compares the keys.
        return table(entity, self.rows[entity.table_key]).select(list(columns))

    def existing_ids(self, entity: Entity, ids: Collection[str]) -> set[str]:
        self.read.add(entity.table_key)
        return set(ids) & self.rows[entity.table_key].keys()

    def rows_where(self, entity: Entity, column: str, values: Sequence[str]) -> Any:
        found = self.rows[entity.table_key].items()
        return table(entity, {k: r for k, r in found if {"id": k, **r}[column] in values})

    def edge_ends(self, entity: Entity, column: str, values: Sequence[str]) -> Any:
        self.read.add(entity.table_key)
        return self.rows_where(entity, column, values).select(["id", "src", "dst"])


def captured(catalog: Catalog, rows: State) -> tuple[Base, Captured]:
    found = Captured(accept_initial(catalog, domain="TEST"), rows)
    return cast("Base", found), found


def change_set(catalog: Catalog, before: State, puts: Mapping[str, Rows], gone: Any) -> ChangeSet:
    changes = ChangeSet()
    for key, rows in puts.items():
        entity = catalog.entity_of_table(key)
        known = before[key]
        change = changes.of(entity)
        change.added = table(entity, {k: r for k, r in rows.items() if k not in known})
        change.changed = table(entity, {k: r for k, r in rows.items() if k in known})
    for key, ids in gone.items():
        changes.of(catalog.entity_of_table(key)).deleted = sorted(ids)
    return changes


def kinds(before: State, puts: Mapping[str, Rows], gone: Mapping[str, set[str]]) -> set[str]:
    base, _ = captured(GRAPH, before)
    problems = Problems()
    validate(base, change_set(GRAPH, before, puts, gone), problems)
    return {item.kind for item in problems.items}


# ---- rules that span rows -----------------------------------------------------------------

PERSON, FIRM, WORKS, KNOWS = "node:Person", "node:Firm", "edge:Works", "edge:Knows"
EMPTY: State = {PERSON: {}, FIRM: {}, WORKS: {}, KNOWS: {}}


def broken(state: State, removed: Collection[str] = ()) -> set[str]:
    """Return the kinds of what is wrong with a whole graph, looked at row by row.

    How many edges a person has that was removed is of no interest: none of them may be left.
    """
    found: set[str] = set()
    mails = [row["mail"] for row in state[PERSON].values() if row["mail"] is not None]
    pairs = [(row["src"], row["dst"]) for row in state[WORKS].values()]
    if len(set(mails)) < len(mails) or len(set(pairs)) < len(pairs):
        found.add("unique_violation")
    ends = {WORKS: (PERSON, FIRM), KNOWS: (PERSON, PERSON)}
    for key, (source, target) in ends.items():
        for row in state[key].values():
            if row["src"] not in state[source] or row["dst"] not in state[target]:
                found.add("orphan_edge")
    numbers = Counter(src for src, _dst in pairs if src not in removed)
    if any(number > 2 for number in numbers.values()):
        found.add("cardinality_violation")
    return found


def repaired(state: State) -> State:
    """Return a graph that breaks no rule: whatever would, is left out."""
    found: State = {key: {} for key in state}
    for key, rows in state.items():
        for name, row in rows.items():
            found[key][name] = row
            if broken(found):
                del found[key][name]
    return found


people = st.dictionaries(
    st.sampled_from("abc"), st.fixed_dictionaries({"mail": st.sampled_from([None, "m", "n"])})
)
firms: st.SearchStrategy[dict[str, dict[str, Any]]] = st.dictionaries(
    st.sampled_from("uvw"), st.just({})
)
works = st.dictionaries(
    st.sampled_from(["w1", "w2", "w3"]),
    st.fixed_dictionaries(
        {"src": st.sampled_from("ab"), "dst": st.sampled_from("uvw"), "since": st.just(1)}
    ),
)
knows = st.dictionaries(
    st.sampled_from(["k1", "k2"]),
    st.fixed_dictionaries({"src": st.sampled_from("abc"), "dst": st.sampled_from("abc")}),
)
states = st.fixed_dictionaries({PERSON: people, FIRM: firms, WORKS: works, KNOWS: knows})


@settings(max_examples=100)
@given(states.map(repaired), states, st.sets(st.sampled_from("abcuvw")))
def test_a_write_is_refused_exactly_when_the_graph_would_break(
    before: State, puts: State, gone: set[str]
) -> None:
    removed = {
        key: {name for name in before[key] if name in gone and name not in puts[key]}
        for key in (PERSON, FIRM)
    }
    after = {
        key: {
            k: r for k, r in {**before[key], **puts[key]}.items() if k not in removed.get(key, ())
        }
        for key in before
    }
    assert kinds(before, puts, removed) == broken(after, removed[PERSON])


def test_an_edge_that_is_changed_counts_once_and_where_it_is_then() -> None:
    nodes: State = {PERSON: {p: {"mail": None} for p in "ab"}, FIRM: {f: {} for f in "uvw"}}
    full = {f"w{n}": {"src": "a", "dst": firm, "since": 1} for n, firm in enumerate("uv")}
    before = {**EMPTY, **nodes, WORKS: full}
    moved = {"src": "b", "dst": "u", "since": 1}
    third = {"src": "a", "dst": "w", "since": 1}
    assert kinds(before, {WORKS: {"w0": {**full["w0"], "since": 2}}}, {}) == set()
    assert kinds(before, {WORKS: {"w0": moved, "w2": third}}, {}) == set()
    assert kinds(before, {WORKS: {"w2": third}}, {}) == {"cardinality_violation"}
    assert kinds(before, {WORKS: {"w2": third}}, {WORKS: {"w1"}}) == set()


def test_what_a_verdict_rests_on_is_recorded() -> None:
    base, seen = captured(GRAPH, {**EMPTY, PERSON: {"a": {"mail": None}}})
    puts = {WORKS: {"w": {"src": "a", "dst": "u", "since": 1}}}
    problems = Problems()
    validate(base, change_set(GRAPH, seen.rows, puts, {}), problems)
    assert [item.message for item in problems.items] == ["Works: dst 'u' not found in Firm"]
    assert {PERSON, FIRM} <= seen.read


def test_a_replaced_table_counts_as_empty() -> None:
    before: State = {**EMPTY, PERSON: {"a": {"mail": "m"}}, KNOWS: {"k": {"src": "a", "dst": "a"}}}
    base, _ = captured(GRAPH, before)
    changes = ChangeSet()
    change = changes.of(GRAPH.nodes["Person"])
    change.replaced, change.added = True, table(GRAPH.nodes["Person"], {"b": {"mail": "m"}})
    problems = Problems()
    validate(base, changes, problems)
    assert {(p.kind, p.entity_id, p.field) for p in problems.items} == {
        ("orphan_edge", "k", "from"),
        ("orphan_edge", "k", "to"),
    }


def test_only_as_many_problems_as_allowed_are_kept_and_all_are_counted() -> None:
    rows = {f"i{number}": {**GOOD, "size": 11} for number in range(7)}
    problems = Problems(limit=3)
    check_values(VALUES, table(VALUES, rows), problems)
    assert (len(problems.items), problems.count, problems.full) == (3, 7, True)


def test_lists_are_judged_in_every_chunk() -> None:
    rows = table(VALUES, {"a": GOOD})
    parts = pa.concat_tables([rows, table(VALUES, {"b": {**GOOD, "parts": [float("inf")]}})])
    problems = Problems()
    check_values(VALUES, parts, problems)
    assert [item.entity_id for item in problems.items] == ["b"]

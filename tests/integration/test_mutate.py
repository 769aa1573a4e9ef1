"""Mutations: statements that see each other, one commit or none, and what they count."""

from __future__ import annotations

import lance
import pytest

import omnigraph as og
from tests.integration.helpers import (
    NewGraph,
    edge,
    ends,
    files,
    head,
    load,
    node,
    pins,
    rows,
    run,
)
from tests.places import names_in

CARDS = """\
node Team { name: String @key }
node Player { name: String @key  rank: I32? }
edge Captain: Player -> Team @card(0..1) { since: Date? }
edge Plays: Player -> Team @card(1..2)
edge Coach: Team -> Player
"""


@pytest.fixture
def pair(graph: og.Graph) -> og.Graph:
    """A graph with two people who do not know each other."""
    load(graph, [node("Person", name="a", age=1), node("Person", name="b", age=2)])
    return graph


# ---- reading own writes -------------------------------------------------------------------


def test_an_edge_may_join_nodes_inserted_before_it(graph: og.Graph) -> None:
    run(
        graph,
        """insert Person { name: "a" } insert Person { name: "b" }
        insert Knows { from: "a", to: "b" }""",
    )
    assert ends(graph, "Knows") == [("a", "b")]


def test_an_edge_may_come_before_its_nodes(graph: og.Graph) -> None:
    run(graph, 'insert Knows { from: "a", to: "a" } insert Person { name: "a" }')
    assert ends(graph, "Knows") == [("a", "a")]


def test_cardinality_counts_the_edges_of_the_same_mutation(new_graph: NewGraph) -> None:
    graph = new_graph(CARDS)
    load(graph, [node("Team", name="x"), node("Team", name="y"), node("Player", name="p")])
    before = files(graph.uri)
    with pytest.raises(og.DataError) as refused:
        run(graph, 'insert Captain {from: "p", to: "x"} insert Captain {from: "p", to: "y"}')
    assert refused.value.message == (
        "@card violation on edge Captain: source 'p' has 2 edges (max 1)"
    )
    assert files(graph.uri) == before


def test_an_update_sees_rows_inserted_before_it(graph: og.Graph) -> None:
    result = run(
        graph,
        'insert Person { name: "a", age: 1 } update Person set { age: 9 } where age = 1',
    )
    assert rows(graph, "Person") == {"a": {"name": "a", "age": 9}}
    assert result.affected_nodes == 2


def test_insert_and_update_of_one_id_make_one_row_and_one_transaction(graph: og.Graph) -> None:
    before = pins(graph)
    run(
        graph,
        """insert Person { name: "a", age: 1 }
        update Person set { age: 2 } where name = "a"
        upsert Person { name: "a", mail: "a@x" }""",
    )
    assert rows(graph, "Person") == {"a": {"name": "a", "age": 2, "mail": "a@x"}}
    assert pins(graph) == {**before, "node:Person": before["node:Person"] + 1}
    assert graph.snapshot().tables["node:Person"].row_count == 1


def test_chained_updates_see_the_value_in_between(pair: og.Graph) -> None:
    result = run(
        pair,
        """update Person set { age: 10 } where age = 1
        update Person set { age: 20 } where age = 10
        update Person set { age: 30 } where age = 1""",
    )
    assert rows(pair, "Person")["a"]["age"] == 20
    assert result.affected_nodes == 2


def test_a_row_that_left_a_predicate_is_not_matched_by_its_stored_value(pair: og.Graph) -> None:
    run(
        pair,
        """update Person set { age: 5 } where name = "a"
        update Person set { mail: "old" } where age = 1""",
    )
    assert rows(pair, "Person")["a"] == {"name": "a", "age": 5}


def test_of_two_inserts_of_one_key_the_last_wins(graph: og.Graph) -> None:
    run(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "a", mail: "m" }')
    assert rows(graph, "Person") == {"a": {"name": "a", "mail": "m"}}


# ---- one commit ---------------------------------------------------------------------------


def test_many_statements_on_many_tables_make_one_commit(graph: og.Graph) -> None:
    version = graph.snapshot().version
    statements = " ".join(f'insert Person {{ name: "p{i}" }}' for i in range(10))
    result = run(
        graph,
        statements
        + """ insert Paper { id: "x", title: "t" }
        insert Knows { from: "p0", to: "p1" } insert Wrote { from: "p0", to: "x" }""",
    )
    assert graph.snapshot().version == version + 1
    assert result.commit == graph.commits.head()
    assert len(graph.commits.list()) == 2
    assert (result.affected_nodes, result.affected_edges) == (11, 2)


def test_a_failing_last_statement_leaves_everything_as_it_was(pair: og.Graph) -> None:
    before, known = files(pair.uri), pair.snapshot()
    with pytest.raises(og.DataError, match="src 'nobody' not found in Person"):
        run(
            pair,
            """insert Person { name: "c" } update Person set { age: 7 } where name = "a"
            insert Knows { from: "nobody", to: "a" }""",
        )
    assert files(pair.uri) == before
    assert pair.snapshot() == known
    for pin in known.tables.values():
        assert lance.dataset(f"{pair.uri}/{pin.path}").version == pin.version
    assert names_in(f"{pair.uri}/__recovery") == []
    run(pair, 'insert Person { name: "c" }')
    assert set(rows(pair, "Person")) == {"a", "b", "c"}


def test_a_value_that_does_not_fit_leaves_everything_as_it_was(pair: og.Graph) -> None:
    before = files(pair.uri)
    with pytest.raises(og.DataError):
        run(pair, "update Person set { age: $x } where true = true", x=("F64", 0.5))
    assert files(pair.uri) == before


def test_a_dry_run_counts_and_checks_and_writes_nothing(pair: og.Graph) -> None:
    load(pair, [edge("Knows", "a", "b")])
    before, head = files(pair.uri), pair.commits.head()
    drop = 'query drop() { delete Person where name = "a" }'
    done = pair.mutate(drop, dry_run=True)
    assert (done.dry_run, done.commit, done.repeated) == (True, None, False)
    assert (done.affected_nodes, done.affected_edges) == (1, 1)
    with pytest.raises(og.DataError):
        pair.mutate('query link() { insert Knows { from: "a", to: "nobody" } }', dry_run=True)
    with pytest.raises(og.PreconditionFailedError):
        pair.mutate(drop, dry_run=True, expected_head="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert files(pair.uri) == before
    assert pair.commits.head() == head
    assert pair.mutate(drop).affected_nodes == 1


def test_mixing_inserts_and_deletes_is_refused_before_any_io(pair: og.Graph) -> None:
    before = files(pair.uri)
    with pytest.raises(og.CompileError, match="split into separate mutations"):
        run(pair, 'insert Person { name: "c" } delete Person where name = "a"')
    assert files(pair.uri) == before


def test_a_reading_query_is_no_mutation(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="query 'q' reads"):
        graph.mutate("query q() { match { $p: Person } return { $p.name } }")


@pytest.mark.parametrize(
    "body",
    ['update Person set { age: 1 } where name = "nobody"', 'delete Person where name = "nobody"'],
)
def test_a_mutation_without_effect_makes_no_commit(pair: og.Graph, body: str) -> None:
    before, version = head(pair), pair.snapshot().version
    result = run(pair, body)
    assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)
    assert (head(pair), pair.snapshot().version) == (before, version)


# ---- upsert -------------------------------------------------------------------------------


def test_upsert_keeps_the_properties_it_does_not_name(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", age=1, mail="m")])
    run(graph, 'upsert Person { name: "a", age: 2 }')
    assert rows(graph, "Person") == {"a": {"name": "a", "age": 2, "mail": "m"}}


def test_insert_of_an_existing_key_replaces_the_whole_node(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", age=1, mail="m")])
    run(graph, 'insert Person { name: "a", age: 2 }')
    assert rows(graph, "Person") == {"a": {"name": "a", "age": 2}}


def test_upsert_that_adds_a_node_needs_its_required_properties(graph: og.Graph) -> None:
    with pytest.raises(og.DataError) as refused:
        run(graph, 'upsert Paper { id: "x", pages: 3 }')
    assert refused.value.message == "Paper 'x' does not exist, and adding it needs 'title'"
    assert refused.value.problems == (
        {"type": "Paper", "id": "x", "field": "title", "message": "required"},
    )
    run(graph, 'insert Paper { id: "x", title: "t", pages: 2 }')
    run(graph, 'upsert Paper { id: "x", pages: 3 }')
    assert rows(graph, "Paper") == {"x": {"title": "t", "pages": 3}}


def test_upsert_sees_the_row_it_added_itself(graph: og.Graph) -> None:
    run(graph, 'insert Paper { id: "x", title: "t" } upsert Paper { id: "x", pages: 3 }')
    assert rows(graph, "Paper") == {"x": {"title": "t", "pages": 3}}


def test_defaults_fill_what_an_insert_leaves_out(pair: og.Graph) -> None:
    run(pair, 'insert Paper { id: "x", title: "t" } insert Knows { from: "a", to: "b" }')
    assert rows(pair, "Paper") == {"x": {"title": "t", "pages": 1}}
    assert [row["weight"] for row in rows(pair, "Knows").values()] == [1.0]


def test_an_edge_is_updated_in_place(pair: og.Graph) -> None:
    run(pair, 'insert Knows { id: "e", from: "a", to: "b" }')
    result = run(
        pair,
        'update Knows set { weight: 0.5, since: date("2025-03-01") } where from = "a"',
    )
    assert (result.affected_nodes, result.affected_edges) == (0, 1)
    assert rows(pair, "Knows") == {"e": {"since": 20148, "weight": 0.5}}
    run(pair, 'update Knows set { since: null } where to = "b" and id = "e"')
    assert rows(pair, "Knows") == {"e": {"weight": 0.5}}


def test_upsert_finds_the_one_edge_between_two_nodes(pair: og.Graph) -> None:
    run(pair, 'insert Knows { id: "e", from: "a", to: "b", since: date("2025-03-01") }')
    result = run(pair, 'upsert Knows { from: "a", to: "b", weight: 3.0 }')
    assert result.affected_edges == 1
    assert rows(pair, "Knows") == {"e": {"since": 20148, "weight": 3.0}}
    run(pair, 'upsert Knows { from: "b", to: "a" }')
    assert ends(pair, "Knows") == [("a", "b"), ("b", "a")]


def test_upsert_of_an_edge_twice_in_one_mutation_adds_one(pair: og.Graph) -> None:
    run(
        pair,
        """upsert Knows { from: "a", to: "b", weight: 2.0 }
        upsert Knows { from: "a", to: "b", since: date("2025-03-01") }""",
    )
    assert list(rows(pair, "Knows").values()) == [{"since": 20148, "weight": 2.0}]


# ---- ids ----------------------------------------------------------------------------------


def test_explicit_ids_are_kept_and_others_are_ulids(pair: og.Graph) -> None:
    run(
        pair,
        """insert Paper { id: "it's \\\\ \\"odd\\" é", title: "t" }
        insert Paper { title: "u" } insert Knows { id: "e1", from: "a", to: "b" }""",
    )
    papers = rows(pair, "Paper")
    assert 'it\'s \\ "odd" é' in papers
    (generated,) = set(papers) - {'it\'s \\ "odd" é'}
    assert len(generated) == 26
    assert list(rows(pair, "Knows")) == ["e1"]
    run(pair, "update Paper set { pages: 5 } where id = $x", x=("String", 'it\'s \\ "odd" é'))
    assert rows(pair, "Paper")['it\'s \\ "odd" é']["pages"] == 5


def test_a_row_with_an_odd_id_is_found_and_deleted(graph: og.Graph) -> None:
    odd = ["", "'", "''", "a'b", "%", "\\", "\n", "$main$", "日本", "a" * 500]
    for value in odd:
        run(graph, "insert Person { name: $x }", x=("String", value))
    assert set(rows(graph, "Person")) == set(odd)
    for value in odd:
        assert run(graph, "delete Person where id = $x", x=("String", value)).affected_nodes == 1
    assert rows(graph, "Person") == {}


def test_insert_of_an_explicit_id_that_exists_is_refused(pair: og.Graph) -> None:
    run(pair, 'insert Paper { id: "x", title: "first" } insert Knows {id: "e", from: "a", to: "b"}')
    with pytest.raises(og.KeyConflictError):
        run(pair, 'insert Paper { id: "x", title: "second" }')
    with pytest.raises(og.KeyConflictError):
        run(pair, 'insert Knows { id: "e", from: "b", to: "a" }')
    with pytest.raises(og.KeyConflictError):
        run(pair, 'insert Paper { id: "y", title: "a" } insert Paper { id: "y", title: "b" }')
    assert rows(pair, "Paper") == {"x": {"title": "first", "pages": 1}}
    assert ends(pair, "Knows") == [("a", "b")]


# ---- delete -------------------------------------------------------------------------------


@pytest.fixture
def triangle(graph: og.Graph) -> og.Graph:
    load(
        graph,
        [
            *(node("Person", name=name) for name in "abc"),
            node("Paper", id="x", title="t"),
            edge("Knows", "a", "b", id="ab"),
            edge("Knows", "b", "c", id="bc"),
            edge("Knows", "c", "a", id="ca"),
            edge("Knows", "a", "a", id="aa"),
            edge("Wrote", "b", "x", id="bx"),
        ],
    )
    return graph


def test_deleting_a_node_deletes_its_edges_in_both_directions(triangle: og.Graph) -> None:
    before = pins(triangle)
    result = run(triangle, 'delete Person where name = "a"')
    assert (result.affected_nodes, result.affected_edges) == (1, 3)
    assert ends(triangle, "Knows") == [("b", "c")]
    assert set(rows(triangle, "Person")) == {"b", "c"}
    after = pins(triangle)
    assert {key for key in after if after[key] != before[key]} == {"node:Person", "edge:Knows"}
    assert triangle.snapshot().tables["edge:Knows"].row_count == 1


def test_an_edge_matched_by_cascade_and_by_name_counts_once(triangle: og.Graph) -> None:
    result = run(
        triangle,
        """delete Knows where from = "a" delete Person where name = "a"
        delete Knows where id = "ca" delete Knows where id = "bc\"""",
    )
    assert (result.affected_nodes, result.affected_edges) == (1, 4)
    assert ends(triangle, "Knows") == []


def test_overlapping_deletes_count_each_row_once(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", age=1), node("Person", name="b")])
    result = run(
        graph,
        'delete Person where age = 1 delete Person where name = "a" delete Person where age is null'
        ' delete Person where name = "b"',
    )
    assert result.affected_nodes == 2
    assert rows(graph, "Person") == {}


def test_a_null_property_does_not_hide_a_row_from_a_later_delete(graph: og.Graph) -> None:
    load(graph, [node("Person", name="a", age=1), node("Person", name="b")])
    result = run(graph, 'delete Person where age = 1 delete Person where name != "z"')
    assert result.affected_nodes == 2


def test_a_delete_that_drops_a_source_below_its_minimum_is_refused(new_graph: NewGraph) -> None:
    graph = new_graph(CARDS)
    load(
        graph,
        [
            node("Team", name="x"),
            node("Team", name="y"),
            node("Player", name="p"),
            edge("Plays", "p", "x", id="px"),
        ],
    )
    before = files(graph.uri)
    for body in ('delete Plays where id = "px"', 'delete Team where name = "x"'):
        with pytest.raises(og.DataError) as refused:
            run(graph, body)
        assert refused.value.message == (
            "@card violation on edge Plays: source 'p' has 0 edges (min 1)"
        )
    assert files(graph.uri) == before
    result = run(graph, 'delete Player where name = "p"')
    assert (result.affected_nodes, result.affected_edges) == (1, 1)


def test_deleting_every_row_leaves_an_empty_table_that_takes_rows_again(pair: og.Graph) -> None:
    assert run(pair, "delete Person where true = true").affected_nodes == 2
    assert rows(pair, "Person") == {}
    run(pair, 'insert Person { name: "a", age: 5 }')
    assert rows(pair, "Person") == {"a": {"name": "a", "age": 5}}


# ---- preconditions, repetition, actors ----------------------------------------------------

INSERT = 'query add() { insert Person { name: "z" } }'


def test_a_stale_expected_head_is_refused_with_both_ids(pair: og.Graph) -> None:
    stale = head(pair)
    run(pair, 'insert Person { name: "c" }')
    for source in (INSERT, 'query none() { delete Person where name = "nobody" }'):
        with pytest.raises(og.PreconditionFailedError) as refused:
            pair.mutate(source, expected_head=stale)
        assert (refused.value.expected, refused.value.actual) == (stale, head(pair))
    assert "z" not in rows(pair, "Person")


def test_the_current_expected_head_is_accepted(pair: og.Graph) -> None:
    before = head(pair)
    result = pair.mutate(INSERT, expected_head=before)
    assert result.commit is not None
    assert result.commit.parent_commit_id == before
    none = pair.mutate(
        'query none() { delete Person where name = "nobody" }', expected_head=head(pair)
    )
    assert none.commit is None


def test_repeating_an_operation_id_returns_the_first_commit(pair: og.Graph) -> None:
    first = pair.mutate(INSERT, operation_id="order-17")
    run(pair, 'update Person set { age: 50 } where name = "z"')
    again = pair.mutate(INSERT, operation_id="order-17")
    assert again.commit == first.commit
    assert (first.repeated, first.affected_nodes) == (False, 1)
    assert (again.repeated, again.affected_nodes, again.affected_edges) == (True, None, None)
    assert again.to_json()["affected_nodes"] is None
    assert rows(pair, "Person")["z"]["age"] == 50
    with og.open(pair.uri, durability="none") as cold:
        assert cold.mutate(INSERT, operation_id="order-17").commit == first.commit
    assert len([c for c in pair.commits.list() if c.operation_id == "order-17"]) == 1


def test_a_blank_operation_id_or_actor_is_refused(pair: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="operation_id must not be blank"):
        pair.mutate(INSERT, operation_id=" ")
    with pytest.raises(og.BadRequestError, match="actor must not be blank"):
        pair.mutate(INSERT, actor="")


def test_the_actor_lands_in_the_commit(graph: og.Graph) -> None:
    with og.open(graph.uri, actor="ann", durability="none") as mine:
        by_handle = run(mine, 'insert Person { name: "a" }')
        by_call = mine.mutate(INSERT, actor="bob")
    by_nobody = run(graph, 'insert Person { name: "c" }')
    found = [item.commit.actor_id for item in (by_handle, by_call, by_nobody) if item.commit]
    assert found == ["ann", "bob", None]
    assert by_call.actor_id == "bob"


def test_a_query_is_picked_by_name(graph: og.Graph) -> None:
    source = INSERT + ' query other() { insert Person { name: "y" } }'
    result = graph.mutate(source, name="other")
    assert result.query_name == "other"
    assert set(rows(graph, "Person")) == {"y"}
    with pytest.raises(og.OmniGraphError):
        graph.mutate(source, name="third")


def test_another_branch_than_main_is_not_found(graph: og.Graph) -> None:
    with pytest.raises(og.NotFoundError, match="branch 'x' does not exist"):
        graph.mutate(INSERT, branch="x")

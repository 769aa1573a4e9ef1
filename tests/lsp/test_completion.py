"""How half-typed texts may go on."""

from __future__ import annotations

import pytest

from omnigraph.lang.words import SCALARS
from omnigraph.lsp.query_completion import completions
from tests.lsp.marked import offered, offered_by_schema, query_file

PERSON = ["born", "name", "slug"]
VERBS = ["insert", "upsert", "update", "delete"]


@pytest.mark.parametrize(
    ("text", "exactly"),
    [
        ("|", ["query"]),
        ("que|", ["query"]),
        ("query q() {} |", ["query"]),
        ("query q() @|", ["description", "instruction"]),
        ("query q($x: |", list(SCALARS)),
        ("query q() { |", ["match", *VERBS]),
        ("query q() { ma|", ["match", *VERBS]),
        ("query q() { match { $p: |", ["Company", "Person"]),
        ("query q() { match { $p: Pe| } return { 1 } }", ["Company", "Person"]),
        ("query q() { match { $p: Person { |", [*PERSON, "id"]),
        ("query q() { match { $p: Person { slug: 1, |", [*PERSON, "id"]),
        ("query q() { match { $p: Person  $p.|", [*PERSON, "id"]),
        ("query q() { match { $p: Person } return { $p.n| } }", [*PERSON, "id"]),
        ("query q() { match { $c: Company  $p worksAt $c  $p.| }", [*PERSON, "id"]),
        ("query q() { match { $a $w:knows $b } return { $w.|", ["since", "id", "from", "to"]),
        ("query q() { match { $a $w:|", ["knows", "worksAt"]),
        ("query q() { match { $a (|", ["knows", "worksAt"]),
        ("query q() { match { $x: Person } |", ["return"]),
        ("query q() { match { $x: Person } return { 1 } |", ["order", "limit", "offset"]),
        ("query q() { match { $x: Person } return |", ["distinct"]),
        ("query q($n: I64) { match { $x: Person  $x knows $y } return { $|", ["$n", "$x", "$y"]),
        ("query q($n: I64) { match { $x: Person  $x knows $y  $x|", ["$n", "$x", "$y"]),
        ("query q() { upsert |", ["Company", "Person", "Knows", "WorksAt"]),
        ("query q() { insert WorksAt { |", ["from", "to"]),
        ("query q() { update Person set { |", PERSON),
        ("query q() { update Person |", ["set"]),
        ("query q() { match { // $|", []),
        ('query q() { match { $p.name = "$|', []),
        ("query q() { match { $nobody.|", []),
        # A query that does not parse above leaves this one alone.
        ("query broken( {\nquery q() { match { $p: Person  $p.|", [*PERSON, "id"]),
    ],
)
def test_what_is_offered_in_a_query(text: str, exactly: list[str]) -> None:
    assert offered(text) == exactly


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("query q() { match { $p: Person  $p |", ["knows", "worksAt", "in", "is"]),
        ("query q() { match { $c: Company  $c |", ["worksAt", "is"]),
        ("query q() { match { |", ["not", "optional", "exists", "search"]),
        ("query q() { match { $p: Person } return { |", ["$p", "count", "avg", "as"]),
        ("query q() { match { $p: Person } return { 1 } order { $p.name |", ["asc", "desc"]),
        ("query q() { match { $p: Person } return { count(|", ["$p", "distinct"]),
        ("query q($x: I64) { delete Person where |", ["slug", "id", "$x", "not"]),
        ("query q($x: I64) { update Person set { name: |", ["$x", "now", "null", "slug"]),
        ("query q() { insert |", ["new", "Person"]),
    ],
)
def test_what_is_offered_among_other_things(text: str, some: list[str]) -> None:
    assert set(some) <= set(offered(text))


def test_edges_that_a_node_does_not_have_are_not_offered() -> None:
    assert "knows" not in offered("query q() { match { $c: Company  $c |")


def test_a_completion_replaces_the_word_that_is_typed() -> None:
    file, offset = query_file("query q() { match { $per: Person  $pe| } }")
    found = completions(file, offset)
    assert file.text[found.span.start : found.span.end] == "$pe"
    assert [item.label for item in found.items] == ["$per"]


@pytest.mark.parametrize(
    ("text", "exactly"),
    [
        ("|", ["node", "edge", "interface"]),
        ("node A {}\n|", ["node", "edge", "interface"]),
        ("node A |", ["implements"]),
        ("interface I { a: I32 }\nnode A implements |", ["I"]),
        ("interface I {} interface J {} node A implements I, |", ["I", "J"]),
        ("node A {}\nedge E: |", ["A"]),
        ("node A {}\nedge E: A -> |", ["A"]),
        ("node A { a: |", [*SCALARS, "enum"]),
        ("node A { a: [|", [name for name in SCALARS if name not in ("Blob", "Vector")]),
        ("node A @|", ["description", "instruction", "rename_from"]),
        ("node A {}\nedge E: A -> A @|", ["description", "instruction", "rename_from", "card"]),
        ("node A { a: I32  b: String  @unique(|", ["a", "b"]),
        ("node A { a: I32  @key(a) }\nnode B { c: I32 @range(|", ["c"]),
        ("node A { a: String  v: Vector(3) @embed(|", ["a", "v"]),
        ("node A { |", []),
        ('node A { a: String @description("@|', []),
    ],
)
def test_what_is_offered_in_a_schema(text: str, exactly: list[str]) -> None:
    assert offered_by_schema(text) == exactly


def test_annotations_of_properties_and_constraints_are_offered_in_a_body() -> None:
    found = offered_by_schema("node A { a: String @|")
    assert found[:3] == ["key", "unique", "index"]
    assert {"default", "embed", "range", "check"} <= set(found)
    assert "instruction" not in found


def test_a_long_word_before_the_cursor_is_read_once() -> None:
    """A search for its start from every letter would take minutes."""
    word = "a" * 200_000
    text = f'query q() {{ match {{ $p: Person {{ name: "{word}" }} }} return {{ $p.|'
    assert offered(text) == [*PERSON, "id"]

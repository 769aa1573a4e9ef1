"""Finding one query in a file, and what a broken file reports."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequestError, CompileError, NotFoundError
from omnigraph.lang.queries import compile_queries, compile_query, parse_file
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import Diagnostic
from omnigraph.limits import DIAGNOSTICS_MAX
from omnigraph.plan import MutationPlan, ReadPlan

CATALOG = compile_schema(
    """
    node Person { slug: String @key  name: String  age: I32? }
    edge Knows: Person -> Person
    """
).catalog

NAMES = "query names() { match { $p: Person } return { $p.name } }"
AGES = "query ages($min: I32) { match { $p: Person $p.age > $min } return { $p.age } }"
ADD = "query add($s: String) { insert Person { slug: $s, name: $s } }"


def errors(text: str, *, select: str | None = None) -> list[tuple[str, tuple[int, int]]]:
    """Compile all queries, or the one selected, and return code and place of each error."""

    def compile_text() -> None:
        if select is None:
            compile_queries(text, CATALOG)
        else:
            compile_query(text, CATALOG, select=select)

    with pytest.raises(CompileError) as error:
        compile_text()
    found = [item for item in error.value.diagnostics if isinstance(item, Diagnostic)]
    assert len(found) == len(error.value.diagnostics)
    return [(item.code, item.position) for item in found]


def test_a_single_query_needs_no_name() -> None:
    found = compile_query(NAMES, CATALOG)
    assert found.name == "names"
    assert not found.is_mutation
    assert isinstance(found.plan, ReadPlan)


def test_a_mutation_is_one() -> None:
    found = compile_query(ADD, CATALOG)
    assert found.is_mutation
    assert isinstance(found.plan, MutationPlan)
    assert not found.plan.destructive


def test_annotations_are_kept() -> None:
    notes = '@instruction("when \\"asked\\"") @description("what")'
    found = compile_query(f"query q() {notes} {{ delete Person where age = 1 }}", CATALOG)
    assert (found.description, found.instruction) == ("what", 'when "asked"')
    assert compile_query(NAMES, CATALOG).description is None


def test_a_query_is_selected_by_name() -> None:
    text = "\n".join([NAMES, AGES, ADD])
    assert compile_query(text, CATALOG, select="ages").name == "ages"
    assert compile_query(text, CATALOG, select="add").is_mutation


def test_several_queries_need_a_name() -> None:
    with pytest.raises(BadRequestError, match="names, ages"):
        compile_query(f"{NAMES} {AGES}", CATALOG)


@pytest.mark.parametrize("text", ["", "  \n", "// nothing\n", "/* nothing */"])
def test_an_empty_file_holds_no_query(text: str) -> None:
    assert compile_queries(text, CATALOG) == ()
    with pytest.raises(BadRequestError, match="no query"):
        compile_query(text, CATALOG)
    with pytest.raises(NotFoundError):
        compile_query(text, CATALOG, select="names")


def test_an_unknown_name_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="'name'") as error:
        compile_query(f"{NAMES} {AGES}", CATALOG, select="name")
    assert error.value.hint == "did you mean `names`?"
    with pytest.raises(NotFoundError):
        compile_query(NAMES, CATALOG, select="Names")
    with pytest.raises(NotFoundError):
        compile_query(NAMES, CATALOG, select="")


def test_the_first_of_two_queries_of_one_name_is_used() -> None:
    other = "query names() { match { $p: Person } return { $p.slug } }"
    plan = compile_query(f"{NAMES} {other}", CATALOG, select="names").plan
    assert isinstance(plan, ReadPlan)
    assert [column.name for column in plan.columns] == ["p.name"]
    assert len(compile_queries(f"{NAMES} {other}", CATALOG)) == 2


def test_a_selected_query_does_not_suffer_from_type_errors_of_others() -> None:
    broken = "query broken() { match { $p: Persn } return { 1 } }"
    assert compile_query(f"{broken} {NAMES}", CATALOG, select="names").name == "names"
    assert errors(f"{broken} {NAMES}", select="broken") == [("T1", (1, 30))]


def test_a_selected_query_suffers_from_syntax_errors_of_others() -> None:
    assert errors(f"query broken( {{ }}\n{NAMES}", select="names") == [("P00", (1, 15))]


def test_every_broken_query_reports_one_syntax_error() -> None:
    text = "\n".join(
        [
            "query a() { match { $p Person } return { $p.name } order }",
            NAMES,
            "query b() { match { $p: Person } return { $p.name } limit x limit y }",
            "query c( { }",
            AGES,
            "query d() { insert person { } update }",
        ]
    )
    assert errors(text) == [
        ("P00", (1, 24)),
        ("P00", (3, 59)),
        ("P00", (4, 10)),
        ("P00", (6, 20)),
    ]


def test_recovery_goes_on_at_the_next_query_only() -> None:
    # The word `query` inside a query does not start one.
    text = "query a() { match { $query query ) } return { 1 } }\nquery b() { match { } }"
    assert errors(text) == [("P00", (1, 34)), ("P00", (2, 21))]


def test_text_outside_queries_is_reported_once() -> None:
    assert errors(f"one two three {NAMES}") == [("P00", (1, 1))]
    assert errors(f"{NAMES} one two three") == [("P00", (1, 59))]


def test_a_bad_character_ends_the_file() -> None:
    assert errors(f"{NAMES}\nquery b() {{ # }}\nquery c( {{ }}") == [("P00", (2, 13))]


def test_every_type_error_of_every_query_is_reported_in_order() -> None:
    text = "\n".join(
        [
            "query a() { match { $p: Persn } return { $q } }",
            NAMES,
            "query b($x: I32) {",
            "match { $p: Person $p.nam = 1 $p.name = $x } return { sum($p.name) } }",
            "query c() { insert Person { slug: 1 } delete Nothing where a = 1 }",
        ]
    )
    assert errors(text) == [
        ("T1", (1, 25)),
        ("T00", (1, 42)),
        ("T6", (4, 23)),
        ("T7", (4, 31)),
        ("T8", (4, 59)),
        ("T12", (5, 20)),
        ("T3", (5, 35)),
        ("T10", (5, 46)),
    ]


def test_diagnostics_of_one_query_are_bounded() -> None:
    clauses = " ".join("$p.nope = 1" for _ in range(DIAGNOSTICS_MAX * 2))
    found = errors(f"query a() {{ match {{ $p: Person {clauses} }} return {{ $p.name }} }}")
    assert len(found) == DIAGNOSTICS_MAX


def test_the_message_shows_every_error_with_its_line() -> None:
    text = "query a() {\n  match { $p: Persn }\n  return { $q }\n}"
    with pytest.raises(CompileError) as error:
        compile_queries(text, CATALOG, name="a.gq")
    message = error.value.message
    assert "a.gq:2:15: error[T1]" in message
    assert "2 |   match { $p: Persn }" in message
    assert "help: did you mean `Person`?" in message
    assert "a.gq:3:12: error[T00]" in message
    body = error.value.to_json()
    assert body["code"] == "bad_request"
    assert isinstance(body["diagnostics"], list)
    assert [item["line"] for item in body["diagnostics"]] == [2, 3]


def test_parsing_resolves_nothing() -> None:
    source, queries = parse_file("query a() { match { $p: Nope } return { $q } }", name="f.gq")
    assert source.name == "f.gq"
    assert [query.name for query in queries] == ["a"]

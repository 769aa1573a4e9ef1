"""What an editor is told about a query file."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequestError
from omnigraph.lsp.query_file import QueryFile
from omnigraph.lsp.schema_file import SchemaFile
from tests.lsp.marked import SCHEMA, SCHEMA_TEXT, cut, query_file

# ---- problems -----------------------------------------------------------------------------


def problems(text: str, schema: SchemaFile | None = SCHEMA) -> list[tuple[str | None, str]]:
    file = QueryFile("q.gq", text, schema)
    return [(item.code, text[item.span.start : item.span.end]) for item in file.problems]


def test_type_errors_stand_at_their_spans() -> None:
    text = "query q() { match { $p: Persn  $q: Person { nick: 1 } } return { $q.name } }"
    assert problems(text) == [("T1", "Persn"), ("T2", "nick")]


def test_a_syntax_error_in_one_query_leaves_the_errors_of_the_others() -> None:
    text = "query a() { match { }\nquery b() { match { $p: Nope } return { 1 } }"
    assert problems(text) == [("P00", "}"), ("T1", "Nope")]


def test_findings_about_a_whole_query_stand_at_its_name() -> None:
    text = 'query add() { insert Person { slug: "a", name: "b" } }'
    assert problems(text) == [(None, "add"), ("L204", "add")]


def test_without_a_usable_schema_only_the_syntax_is_checked() -> None:
    text = "query q() { match { $p: Nope } return { 1 } }"
    assert problems(text, None) == []
    assert problems(text, SchemaFile("s.pg", "node { }")) == []
    assert problems("query q() {", None) == [("P00", "")]


# ---- hover --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "begins", "says"),
    [
        ("query q() { match { $p|: Person } return { 1 } }", "$p: Person", "somebody"),
        ("query q() { match { $a worksAt $|c } return { 1 } }", "$c: Company", "slug"),
        ("query q() { match { $a $w:knows $b } return { $w|.since } }", "$w: Knows", "since"),
        ("query q($x: [I64]?) { match { 1 = $|x } return { 1 } }", "$x: [I64]?", "parameter"),
        ("query q() { match { $p: Per|son } return { 1 } }", "node Person", "somebody"),
        ("query q() { match { $p: Person $p.na|me } return { 1 } }", "Person.name", "call it"),
        ("query q() { match { $p: Person { na|me: 1 } } return { 1 } }", "Person.name", "call it"),
        ("query q() { match { $p: Person } return { $p.i|d } }", "Person.id: String", ""),
        ("query q() { match { $p works|At $c } return { 1 } }", "edge WorksAt", "a job"),
        ("query q() { update Person set { na|me: 1 } where slug = 1 }", "Person.name", "call it"),
        ("query q() { delete Person where na|me = 1 }", "Person.name", "call it"),
        ("query q() { match { $p: Person } return { cou|nt(*) } }", "count", "Counts"),
        ("query q() { ma|tch { $p: Person } return { 1 } }", "match", "pattern"),
        ('query q|() @description("all") { match { $p: A } return { 1 } }', "query q()", "all"),
        ('query q() @desc|ription("all") { match { $p: A } return { 1 } }', "@description", ""),
        ("query q() { match { $a $w|:knows{1,3} $b } return { 1 } }", "$w\n", "path"),
        ("query q() { match { $a $w:<kn|ows> $b } return { 1 } }", "edge Knows", "since"),
        ("query q() { match { $a (knows) $b|", "$b: Person", "somebody"),
        # Half-typed: the query does not parse.
        ("query q() { match { $p: Person  $p|. } ", "$p: Person", "somebody"),
        ("query q() { match { $c: Company  $p worksAt $c  $p.na|me", "Person.name", "call it"),
    ],
)
def test_hover_tells_types_and_descriptions(text: str, begins: str, says: str) -> None:
    file, offset = query_file(text)
    found = file.hover(offset)
    assert found is not None
    assert found.text.startswith(f"```\n{begins}")
    assert says in found.text
    assert found.span.start <= offset <= found.span.end


@pytest.mark.parametrize(
    "text",
    [
        "query q() { match { 1 |= 1 } return { 1 } }",
        "|",
        "// que|ry\n",
        'query q() @description("ma|tch")',
    ],
)
def test_hover_says_nothing_where_there_is_nothing_to_say(text: str) -> None:
    file, offset = query_file(text)
    assert file.hover(offset) is None


# ---- definition ---------------------------------------------------------------------------


def defined(text: str) -> tuple[str, str, int] | None:
    """Return the file of a definition, the text there and its line."""
    file, offset = query_file(text)
    found = file.definition(offset)
    if found is None:
        return None
    where = file.text if found.path is None else SCHEMA_TEXT
    line = where.count("\n", 0, found.span.start) + 1
    return found.path or "q.gq", where[found.span.start : found.span.end], line


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("query q() { match { $p: Per|son } return { 1 } }", ("people.pg", "Person", 5)),
        ("query q() { insert Wor|ksAt { from: 1 } }", ("people.pg", "WorksAt", 17)),
        ("query q() { match { $p work|sAt $c } return { 1 } }", ("people.pg", "WorksAt", 17)),
        ("query q() { match { $p <kn|ows> $c } return { 1 } }", ("people.pg", "Knows", 14)),
        ("query q() { match { $p: Person } return { $p.bo|rn } }", ("people.pg", "born", 7)),
        # Inherited from an interface.
        ("query q() { match { $p: Person } return { $p.na|me } }", ("people.pg", "name", 2)),
        ("query q() { match { $p: Person\n$p.born = 1 } return { $|p } }", ("q.gq", "$p", 1)),
        (
            "query q($x: I64)\n{ match { $p: Person { slug: $x| } } return { 1 } }",
            ("q.gq", "$x", 1),
        ),
        ("query q() { match { $p: Nop|e } return { 1 } }", None),
        ("query q() { match { 1 = $nop|e } return { 1 } }", None),
    ],
)
def test_definitions_lead_to_bindings_parameters_and_the_schema(
    text: str, place: tuple[str, str, int] | None
) -> None:
    assert defined(text) == place


# ---- rename -------------------------------------------------------------------------------


def renamed(text: str, new_name: str) -> str:
    file, offset = query_file(text)
    found = file.text
    for edit in sorted(file.rename(offset, new_name), key=lambda e: -e.span.start):
        found = found[: edit.span.start] + edit.text + found[edit.span.end :]
    return found


def test_a_variable_is_renamed_everywhere_in_its_query() -> None:
    one = (
        "query a() {{ match {{ ${0}: Person  ${0} knows $q  ${0}.born is null }} "
        "return {{ ${0}.* ${0} }} }}"
    )
    other = "\nquery b() { match { $p: Person } return { $p } }"
    text = one.format("p").replace("$p knows", "$p| knows") + other
    assert renamed(text, "$person") == one.format("person") + other
    assert renamed(text, "person") == one.format("person") + other


def test_a_parameter_is_told_from_a_variable_of_the_same_name() -> None:
    text = "query a($x: I64?) { match { $x: Person  $x.born = $x|?  $x knows $y } return { $x } }"
    after = "query a($n: I64?) { match { $x: Person  $x.born = $n?  $x knows $y } return { $n } }"
    assert renamed(text, "n") == after


def test_a_name_of_a_block_is_its_own_unless_the_block_is_optional() -> None:
    text = (
        "query a() { match { $p: Person  not { $p knows $q| }  "
        "optional { $p knows $q }  exists { $q knows $r } } return { $q, $p } }"
    )
    assert renamed(text, "x") == cut(text)[0].replace("not { $p knows $q }", "not { $p knows $x }")
    text = text.replace("|", "").replace("return { $q", "return { $q|")
    plain = cut(text)[0]
    first = plain.index("$q") + 2
    assert renamed(text, "x") == plain[:first] + plain[first:].replace("$q", "$x")


@pytest.mark.parametrize(
    ("text", "new_name", "why"),
    [
        ("query a() { match { $p|: Person  $q: Person } return { 1 } }", "q", "has a `$q` already"),
        ("query a() { match { $p|: Person } return { 1 } }", "Q", "not a variable name"),
        ("query a() { match { $p|: Person } return { 1 } }", "_", "not a variable name"),
        ("query a() { match { $_| knows $q } return { 1 } }", "p", "names nothing"),
        ("query a() { match { $p|: Person ", "q", "syntax error"),
        ("query a() { match { $p: Per|son } return { 1 } }", "Q", "only variables and parameters"),
        ("query a() { match { 1 = $x| } return { 1 } }", "q", "not introduced"),
    ],
)
def test_a_rename_that_is_not_safe_is_refused(text: str, new_name: str, why: str) -> None:
    file, offset = query_file(text)
    with pytest.raises(BadRequestError) as refused:
        file.rename(offset, new_name)
    assert why in refused.value.message

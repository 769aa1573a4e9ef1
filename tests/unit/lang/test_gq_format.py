from __future__ import annotations

from textwrap import dedent

import pytest

from omnigraph.errors import CompileError
from omnigraph.lang.formatting import Language, format_text, language_of, same_syntax
from omnigraph.lang.gq_format import format_queries
from omnigraph.lang.layout import COLUMNS_MAX

QUERY = "query q() {\n    match { $p: P }\n    return { 1 }\n}\n"


def check(before: str, after: str) -> None:
    """Format, compare, and check that formatting again changes nothing."""
    once = format_text(dedent(before), Language.QUERY, name="t")
    assert once == dedent(after).lstrip("\n")
    assert format_queries(once) == once


def body(text: str) -> str:
    return f"query q() {{ match {{ $p: P }} return {{ {text} }} }}"


class TestLayout:
    def test_a_read(self) -> None:
        check(
            """
            query  find ( $who:String,$n : I64? ) @description ( "who" ) {match{
              $me:Person{slug:$who,}
              $me $w:knows $f  $f <knows>{ 1 , 3 } $g not{$me knows $g}
            optional{$g worksAt $c $c.name="x"}}
            return distinct{$g.name as n $c . * count( distinct $f )}
            order{n desc,$g.age}limit $n offset 5}
            """,
            """
            query find($who: String, $n: I64?) @description("who") {
                match {
                    $me: Person { slug: $who }
                    $me $w:knows $f
                    $f <knows>{1,3} $g
                    not { $me knows $g }
                    optional {
                        $g worksAt $c
                        $c.name = "x"
                    }
                }
                return distinct { $g.name as n, $c.*, count(distinct $f) }
                order { n desc, $g.age }
                limit $n
                offset 5
            }
            """,
        )

    def test_a_mutation(self) -> None:
        check(
            """
            query m($a:[String],$v:Vector( 3 )?){insert new P{a:1 b:[1,-2,],c:null}
            upsert P{a:date( "2025-01-01" )} update P set{level:level+1}where(a=1)or b in $a
            delete P where a is not null}
            """,
            """
            query m($a: [String], $v: Vector(3)?) {
                insert new P { a: 1, b: [1, -2], c: null }
                upsert P { a: date("2025-01-01") }
                update P set { level: level + 1 } where (a = 1) or b in $a
                delete P where a is not null
            }
            """,
        )

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("$p.a -1", "$p.a - 1"),
            ("$p.a,-1", "$p.a, -1"),
            ("- - 1, -$p.a, - ( 1 + 2 )", "--1, -$p.a, -(1 + 2)"),
            ("(  ($p.a)) (1)", "(($p.a)), (1)"),
            ("not($p.a)and $p.b", "not ($p.a) and $p.b"),
            ("count ( * ) as n,sum( $p.a*2 )", "count(*) as n, sum($p.a * 2)"),
            ("exists{$p knows $q $q.a>1}", "exists { $p knows $q  $q.a > 1 }"),
            ("count(distinct $q){$p knows $q}>3", "count(distinct $q) { $p knows $q } > 3"),
            ("$p.name contains $x?", "$p.name contains $x?"),
            ('"two\nlines\t"', '"two\\nlines\\t"'),
        ],
    )
    def test_an_expression(self, before: str, after: str) -> None:
        text = f"query q($x: String?) {{ match {{ $p: P }} return {{ {before} }} }}"
        row = format_text(text, Language.QUERY, name="t").splitlines()[2]
        assert row == f"    return {{ {after} }}"

    def test_queries_stand_apart_by_one_empty_line(self) -> None:
        one = "query a() {\n    match { $p: P }\n    return { 1 }\n}\n"
        check(f"{one}{one}\n\n\n{one}", f"{one}\n{one}\n{one}")

    @pytest.mark.parametrize("text", ["", " \n\t\r\n"])
    def test_an_empty_file_stays_empty(self, text: str) -> None:
        assert format_queries(text) == ""

    def test_single_empty_lines_between_clauses_stay(self) -> None:
        check(
            "query q() { match {\n\n$p: P\n\n\n$p knows $q\n$q: P\n\n} return { 1 } }",
            """
            query q() {
                match {
                    $p: P

                    $p knows $q
                    $q: P
                }
                return { 1 }
            }
            """,
        )

    def test_line_ends_of_another_system_become_plain(self) -> None:
        check("// c\r\nquery q()\r\n{ match { $p: P } return { 1 } }\r\n", "// c\n" + QUERY)

    def test_traversals_over_several_types(self) -> None:
        check(
            "query q() { match { $a ( knows | likes ) $b $a $w : < knows|likes >{ 1 , 3 } $c "
            "$a $e:( knows|likes )  $b $a -> $d $a $f : -> $d } return { 1 } }",
            """
            query q() {
                match {
                    $a (knows|likes) $b
                    $a $w:<knows|likes>{1,3} $c
                    $a $e:(knows|likes) $b
                    $a -> $d
                    $a $f:-> $d
                }
                return { 1 }
            }
            """,
        )


class TestLongLines:
    def test_lists_put_each_item_on_a_line(self) -> None:
        columns = [f"$p.property_number_{n}" for n in range(6)]
        rows = ",\n".join(f"        {column}" for column in columns)
        check(
            body(" ".join(columns)),
            f"query q() {{\n    match {{ $p: P }}\n    return {{\n{rows}\n    }}\n}}\n",
        )

    def test_conditions_break_before_the_word_that_joins_them(self) -> None:
        long = "$p.quite_a_long_name = 1"
        found = format_queries(
            f"query q() {{ match {{ {long} and {long} or {long} and ({long} or {long}) }}"
            " return { 1 } }"
        )
        assert found.splitlines()[1:6] == [
            "    match {",
            f"        {long} and {long}",
            f"            or {long} and ({long} or {long})",
            "    }",
            "    return { 1 }",
        ]

    def test_notes_of_a_long_head_get_lines_of_their_own(self) -> None:
        check(
            f'query q() @description("{"d" * 60}") @instruction("{"i" * 60}") '
            "{ match { $p: P } return { 1 } }",
            f"""
            query q()
                @description("{"d" * 60}")
                @instruction("{"i" * 60}")
            {{
                match {{ $p: P }}
                return {{ 1 }}
            }}
            """,
        )

    def test_parameters_values_and_calls_break(self) -> None:
        many = ", ".join(f"$parameter_{n}: String" for n in range(8))
        texts = ", ".join(f'"{n:030}"' for n in range(4))
        found = format_queries(
            f"query q({many}) {{ insert P {{ a: [{texts}], "
            f"b: search($p.{'x' * 60}, {'(' * 2}$p.{'y' * 60}{')' * 2}) }} }}"
        )
        assert max(map(len, found.splitlines())) <= COLUMNS_MAX
        assert found.splitlines()[1] == "    $parameter_0: String,"
        assert format_queries(found) == found


class TestComments:
    def test_each_stays_between_its_neighbours(self) -> None:
        check(
            """
            // file
            /* two
               lines */ query q() { // head

                // first
                match { // open
                    $p: P // who
                    // last
                } // closed
                return { $p.a // a
                    /* b */ $p.b, /* c */ }
                // end
            } // after
            // more
            query r() { match { $p: /* inline */ P } return { 1 } }
            // tail
            """,
            """
            // file
            /* two
               lines */
            query q() { // head
                // first
                match { // open
                    $p: P // who
                    // last
                } // closed
                return {
                    $p.a, // a
                    /* b */
                    $p.b /* c */
                }
                // end
            } // after

            // more
            query r() {
                match { $p: /* inline */ P }
                return { 1 }
            }
            // tail
            """,
        )


class TestRefusal:
    def test_what_does_not_parse_is_refused_with_every_error(self) -> None:
        text = "query a() { match }\nquery b() { return }\n"
        with pytest.raises(CompileError) as refused:
            format_text(text, Language.QUERY, name="f.gq")
        places = [str(item).splitlines()[0] for item in str(refused.value).split("\n\n")]
        assert [place[:9] for place in places] == ["f.gq:1:19", "f.gq:2:13"]


def test_the_first_word_says_which_language_a_text_is_in() -> None:
    assert language_of("// c\nquery q() {", name="t") is Language.QUERY
    assert language_of("node A {}", name="t") is Language.SCHEMA
    assert language_of("", name="t") is Language.SCHEMA


def test_trees_that_differ_in_more_than_places_are_told_apart() -> None:
    assert same_syntax((1, ("a",)), (1, ("a",)))
    assert not same_syntax((1, ("a",)), (1, ("b",)))
    assert not same_syntax((1,), (1, 2))
    assert not same_syntax((1,), (True,))

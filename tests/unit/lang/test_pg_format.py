from __future__ import annotations

from textwrap import dedent

import pytest

from omnigraph.catalog import shape_hash
from omnigraph.errors import CompileError
from omnigraph.lang.pg_format import format_schema
from omnigraph.lang.schema import compile_schema


def formatted(text: str) -> str:
    """Format, and check that formatting again changes nothing."""
    once = format_schema(text)
    assert format_schema(once) == once
    return once


def check(before: str, after: str) -> None:
    assert formatted(dedent(before)) == dedent(after).lstrip("\n")


EXAMPLE = """
// lab notebook
interface Stamped { created_at: DateTime  updated_at: DateTime? }

node Sample @description("one physical tube") implements Stamped {
    barcode: String @key
    mass_mg: F64?
    state: enum(fresh, frozen, spent) @index
    notes: String? @index
    tags: [String]?
    fingerprint: Vector(8)? @embed("notes", model="acme/embed-1") @index
    @range(mass_mg, 0.0..5000.0)
    @check(barcode, "^[A-Z]{2}[0-9]{6}$")
}
node Rack { row: I32  col: I32  @key(row, col) }

edge StoredIn: Sample -> Rack @card(0..1) { since: Date?  @unique(src, dst) }
edge DerivedFrom: Sample -> Sample
"""


class TestLayout:
    def test_the_whole_language(self) -> None:
        check(
            EXAMPLE,
            """
            // lab notebook
            interface Stamped {
                created_at: DateTime
                updated_at: DateTime?
            }

            node Sample implements Stamped @description("one physical tube") {
                barcode: String @key
                mass_mg: F64?
                state: enum(fresh, frozen, spent) @index
                notes: String? @index
                tags: [String]?
                fingerprint: Vector(8)? @embed("notes", model="acme/embed-1") @index
                @range(mass_mg, 0.0..5000.0)
                @check(barcode, "^[A-Z]{2}[0-9]{6}$")
            }

            node Rack {
                row: I32
                col: I32
                @key(row, col)
            }

            edge StoredIn: Sample -> Rack @card(0..1) {
                since: Date?
                @unique(src, dst)
            }

            edge DerivedFrom: Sample -> Sample
            """,
        )
        text = format_schema(EXAMPLE)
        before, after = compile_schema(EXAMPLE).catalog, compile_schema(text).catalog
        assert shape_hash(before) == shape_hash(after)

    @pytest.mark.parametrize("text", ["", " \n\t\r\n"])
    def test_an_empty_file_stays_empty(self, text: str) -> None:
        assert formatted(text) == ""

    def test_the_text_ends_with_one_newline(self) -> None:
        assert formatted("node A {}\n\n\n") == "node A {}\n"
        assert formatted("node A {}") == "node A {}\n"

    def test_heads_have_one_order(self) -> None:
        check(
            """
            node A @foo implements B,C @description( "d" ) implements D { }
            edge E:A->B @instruction("i") @card( 1 .. ) @foo ( x , k = 1 )
            """,
            """
            node A implements B, C, D @foo @description("d") {}

            edge E: A -> B @card(1..) @instruction("i") @foo(x, k=1)
            """,
        )

    def test_declaration_and_member_order_stay(self) -> None:
        check(
            "edge E: B -> A { z: I32 @unique(z) a: I32 }  node B {}  node A {}  interface I {}",
            """
            edge E: B -> A {
                z: I32
                @unique(z)
                a: I32
            }

            node B {}

            node A {}

            interface I {}
            """,
        )

    def test_commas_between_members_go(self) -> None:
        check(
            "node A { x: I32, y: I32 /* c */, // d\n @key(x), }",
            """
            node A {
                x: I32
                y: I32 /* c */ // d
                @key(x)
            }
            """,
        )

    def test_single_blank_lines_inside_a_body_stay(self) -> None:
        check(
            """
            node A {

                x: I32


                y: I32
                z: I32

            }
            """,
            """
            node A {
                x: I32

                y: I32
                z: I32
            }
            """,
        )

    def test_edges_without_a_body_stay_together_or_apart(self) -> None:
        check(
            """
            node A {}
            edge B: A -> A
            // about c
            edge C: A -> A {}

            edge D: A -> A

            // about e
            edge E: A -> A
            edge F: A -> A { x: I32 }
            edge G: A -> A edge H: A -> A
            """,
            """
            node A {}

            edge B: A -> A
            // about c
            edge C: A -> A

            edge D: A -> A

            // about e
            edge E: A -> A

            edge F: A -> A {
                x: I32
            }

            edge G: A -> A
            edge H: A -> A
            """,
        )

    def test_declarations_are_one_blank_line_apart(self) -> None:
        assert formatted("node A {}\n\n\n\nnode B {}\nnode C {}") == (
            "node A {}\n\nnode B {}\n\nnode C {}\n"
        )


class TestValues:
    @pytest.mark.parametrize(
        ("written", "printed"),
        [
            ("enum( b,a , 1st,vc-firm ) ?", "enum(b, a, 1st, vc-firm)?"),
            ("[ String ] ?", "[String]?"),
            ("Vector( 8 )", "Vector(8)"),
            ("I32 @ default( - 5 )", "I32 @default(-5)"),
            ("[I32] @default( [1,- 2 , 3,] )", "[I32] @default([1, -2, 3])"),
            ("[I32] @default([ ])", "[I32] @default([])"),
            ("F64 @default(1.50)", "F64 @default(1.50)"),
            ("Bool @default(true) @key @index", "Bool @default(true) @key @index"),
            ('Vector(2) @embed( a , model = "m" )', 'Vector(2) @embed(a, model="m")'),
        ],
    )
    def test_types_and_annotations(self, written: str, printed: str) -> None:
        assert formatted(f"node A {{ x : {written} }}") == f"node A {{\n    x: {printed}\n}}\n"

    @pytest.mark.parametrize(
        ("written", "printed"),
        [
            ("@range( x , - 1 .. )", "@range(x, -1..)"),
            ("@range(x, .. 2.50)", "@range(x, ..2.50)"),
            ("@range(x,0..10)", "@range(x, 0..10)"),
            ('@check( x,"a\tb" )', '@check(x, "a\\tb")'),
            ("@key(x,y ,z)", "@key(x, y, z)"),
        ],
    )
    def test_constraints(self, written: str, printed: str) -> None:
        assert formatted(f"node A {{ {written} }}") == f"node A {{\n    {printed}\n}}\n"

    def test_strings_are_escaped_again(self) -> None:
        text = 'node A @description("a\nb\r\n\\t\\"\\\\ ü \x07") {}'
        once = formatted(text)
        assert once == 'node A @description("a\\nb\\r\\n\\t\\"\\\\ ü \x07") {}\n'
        assert compile_schema(once).catalog == compile_schema(text).catalog

    def test_arguments_of_unknown_annotations_have_one_layout(self) -> None:
        text = "node A { x: I32 @foo([1,  2, // c\n 007,], k=- 5 /* e */) // d\n}"
        once = formatted(text)
        assert once == "node A {\n    // c\n    x: I32 @foo([1, 2, 007], k=-5) /* e */ // d\n}\n"
        before, after = compile_schema(text).catalog, compile_schema(once).catalog
        assert shape_hash(before) == shape_hash(after)
        assert before == after


class TestComments:
    def test_leading_and_trailing_comments_stay_where_they_are(self) -> None:
        check(
            """
            /* licence */

            // first
            // second
            node A { // head
              // about x
              x: I32 // the x
              /* about y */ y: I32 /* the y */ // really
              // last
            } // end of A
            // the end

            // of the file
            """,
            """
            /* licence */

            // first
            // second
            node A { // head
                // about x
                x: I32 // the x
                /* about y */
                y: I32 /* the y */ // really
                // last
            } // end of A
            // the end

            // of the file
            """,
        )

    def test_a_comment_inside_a_member_moves_to_its_nearer_end(self) -> None:
        check(
            """
            node A /* before brace */ {
                state: enum(
                    fresh, // just made
                    frozen /* on ice */
                ) @index
                x /* name */ : I32
            }
            """,
            """
            node A { /* before brace */
                // just made
                /* on ice */
                state: enum(fresh, frozen) @index
                x: I32 /* name */
            }
            """,
        )

    def test_an_empty_body_with_a_comment_keeps_its_braces(self) -> None:
        check(
            """
            node A { /* later */ }
            edge E: A -> A {
              // later
            }
            """,
            """
            node A { /* later */
            }

            edge E: A -> A {
                // later
            }
            """,
        )

    def test_an_edge_keeps_the_comment_after_its_empty_body(self) -> None:
        assert formatted("edge E: A -> A { } // c") == "edge E: A -> A // c\n"

    def test_block_comments_move_with_their_indentation(self) -> None:
        check(
            """
            node A {
              /* one
               * two

                   three
            four
               */
              x: I32 /* a
                        b */ y: I32
            }
            """,
            """
            node A {
                /* one
                 * two

                     three
                four
                 */
                x: I32 /* a
                        b */
                y: I32
            }
            """,
        )

    def test_blank_lines_between_comments_stay_single(self) -> None:
        check(
            """
            // a


            // b
            node A {}
            // c

            node B {}



            // d
            """,
            """
            // a

            // b
            node A {}

            // c

            node B {}

            // d
            """,
        )

    def test_only_comments(self) -> None:
        assert formatted("\n\n  // a  \n/* b */ // c") == "// a\n/* b */\n// c\n"

    def test_comment_marks_inside_strings_are_no_comments(self) -> None:
        text = 'node A @description("// no /* no */") {}\n'
        assert formatted(text) == text

    def test_windows_line_ends_become_plain_ones(self) -> None:
        text = "// a\r\nnode A {\r\n  x: I32 // b\r\n\r\n  /* c\r\n     d */\r\n}\r\n"
        assert formatted(text) == "// a\nnode A {\n    x: I32 // b\n\n    /* c\n       d */\n}\n"


class TestErrors:
    def test_syntax_errors_are_reported_with_the_name(self) -> None:
        with pytest.raises(CompileError) as caught:
            format_schema("node A { x }\nnode B { y }", name="bad.pg")
        assert len(caught.value.diagnostics) == 2
        assert "bad.pg:1:12" in str(caught.value)

    def test_schemas_that_only_fail_to_compile_can_be_formatted(self) -> None:
        text = "node A {\n    x: I32\n    x: I32 @key(1)\n}\n\nedge E: A -> Nowhere\n"
        with pytest.raises(CompileError):
            compile_schema(text)
        assert formatted(text) == text.replace(" @key(1)", "\n    @key(1)")

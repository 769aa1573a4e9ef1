"""What an editor is told about a schema file, and where it finds the schema of a query file."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.lang.source import Span
from omnigraph.lsp.finding import find_schema
from omnigraph.lsp.positions import Positions
from omnigraph.lsp.schema_file import SchemaFile
from tests.lsp.marked import cut


def test_errors_and_warnings_stand_at_their_spans() -> None:
    text = "node A { a: Text }\nnode B { b: String @indexed }"
    file = SchemaFile("s.pg", text)
    assert [(p.code, text[p.span.start : p.span.end]) for p in file.problems] == [("P00", "Text")]
    text = text.replace("Text ", "String ")
    warnings = SchemaFile("s.pg", text).problems
    assert [(p.code, p.severity, text[p.span.start : p.span.end]) for p in warnings] == [
        ("W01", "warning", "@indexed")
    ]


@pytest.mark.parametrize(
    ("text", "begins", "says"),
    [
        ('node A @description("an a") {}\nedge E: |A -> A', "node A", "an a"),
        ("interface I { x: I32 }\nnode A implements I| {}", "interface I", "x: I32"),
        ('node A { a|: I32 @description("how old") }', "A.a: I32", "how old"),
        ("node A { a: I32 @key(a|) }", "A.a: I32", ""),
        ("node A { a: Date|Time }", "DateTime", "instant"),
        ("node A { a: I32 @uni|que }", "@unique", "No two rows"),
        ("no|de A {}", "node", "Declares"),
        # Half-typed: the declaration does not parse, others do.
        ("node A { a: I32 }\nedge E: A| ->", "node A", "a: I32"),
    ],
)
def test_hover_tells_declarations_and_words(text: str, begins: str, says: str) -> None:
    plain, offset = cut(text)
    found = SchemaFile("s.pg", plain).hover(offset)
    assert found is not None
    assert found.text.startswith(f"```\n{begins}")
    assert says in found.text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("node A {}\nedge E: A -> |A", (5, "A")),
        ("interface I {}\nnode A implements |I {}", (10, "I")),
        ("node A { a: I32  b: I32  @unique(b, |a) }", (9, "a")),
        ("node A { a: |I32 }", None),
        ("|", None),
    ],
)
def test_definitions_lead_to_declarations(text: str, place: tuple[int, str] | None) -> None:
    plain, offset = cut(text)
    found = SchemaFile("s.pg", plain).definition(offset)
    there = None if found is None else (found.span.start, plain[found.span.start : found.span.end])
    assert there == place


# ---- finding ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "setting", "chosen"),
    [
        (["a/s.pg"], None, "a/s.pg"),
        (["s.pg"], None, "s.pg"),
        (["s.pg", "a/t.pg"], None, "a/t.pg"),
        (["a/other.pg", "a/q.pg"], None, "a/q.pg"),
        (["a/other.pg", "a/schema.pg"], None, "a/schema.pg"),
        (["a/other.pg", "a/some.pg"], None, None),
        (["a/other.pg", "a/some.pg"], "a/some.pg", "a/some.pg"),
        (["a/s.pg", "b/t.pg"], "b/t.pg", "b/t.pg"),
        (["a/s.pg"], "none.pg", None),
        (["b/s.pg"], None, None),
        ([], None, None),
    ],
)
def test_the_nearest_schema_is_found(
    tmp_path: Path, files: list[str], setting: str | None, chosen: str | None
) -> None:
    root = tmp_path / "root"
    (tmp_path / "above.pg").parent.mkdir(exist_ok=True)
    # What lies above the workspace is not looked at.
    (tmp_path / "above.pg").touch()
    for name in [*files, "a/q.gq"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    found = find_schema(root / "a" / "q.gq", (root,), setting)
    assert found.path == (None if chosen is None else root / chosen)
    assert (found.problem is None) == (chosen is not None)
    if setting is None and not files:
        assert find_schema(root / "a" / "q.gq", (), None).path == tmp_path / "above.pg"


# ---- positions ----------------------------------------------------------------------------

TEXT = "a\u00e9\U0001d11eb\r\n\nc\rd"


@pytest.mark.parametrize(
    ("encoding", "columns"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3), ("unknown", 4)]
)
def test_positions_count_units_of_the_encoding(encoding: str, columns: int) -> None:
    positions = Positions(TEXT, encoding)
    assert positions.position(TEXT.index("b")) == (0, columns)
    assert positions.offset(0, columns) == TEXT.index("b")
    assert positions.range(Span(TEXT.index("c"), len(TEXT))) == ((2, 0), (3, 1))
    for offset in (0, 1, 2, 3, 4, 6, 7, 8, 9, 10):
        assert positions.offset(*positions.position(offset)) == offset


def test_positions_behind_a_line_or_the_text_mean_their_end() -> None:
    positions = Positions(TEXT)
    assert positions.offset(0, 99) == TEXT.index("\r\n")
    assert positions.offset(99, 0) == len(TEXT)

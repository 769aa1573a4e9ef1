"""How findings are placed, shown to people and sent to machines."""

from __future__ import annotations

import json

import pytest

from omnigraph.errors import CompileError
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.queries import compile_queries
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import (
    SHOWN_COLUMNS_MAX,
    Diagnostic,
    Diagnostics,
    Severity,
    SourceText,
    Span,
    did_you_mean,
)
from omnigraph.limits import DIAGNOSTICS_MAX


def at(
    text: str,
    span: tuple[int, int],
    *,
    hint: str | None = None,
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    return Diagnostic(
        code="S99",
        message="it is wrong",
        source=SourceText("a.pg", text),
        span=Span(*span),
        severity=severity,
        hint=hint,
    )


def shown(*lines: str) -> str:
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "offset", "position", "line"),
    [
        ("", 0, (1, 1), ""),
        ("abc", 0, (1, 1), "abc"),
        ("abc", 3, (1, 4), "abc"),
        ("a\nb", 1, (1, 2), "a"),
        ("a\nb", 2, (2, 1), "b"),
        ("a\n", 2, (2, 1), ""),
        ("\n\n\n", 2, (3, 1), ""),
        ("a\r\nbc\r\n", 4, (2, 2), "bc"),
        ("é漢🙂x", 3, (1, 4), "é漢🙂x"),
        ("a\u2028b\x0cc", 4, (1, 5), "a\u2028b\x0cc"),
        ("a\rb", 2, (1, 3), "a\rb"),
    ],
)
def test_positions_count_lines_and_characters_from_one(
    text: str, offset: int, position: tuple[int, int], line: str
) -> None:
    source = SourceText("a.pg", text)
    assert source.position(offset) == position
    assert source.line(position[0]) == line


def test_render_points_at_the_span() -> None:
    assert at("node A { b: Wrong }", (12, 17)).render() == shown(
        "a.pg:1:13: error[S99]: it is wrong",
        " 1 | node A { b: Wrong }",
        "   |             ^^^^^",
    )


def test_render_adds_the_hint() -> None:
    assert at("abc", (0, 1), hint="write `xyz`").render() == shown(
        "a.pg:1:1: error[S99]: it is wrong",
        " 1 | abc",
        "   | ^",
        "   = help: write `xyz`",
    )


def test_render_keeps_tabs_so_that_the_caret_lands() -> None:
    assert at("\t\tb:\tWrong", (5, 10)).render() == shown(
        "a.pg:1:6: error[S99]: it is wrong",
        " 1 | \t\tb:\tWrong",
        "   | \t\t  \t^^^^^",
    )


def test_render_drops_the_carriage_return() -> None:
    assert at("node A\r\nedge B\r\n", (8, 12)).render() == shown(
        "a.pg:2:1: error[S99]: it is wrong",
        " 2 | edge B",
        "   | ^^^^",
    )


def test_render_marks_the_first_line_of_a_longer_span() -> None:
    assert at("x {\n  a\n}\n", (2, 9)).render() == shown(
        "a.pg:1:3: error[S99]: it is wrong",
        " 1 | x {",
        "   |   ^",
    )


def test_render_marks_an_empty_span_with_one_caret() -> None:
    assert at("node A", (6, 6)).render() == shown(
        "a.pg:1:7: error[S99]: it is wrong",
        " 1 | node A",
        "   |       ^",
    )


def test_render_of_an_empty_text() -> None:
    assert at("", (0, 0)).render() == shown(
        "a.pg:1:1: error[S99]: it is wrong",
        " 1 | ",
        "   | ^",
    )


def test_render_at_the_end_of_a_text_that_ends_in_a_newline() -> None:
    assert at("node A\n", (7, 7)).render() == shown(
        "a.pg:2:1: error[S99]: it is wrong",
        " 2 | ",
        "   | ^",
    )


def test_render_widens_the_gutter_for_long_files() -> None:
    assert at("\n" * 99 + "abc", (99, 102), hint="h").render() == shown(
        "a.pg:100:1: error[S99]: it is wrong",
        " 100 | abc",
        "     | ^^^",
        "     = help: h",
    )


@pytest.mark.parametrize("start", [0, 1, 79, 80, 81, 5000, 9900, 9919, 9920, 9921, 9999, 10_000])
def test_render_cuts_a_long_line_around_the_caret(start: int) -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(10_000))
    _, line, marks = at(text, (start, start + 3)).render().split("\n")
    shown = line.removeprefix(" 1 | ")
    assert len(shown.strip(".")) == SHOWN_COLUMNS_MAX
    assert shown.strip(".") in text
    assert shown.startswith("...") == (start > SHOWN_COLUMNS_MAX // 2)
    assert shown.endswith("...") == (start < len(text) - SHOWN_COLUMNS_MAX // 2)
    carets = marks.removeprefix("   | ")
    column = len(carets) - len(carets.lstrip())
    marked = shown[column : column + len(carets.lstrip())]
    assert marked == text[start : start + 3]
    assert "^" in carets


def test_render_marks_a_long_span_up_to_the_cut() -> None:
    _, line, marks = at("x" * 9000, (10, 9000)).render().split("\n")
    assert len(marks) == len(line)
    assert line.endswith("...")


def test_render_shows_a_line_of_the_full_width_whole() -> None:
    text = "x" * SHOWN_COLUMNS_MAX
    assert f" 1 | {text}\n" in at(text, (SHOWN_COLUMNS_MAX - 1, SHOWN_COLUMNS_MAX)).render()


def test_render_keeps_tabs_of_a_cut_line() -> None:
    text = "\t" * 300 + "x" + "\t" * 300
    assert "\t^" in at(text, (300, 301)).render()


def test_render_names_the_severity() -> None:
    found = at("abc", (0, 1), severity=Severity.WARNING)
    assert found.render().startswith("a.pg:1:1: warning[S99]: it is wrong\n")


def test_json_carries_place_and_hint() -> None:
    found = at("a\nbcd", (3, 5), hint="h", severity=Severity.WARNING).to_json()
    assert json.loads(json.dumps(found)) == {
        "severity": "warning",
        "code": "S99",
        "message": "it is wrong",
        "file": "a.pg",
        "line": 2,
        "column": 2,
        "span": [3, 5],
        "hint": "h",
    }
    assert "hint" not in at("a", (0, 1)).to_json()


def test_findings_are_given_in_source_order() -> None:
    found = Diagnostics(SourceText("a.pg", "abcdef"))
    found.error("S02", Span(4, 5), "second")
    found.warning("W01", Span(3, 4), "late warning")
    found.error("S01", Span(1, 2), "first")
    found.warning("W01", Span(0, 1), "early warning")
    assert [item.message for item in found.errors] == ["first", "second"]
    assert [item.message for item in found.warnings] == ["early warning", "late warning"]
    with pytest.raises(CompileError) as error:
        found.raise_errors()
    assert error.value.diagnostics == tuple(found.errors)
    assert error.value.span == Span(1, 2)


def test_warnings_alone_raise_nothing() -> None:
    found = Diagnostics(SourceText("a.pg", "abc"))
    found.warning("W01", Span(0, 1), "a warning")
    found.raise_errors()
    assert not found.errors


def test_findings_are_limited() -> None:
    found = Diagnostics(SourceText("a.pg", "abc"))
    for number in range(DIAGNOSTICS_MAX + 5):
        found.error("S01", Span(0, 1), str(number))
    assert len(found.errors) == DIAGNOSTICS_MAX
    assert found.errors[-1].message == str(DIAGNOSTICS_MAX - 1)


def test_warnings_and_errors_are_counted_apart() -> None:
    found = Diagnostics(SourceText("a.pg", "abc"))
    for number in range(DIAGNOSTICS_MAX + 5):
        found.warning("W01", Span(0, 1), str(number))
    assert found.is_full(Severity.WARNING)
    assert not found.is_full()
    for number in range(DIAGNOSTICS_MAX + 5):
        assert found.is_full() == (number >= DIAGNOSTICS_MAX)
        found.error("S01", Span(0, 1), str(number))
    assert len(found.warnings) == len(found.errors) == DIAGNOSTICS_MAX
    assert len(found.items) == 2 * DIAGNOSTICS_MAX


def test_findings_made_elsewhere_are_limited_too() -> None:
    found = Diagnostics(SourceText("a.pg", "abc"))
    found.error("S01", Span(0, 1), "first")
    found.extend(at("abc", (1, 2)) for _ in range(DIAGNOSTICS_MAX + 5))
    assert len(found.errors) == DIAGNOSTICS_MAX
    assert found.errors[0].message == "first"


def test_the_parser_stops_at_the_limit() -> None:
    diagnostics = Diagnostics(SourceText("a.pg", "node A { " * 6000))
    parse_schema(diagnostics.source, diagnostics)
    assert len(diagnostics.items) == DIAGNOSTICS_MAX
    # Counted in characters, not seconds: what is not rendered costs nothing.
    assert max(item.span.end for item in diagnostics.items) < 2000
    with pytest.raises(CompileError) as error:
        compile_schema(diagnostics.source.text)
    assert len(error.value.diagnostics) == DIAGNOSTICS_MAX
    assert len(str(error.value)) < 600 * DIAGNOSTICS_MAX


def test_the_query_parser_stops_at_the_limit() -> None:
    catalog = compile_schema("node A {}").catalog
    with pytest.raises(CompileError) as error:
        compile_queries("query q( " * 6000, catalog)
    assert len(error.value.diagnostics) == DIAGNOSTICS_MAX
    assert len(str(error.value)) < 600 * DIAGNOSTICS_MAX


def test_a_compile_error_renders_every_finding() -> None:
    with pytest.raises(CompileError) as error:
        compile_schema("node A { id: String }\r\nedge E: A -> B\r\n", name="g.pg")
    assert str(error.value) == shown(
        "g.pg:1:10: error[S03]: property name `id` is reserved on node A",
        " 1 | node A { id: String }",
        "   |          ^^",
        "   = help: every node has an implicit `id`",
        "",
        "g.pg:2:14: error[S04]: edge E references unknown target type: B",
        " 2 | edge E: A -> B",
        "   |              ^",
    )


def test_a_compile_error_lists_its_findings_as_json() -> None:
    with pytest.raises(CompileError) as error:
        compile_schema("edge E: A -> B", name="g.pg")
    body = json.loads(json.dumps(error.value.to_json()))
    assert body["code"] == "bad_request"
    assert body["type"] == "compile"
    assert [(d["code"], d["line"], d["column"], d["span"]) for d in body["diagnostics"]] == [
        ("S04", 1, 9, [8, 9]),
        ("S04", 1, 14, [13, 14]),
    ]


def test_warnings_come_with_the_compiled_schema() -> None:
    compiled = compile_schema("node A { a: String @uniques }", name="g.pg")
    (found,) = compiled.warnings
    assert found.severity is Severity.WARNING
    assert found.render() == shown(
        "g.pg:1:20: warning[W01]: unknown annotation @uniques is kept but has no effect",
        " 1 | node A { a: String @uniques }",
        "   |                    ^^^^^^^^",
        "   = help: did you mean `@unique`?",
    )


@pytest.mark.parametrize(
    ("word", "candidates", "hint"),
    [
        ("names", ["name", "age"], "did you mean `name`?"),
        ("NAME", ["name", "age"], "did you mean `name`?"),
        ("string", ["String", "Strings"], "did you mean `String`?"),
        ("zzz", ["name", "age"], None),
        ("name", ["name", "age"], None),
        ("name", ["name", "names"], "did you mean `names`?"),
        ("x", [], None),
    ],
)
def test_suggestions(word: str, candidates: list[str], hint: str | None) -> None:
    assert did_you_mean(word, candidates) == hint

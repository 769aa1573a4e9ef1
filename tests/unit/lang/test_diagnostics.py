"""How findings are placed, shown to people and sent to machines."""

from __future__ import annotations

import json

import pytest

from omnigraph.errors import CompileError
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import (
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
    assert at("node A { b: Strin }", (12, 17)).render() == shown(
        "a.pg:1:13: error[S99]: it is wrong",
        " 1 | node A { b: Strin }",
        "   |             ^^^^^",
    )


def test_render_adds_the_hint() -> None:
    assert at("abc", (0, 1), hint="write `abd`").render() == shown(
        "a.pg:1:1: error[S99]: it is wrong",
        " 1 | abc",
        "   | ^",
        "   = help: write `abd`",
    )


def test_render_keeps_tabs_so_that_the_caret_lands() -> None:
    assert at("\t\tb:\tStrin", (5, 10)).render() == shown(
        "a.pg:1:6: error[S99]: it is wrong",
        " 1 | \t\tb:\tStrin",
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


def test_findings_are_limited() -> None:
    found = Diagnostics(SourceText("a.pg", "abc"))
    for number in range(DIAGNOSTICS_MAX + 5):
        found.error("S01", Span(0, 1), str(number))
    assert len(found.errors) == DIAGNOSTICS_MAX


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
    compiled = compile_schema("node A { a: String @uniqe }", name="g.pg")
    (found,) = compiled.warnings
    assert found.severity is Severity.WARNING
    assert found.render() == shown(
        "g.pg:1:20: warning[W01]: unknown annotation @uniqe is kept but has no effect",
        " 1 | node A { a: String @uniqe }",
        "   |                    ^^^^^^",
        "   = help: did you mean `@unique`?",
    )


@pytest.mark.parametrize(
    ("word", "candidates", "hint"),
    [
        ("nmae", ["name", "age"], "did you mean `name`?"),
        ("NAME", ["name", "age"], "did you mean `name`?"),
        ("string", ["String", "Strings"], "did you mean `String`?"),
        ("zzz", ["name", "age"], None),
        ("x", [], None),
    ],
)
def test_suggestions(word: str, candidates: list[str], hint: str | None) -> None:
    assert did_you_mean(word, candidates) == hint

"""Tables line up by what a terminal shows, and fit its width."""

from __future__ import annotations

import sys

import click
import pytest

from omnigraph.cli import query
from omnigraph.cli.tables import Layout, draw_table, shown_width

NAMES = ["name", "born"]
ROWS = [["Ada", "1815"], ["上野 花子", "7"], ["Jose\u0301", "1999"]]
NUMBERS = [False, True]


def plain(lines: list[str]) -> list[str]:
    return [click.unstyle(line) for line in lines]


def test_wide_letters_and_combining_marks_line_up() -> None:
    lines = draw_table(NAMES, ROWS, NUMBERS, Layout())
    assert lines == [
        "name      | born",
        "----------+-----",
        "Ada       | 1815",
        "上野 花子 | 7",
        "Jose\u0301      | 1999",
    ]
    assert len({shown_width(line.partition("|")[0]) for line in lines[2:]}) == 1


def test_at_a_terminal_numbers_stand_to_the_right_and_names_are_bold() -> None:
    lines = draw_table(NAMES, ROWS, NUMBERS, Layout(screen=80))
    assert lines[0] == click.style("name      | born", bold=True)
    assert lines[3] == "上野 花子 |    7"


@pytest.mark.parametrize("screen", [20, 33, 60])
def test_at_a_terminal_the_widest_columns_give_way(screen: int) -> None:
    rows = [["x" * 200, "short", "漢" * 50], ["y", "z", "w"]]
    lines = plain(draw_table(["a", "b", "c"], rows, [False] * 3, Layout(screen=screen)))
    assert all(shown_width(line) <= max(screen, 3 * 6 + 6) for line in lines)
    assert "short" in lines[2]
    assert lines[2].count("…") == 2


def test_a_narrow_value_is_never_cut() -> None:
    lines = plain(draw_table(["a"], [["value"]], [False], Layout(screen=3)))
    assert lines[-1] == "value"


def test_wrapped_cells_keep_every_letter() -> None:
    text = "漢字abc" * 9
    lines = draw_table(["a"], [[text]], [False], Layout(width_max=7, wraps=True))
    assert "".join(lines[2:]) == text
    assert all(shown_width(line) <= 7 for line in lines)


@pytest.mark.parametrize(
    ("lines", "pages", "by_pager"), [(99, True, 1), (3, True, 0), (99, False, 0)]
)
def test_a_pager_shows_what_is_longer_than_the_screen(
    monkeypatch: pytest.MonkeyPatch, lines: int, pages: bool, by_pager: int
) -> None:
    shown: list[str] = []
    printed: list[str] = []
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("LESS", "FRSX")
    monkeypatch.setattr(click, "echo_via_pager", shown.append)
    monkeypatch.setattr(click, "echo", printed.append)
    text = "\n".join("row" for _ in range(lines))
    query.show(text, pages=pages)
    assert (shown, printed) == (([text], []) if by_pager else ([], [text]))


def test_piped_output_never_waits_for_a_pager(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(click, "echo_via_pager", lambda _text: pytest.fail("a pager was started"))
    query.show("row\n" * 500, pages=True)
    assert capsys.readouterr().out == "row\n" * 500 + "\n"

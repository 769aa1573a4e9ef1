"""Where a typed input ends, what it stands for, and how Ctrl-C reaches what runs."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from omnigraph.cli.shell import _apart
from omnigraph.cli.shell_input import as_query, is_complete, split_command
from omnigraph.lang.queries import parse_file


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("query q() {", False),
        ("query q()", False),
        ("query q() { match { $p: P }\n return { $p.a } }", True),
        ('query q() { match { $p: P { a: "}" } }', False),
        ("query q() { // }\n match { $p: P }", False),
        ("query q() { /* } */ match { $p: P }", False),
        ('query q() { match { $p: P { a: "open', False),
        ("query q() { match {\n", True),  # an empty line ends everything
        ("query q() { match {\n  ", True),
        ("match { $p: P }", False),
        ("match { $p: P } return { $p.a };", True),
        ('match { $p: P { a: ";', False),
        ("match { $p: P }\nreturn { $p.a }\n", True),
        ("insert P { a: 1 }", False),
        ("// only a comment", False),
        ("", False),
        ("\n", False),
        ("SELECT 1", True),
    ],
)
def test_a_query_ends_with_its_braces_and_anything_with_an_empty_line(
    text: str, complete: bool
) -> None:
    assert is_complete(text) is complete


def test_a_body_gets_a_query_around_it_and_keeps_its_lines() -> None:
    text = as_query("match { $p: P }\nreturn { $p.a } // all;\n")
    _source, (query,) = parse_file(text)
    assert query.read is not None
    assert text.split("\n")[1] == "return { $p.a } // all;"
    _source, (query,) = parse_file(as_query('insert P { a: "x" };'))
    assert query.read is None


@pytest.mark.parametrize("text", ["match (p:P) return p", "delete from p", "query q() {}"])
def test_what_is_no_body_stays_as_it_was_typed(text: str) -> None:
    assert as_query(text) == text


def test_commands_begin_with_a_dot_or_are_what_people_type_first() -> None:
    assert split_command(" .branch  b1 ") == (".branch", "b1")
    assert split_command("quit;") == split_command("EXIT") == (".quit", "")
    assert split_command("help") == split_command("?") == (".help", "")
    assert split_command("query q() {}") is None


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_tells_the_work_and_waits_for_its_end() -> None:
    told = threading.Event()

    def work() -> str:
        _interrupt()
        assert told.wait(10)
        return "finished"

    before = signal.getsignal(signal.SIGINT)
    assert _apart(work, on_interrupt=told.set, abandons=False) == "finished"
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_leaves_work_alone_that_cannot_be_told() -> None:
    over = threading.Event()

    def work() -> None:
        _interrupt()
        over.wait(10)

    with pytest.raises(KeyboardInterrupt):
        _apart(work, on_interrupt=lambda: None, abandons=True)
    over.set()


def test_what_the_work_raises_is_raised_here() -> None:
    def work() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        _apart(work, on_interrupt=lambda: None, abandons=False)

"""`omnigraph shell` at a real terminal, and with its lines from a pipe."""

from __future__ import annotations

import io
import os
import pty
import select
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.shell_input import Completer
from tests.integration.conftest import Cli, Result

Piped = Callable[..., Result]

SCHEMA = """\
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""
ANSWER_S = 30.0
"""Longer than any answer takes; an answer that does not come fails the test."""
# Makes the terminal the one that sends Ctrl-C to this process, and runs the program.
PROGRAM = """\
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from omnigraph.cli.main import main
main()
"""
ENDLESS = (
    "match { $a: Person $b: Person $c: Person $a.age + $b.age * $c.age < 0 } return { $a.name };"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shell")
    with og.init(folder / "g", SCHEMA, durability="none") as graph:
        rows = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(2000)]
        graph.load(rows, mode="append")
        graph.branches.create("draft")
    return folder / "g"


class Terminal:
    """A shell at a pseudo-terminal, and all that it showed."""

    def __init__(self, place: Path, home: Path) -> None:
        self._master, slave = pty.openpty()
        env = {**os.environ, "OMNIGRAPH_HOME": str(home), "TERM": "dumb", "INPUTRC": "/dev/null"}
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", PROGRAM, "shell", str(place)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def _is_shown(self, text: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(left, 0))
            if not ready:
                return False
            try:
                self.shown += os.read(self._master, 65536).decode().replace("\r\n", "\n")
            except OSError:  # The other end is closed.
                pytest.fail(f"{text!r} was not shown before the end, but {self.shown!r}")
        return True

    def expect(self, text: str) -> str:
        """Wait until the text is shown; return what was shown up to its end."""
        assert self._is_shown(text, ANSWER_S), f"{text!r} was not shown, but {self.shown!r}"
        found, _, self.shown = self.shown.partition(text)
        return found + text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until a typed line is answered: a key may come before anybody reads keys.

        A press takes away what is typed with it, so the line comes after its prompt.
        """
        for press in range(int(ANSWER_S)):
            self.type("\x03")
            if not self._is_shown("\nmain> ", 2.0):
                continue
            self.expect("\nmain> ")
            self.type(f".press{press}\n")
            if self._is_shown(f"no command '.press{press}'", 2.0):
                self.expect(f"no command '.press{press}'")
                self.expect("\nmain> ")
                return
        pytest.fail(f"nothing was interrupted, but shown {self.shown!r}")

    def ask(self, line: str, prompt: str = "\nmain> ") -> str:
        """Type a line and return all that is shown until the next prompt."""
        self.type(line + "\n")
        return self.expect(prompt)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal(place: Path, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(place, tmp_path / "home")
    made.expect("main> ")
    yield made
    made.close()


def test_a_session_at_a_terminal(terminal: Terminal, place: Path, tmp_path: Path) -> None:
    # Several lines, until the braces close.
    terminal.type("query q() {\n match { $p: Person { age: 7 } }\n")
    assert "p7\n" in terminal.ask("  return { $p.name } }")
    # An error points at its place and ends one input only.
    found = terminal.ask("match { $p: Persn } return { $p.name };")
    assert "unknown node type `Persn`" in found
    assert "^^^^^" in found
    assert "did you mean `Person`?" in found
    # Mutations write to the current branch.
    terminal.ask(".branch draft", "\ndraft> ")
    assert "changed draft via shell: 1 node" in terminal.ask(
        'insert Person { name: "zoe" };', "\ndraft> "
    )
    assert "no branch 'drft'" in terminal.ask(".branch drft", "\ndraft> ")
    assert "* draft" in terminal.ask(".branches", "\ndraft> ")
    terminal.ask(".branch main")
    # Completion: a type, a property, a branch.
    assert "0 rows" in terminal.ask('mat\t{ $p: Pers\t { na\t: "zoe" } } return { $p.ag\t };')
    terminal.ask(".timing on")
    assert "time: " in terminal.ask(".branch m\t")
    # Ctrl-C drops what is typed; Ctrl-C ends what runs.
    terminal.type("query q() {\nmatch { $p: Pers")
    terminal.expect("Pers")
    terminal.interrupt()
    terminal.type(ENDLESS + "\n")
    terminal.expect("$a.name };\n")
    terminal.interrupt()
    assert "p8\n" in terminal.ask("match { $p: Person { age: 8 } } return { $p.name };")
    # Ctrl-D leaves.
    terminal.type("\x04")
    assert terminal.process.wait(ANSWER_S) == 0
    with og.open(place, mode="ro") as graph:
        assert graph.get("Person", "zoe") is None
        assert graph.get("Person", "zoe", branch="draft") is not None
    history = tmp_path / "home" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    lines = history.read_text(encoding="utf-8").splitlines()
    again = Terminal(place, tmp_path / "home")
    again.expect("main> ")
    assert "p8\n" in again.ask("\x10")  # Ctrl-P: what was typed last.
    again.close()
    assert lines[0] == "query q() {  match { $p: Person { age: 7 } }   return { $p.name } }"
    assert lines[-1] == "match { $p: Person { age: 8 } } return { $p.name };"


@pytest.fixture
def piped(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> Piped:
    def run(text: str, *more: str) -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return cli("shell", str(place), *more)

    return run


def test_lines_of_a_pipe_are_run_until_the_first_error(piped: Piped) -> None:
    done = piped(
        ".format json\n.param age=3\n"
        "query by($age: I32) { match { $p: Person { age: $age } } return { $p.name } }\n"
        ".format table\nmatch { $p: Person { age: 4 } }\nreturn { $p.name }",
    )
    assert done.code == 0, done.err
    assert '"p.name": "p3"' in done.out
    assert "p4\n" in done.out
    assert "main>" not in done.out
    failed = piped('.nope\ninsert Person { name: "late" };\n')
    assert failed.code == 1
    assert failed.err.splitlines()[0] == "error: there is no command '.nope'"
    assert failed.out == ""


def test_a_read_only_shell_does_not_write(piped: Piped, place: Path) -> None:
    done = piped('insert Person { name: "late" };\n', "--read-only")
    assert done.code == 1
    assert "--read-only" in done.err
    with og.open(place, mode="ro") as graph:
        assert graph.get("Person", "late") is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (".branch nope", "there is no branch 'nope'"),
        (".commits many", ".commits takes a number, not 'many'"),
        (".format xml", "there is no format 'xml'"),
        (".param x", "'x' is not NAME=VALUE"),
        (".timing", ".timing takes on or off"),
        (".schema Persn", "unknown type 'Persn'"),
        ("select * from Person", "this looks like SQL"),
        ("match (p:Person) return p;", "this looks like Cypher"),
    ],
)
def test_a_mistake_is_told_and_gives_the_exit_code(piped: Piped, line: str, said: str) -> None:
    done = piped(line + "\n")
    assert done.code in (1, 3)
    assert said in done.err
    assert "Traceback" not in done.err


def test_words_are_completed_where_they_may_stand(place: Path) -> None:
    with og.open(place, mode="ro") as graph:
        complete = Completer(graph).candidates
        assert complete("kn", "match { $a ") == ["knows"]
        assert complete("Kn", "insert ") == ["Knows"]
        assert complete("mat", "") == ["match"]
        assert complete("$p.a", "return { ") == ["$p.age"]
        assert complete("$pe", "return { ", "match { $person: Person }") == ["$person"]
        assert complete("d", ".branch ") == ["draft"]
        assert complete(".br", "") == [".branch", ".branches"]
        assert complete("o", ".timing ") == ["off", "on"]
        assert complete("P", ".schema ") == ["Person"]
        assert complete("x", ".quit ") == []

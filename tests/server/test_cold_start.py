"""Commands that talk to somebody else start without an engine: a server, or a helper."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.server.helpers import ALL, SCHEMA, Serve

LIBRARIES = {"lance", "pyarrow", "numpy", "pandas", "obstore", "httpx", "fastapi", "ulid", "re2"}
ROOMS = ("catalog", "commits", "compute", "graph", "intake", "lang", "ops", "plan", "read", "rows")
HEAVY = LIBRARIES | {f"omnigraph.{room}" for room in (*ROOMS, "store", "server")}

# Runs the program and leaves the names of all loaded modules in the file named first.
PROGRAM = """\
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path(sys.argv[0]).write_text(json.dumps(sorted(sys.modules))))
del sys.argv[0]
from omnigraph.cli.main import main
main()
"""


class Shell:
    """A user with a folder, a graph in it, and a place for sockets."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder = folder
        self.runtime = runtime
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(self.runtime)}
        with og.init(folder / "g", SCHEMA, durability="none") as graph:
            graph.load([{"type": "Person", "data": {"name": "ann", "age": 31}}], mode="append")

    def run(self, *arguments: str, **env: str) -> tuple[int, str, str, set[str]]:
        """Run a command; return how it ended, what it printed, and what it loaded."""
        listing = self.folder / "modules.json"
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", PROGRAM, str(listing), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={**self.env, **env},
        )
        return (
            done.returncode,
            done.stdout,
            done.stderr,
            set(json.loads(listing.read_text(encoding="utf-8"))),
        )

    def ask(self, *arguments: str, **env: str) -> tuple[int, str, str, bool]:
        """Run a query; return how it ended, what it printed, and whether a helper answered."""
        code, out, err, modules = self.run("query", "--store", "g", *arguments, **env)
        return code, out, err, "lance" not in modules

    def warm(self, verb: str, **env: str) -> dict[str, object]:
        code, out, err, _modules = self.run("warm", verb, "g", "--json", **env)
        assert code == 0, out + err
        found: dict[str, object] = json.loads(out)
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    # The path of a socket is short.
    with tempfile.TemporaryDirectory() as runtime:
        made = Shell(tmp_path, Path(runtime))
        yield made
        made.warm("stop")


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "-e", ALL],
        ["query", "-e", ALL, "--json"],
        ["mutate", "-e", 'query a() { insert Person { name: "x" } }', "--quiet"],
        ["branch", "list"],
        ["commit", "list"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_command_on_a_server_loads_no_engine(
    serve: Serve, tmp_path: Path, arguments: list[str]
) -> None:
    api = serve()
    code, out, err, modules = Shell(tmp_path, tmp_path).run(*arguments, "--server", api.url)
    assert code == 0, out + err
    light = HEAVY - ({"ulid"} if arguments[0] == "mutate" else set())
    assert not light & modules


QUESTIONS = [
    ["-e", ALL],
    ["-e", ALL, "--json"],
    ["-e", ALL, "--format", "csv"],
    ["-e", "query q() { match { $p: Person } return { $p.name, $p.name } }", "--format", "csv"],
    ["-e", "query q() { match { $p: Nope } return { $p } }"],
    ["-e", ALL, "--branch", "nope", "--json"],
    ["-e", ALL, "--version", "1"],
]


def test_a_helper_answers_as_the_command_does_itself(shell: Shell) -> None:
    without = [shell.ask(*question) for question in QUESTIONS]
    assert not any(helped for *_answer, helped in without)
    assert shell.warm("start")["used"] is True
    for question, (code, out, err, _helped) in zip(QUESTIONS, without, strict=True):
        assert shell.ask(*question) == (code, out, err, True)


def test_a_helper_sees_what_others_write(shell: Shell) -> None:
    shell.warm("start")
    with og.open(shell.folder / "g", durability="none") as graph:
        graph.load([{"type": "Person", "data": {"name": "bob"}}], mode="append")
    code, out, _err, helped = shell.ask("-e", ALL, "--format", "csv")
    assert (code, out, helped) == (0, "p.name,p.age\nann,31\nbob,null\n", True)


def test_a_helper_with_other_settings_is_passed_over_and_replaced(shell: Shell) -> None:
    first = shell.warm("start")["process"]
    other = {"AWS_ACCESS_KEY_ID": "somebody-else"}
    assert shell.ask("-e", ALL, **other)[0::3] == (0, False)
    assert shell.warm("status", **other)["used"] is False
    second = shell.warm("start", **other)
    assert second["used"] is True
    assert second["process"] != first
    assert shell.warm("status")["used"] is False


@pytest.mark.parametrize("env", [{"OMNIGRAPH_WARM": "off"}, {"OMNIGRAPH_WARM": "0"}])
def test_a_helper_is_not_used_by_who_does_not_want_it(shell: Shell, env: dict[str, str]) -> None:
    shell.warm("start")
    assert shell.ask("-e", ALL, **env)[0::3] == (0, False)


def test_a_dead_or_foreign_helper_is_as_none(shell: Shell) -> None:
    started = shell.warm("start")
    (path,) = (shell.runtime / "omnigraph").glob("*.sock")
    assert path.stat().st_mode & 0o077 == 0
    shell.warm("stop")
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert shell.ask("-e", ALL)[0::3] == (0, False), "nobody listens"
    assert shell.warm("start")["process"] != started["process"]
    path.parent.chmod(0o755)
    assert shell.ask("-e", ALL)[0::3] == (0, False), "others can enter the folder"
    path.parent.chmod(0o700)
    assert shell.ask("-e", ALL)[0::3] == (0, True)


def test_a_helper_goes_when_nobody_asks(shell: Shell) -> None:
    code, out, err, _modules = shell.run("warm", "start", "g", "--idle", "0.5")
    assert code == 0, out + err
    folder = shell.runtime / "omnigraph"
    for path in folder.glob("*.sock"):
        # Its end of a connection closes when it goes, unless it went before.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(path))
            assert connection.recv(1) == b""
    assert not list(folder.glob("*.sock"))


def test_a_helper_that_cannot_start_says_why(shell: Shell) -> None:
    code, _out, err, _modules = shell.run("warm", "start", "nowhere")
    assert code != 0
    assert "no graph at" in err

"""Commands that need no engine start without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

import omnigraph as og
from omnigraph.cli.commands import COMMANDS
from omnigraph.cli.main import cli

ENGINES = {"lance", "pyarrow", "numpy", "pandas", "pyspark", "obstore"}

# Runs the program and leaves the names of all loaded modules in the file named first.
PROGRAM = """\
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path(sys.argv[0]).write_text(json.dumps(sorted(sys.modules))))
del sys.argv[0]
from omnigraph.cli.main import main
main()
"""
# What a local query has no use for.
NOT_FOR_QUERIES = {"pandas", "tarfile", "http.client", "importlib.metadata", "configparser"}
SCHEMA = 'node A {\n    a: String @key\n    @check(a, "^x")\n}\n'
QUERIES = "query q() { match { $a: A } return { $a.a } }\n"


def loaded(folder: Path, *arguments: str) -> set[str]:
    """Run the program and return the modules it loaded."""
    (folder / "s.pg").write_text(SCHEMA, encoding="utf-8")
    (folder / "q.gq").write_text(QUERIES, encoding="utf-8")
    listing = folder / "modules.json"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, str(listing), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = set(json.loads(listing.read_text(encoding="utf-8")))
    assert "omnigraph.cli.main" in found
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["version"],
        ["lint", "--query", "q.gq", "--schema", "s.pg", "--explain", "--json"],
        ["fmt", "s.pg", "q.gq"],
        ["lsp"],
        ["schema", "plan", "s.pg", "--schema", "s.pg", "--json"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_command_loads_no_engine(tmp_path: Path, arguments: list[str]) -> None:
    assert not ENGINES & loaded(tmp_path, *arguments)


@pytest.mark.parametrize("arguments", [["--help"], ["lint", "--help"], ["schema", "--help"]])
def test_help_loads_no_compiler(tmp_path: Path, arguments: list[str]) -> None:
    found = loaded(tmp_path, *arguments)
    assert not {"re2", "omnigraph.lang", "omnigraph.catalog", "omnigraph.plan"} & found


def test_only_the_language_server_loads_its_protocol(tmp_path: Path) -> None:
    assert {"pygls", "omnigraph.lsp.serving"} <= loaded(tmp_path, "lsp")
    assert "pygls" not in loaded(tmp_path, "fmt", "s.pg")


def test_a_local_query_loads_neither_pandas_nor_what_other_commands_need(tmp_path: Path) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA):
        pass
    found = loaded(tmp_path, "query", "--store", "g.omni", "--query", "q.gq")
    assert "lance" in found
    assert not NOT_FOR_QUERIES & found


def test_a_schema_without_patterns_needs_no_regular_expressions(tmp_path: Path) -> None:
    assert "re2" in loaded(tmp_path, "lint", "--query", "q.gq", "--schema", "s.pg")
    (tmp_path / "plain.pg").write_text("node A { a: String @key }\n", encoding="utf-8")
    assert "re2" not in loaded(tmp_path, "lint", "--query", "q.gq", "--schema", "plain.pg")


def test_the_list_of_commands_imports_none_of_them(tmp_path: Path) -> None:
    found = loaded(tmp_path, "--help")
    assert not {"omnigraph.cli.query", "omnigraph.cli.scope", "msgspec", "socket"} & found


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    context = click.Context(cli)
    for name, listed in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None, name
        assert listed.help == ("" if command.hidden else command.get_short_help_str(200)), name

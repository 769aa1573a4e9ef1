"""The shell on a server."""

from __future__ import annotations

import io

import pytest

from tests.integration.conftest import Cli, cli
from tests.server.helpers import Serve

__all__ = ["cli"]

LINES = """\
insert Person { name: "eve", age: 3 };
match { $p: Person } return { $p.name as name };
.branches
.commits 1
.schema Paper
"""


def test_a_shell_writes_and_reads_on_a_server(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(LINES))
    done = cli("shell", "--server", serve().url)
    assert done.code == 0, done.err
    assert "changed main via shell: 1 node" in done.out
    assert "\neve\n* main\n" in done.out
    assert "mutation" in done.out
    assert "  title  String" in done.out


def test_an_error_of_the_server_is_told_as_anywhere(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("match { $p: Persn } return { $p.name };\n"))
    done = cli("shell", "--server", serve().url)
    assert done.code == 1
    assert "did you mean `Person`?" in done.err

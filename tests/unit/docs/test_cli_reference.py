"""The command reference is what the program says about itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from omnigraph.cli.main import cli

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    yield context.command_path
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            if not child.hidden:
                yield from _commands(child, click.Context(child, info_name=name, parent=context))


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_page_is_what_the_generator_prints_on_any_terminal(columns: str) -> None:
    # In a process of its own: click keeps what it worked out about a command.
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli.docgen"],
        env={**os.environ, "COLUMNS": columns},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == PAGE.read_text(encoding="utf-8"), "run `make docs`"


def test_every_command_has_a_section() -> None:
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    root = click.Context(cli, info_name="omnigraph", **cli.context_settings)
    wanted = [f"## `{path}`" for path in _commands(cli, root)]
    assert [line for line in lines if line.startswith("## ")] == wanted

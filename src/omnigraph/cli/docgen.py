"""Writes the command reference from the commands themselves."""

from __future__ import annotations

import click

from omnigraph.cli.main import cli

INTRODUCTION = """\
# Command reference

Generated from the program's own help by `make docs`; do not edit. Exit codes: 0 success,
1 failure, 2 bad command line, 3 not found, 4 lost `--if-commit`, 5 conflict, 6 denied,
7 recovery required, 8 limit exceeded, 9 a preview found conflicts. With `--json`, failures print an
error object to stdout.
"""


def reference() -> str:
    """Return the whole reference as Markdown."""
    sections = [INTRODUCTION]
    context = click.Context(cli, info_name="omnigraph", **cli.context_settings)
    _collect(cli, context, sections)
    return "\n".join(sections)


def _collect(command: click.Command, context: click.Context, sections: list[str]) -> None:
    # A fixed width keeps the text independent of the terminal it is generated on.
    context.terminal_width = 90
    context.max_content_width = 90
    body = command.get_help(context)
    sections.append(f"## `{context.command_path}`\n\n```text\n{body}\n```\n")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                nested = click.Context(child, info_name=name, parent=context)
                _collect(child, nested, sections)


if __name__ == "__main__":
    click.echo(reference(), nl=False)

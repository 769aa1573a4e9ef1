"""Commands under the names they had before: each warns and does what its successor does."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import click

from omnigraph.cli.data import mutate
from omnigraph.cli.load import load
from omnigraph.cli.query import query


def _older(name: str, command: click.Command, defaults: Mapping[str, str]) -> click.Command:
    def warned(**values: object) -> object:
        click.echo(f"warning: '{name}' is now '{command.name}'", err=True)
        return None if command.callback is None else command.callback(**values)

    params = [copy.copy(item) for item in command.params]
    for item in params:
        if item.name in defaults:
            item.default, item.required = defaults[item.name], False
    return click.Command(name, params=params, callback=warned, help=command.help, hidden=True)


read = _older("read", query, {})
change = _older("change", mutate, {})
ingest = _older("ingest", load, {"mode": "merge", "base": "main"})

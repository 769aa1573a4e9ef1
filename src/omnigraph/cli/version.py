"""`omnigraph version`."""

from __future__ import annotations

import json

import click

from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Print the release and the storage format it reads and writes."""
    if as_json:
        body = {"version": __version__, "internal_schema_version": INTERNAL_SCHEMA_VERSION}
        click.echo(json.dumps(body))
        return
    click.echo(f"omnigraph {__version__}")
    click.echo(f"internal-schema {INTERNAL_SCHEMA_VERSION}")

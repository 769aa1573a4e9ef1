"""`omnigraph lsp`: help for editors."""

from __future__ import annotations

import sys

import click

from omnigraph.extras import needed


@click.command()
@click.option("--stdio", is_flag=True, hidden=True, help="Editors pass it; nothing else is spoken.")
def lsp(stdio: bool) -> None:
    """Serve an editor, over the Language Server Protocol, on standard input and output.

    Schema (.pg) and query (.gq) files get errors while typing, help, completion, definitions,
    renaming and formatting. Editors start it themselves; docs/editors.md says how.
    """
    needed("pygls", "the language server", extra="lsp")
    if sys.stdin.isatty():
        click.echo("waiting for an editor on standard input; Ctrl-C ends it", err=True)
    from omnigraph.lsp.serving import run_stdio

    run_stdio()

"""`omnigraph serve`."""

from __future__ import annotations

import os

import click

from omnigraph.cli.files import read_text
from omnigraph.errors import BadRequestError


@click.command()
@click.option("--store", metavar="URI", help="Serve this one graph.")
@click.option(
    "--cluster",
    metavar="DIR",
    help="Serve every graph of this cluster: its folder, or its storage.",
)
@click.option("--graph-id", metavar="ID", help="Id of the one graph (default).")
@click.option("--bind", metavar="HOST:PORT", help="Where to listen (127.0.0.1:8080; port 0: any).")
@click.option(
    "--unauthenticated", is_flag=True, default=None, help="Let everybody in; needs no tokens."
)
@click.option(
    "--require-all-graphs", is_flag=True, default=None, help="Do not start without each graph."
)
@click.option("--policy", metavar="FILE", help="Policy of the one graph (YAML).")
@click.option("--tokens", metavar="FILE", help="JSON object of actors and their tokens.")
@click.option("--queries", metavar="DIR", help="Stored queries of the one graph (.gq files).")
@click.option("--config", metavar="FILE", help="Settings in YAML; flags and environment win.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
def serve(config: str | None, **flags: object) -> None:
    """Serve graphs over HTTP.

    Prints OMNIGRAPH_LISTEN_ADDR=HOST:PORT once it listens, and logs JSON lines to stderr. It
    finishes the requests under way when it is asked to stop. See docs/server.md.
    """
    try:
        from omnigraph.server import open_service, resolve, run, tokens_from
    except ModuleNotFoundError as error:
        raise BadRequestError(
            f"the server needs {error.name}", hint="install omnigraph[server]"
        ) from error
    from omnigraph.server.logs import configure

    path = config or os.environ.get("OMNIGRAPH_SERVER_CONFIG")
    settings = resolve(flags, os.environ, read_text(path) if path else None)
    tokens = tokens_from(os.environ, settings.tokens)
    configure(settings.log_level)
    run(open_service(settings, tokens, os.environ), lambda line: click.echo(line))

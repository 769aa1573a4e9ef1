"""`omnigraph serve`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from omnigraph.cli.exit_codes import CONFLICTING_VARIABLES
from omnigraph.cli.files import read_text
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.server import Settings, Tokens


@click.command()
@click.argument("uri", required=False)
@click.option("--store", metavar="URI", help="Serve this one graph (same as URI).")
@click.option(
    "--cluster",
    metavar="DIR",
    help="Serve every graph of this cluster: its folder, or its storage.",
)
@click.option("--graph-id", metavar="ID", help="Id of the one graph (default).")
@click.option("--bind", metavar="HOST:PORT", help="Where to listen (127.0.0.1:8080; port 0: any).")
@click.option(
    "--unauthenticated",
    is_flag=True,
    default=None,
    help="Serve without authentication and without tokens.",
)
@click.option(
    "--require-all-graphs", is_flag=True, default=None, help="Do not start without each graph."
)
@click.option("--policy", metavar="FILE", help="Policy of the one graph (YAML).")
@click.option("--tokens", metavar="FILE", help="JSON object of actors and their tokens.")
@click.option(
    "--issuers", metavar="FILE", help="Accepted identity providers: JSON, see docs/server.md."
)
@click.option("--tls-cert", metavar="FILE", help="Certificate chain (PEM).")
@click.option("--tls-key", metavar="FILE", help="Private key of the certificate (PEM).")
@click.option("--queries", metavar="DIR", help="Stored queries of the one graph (.gq files).")
@click.option(
    "--upkeep/--no-upkeep",
    default=None,
    help="Optimize and clean up in the background, or leave it to you (on).",
)
@click.option(
    "--group-writes/--no-group-writes",
    default=None,
    help="Publish small writes that wait for one branch together (on).",
)
@click.option(
    "--workers", type=int, metavar="N", help="Serve with so many processes, for as many cores (1)."
)
@click.option("--config", metavar="FILE", help="Settings in YAML; flags and environment win.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
def serve(uri: str | None, config: str | None, **flags: object) -> None:
    """Serve graphs over HTTP.

    Prints OMNIGRAPH_LISTEN_ADDR=HOST:PORT once it listens, and logs JSON lines to stderr. It
    finishes the requests under way when it is asked to stop, and reads tokens, issuers, the
    certificate, policies, stored queries and what was applied to the cluster anew on SIGHUP. See
    docs/server.md.
    """
    try:
        from omnigraph.server.logs import configure
        from omnigraph.server.settings import resolve
        from omnigraph.server.supervisor import supervise
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    if uri is not None:
        if flags["store"] is not None or flags["cluster"] is not None:
            raise click.UsageError("name the graph once: a path, --store or --cluster")
        flags["store"] = uri
    both = [name for name in ("OMNIGRAPH_STORE", "OMNIGRAPH_CLUSTER") if os.environ.get(name)]
    if len(both) == 2 and flags["store"] is None and flags["cluster"] is None:
        click.echo(f"{' and '.join(both)} are both set; unset one", err=True)
        click.get_current_context().exit(CONFLICTING_VARIABLES)
    path = config or os.environ.get("OMNIGRAPH_SERVER_CONFIG")
    settings = resolve(flags, os.environ, read_text(path) if path else None)
    configure(settings.log_level)
    if settings.workers > 1:
        supervise(settings, os.environ, click.echo)
    else:
        _serve_alone(settings)


def _serve_alone(settings: Settings) -> None:
    """Serve in this process."""
    try:
        from omnigraph.server import open_service, run, tokens_from
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    from omnigraph.server.memory import give_memory_back, save_memory

    save_memory(os.environ)
    give_memory_back()

    def read_tokens() -> Tokens:
        return tokens_from(os.environ, settings.tokens, settings.issuers)

    run(open_service(settings, read_tokens(), os.environ), click.echo, read_tokens)


def _missing(error: ModuleNotFoundError) -> BadRequestError:
    return BadRequestError(f"the server needs {error.name}", hint="install omnigraph[server]")

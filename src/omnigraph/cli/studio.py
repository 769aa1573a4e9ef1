"""`omnigraph studio`."""

from __future__ import annotations

import os
import secrets
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import click

from omnigraph.cli.scope import GivenPlace, actor_option, uri_argument
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.server import Settings

_ACTOR = "studio"


@click.command()
@uri_argument
@click.option("--server", metavar="URL", help="Open the studio of this server.")
@click.option("--graph", metavar="ID", help="The graph of the server, if it has several.")
@click.option("--policy", "policy_path", metavar="FILE", help="Policy (YAML).")
@actor_option
@click.option("--bind", metavar="HOST:PORT", default="127.0.0.1:0", help="Where to listen.")
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
def studio(
    place_given: GivenPlace,
    server: str | None,
    graph: str | None,
    policy_path: str | None,
    actor: str | None,
    bind: str,
    no_open: bool,
) -> None:
    """See a graph, its history and its merges in a browser.

    Serves a graph on this machine until it is interrupted, to this browser only: the address that
    is printed holds a token made for this run. With --server it opens the page of a server that
    runs already, which asks for a token if it needs one.
    """
    if server is not None:
        if any(place_given) or policy_path:
            raise click.UsageError("--server opens a graph that is served already")
        _show(_page_of(server, graph), open_it=not no_open)
        return
    if graph is not None:
        raise click.UsageError("--graph needs --server")
    _serve(place_given.resolve(), actor, policy_path, bind, open_it=not no_open)


def _page_of(server: str, graph: str | None) -> str:
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadRequestError(f"{server!r} is not a server address", hint="use https://host")
    place = "" if graph is None else f"g/{quote(graph, safe='')}/overview"
    return f"{server.rstrip('/')}/studio/{place}"


def _show(address: str, *, open_it: bool) -> None:
    click.echo(f"OmniGraph Studio: {address}")
    if open_it and not webbrowser.open(address):
        click.echo("no browser was found: open the address yourself", err=True)


def _serve(
    place: str, actor: str | None, policy_path: str | None, bind: str, *, open_it: bool
) -> None:
    try:
        from omnigraph.server import Token, Tokens, open_service, run
    except ModuleNotFoundError as error:
        raise BadRequestError(
            f"the studio needs {error.name}", hint="install omnigraph[server]"
        ) from error
    from omnigraph.policy import OpenAccess, load_policy
    from omnigraph.server.logs import configure

    settings = _settings(place, bind)
    configure(settings.log_level)
    secret = secrets.token_urlsafe(24)
    tokens = Tokens([Token.of(actor or os.environ.get("OMNIGRAPH_ACTOR") or _ACTOR, secret)])
    policy = OpenAccess() if policy_path is None else load_policy(policy_path)
    service = open_service(settings, tokens, os.environ, policy=policy)

    def announce(line: str) -> None:
        listening = line.partition("=")[2]
        # What stands behind `#` is never sent; the page takes it out of the address at once.
        _show(f"http://{listening}/studio/#token={secret}", open_it=open_it)

    run(service, announce)


def _settings(place: str, bind: str) -> Settings:
    from omnigraph.server import Settings
    from omnigraph.server.browsers import is_loopback

    settings = Settings(
        store=place,
        bind=bind,
        hosts="127.0.0.1,localhost,::1",
        log_level="warning",
        upkeep=False,  # Who looks at a graph does not ask for old versions to go.
    )
    if not is_loopback(settings.address()[0]):
        raise BadRequestError(
            "the studio listens on this machine only", hint="use `omnigraph serve` for others"
        )
    return settings

"""Commands around servers: their graphs, logins, profiles and aliases."""

from __future__ import annotations

import os
import sys

import click

from omnigraph.cli.operator import Operator, load_operator
from omnigraph.cli.places import Named, named_scope
from omnigraph.cli.query import FORMATS, call_stored, choose_output, write_result
from omnigraph.cli.scope import (
    json_option,
    literal,
    print_json,
    profile_option,
    read_params,
    served_options,
)
from omnigraph.errors import BadRequestError
from omnigraph.wording import counted


@click.group()
def graphs() -> None:
    """Look at the graphs of a server."""


@graphs.command("list")
@served_options
@profile_option
@json_option
def list_graphs(as_json: bool) -> None:
    """List the graphs of a server, if its policy allows it."""
    from omnigraph.remote.connection import Connection

    operator = load_operator(os.environ)
    url = operator.server_url(_server(operator, named_scope()))
    connection = Connection(
        url,
        graph=None,
        token=operator.token_for(url),
        timeout=30.0,
        login_hint=operator.login_hint(url),
    )
    try:
        body = connection.get("/graphs")
    finally:
        connection.close()
    if as_json:
        print_json(body)
        return
    for item in body["graphs"]:
        click.echo(f"{item['graph_id']}\t{item['uri']}")


def _server(operator: Operator, scope: Named) -> str:
    """Return the server that is meant."""
    if scope.graph is not None:
        raise click.UsageError("this command is about all graphs of a server")
    if scope.server is not None:
        return scope.server
    profile = scope.profile or operator.env.get("OMNIGRAPH_PROFILE")
    if profile:
        kind, value = operator.profile(profile)
        if kind == "server":
            return value
    elif "server" in operator.defaults:
        return str(operator.defaults["server"])
    raise click.UsageError("name a server: --server NAME|URL")


@click.command()
@click.argument("name")
@click.option("--token", help="The token; without it one line of standard input is read.")
@json_option
def login(name: str, token: str | None, as_json: bool) -> None:
    """Keep the token of a configured server, readable by you alone."""
    operator = load_operator(os.environ)
    if token is None:
        if sys.stdin.isatty():
            token = click.prompt("token", hide_input=True, err=True)
        else:
            token = sys.stdin.readline()
    token = (token or "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise BadRequestError("the token is empty or has characters no token has")
    operator.store_token(name, token)
    declared = name in operator.servers
    if as_json:
        path = operator.credentials_path
        print_json({"server": name, "credentials_path": path, "declared": declared})
        return
    click.echo(f"logged in to {name}")
    if not declared:
        click.echo(f"warning: no server '{name}' is configured yet", err=True)


@click.command()
@click.argument("name")
@json_option
def logout(name: str, as_json: bool) -> None:
    """Forget the token of a server."""
    operator = load_operator(os.environ)
    operator.store_token(name, None)
    if as_json:
        print_json({"server": name, "credentials_path": operator.credentials_path})
    else:
        click.echo(f"logged out of {name}")


@click.group()
def profile() -> None:
    """Look at configured profiles."""


@profile.command("list")
@json_option
def list_profiles(as_json: bool) -> None:
    """List profiles and what they name."""
    operator = load_operator(os.environ)
    active = os.environ.get("OMNIGRAPH_PROFILE")
    profiles = [_described(operator, name, active) for name in sorted(operator.profiles)]
    if as_json:
        print_json(profiles)
        return
    for item in profiles:
        mark = "*" if item["active"] else " "
        click.echo(f"{mark} {item['name']}  {item['error'] or item['binding']}")
    if not profiles:
        click.echo("(no profiles)")


def _described(operator: Operator, name: str, active: str | None) -> dict[str, object]:
    kind: str | None = None
    target: str | None = None
    error: str | None = None
    try:
        kind, target = operator.profile(name)
    except BadRequestError as problem:
        error = problem.message
    return {
        "name": name,
        "binding": None if kind is None else f"{kind}={target}",
        "scope_kind": kind,
        "target": target,
        "valid": error is None,
        "error": error,
        "default_graph": operator.profiles[name].get("default_graph"),
        "active": name == active,
    }


@profile.command("show")
@click.argument("name", required=False)
@json_option
def show_profile(name: str | None, as_json: bool) -> None:
    """Show a profile, by default the one in use."""
    operator = load_operator(os.environ)
    name = name or os.environ.get("OMNIGRAPH_PROFILE")
    kind, target = ("none", None) if name is None else operator.profile(name)
    body = {
        "name": name,
        "scope_kind": kind,
        "target": target,
        "endpoint": operator.server_url(str(target)) if kind == "server" else None,
        "default_graph": operator.profiles[name].get("default_graph") if name else None,
        "output_format": operator.defaults.get("output", "table"),
    }
    if as_json:
        print_json(body)
        return
    for key, value in body.items():
        click.echo(f"{key}: {'-' if value is None else value}")


@click.command()
@click.argument("name")
@click.argument("values", nargs=-1, metavar="[ARGS]...")
@click.option("--params", metavar="JSON", help="Parameters as a JSON object.")
@click.option("--params-file", metavar="FILE", help="Parameters in a JSON file.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Output format (table).")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def alias(
    name: str,
    values: tuple[str, ...],
    params: str | None,
    params_file: str | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Run a stored query under a name of your own, with its usual parameters."""
    operator = load_operator(os.environ)
    if name not in operator.aliases:
        known = ", ".join(sorted(operator.aliases)) or "none"
        raise BadRequestError(f"no alias '{name}' is configured", hint=f"known: {known}")
    entry = operator.aliases[name]
    if not isinstance(entry.get("query"), str) or not isinstance(entry.get("server"), str):
        raise BadRequestError(f"alias '{name}' must name a server and a query")
    names = [str(item) for item in entry.get("args") or []]
    if len(values) > len(names):
        raise click.UsageError(f"alias '{name}' takes {counted(len(names), 'argument')}")
    given = {key: literal(text) for key, text in zip(names, values, strict=False)}
    merged = {**(entry.get("params") or {}), **given, **read_params(params, params_file)}
    url = operator.server_url(entry["server"])
    place = f"{url}/graphs/{entry['graph']}" if entry.get("graph") else url
    usual = None if entry.get("format") is None else str(entry["format"])
    output = choose_output("json" if as_json else form or usual, None)
    result = call_stored(place, entry["query"], output, params=merged, branch=None)
    write_result(result, output)

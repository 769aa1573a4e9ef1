"""`omnigraph queries`: the stored queries of a cluster or a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.exit_codes import FAILURE
from omnigraph.cli.places import cluster_graph, find_cluster, find_server, named_scope
from omnigraph.cli.scope import (
    cluster_options,
    json_option,
    open_served,
    print_json,
    profile_option,
    server_option,
)
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.cluster import StoredQuery


@click.group()
def queries() -> None:
    """Look at the stored queries of a cluster or a server."""


@queries.command("list")
@server_option
@cluster_options
@profile_option
@json_option
def list_queries(as_json: bool) -> None:
    """List the stored queries of a graph."""
    place = find_server()
    entries = _applied() if place is None else _served(place)
    if as_json:
        print_json({"queries": entries})
        return
    for query in entries:
        params = ", ".join(f"${item['name']}: {_type_text(item)}" for item in query["params"])
        click.echo(f"{'mutation' if query['mutation'] else 'read'} {query['name']}({params})")
        for text in (query.get("description"), query.get("instruction")):
            if text is not None:
                click.echo(f"    {text}")


def _served(place: str) -> list[dict[str, Any]]:
    with open_served(place) as graph:
        return [query | {"mcp_expose": True} for query in graph.stored_queries()]


def _applied() -> list[dict[str, Any]]:
    stored: Iterable[StoredQuery] = cluster_graph(
        find_cluster(), named_scope().graph
    ).queries.values()
    return [_entry(query) for query in stored]


def _entry(query: StoredQuery) -> dict[str, object]:
    params = [
        {
            "name": item.name,
            "type": str(item.type.as_nullable(nullable=False)),
            "nullable": item.type.nullable,
        }
        for item in query.parameters
    ]
    return query.to_json() | {"mcp_expose": True, "params": params}


def _type_text(param: Mapping[str, object]) -> str:
    """Return the type of a parameter: as declared, or the kind that a server tells."""
    text = param.get("type") or param["kind"]
    if "type" not in param and text == "list":
        text = f"[{param['item_kind']}]"
    elif "type" not in param and text == "vector":
        text = f"vector({param['vector_dim']})"
    return f"{text}?" if param["nullable"] else str(text)


@queries.command()
@cluster_options
@profile_option
@json_option
def validate(as_json: bool) -> int:
    """Check the stored queries of a graph against the schema it has now."""
    import omnigraph as og
    from omnigraph.errors import OmniGraphError
    from omnigraph.lang import compile_query

    served = cluster_graph(find_cluster(), named_scope().graph)
    broken = [{"query": item.path, "message": item.message} for item in served.problems]
    with og.open(served.uri, mode="ro") as opened:
        for query in served.queries.values():
            try:
                compile_query(query.source, opened.catalog, name=query.name)
            except OmniGraphError as error:
                broken.append({"query": query.name, "message": error.message})
    if as_json:
        print_json({"ok": not broken, "breakages": broken, "warnings": []})
    else:
        for item in broken:
            click.echo(f"ERROR {item['query']}: {item['message']}")
        click.echo(
            f"{counted(len(served.queries), 'query', 'queries')} checked: {len(broken)} broken"
        )
    return FAILURE if broken else 0

"""`omnigraph queries`: the stored queries of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.exit_codes import FAILURE
from omnigraph.cli.places import cluster_graph, find_cluster, named_scope
from omnigraph.cli.scope import cluster_options, json_option, print_json, profile_option
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.cluster import StoredQuery


@click.group()
def queries() -> None:
    """Look at the stored queries of a cluster."""


@queries.command("list")
@cluster_options
@profile_option
@json_option
def list_queries(as_json: bool) -> None:
    """List the stored queries of a graph."""
    found = cluster_graph(find_cluster(), named_scope().graph).queries
    if as_json:
        print_json({"queries": [_entry(query) for query in found.values()]})
        return
    for query in found.values():
        params = ", ".join(f"${item.name}: {item.type}" for item in query.parameters)
        click.echo(f"{'mutation' if query.mutation else 'read'} {query.name}({params})")
        for text in (query.description, query.instruction):
            if text is not None:
                click.echo(f"    {text}")


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

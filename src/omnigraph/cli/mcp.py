"""`omnigraph mcp`: a graph for agents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from omnigraph.cli.operator import load_operator
from omnigraph.cli.places import cluster_graph
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    durability_setting,
    uri_argument,
)

if TYPE_CHECKING:
    from omnigraph.cluster import StoredQuery
    from omnigraph.embed import Embedder
    from omnigraph.mcp import Tokens
    from omnigraph.policy import Policy


@click.command()
@uri_argument
@click.option("--cluster", metavar="DIR", help="Serve a graph of a cluster, as it was applied.")
@click.option("--graph", metavar="ID", help="The graph of the cluster, if there are several.")
@click.option(
    "--queries",
    multiple=True,
    metavar="FILE",
    help="Stored queries to offer as tools, without a cluster (may be repeated).",
)
@click.option("--policy", "policy_path", metavar="FILE", help="Policy (YAML).")
@actor_option
@click.option("--branch", metavar="NAME", help="Branch to write to (else one for each actor).")
@click.option("--allow-main", is_flag=True, help="Let agents write to main, and merge.")
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP at /mcp, not over stdio.")
@click.option(
    "--tokens", metavar="FILE", help="JSON object of actors and their tokens, for --http."
)
@click.option("--issuers", metavar="FILE", help="Accepted identity providers, as for `serve`.")
@click.option("--tls-cert", metavar="FILE", help="Certificate (PEM), for --http.")
@click.option("--tls-key", metavar="FILE", help="Private key of the certificate (PEM).")
@click.option("--unauthenticated", is_flag=True, help="Serve without authentication, for --http.")
def mcp(
    place_given: GivenPlace,
    cluster: str | None,
    graph: str | None,
    queries: tuple[str, ...],
    policy_path: str | None,
    actor: str | None,
    branch: str | None,
    allow_main: bool,
    http: str | None,
    tokens: str | None,
    issuers: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    unauthenticated: bool,
) -> None:
    """Serve a graph to agents, over the Model Context Protocol.

    Stored queries become tools, beside tools that read, write to a branch and preview a merge.
    Over stdio one agent acts as --as; over HTTP the token says who it is.
    """
    import omnigraph as og
    from omnigraph.mcp import DEFAULT_GRAPH, Toolbox, run_http, run_stdio

    if (tokens or issuers or tls_cert or unauthenticated) and http is None:
        raise click.UsageError(
            "--tokens, --issuers, --tls-cert and --unauthenticated are for --http"
        )
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("TLS needs both: --tls-cert and --tls-key")
    if (tokens or issuers) and actor:
        raise click.UsageError("--as is for stdio; over HTTP the token says who it is")
    place, rules, stored, embedder = _served(place_given, cluster, graph, queries)
    rules = _policy(policy_path, rules)
    known, rules = _identity(http, tokens, issuers, unauthenticated, rules)
    with og.open(
        place,
        # A request over HTTP whose token got lost must be without an actor, not this person's.
        actor=actor if http is not None else actor or _configured_actor(),
        durability=durability_setting(),
        embedder=embedder,
        policy=rules,
    ) as opened:
        toolbox = Toolbox(opened, stored, branch=branch, allow_main=allow_main)
        if http is None:
            run_stdio(toolbox)
        else:
            host, port = _address(http)
            scheme = "http" if tls_cert is None else "https"
            click.echo(f"omnigraph mcp -> {scheme}://{host}:{port}/mcp", err=True)
            tls = None if tls_cert is None or tls_key is None else (tls_cert, tls_key)
            name = graph or DEFAULT_GRAPH
            run_http(toolbox, host=host, port=port, tokens=known, graph_id=name, tls=tls)


def _served(
    given: GivenPlace,
    cluster: str | None,
    graph: str | None,
    queries: tuple[str, ...],
) -> tuple[str, Policy | None, dict[str, StoredQuery], Embedder | None]:
    """Return the graph to serve, its policy, its stored queries and where vectors come from."""
    from omnigraph.cli.files import read_text
    from omnigraph.cluster import stored_queries
    from omnigraph.embed import embedder_from
    from omnigraph.errors import BadRequestError

    if cluster is None:
        if graph is not None:
            raise click.UsageError("--graph needs --cluster")
        stored: dict[str, StoredQuery] = {}
        for path in queries:
            for query in stored_queries(read_text(path), name=path):
                if query.name in stored:
                    raise BadRequestError(f"{path}: there are two queries '{query.name}'")
                stored[query.name] = query
        return given.resolve(), None, stored, embedder_from(os.environ)
    if any(given) or queries:
        raise click.UsageError("--cluster names the graph and its queries already")
    served = cluster_graph(load_operator(os.environ).cluster_place(cluster), graph)
    if served.problems:
        raise BadRequestError("\n".join(item.render() for item in served.problems))
    return served.uri, served.policy, dict(served.queries), served.embedder(os.environ)


def _configured_actor() -> str | None:
    return os.environ.get("OMNIGRAPH_ACTOR") or load_operator(os.environ).actor


def _policy(path: str | None, applied: Policy | None) -> Policy | None:
    from omnigraph.policy import load_policy

    if path is not None and applied is not None:
        raise click.UsageError("the cluster has a policy for this graph; leave --policy out")
    path = path or os.environ.get("OMNIGRAPH_POLICY") or None
    return applied if path is None or applied is not None else load_policy(path)


def _identity(
    http: str | None,
    tokens: str | None,
    issuers: str | None,
    unauthenticated: bool,
    rules: Policy | None,
) -> tuple[Tokens | None, Policy | None]:
    """Return the tokens, and the policy with what stands in for one on a server."""
    from omnigraph.identity import tokens_from
    from omnigraph.policy import policy_for, server_state

    if http is None:
        return None, rules
    known = None if tokens is None and issuers is None else tokens_from({}, tokens, issuers)
    state = server_state(
        tokens=known is not None and len(known) > 0,
        policy=rules is not None,
        unauthenticated=unauthenticated,
    )
    return known, policy_for(state, rules)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--http takes HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)

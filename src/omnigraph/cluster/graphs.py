"""Looks at the graphs of a cluster, and makes, changes and removes them.

Each of these can be repeated. Making and changing a graph carry an operation id that follows from
what is wanted, so a run that comes after one that died finds out what that one did.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

from omnigraph.catalog import shape_hash
from omnigraph.cluster.config import graph_uri
from omnigraph.cluster.planning import Actual, Change, Desired, Preview
from omnigraph.cluster.state import Applied, State
from omnigraph.cluster.stored import digest_of
from omnigraph.commits import MANIFEST
from omnigraph.errors import ConflictError, NotFoundError, OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.graph import init, open_graph
from omnigraph.store import locate


def operation_id(*what: object) -> str:
    """Return the id of an operation: the same for the same thing to be done."""
    return f"cluster-{digest_of(json.dumps(what))[:32]}"


def live_schema(root: str, graph_id: str) -> str:
    """Return the digest of a graph's schema. Raises `NotFoundError` when there is no graph."""
    with open_graph(graph_uri(root, graph_id), mode="ro") as graph:
        return shape_hash(graph.catalog)


def adopted(graph_id: str, live: str) -> dict[str, Applied]:
    """Return a graph that is there as applied; its settings are to be applied yet."""
    return {f"graph.{graph_id}": Applied(digest=""), f"schema.{graph_id}": Applied(digest=live)}


def look(desired: Desired, state: State) -> Actual:
    """Look at every graph that is to be made or to get another schema. Nothing is written."""
    actual = Actual(applied=dict(state.resources))
    for graph_id in desired.graph_ids:
        if graph_id in state.removing:
            actual.occupied[graph_id] = "the files of a graph that was removed are still there"
        elif f"graph.{graph_id}" not in actual.applied:
            _look_for_made(actual, desired.root, graph_id)
        known = actual.applied.get(f"schema.{graph_id}")
        if known is not None and known != desired.resources[f"schema.{graph_id}"]:
            _look_at_schema(actual, desired, graph_id, state.state_revision)
    return actual


def _look_for_made(actual: Actual, root: str, graph_id: str) -> None:
    """Take in a graph that an apply made and could not tell of; name any other as in the way."""
    try:
        with open_graph(graph_uri(root, graph_id), mode="ro") as graph:
            live = shape_hash(graph.catalog)
            made = graph.commits.list()[-1].operation_id
    except NotFoundError:
        return
    except OmniGraphError as error:
        actual.occupied[graph_id] = error.message
        return
    if made == operation_id("graph_create", graph_id, live):
        actual.applied |= adopted(graph_id, live)
        actual.finished[f"graph.{graph_id}"] = "graph_create"
    else:
        message = "a graph that the ledger does not know is there; see `cluster import`"
        actual.occupied[graph_id] = message


def _look_at_schema(actual: Actual, desired: Desired, graph_id: str, revision: int) -> None:
    """Ask a graph about its new schema, which an apply that died may have given it already."""
    address = f"schema.{graph_id}"
    before, after = actual.applied[address].digest, desired.resources[address].digest
    ours = operation_id("schema_apply", graph_id, revision, before, after)
    try:
        with open_graph(graph_uri(desired.root, graph_id), mode="ro") as graph:
            live = shape_hash(graph.catalog)
            plan = graph.schema.plan(desired.texts[f"schema.{graph_id}"])
            if live == after and any(c.operation_id == ours for c in graph.commits.list()):
                actual.finished[address] = "schema_apply"
    except OmniGraphError as error:
        refusal = ("schema_preview_unavailable", error.message)
        actual.previews[graph_id] = Preview(refusal=refusal)
        return
    preview = Preview(live=live, migration=plan.to_json(), drops=plan.drops)
    if not plan.supported:
        preview = replace(preview, refusal=("apply_unsupported_change", plan.render()))
    elif plan.problems:
        messages = "; ".join(str(item["message"]) for item in plan.problems[:3])
        preview = replace(preview, refusal=("schema_apply_failed", messages))
    actual.previews[graph_id] = preview


def make_graph(desired: Desired, change: Change) -> None:
    """Make a graph with its schema."""
    graph_id = change.graph_id
    made = operation_id("graph_create", graph_id, desired.resources[f"schema.{graph_id}"].digest)
    init(
        graph_uri(desired.root, graph_id), desired.texts[f"schema.{graph_id}"], operation_id=made
    ).close()
    fire(Failpoint.CLUSTER_POST_EFFECT)


def change_schema(desired: Desired, change: Change, revision: int, actor: str | None) -> None:
    """Give a graph its new schema. Raises `ConflictError` when it is not the one looked at."""
    graph_id = change.graph_id
    ours = operation_id("schema_apply", graph_id, revision, *change.digests)
    with open_graph(graph_uri(desired.root, graph_id), actor=actor) as graph:
        # Drops were approved, or not needed, for the schema that was looked at.
        if shape_hash(graph.catalog) not in (change.preview.live, change.digests[1]):
            raise ConflictError("its schema was changed meanwhile", hint="apply again")
        graph.schema.apply(desired.texts[f"schema.{graph_id}"], operation_id=ours)
    fire(Failpoint.CLUSTER_POST_EFFECT)


def remove_graph(root: str, graph_id: str) -> None:
    """Remove a graph's files, if they are there: first its name, so that none opens half of it."""
    uri = graph_uri(root, graph_id)
    files = locate(uri).files
    if files.safe:
        # No folder has a name of its own there: without its manifest it is no graph.
        files.remove(f"{uri}/{MANIFEST}")
        fire(Failpoint.CLUSTER_POST_REMOVE)
        files.remove(uri)
        return
    doomed = os.path.join(os.path.dirname(uri), f".removed-{graph_id}")
    if os.path.isdir(uri):
        if os.path.isdir(doomed):
            shutil.rmtree(doomed)
        os.rename(uri, doomed)
        fire(Failpoint.CLUSTER_POST_REMOVE)
    if os.path.isdir(doomed):
        shutil.rmtree(doomed)

"""Embedded and served graphs give the same answers, value for value and error for error."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.changes import ChangeFeed
from omnigraph.graph.history import Commits
from omnigraph.graph.schema_ops import SchemaOps
from omnigraph.remote import RemoteGraph
from omnigraph.remote.blobs import RemoteBlobs
from omnigraph.remote.branches import RemoteBranches, RemoteTags
from omnigraph.remote.history import RemoteCommits, RemoteFeed
from omnigraph.remote.schema import RemoteSchema
from omnigraph.remote.wire_errors import error_from
from omnigraph.server.http_errors import failure
from tests.server.helpers import SCHEMA, Serve
from tests.server.stories import STORIES, Notes, Story
from tests.unit.test_errors import ROWS


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_both_kinds_of_graph_tell_the_same_story(
    story: Story, serve: Serve, tmp_path: Path
) -> None:
    embedded, served = Notes(), Notes()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        story(graph, embedded, tmp_path / "a")
    with og.connect(serve().url) as remote:
        story(remote, served, tmp_path / "b")
    assert len(embedded.lines) >= 5
    for number, (mine, theirs) in enumerate(zip(embedded.lines, served.lines, strict=True)):
        assert mine == theirs, f"note {number} of {story.__name__}"


def test_a_graph_is_named_on_a_server_with_several(serve: Serve) -> None:
    api = serve(graph_id="books")
    with og.connect(api.url, graph="books") as graph:
        assert graph.uri == f"{api.url}/graphs/books"
        assert graph.branches.list() == ["main"]
    with og.connect(api.url, graph="other") as graph, pytest.raises(og.NotFoundError):
        graph.branches.list()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.cls.__name__)
def test_every_error_crosses_the_wire_unharmed(row: object) -> None:
    error = row.make()  # type: ignore[attr-defined]
    sent = failure(error)
    found = error_from(sent.status, sent.body)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.hint == error.hint
    received = failure(found)
    assert received.status == sent.status
    assert received.body == sent.body


def test_an_unknown_error_is_judged_by_its_status() -> None:
    assert isinstance(error_from(409, {"error": "x", "type": "from-the-future"}), og.ConflictError)
    assert isinstance(error_from(404, {"error": "x"}), og.NotFoundError)
    assert isinstance(error_from(418, {}), og.BadRequestError)
    assert isinstance(error_from(599, {}), og.InternalError)


def test_what_works_on_storage_says_so(serve: Serve) -> None:
    with og.connect(serve().url) as graph:
        for name in ("optimize", "cleanup", "repair", "ensure_indices"):
            with pytest.raises(og.BadRequestError, match="works on storage"):
                getattr(graph, name)()
        with pytest.raises(AttributeError):
            graph.no_such_thing()
        with pytest.raises(og.BadRequestError, match="token"):
            graph.as_actor("somebody")


PARTS = {
    "graph": (og.Graph, RemoteGraph),
    "branches": (Branches, RemoteBranches),
    "tags": (Tags, RemoteTags),
    "commits": (Commits, RemoteCommits),
    "feed": (ChangeFeed, RemoteFeed),
    "blobs": (Blobs, RemoteBlobs),
    "schema": (SchemaOps, RemoteSchema),
}
# On a server the token decides who acts, and hanging up cancels; Spark runs beside the storage.
NOT_SERVED = {"actor", "cancel", "workers"}
ON_STORAGE = {"optimize", "repair", "cleanup", "ensure_indices", "recover"}
ON_STORAGE |= {"upkeep", "dump", "bulk"}
# What rooms of the engine ask of a handle, and what bulk loads need.
OF_THE_ENGINE = {"observe", "settle", "request", "accepted_schema", "schema_at", "check_writable"}
OF_THE_ENGINE |= {"permit", "session", "cache_stats", "as_actor", "recovered", "limits"}
OF_THE_ENGINE |= {"load_staged", "catalog_at", "table_at", "scratch_folder", "reach"}
OF_THE_ENGINE |= {"differing_tables", "acting_for"}


def public(part: type) -> set[str]:
    return {name for name in dir(part) if not name.startswith("_")}


@pytest.mark.parametrize("name", PARTS)
def test_both_kinds_of_graph_have_the_same_calls(name: str) -> None:
    """Whoever adds a call or an argument to one of them has to think of the other."""
    embedded, served = PARTS[name]
    for call in public(embedded) - ON_STORAGE - OF_THE_ENGINE:
        mine, theirs = getattr(embedded, call), getattr(served, call, None)
        assert theirs is not None, f"{name}.{call} is not served"
        if not callable(mine):
            continue
        wanted = [
            (item.name, item.kind, item.default)
            for item in inspect.signature(mine).parameters.values()
            if item.name not in NOT_SERVED or (name, call) == ("commits", "list")
        ]
        found = [
            (item.name, item.kind, item.default)
            for item in inspect.signature(theirs).parameters.values()
        ]
        assert found == wanted, f"{name}.{call}"
        assert inspect.getdoc(theirs), f"{name}.{call}"

"""Embedded and served graphs give the same answers, value for value and error for error."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph import GraphApi, api
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.changes import ChangeFeed
from omnigraph.graph.entities import Entities
from omnigraph.graph.history import Commits
from omnigraph.graph.maintaining import MaintenanceOps
from omnigraph.graph.schema_ops import SchemaOps
from omnigraph.remote import RemoteGraph
from omnigraph.remote.blobs import RemoteBlobs
from omnigraph.remote.branches import RemoteBranches, RemoteTags
from omnigraph.remote.entities import RemoteEntities
from omnigraph.remote.history import RemoteCommits, RemoteFeed
from omnigraph.remote.maintenance import RemoteMaintenance
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
        for part, names in ON_STORAGE.items():
            for name in names:
                with pytest.raises(og.BadRequestError, match=f"{name} works on storage"):
                    getattr(graph if part == "graph" else getattr(graph, part), name)
        with pytest.raises(AttributeError):
            graph.no_such_thing()  # type: ignore[attr-defined]  # that is the point
        with pytest.raises(og.BadRequestError, match="token"):
            graph.as_actor("somebody")


def both_kinds(graph: og.Session, served: RemoteGraph) -> tuple[GraphApi, GraphApi]:
    """Both are what the type says: this is checked where types are."""
    return graph, served


# Each part as the interface says, as it is embedded, and as it is served.
PARTS: dict[str, tuple[type, type, type]] = {
    "graph": (api.GraphApi, og.Session, RemoteGraph),
    "branches": (api.BranchesApi, Branches, RemoteBranches),
    "tags": (api.TagsApi, Tags, RemoteTags),
    "commits": (api.CommitsApi, Commits, RemoteCommits),
    "feed": (api.FeedApi, ChangeFeed, RemoteFeed),
    "blobs": (api.BlobsApi, Blobs, RemoteBlobs),
    "entities": (api.EntitiesApi, Entities, RemoteEntities),
    "schema": (api.SchemaApi, SchemaOps, RemoteSchema),
    "maintenance": (api.MaintenanceApi, MaintenanceOps, RemoteMaintenance),
}
ON_STORAGE = {
    "graph": {"bulk"},
    "maintenance": {
        "ensure_indices",
        "dump",
        "recovered",
        "upkeep",
        "cache_stats",
    },
}
# A token decides who acts, and every request is a session of its own.
SESSIONS = {"session", "as_actor", "acting_for"}


def public(part: type) -> set[str]:
    return {name for name in dir(part) if not name.startswith("_")}


def defaults(call: object) -> dict[str, object]:
    found = inspect.signature(call).parameters.values()  # type: ignore[arg-type]
    return {item.name: item.default for item in found}


@pytest.mark.parametrize("name", PARTS)
def test_what_is_not_served_works_on_storage(name: str) -> None:
    """Whoever adds a call to one kind of graph has to think of the other."""
    shared, embedded, _served = PARTS[name]
    known = public(shared) | ON_STORAGE.get(name, set()) | SESSIONS
    assert public(embedded) <= known
    if name in ON_STORAGE:
        assert not public(shared) & ON_STORAGE[name]


@pytest.mark.parametrize("name", PARTS)
def test_both_kinds_of_graph_mean_the_same_by_what_is_left_out(name: str) -> None:
    """Types tell that the arguments agree; what stands for them must be the same as well."""
    shared, *kinds = PARTS[name]
    calls = [call for call in public(shared) if callable(getattr(shared, call))]
    assert calls
    for call in calls:
        wanted = defaults(getattr(shared, call))
        for kind in kinds:
            found = defaults(getattr(kind, call))
            assert {key: found[key] for key in wanted} == wanted, f"{kind.__name__}.{call}"
            assert inspect.getdoc(getattr(kind, call)), f"{kind.__name__}.{call}"

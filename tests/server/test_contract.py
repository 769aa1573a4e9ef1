"""Embedded and served graphs give the same answers, value for value and error for error."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.remote import RemoteGraph
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


def test_calls_take_the_same_arguments() -> None:
    """A served graph takes no argument the embedded one does not know."""
    for name in ("query", "mutate", "load", "export", "snapshot", "diff", "explain"):
        served = inspect.signature(getattr(RemoteGraph, name)).parameters
        embedded = inspect.signature(getattr(og.Graph, name)).parameters
        assert set(served) <= set(embedded), name
        left_out = set(embedded) - set(served)
        assert left_out <= {"actor", "cancel"}, name


def test_every_call_of_the_embedded_graph_is_served_or_refused() -> None:
    embedded = {name for name in dir(og.Graph) if not name.startswith("_")}
    source = inspect.getsource(RemoteGraph)
    served = {name for name in dir(RemoteGraph) if not name.startswith("_")}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            served.add(node.attr)
    refused = {"optimize", "repair", "cleanup", "ensure_indices", "recover"}
    refused |= {"maintain_automatically", "entity_at", "dump", "bulk"}
    parts = {"observe", "settle", "request", "accepted_schema", "schema_at", "check_writable"}
    parts |= {"permit", "session", "cache_stats"}
    # What work on Spark needs.
    parts |= {"load_staged", "catalog_at", "table_at", "scratch_folder", "reach"}
    parts |= {"differing_tables"}
    assert not embedded - served - refused - parts

"""A server reads names of states as an open graph does."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.server.helpers import ADD, ALL, POLICY, TOKENS, Serve


def names(graph: og.RemoteGraph, state: str, branch: str | None = None) -> list[str]:
    return [row["p.name"] for row in graph.query(ALL, commit=state, branch=branch)]


def test_a_state_is_named_the_same_way_over_http(serve: Serve) -> None:
    with og.connect(serve().url) as graph:
        graph.mutate(ADD, {"n": "ann"})
        graph.branches.create("work")
        graph.mutate(ADD, {"n": "bob"})
        graph.mutate(ADD, {"n": "wim"}, branch="work")
        assert names(graph, "HEAD~1") == ["ann"]
        assert names(graph, "HEAD", "work") == ["ann", "wim"]
        assert names(graph, "HEAD~1", "work") == ["ann"]
        assert names(graph, "work@{now}^") == ["ann"]
        assert graph.commits.get("HEAD^").graph_commit_id == graph.commits.list()[1].graph_commit_id
        assert [c.id for c in graph.diff("HEAD~1", "HEAD")] == ["bob"]
        assert [c.id for c in graph.diff("@{now}", "work")] == ["bob", "wim"]
        graph.branches.create("old", "main~1")
        assert names(graph, "HEAD", "old") == ["ann"]
        graph.tags.create("t", commit="main~1")
        assert names(graph, "t") == ["ann"]
        assert graph.get("Person", "bob", commit="HEAD~1") is None
        found = graph.get("Person", "wim", branch="work")
        assert found is not None
        assert found["name"] == found["id"] == "wim"
        with pytest.raises(og.NotFoundError, match="main~9"):
            names(graph, "main~9")


def test_names_do_not_open_what_a_policy_hides(serve: Serve) -> None:
    api = serve(policy=POLICY, tokens=TOKENS)
    with og.connect(api.url, token=TOKENS["act-lena"]) as lena:
        lena.mutate(ADD, {"n": "ann"})
        lena.branches.create("secret")
        lena.mutate(ADD, {"n": "sue"}, branch="secret")
    with og.connect(api.url, token=TOKENS["act-guest"]) as guest:
        for state in ("secret", "secret~1", "secret^", "main~1", "HEAD", "secret@{now}"):
            with pytest.raises((og.NotFoundError, og.PolicyDeniedError)):
                guest.query(ALL, commit=state)
            with pytest.raises((og.NotFoundError, og.PolicyDeniedError)):
                guest.diff(state, state)

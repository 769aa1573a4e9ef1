"""Who may act: names of the engine's own and names that are no text are refused everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cluster import operations
from omnigraph.identity import read_tokens, tokens_from
from omnigraph.policy import parse_bundle
from tests.integration.conftest import Cli
from tests.integration.helpers import head, load, node

pytestmark = pytest.mark.local
BAD = ["omnigraph:recovery", "omnigraph:repair", "OmniGraph:x", " omnigraph:x", "\ud800", " ", ""]
ADD = 'query q() { insert Paper { title: "x" } }'
Call = Callable[[og.Graph, Any], object]
CALLS: dict[str, Call] = {
    "mutate": lambda graph, actor: graph.mutate(ADD, actor=actor),
    "dry run": lambda graph, actor: graph.mutate(ADD, actor=actor, dry_run=True),
    "load": lambda graph, actor: graph.load([], mode="append", actor=actor),
    "bulk": lambda graph, actor: graph.bulk([], mode="append", actor=actor),
    "as_actor": lambda graph, actor: graph.as_actor(actor),
    "session": lambda graph, actor: graph.acting_for(actor),
    "create": lambda graph, actor: graph.branches.create("b", actor=actor),
    "delete": lambda graph, actor: graph.branches.delete("dev", actor=actor),
    "merge": lambda graph, actor: graph.branches.merge("dev", actor=actor),
    "schema": lambda graph, actor: graph.schema.apply(graph.schema_source, actor=actor),
    "open": lambda graph, actor: og.open(graph.uri, actor=actor),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("actor", BAD, ids=ascii)
def test_nobody_acts_under_such_a_name(graph: og.Graph, call: str, actor: str) -> None:
    graph.branches.create("dev")
    before = head(graph)
    with pytest.raises(og.BadRequestError, match="the actor"):
        CALLS[call](graph, actor)
    assert (head(graph), graph.branches.list()) == (before, ["main", "dev"])


def test_an_actor_is_text(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="must be text, not a int"):
        CALLS["mutate"](graph, 7)


def test_an_operation_id_is_text_that_can_be_stored(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="operation_id holds half a character"):
        graph.mutate(ADD, operation_id="\ud800")


def test_the_command_line_refuses_it(graph: og.Graph, cli: Cli) -> None:
    for command in (
        ("mutate", "--store", graph.uri, "-e", ADD, "--as", "omnigraph:recovery"),
        ("branch", "create", "b", "--store", graph.uri, "--as", "omnigraph:recovery"),
    ):
        shown = cli(*command)
        assert shown.code == 1, shown
        assert "'omnigraph:' begins the engine's own names" in shown.err


@pytest.mark.parametrize("actor", ["omnigraph:recovery", "\ud800"], ids=ascii)
def test_no_token_stands_for_it(tmp_path: Path, actor: str) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({actor: "secret-1"}), encoding="utf-8")
    for read in (partial(tokens_from, {}, str(path)), partial(read_tokens, path)):
        with pytest.raises(og.BadRequestError, match="the actor"):
            read()


def test_a_token_is_text_that_can_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"ann": "\ud800"}), encoding="utf-8")
    for read in (partial(tokens_from, {}, str(path)), partial(read_tokens, path)):
        with pytest.raises(og.BadRequestError, match="token of 'ann'"):
            read()


def test_no_policy_names_it_and_no_cluster_is_applied_by_it(tmp_path: Path) -> None:
    text = """\
version: 1
groups: {g: ['omnigraph:recovery']}
rules: [{id: r, allow: {actors: {group: g}, actions: [read]}}]
"""
    with pytest.raises(og.BadRequestError, match="'omnigraph:recovery' is not a valid actor name"):
        parse_bundle(text)
    with pytest.raises(og.BadRequestError, match="is reserved"):
        operations.apply(tmp_path, actor="omnigraph:recovery")
    with pytest.raises(og.BadRequestError, match="is reserved"):
        operations.approve(tmp_path, "graph.x", actor="omnigraph:recovery")


def test_other_names_are_anybodys(graph: og.Graph) -> None:
    for actor in ("omnigraph", "my-omnigraph:x", "act-ann", "Zoë", "日本"):
        done = graph.mutate(ADD, actor=actor)
        assert done.commit is not None
        assert done.commit.actor_id == actor
    load(graph, [node("Paper", title="y")])
    assert graph.commits.head().actor_id is None

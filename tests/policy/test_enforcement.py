"""The engine asks before every operation, and what is denied does not happen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflictError, PolicyDeniedError, PreconditionFailedError
from omnigraph.graph.seam import permit
from omnigraph.policy import Action
from tests.policy.bundles import BUNDLE
from tests.policy.operations import (
    ADD,
    FREE,
    OPERATIONS,
    PARTS,
    READ,
    ROW,
    SCHEMA,
    Recorder,
    World,
    public_names,
)

WRITING = {"change", "schema_apply", "branch_create", "branch_delete", "branch_merge", "admin"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load([{"type": "P", "data": {"k": "a", "b": "base64:YWJj"}}], mode="append")
        graph.tags.create("t")
        graph.branches.create("dev")
        graph.branches.create("spare")
        side = graph.mutate(ADD, {"k": "on dev"}, branch="dev").commit
        head = graph.mutate(ADD, {"k": "later"}).commit
        assert side is not None
        assert head is not None
        yield World(
            graph=graph,
            folder=tmp_path,
            head=head.graph_commit_id,
            side=side.graph_commit_id,
        )  # fmt: skip


def under(world: World, policy: Recorder) -> World:
    """The same graph through a handle with a policy."""
    graph = og.open(world.graph.uri, durability="none", policy=policy, actor="ann")
    return World(graph=graph, folder=world.folder, head=world.head, side=world.side)


def questions(policy: Recorder) -> list[tuple[str, str | None, str | None]]:
    return [(str(a.action), a.branch, a.target_branch) for a in policy.asked]


def state(graph: og.Graph) -> object:
    """What a write would change."""
    heads = {name: graph.commits.head(name).graph_commit_id for name in graph.branches.list()}
    return heads, [tag.name for tag in graph.tags.list()], graph.schema_source


def test_every_public_name_is_in_the_table() -> None:
    assert set(OPERATIONS) | set(FREE) == public_names()
    assert not set(OPERATIONS) & set(FREE)


def test_every_part_of_a_graph_is_in_the_table(world: World) -> None:
    found = {
        f"graph.{name}": type(value)
        for name, value in vars(world.graph).items()
        if not name.startswith("_") and type(value).__module__.startswith("omnigraph.graph")
    }
    assert found == {name: cls for name, cls in PARTS.items() if name.startswith("graph.")}


def test_what_is_denied_does_not_happen(world: World) -> None:
    """All operations on one graph: each is refused at its first question and changes nothing."""
    before = state(world.graph)
    policy = Recorder(set())
    denied = under(world, policy)
    with denied.graph:
        for name, operation in OPERATIONS.items():
            policy.asked.clear()
            with pytest.raises(PolicyDeniedError) as caught:
                operation.call(denied)
            assert caught.value.action == operation.asks[0][0], name
            assert caught.value.actor == "ann", name
            assert questions(policy)[0] == operation.asks[0], name
    assert state(world.graph) == before
    assert not list(world.folder.glob("*.jsonl"))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_asks_for_what_the_table_says(world: World, name: str) -> None:
    operation = OPERATIONS[name]
    policy = Recorder({Action(action) for action, *_ in operation.asks})
    allowed = under(world, policy)
    with allowed.graph:
        operation.call(allowed)
    assert questions(policy) == list(operation.asks)
    assert {access.actor for access in policy.asked} == {"ann"}


def test_every_action_of_a_graph_has_an_operation() -> None:
    used = {action for operation in OPERATIONS.values() for action, *_ in operation.asks}
    # Stored queries and the list of graphs belong to what serves them.
    assert used == {str(action) for action in Action} - {
        "invoke_query",
        "graph_list",
        "config_manage",
    }


def test_each_question_of_an_operation_can_refuse_it(world: World) -> None:
    before = state(world.graph)
    several = {n: o for n, o in OPERATIONS.items() if len({a for a, *_ in o.asks}) > 1}
    assert several
    for name, operation in several.items():
        wanted = {Action(action) for action, *_ in operation.asks}
        for missing in sorted(wanted):
            if (name, str(missing)) == ("graph.transaction", "change"):
                continue  # The block itself fails, and the branch is dropped again.
            denied = under(world, Recorder(wanted - {missing}))
            with denied.graph, pytest.raises(PolicyDeniedError):
                operation.call(denied)
            assert state(world.graph) == before, (name, missing)


def test_a_transaction_that_is_denied_a_write_leaves_nothing(world: World) -> None:
    before = state(world.graph)
    actions = {Action.BRANCH_CREATE, Action.BRANCH_MERGE, Action.BRANCH_DELETE, Action.READ}
    denied = under(world, Recorder(actions))
    with denied.graph, pytest.raises(PolicyDeniedError, match="change"):
        OPERATIONS["graph.transaction"].call(denied)
    assert state(world.graph) == before


def test_a_source_that_may_not_be_deleted_stays_after_the_merge(world: World) -> None:
    allowed = under(world, Recorder({Action.BRANCH_MERGE, Action.READ}))
    with allowed.graph:
        result = allowed.graph.branches.merge("dev", delete_source=True)
    assert result.commit is not None
    assert not result.branch_deleted
    assert "branch_delete" in str(result.branch_delete_error)
    assert "dev" in world.graph.branches.list()


def test_the_actor_of_a_call_is_the_one_who_is_judged(world: World) -> None:
    policy = Recorder(set(Action))
    allowed = under(world, policy)
    with allowed.graph as graph:
        graph.mutate(ADD, {"k": "x"}, actor="bob")
        graph.as_actor("eve").query(READ)
        graph.as_actor("eve").commits.list()
        graph.load(ROW, mode="merge", branch="made", create_from="main", actor="bob")
        graph.branches.merge("dev", delete_source=True, actor="bob")
    actors = [access.actor for access in policy.asked]
    assert actors == ["bob", "eve", "eve", "bob", "bob", "bob", "bob", "bob", "bob"]


def test_without_an_actor_everything_is_denied(world: World, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(BUNDLE, encoding="utf-8")
    with og.open(world.graph.uri, policy=tmp_path / "p.yaml", durability="none") as graph:
        for call in (lambda: graph.query(READ), lambda: graph.mutate(ADD, {"k": "z"})):
            with pytest.raises(PolicyDeniedError) as caught:
                call()
            assert caught.value.hint == "name an actor"


def test_a_bundle_is_obeyed_by_an_embedded_graph(world: World, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(BUNDLE, encoding="utf-8")
    place = world.graph.uri
    with og.open(place, policy=str(tmp_path / "p.yaml"), actor="agent-7", durability="none") as g:
        assert len(g.query(READ)) == 2
        with pytest.raises(PolicyDeniedError, match="'main' is protected"):
            g.mutate(ADD, {"k": "z"})
        g.branch("agent/work").mutate(ADD, {"k": "z"})
        with pytest.raises(PolicyDeniedError, match="may not branch_merge"):
            g.branches.merge("agent/work")
        lena = g.as_actor("act-lena")
        assert lena.branches.merge("agent/work").commit is not None
        assert len(g.query(READ)) == 3


def test_who_may_read_some_branches_is_shown_those(world: World) -> None:
    class OnlyDev(Recorder):
        def decide(self, access):  # type: ignore[no-untyped-def]
            found = super().decide(access)
            return found if access.branch == "dev" else Recorder(set()).decide(access)

    shown = under(world, OnlyDev({Action.READ}))
    with shown.graph as graph:
        assert graph.branches.list() == ["dev"]
        assert "node P" in graph.schema_source
        with pytest.raises(PolicyDeniedError):
            graph.branches.exists("main")


def test_a_denial_does_not_tell_whether_a_branch_exists(world: World) -> None:
    policy = Recorder(set())
    denied = under(world, policy)
    with denied.graph as graph:
        for branch in ("dev", "nowhere"):
            for call in (
                lambda name: graph.query(READ, branch=name),
                lambda name: graph.mutate(ADD, {"k": "z"}, branch=name),
                lambda name: graph.branches.delete(name),
                lambda name: graph.branches.create("x", name),
                lambda name: graph.branches.merge(name),
                lambda name: graph.branches.exists(name),
                lambda name: graph.commits.list(name),
                lambda name: graph.feed.poll(branch=name),
                lambda name: graph.export(branch=name),
                lambda name: graph.branches.merge_plan(name),
            ):
                with pytest.raises(PolicyDeniedError):
                    call(branch)


def only(actions: set[Action], branch: str) -> Recorder:
    """A policy that lets everything be done but reading, and that only on one branch."""

    class Some(Recorder):
        def decide(self, access):  # type: ignore[no-untyped-def]
            found = super().decide(access)
            if access.action is not Action.READ or access.branch == branch:
                return found
            return Recorder(set()).decide(access)

    return Some(actions)


def test_a_try_is_a_read(world: World) -> None:
    denied = under(world, Recorder({Action.CHANGE, Action.BRANCH_CREATE}))
    with denied.graph as graph:
        graph.mutate(ADD, {"k": "written"})
        for call in (
            lambda: graph.mutate(ADD, {"k": "a"}, dry_run=True),
            lambda: graph.load(ROW, mode="append", dry_run=True),
            lambda: graph.load(ROW, mode="append", branch="x", create_from="dev", dry_run=True),
        ):
            with pytest.raises(PolicyDeniedError, match="read"):
                call()


def test_a_merge_carries_only_what_may_be_read(world: World) -> None:
    denied = under(world, only({*Action}, "spare"))
    with denied.graph as graph:
        with pytest.raises(PolicyDeniedError, match="read on branch 'dev'"):
            graph.branches.merge("dev", "spare")
        assert graph.branches.merge("spare", "dev").outcome


def test_conflicts_and_heads_are_told_to_those_who_may_read_them(world: World) -> None:
    change = 'query set($v: I64) { update P set { v: $v } where k = "a" }'
    world.graph.mutate(change, {"v": 77_001}, branch="dev")
    world.graph.mutate(change, {"v": 77_002}, branch="main")
    for policy, shown in ((only({*Action}, "dev"), False), (Recorder({*Action}), True)):
        limited = under(world, policy)
        with limited.graph as graph:
            told = []
            for call in (
                lambda: graph.branches.merge("dev", "main"),
                lambda: graph.mutate(ADD, {"k": "n"}, expected_head=world.side),
                lambda: graph.load(ROW, mode="merge", expected_head=world.side),
                lambda: graph.branches.cherry_pick(
                    world.graph.commits.head("dev").graph_commit_id, expected_head=None
                ),
            ):
                with pytest.raises((MergeConflictError, PreconditionFailedError)) as caught:
                    call()
                told.append(str(caught.value.to_json()))
        head = world.graph.commits.head("main").graph_commit_id
        assert [("entity_id" in text or head in text) for text in told] == [shown] * 4


def test_threads_share_a_policy(world: World, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(BUNDLE, encoding="utf-8")
    wrong: list[str] = []
    with og.open(world.graph.uri, policy=tmp_path / "p.yaml", durability="none") as graph:

        def work(actor: str, expected: bool) -> None:
            handle = graph.as_actor(actor)
            for _ in range(20):
                try:
                    permit(handle, Action.CHANGE, branch="aside")
                    allowed = True
                except PolicyDeniedError:
                    allowed = False
                if allowed is not expected:
                    wrong.append(actor)

        pairs = [("agent-7", True), ("act-guest", False), ("nobody", False), ("agent-7", True)]
        threads = [threading.Thread(target=work, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong

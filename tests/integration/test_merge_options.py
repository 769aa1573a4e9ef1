"""Deciding conflicts, checking a merge before it lands, previewing it, and repeating it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed
from omnigraph.ops.merge.merging import Merging
from tests.integration.helpers import NewGraph, files
from tests.integration.merging import SCHEMA, drop, link, listed, pins, put, state, unlink


def value(graph: og.Graph, slug: str, branch: str = "main") -> object:
    row = state(graph, branch).get(("Item", slug))
    return None if row is None else json.loads(row)["data"]["v"]


@pytest.fixture
def parted(new_graph: NewGraph) -> og.Graph:
    """Items changed on both sides (x, y), deleted here or there (gone, left), added twice (new)."""
    graph = new_graph(SCHEMA)
    put(graph, "main", x=0, y=0, gone=0, left=0, still=0)
    link(graph, "main", "e", "x", "y", 0)
    graph.branches.create("dev")
    put(graph, "dev", x=1, y=1, left=1, new=1)
    drop(graph, "dev", "gone")
    link(graph, "dev", "e", "x", "y", 1)
    put(graph, "main", x=2, y=2, gone=2, new=2)
    drop(graph, "main", "left")
    link(graph, "main", "e", "y", "x", 2)
    return graph


ALL = [
    ("edge:Link", "e", "divergent_update"),
    ("node:Item", "gone", "delete_vs_update"),
    ("node:Item", "left", "delete_vs_update"),
    ("node:Item", "new", "divergent_insert"),
    ("node:Item", "x", "divergent_update"),
    ("node:Item", "y", "divergent_update"),
]


def test_every_conflict_is_reported_at_once(parted: og.Graph) -> None:
    with pytest.raises(og.MergeConflictError) as error:
        parted.branches.merge("dev")
    assert listed(error.value.conflicts) == ALL


def test_ours_keeps_the_target(parted: og.Graph) -> None:
    before = state(parted)
    done = parted.branches.merge("dev", resolve="ours")
    assert done.outcome == "merged"
    assert state(parted) == before
    assert parted.branches.merge("dev").outcome == "already_up_to_date"


def test_theirs_takes_the_source(parted: og.Graph) -> None:
    theirs = state(parted, "dev")
    parted.branches.merge("dev", resolve="theirs")
    assert state(parted) == theirs


def test_a_rule_for_one_entity_wins_over_its_type(parted: og.Graph) -> None:
    rules = {"Item": "ours", "Item/x": "theirs", "node:Item/y": {"v": 7}, "edge:Link": "theirs"}
    parted.branches.merge("dev", resolve=rules)
    assert [value(parted, name) for name in ("x", "y", "gone", "left", "new")] == [1, 7, 2, None, 2]
    assert json.loads(state(parted)[("Link", "e")])["from"] == "x"


def test_what_no_rule_decides_stays_a_conflict(parted: og.Graph) -> None:
    before = state(parted)
    with pytest.raises(og.MergeConflictError) as error:
        parted.branches.merge("dev", resolve={"Item": "theirs"})
    assert listed(error.value.conflicts) == [("edge:Link", "e", "divergent_update")]
    assert state(parted) == before


def test_values_bring_back_what_the_target_deleted(parted: og.Graph) -> None:
    rules = {"Item/left": {"v": 9}, "Item/gone": {"v": 8}, "Item": "ours", "Link": "ours"}
    parted.branches.merge("dev", resolve=rules)
    assert (value(parted, "left"), value(parted, "gone")) == (9, 8)


def test_values_may_move_an_edge(parted: og.Graph) -> None:
    rules = {"Item": "ours", "Link/e": {"from": "still", "v": 5}}
    parted.branches.merge("dev", resolve=rules)
    row = json.loads(state(parted)[("Link", "e")])
    assert (row["from"], row["to"], row["data"]["v"]) == ("still", "x", 5)


@pytest.mark.parametrize(
    "rules",
    [
        {"Item/x": {"v": "text"}},
        {"Item/x": {"nothing": 1}},
        {"Item/x": {"slug": "other"}},
        {"Item/x": {"id": "other"}},
        {"Item/x": {"data": {"slug": "other", "v": 1}}},
        {"Item/x": {"data": {"v": 1}}},
        {"Item/x": {"data": 3}},
        {"Item/x": "mine"},
        {"Item/x": 3},
        {"Item/x": None},
        {"Item/x": ["ours"]},
        {"Link/e": {"data": {"v": 1}}},
        {"Link/e": {"data": {"id": "f", "v": 1}, "from": "x", "to": "y"}},
        {"Link/e": {"data": {"id": "e"}, "from": 3, "to": "y"}},
        "mine",
    ],
    ids=str,
)
def test_a_bad_decision_is_refused_and_nothing_is_written(parted: og.Graph, rules: Any) -> None:
    before, head = state(parted), parted.commits.head()
    if isinstance(rules, dict):
        rules = {"Item": "ours", "Link": "ours", **rules}
    with pytest.raises(og.BadRequestError):
        parted.branches.merge("dev", resolve=rules)
    assert (state(parted), parted.commits.head()) == (before, head)


def test_a_decision_must_not_break_a_rule(parted: og.Graph) -> None:
    rules = {"Item": "ours", "Link/e": {"from": "nobody"}}
    with pytest.raises(og.MergeConflictError) as error:
        parted.branches.merge("dev", resolve=rules)
    assert listed(error.value.conflicts) == [("edge:Link", "e", "orphan_edge")]


# ---- property by property -----------------------------------------------------------------

WIDE = "node Item { slug: String @key a: F64? b: F64? c: [F64]? d: String? }"


def wide(graph: og.Graph, branch: str, **data: object) -> None:
    graph.load([{"type": "Item", "data": {"slug": "x", **data}}], mode="merge", branch=branch)


def test_updates_of_different_properties_are_joined_on_demand(new_graph: NewGraph) -> None:
    graph = new_graph(WIDE)
    wide(graph, "main", a=1.0, b=1.0, c=[], d="d")
    graph.branches.create("dev")
    wide(graph, "dev", a=2.0, b=1.0, d="d")
    wide(graph, "main", a=1.0, b=3.0, c=[], d="d")
    with pytest.raises(og.MergeConflictError):
        graph.branches.merge("dev")
    graph.branches.merge("dev", property_merge=True)
    row = json.loads(state(graph)[("Item", "x")])["data"]
    assert row == {"id": "x", "slug": "x", "a": 2.0, "b": 3.0, "c": None, "d": "d"}


def test_updates_of_one_property_stay_a_conflict(new_graph: NewGraph) -> None:
    graph = new_graph(WIDE)
    wide(graph, "main", a=1.0, b=1.0)
    graph.branches.create("dev")
    wide(graph, "dev", a=2.0, b=2.0)
    wide(graph, "main", a=3.0, b=1.0)
    with pytest.raises(og.MergeConflictError):
        graph.branches.merge("dev", property_merge=True)


@pytest.mark.parametrize(("name", "old", "new"), [("a", 0.0, -0.0), ("c", [0.0], [-0.0])])
def test_joining_does_not_lose_the_sign_of_zero(
    new_graph: NewGraph, name: str, old: object, new: object
) -> None:
    graph = new_graph(WIDE)
    wide(graph, "main", **{name: old})
    graph.branches.create("dev")
    wide(graph, "dev", **{name: new})
    wide(graph, "main", **{name: old}, d="other")
    graph.branches.merge("dev", property_merge=True)
    row = json.loads(state(graph)[("Item", "x")])["data"]
    assert (str(row[name]), row["d"]) == (str(new), "other")


# ---- checks -------------------------------------------------------------------------------

NO_NINE = "query no_nine() { match { $i: Item { v: 9 } } return { $i.slug } }"


def test_a_check_that_finds_rows_stops_the_merge(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=9)
    head = graph.commits.head()
    seen: list[list[str]] = []
    with pytest.raises(og.CheckFailedError) as error:
        graph.branches.merge("dev", checks=[NO_NINE])
    assert (error.value.query_name, error.value.row_count) == ("no_nine", 1)
    assert graph.commits.head() == head
    assert graph.branches.list() == ["main", "dev"]
    put(graph, "dev", b=8)
    with armed(Failpoint.FORK_POST_TRIAL, lambda: seen.append(graph.branches.list())):
        done = graph.branches.merge("dev", checks=[NO_NINE])
    assert done.outcome == "fast_forward"
    assert seen == [["main", "dev"]], "nobody sees what is only looked at"
    assert not [name for name in files(graph.uri) if "merge-check" in name]


def test_checks_see_the_decided_state(parted: og.Graph) -> None:
    with pytest.raises(og.CheckFailedError):
        parted.branches.merge("dev", resolve={"Item": {"v": 9}, "Link": "ours"}, checks=[NO_NINE])
    parted.branches.merge("dev", resolve="ours", checks=[NO_NINE])
    assert value(parted, "x") == 2


def test_a_check_that_is_no_query_leaves_nothing_behind(parted: og.Graph) -> None:
    with pytest.raises(og.CompileError):
        parted.branches.merge("dev", resolve="ours", checks=["nonsense"])
    assert parted.branches.list() == ["main", "dev"]


def test_what_was_checked_is_what_is_merged(new_graph: NewGraph) -> None:
    """The source moves on between the checks and the merge."""
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    other = og.open(graph.uri, durability="none")
    with (
        other,
        armed(Failpoint.WRITE_POST_CAPTURE, lambda: put(other, "dev", b=9)),
        pytest.raises(og.ConflictError),
    ):
        graph.branches.merge("dev", checks=[NO_NINE])
    assert value(graph, "b") is None


# ---- preview ------------------------------------------------------------------------------


def test_a_plan_lists_everything_and_writes_nothing(parted: og.Graph) -> None:
    put(parted, "dev", added=4, still=5)
    unlink(parted, "main", "e")
    before = files(parted.uri)
    plan = parted.branches.merge_plan("dev")
    assert files(parted.uri) == before
    assert not plan.is_clean
    assert plan.outcome == "conflicts"
    body = json.loads(json.dumps(plan.to_json()))
    assert [(c["op"], c["id"]) for c in body["changes"]] == [
        ("insert", "added"),
        ("update", "still"),
    ]
    conflict = next(c for c in body["merge_conflicts"] if c["entity_id"] == "x")
    assert [conflict[side]["data"]["v"] for side in ("base", "ours", "theirs")] == [0, 2, 1]
    removed = next(c for c in body["merge_conflicts"] if c["entity_id"] == "e")
    assert removed["ours"] is None
    table = plan.to_arrow()
    assert table.num_rows == len(body["changes"]) + len(body["merge_conflicts"])
    assert set(table["what"].to_pylist()) >= {"insert", "update", "divergent_update"}
    shown = plan._repr_html_()
    assert "divergent_insert" in shown
    assert "dev into main" in shown


def test_html_is_escaped(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.branches.create("dev")
    row = {"type": "Item", "data": {"slug": "<b>&", "v": 1}}
    graph.load([row], mode="append", branch="dev")
    shown = graph.branches.merge_plan("dev")._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;&amp;" in shown


def test_a_plan_obeys_decisions(parted: og.Graph) -> None:
    assert parted.branches.merge_plan("dev", resolve="theirs").is_clean
    assert not parted.branches.merge_plan("dev", property_merge=True).is_clean


def test_a_read_only_handle_previews_but_does_not_merge(parted: og.Graph) -> None:
    with og.open(parted.uri, mode="ro") as reader:
        assert listed(reader.branches.merge_plan("dev").conflicts) == ALL
        with pytest.raises(og.BadRequestError):
            reader.branches.merge("dev", resolve="ours")


# ---- preconditions, repeats, deletion -----------------------------------------------------


def test_another_head_than_expected_is_refused(parted: og.Graph) -> None:
    head = parted.commits.head().graph_commit_id
    put(parted, "main", later=1)
    with pytest.raises(og.PreconditionFailedError):
        parted.branches.merge("dev", resolve="ours", expected_head=head)
    with pytest.raises(og.PreconditionFailedError):
        parted.branches.merge("dev", resolve="ours", expected_head=head, checks=[NO_NINE])
    now = parted.commits.head().graph_commit_id
    assert parted.branches.merge("dev", resolve="ours", expected_head=now).outcome == "merged"


@pytest.mark.parametrize("outcome", ["merged", "fast_forward"])
def test_a_repeated_operation_returns_the_first_outcome(new_graph: NewGraph, outcome: str) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    if outcome == "merged":
        put(graph, "main", c=1)
    stale = og.open(graph.uri, durability="none")
    gone = outcome == "merged"
    first = graph.branches.merge("dev", operation_id="once", delete_source=gone)
    assert (first.outcome, first.branch_deleted) == (outcome, gone)
    put(graph, "main", later=1)
    for handle in (graph, stale, og.open(graph.uri, durability="none")):
        again = handle.branches.merge("dev", operation_id="once")
        assert (again.outcome, again.commit) == (outcome, first.commit)
        if handle is not graph:
            handle.close()
    assert value(graph, "later") == 1


def test_a_repeated_merge_does_not_ask_its_checks_again(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    first = graph.branches.merge("dev", checks=[NO_NINE], operation_id="once")
    put(graph, "main", nine=9)
    again = graph.branches.merge("dev", checks=[NO_NINE], operation_id="once")
    assert (again.outcome, again.commit) == (first.outcome, first.commit)
    graph.branches.delete("dev")
    again = graph.branches.merge("dev", checks=[NO_NINE], operation_id="once")
    assert again.commit == first.commit


def test_a_repeated_pick_or_revert_does_not_need_what_it_took(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    taken = graph.commits.head("dev").graph_commit_id
    picked = graph.branches.cherry_pick(taken, operation_id="pick")
    graph.branches.delete("dev")
    assert graph.branches.cherry_pick(taken, operation_id="pick") == picked
    assert picked is not None
    undone = graph.branches.revert("HEAD", operation_id="undo")
    put(graph, "main", later=1)
    graph.cleanup(keep=1, grace=0, dry_run=False)
    assert graph.branches.revert("HEAD", operation_id="undo") == undone
    assert graph.branches.revert(picked.graph_commit_id, operation_id="undo") == undone
    assert value(graph, "later") == 1


def test_the_source_goes_when_asked_and_stays_when_needed(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    graph.branches.create("child", from_="dev")
    done = graph.branches.merge("dev", delete_source=True)
    assert done.outcome == "fast_forward"
    assert not done.branch_deleted
    assert "child" in str(done.branch_delete_error)
    graph.branches.delete("child")
    done = graph.branches.merge("dev", delete_source=True)
    assert (done.outcome, done.branch_deleted) == ("already_up_to_date", True)
    assert graph.branches.list() == ["main"]
    assert value(graph, "b") == 1


def test_actor_and_kind_of_a_merge_are_recorded(parted: og.Graph) -> None:
    done = parted.branches.merge("dev", resolve="ours", actor="ann")
    assert done.commit is not None
    assert (done.commit.actor_id, done.commit.kind, done.actor_id) == ("ann", "merge", "ann")
    assert done.to_json()["outcome"] == "merged"


@pytest.mark.parametrize(("source", "target"), [("dev", "dev"), ("main", "main")])
def test_a_branch_is_not_merged_into_itself(parted: og.Graph, source: str, target: str) -> None:
    with pytest.raises(og.BadRequestError):
        parted.branches.merge(source, target)


@pytest.mark.parametrize(("source", "target"), [("nope", "main"), ("main", "nope")])
def test_both_branches_must_exist(parted: og.Graph, source: str, target: str) -> None:
    with pytest.raises(og.NotFoundError):
        parted.branches.merge(source, target)
    with pytest.raises(og.NotFoundError):
        parted.branches.merge_plan(source, target)


# ---- movement meanwhile -------------------------------------------------------------------


def test_a_target_that_moves_meanwhile_is_merged_as_it_is_then(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    with (
        og.open(graph.uri, durability="none") as other,
        armed(Failpoint.WRITE_POST_STAGE, lambda: put(other, "main", b=2)),
        pytest.raises(og.MergeConflictError),
    ):
        graph.branches.merge("dev")
    with (
        og.open(graph.uri, durability="none") as other,
        armed(Failpoint.WRITE_POST_STAGE, lambda: put(other, "main", c=2)),
    ):
        done = graph.branches.merge("dev", resolve="theirs")
    assert done.outcome == "merged"
    assert [value(graph, name) for name in "abc"] == [1, 1, 2]


def test_a_fast_forward_overtaken_by_a_write_is_a_merge(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    with (
        og.open(graph.uri, durability="none") as other,
        armed(Failpoint.WRITE_POST_STAGE, lambda: put(other, "main", c=2)),
    ):
        assert graph.branches.merge("dev").outcome == "merged"


def _merge_dev(graph: og.Graph) -> None:
    graph.branches.merge("dev")


@pytest.mark.parametrize("net_zero", [False, True])
def test_two_who_merge_the_same_make_one_commit(new_graph: NewGraph, net_zero: bool) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    if net_zero:
        drop(graph, "dev", "b")
    before = len(graph.commits.list())
    with (
        og.open(graph.uri, durability="none") as other,
        armed(Failpoint.WRITE_POST_STAGE, partial(_merge_dev, other)),
    ):
        done = graph.branches.merge("dev")
    assert done.outcome == "already_up_to_date"
    assert done.commit is None
    assert len(graph.commits.list()) == before + 1


def test_the_source_is_merged_as_it_was_captured(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    captured = graph.commits.head("dev").graph_commit_id
    with (
        og.open(graph.uri, durability="none") as other,
        armed(Failpoint.WRITE_POST_STAGE, lambda: put(other, "dev", b=2)),
    ):
        done = graph.branches.merge("dev")
    assert done.commit is not None
    assert done.commit.merged_parent_commit_id == captured
    assert value(graph, "b") == 1
    assert graph.branches.merge("dev").outcome == "merged"
    assert value(graph, "b") == 2


def test_a_source_recreated_meanwhile_is_not_followed(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    put(graph, "dev", b=1)
    captured = graph.commits.head("dev").graph_commit_id

    def replace() -> None:
        other.branches.delete("dev")
        other.branches.create("dev")
        put(other, "dev", b=5)

    with og.open(graph.uri, durability="none") as other:
        with armed(Failpoint.WRITE_POST_CAPTURE, replace):
            try:
                done = graph.branches.merge("dev")
            except og.OmniGraphError:
                assert value(graph, "b") is None
            else:
                assert done.commit is not None
                assert done.commit.merged_parent_commit_id == captured
                assert value(graph, "b") == 1
        assert value(other, "b", "dev") == 5


def test_a_net_zero_side_moves_no_table(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1, b=1)
    graph.branches.create("dev")
    put(graph, "dev", c=1)
    drop(graph, "dev", "c")
    put(graph, "main", d=1)
    versions = pins(graph, "main")
    done = graph.branches.merge("dev")
    assert done.outcome == "merged"
    assert pins(graph, "main") == versions
    assert graph.branches.merge("dev").outcome == "already_up_to_date"
    link(graph, "dev", "e", "a", "b")
    graph.branches.merge("dev")
    assert pins(graph, "main")["node:Item"] == versions["node:Item"]
    assert pins(graph, "main")["edge:Link"] != versions["edge:Link"]


# ---- deleting the source ------------------------------------------------------------------


@pytest.fixture
def forked(new_graph: NewGraph) -> og.Graph:
    graph = new_graph(SCHEMA)
    put(graph, "main", a=1)
    graph.branches.create("dev")
    return graph


def test_a_repeated_merge_finds_its_source_gone(forked: og.Graph) -> None:
    put(forked, "dev", c=3)
    for _call in range(2):
        done = forked.branches.merge("dev", delete_source=True, operation_id="once")
        assert (done.branch_deleted, done.branch_delete_error) == (True, None)
        assert forked.branches.list() == ["main"]


def test_a_repeated_merge_leaves_a_new_branch_of_the_same_name_alone(forked: og.Graph) -> None:
    put(forked, "dev", c=3)
    forked.branches.merge("dev", delete_source=True, operation_id="once")
    forked.branches.create("dev")
    put(forked, "dev", d=4)
    done = forked.branches.merge("dev", delete_source=True, operation_id="once")
    assert not done.branch_deleted
    assert done.branch_delete_error == "branch 'dev' has commits that were not merged"
    assert value(forked, "d", "dev") == 4


@pytest.mark.parametrize("has_changes", [True, False])
def test_what_is_written_to_the_source_after_the_merge_is_kept(
    forked: og.Graph, monkeypatch: pytest.MonkeyPatch, has_changes: bool
) -> None:
    if has_changes:
        put(forked, "dev", c=3)
    run = Merging.run

    def run_and_write(*args: Any, **options: Any) -> Any:
        done = run(*args, **options)
        with og.open(forked.uri, durability="none") as other:
            put(other, "dev", late=1)
        return done

    monkeypatch.setattr(Merging, "run", run_and_write)
    done = forked.branches.merge("dev", delete_source=True)
    assert not done.branch_deleted
    assert value(forked, "late", "dev") == 1
    monkeypatch.undo()
    forked.optimize("dev")
    again = forked.branches.merge("dev", delete_source=True)
    assert again.branch_deleted
    assert value(forked, "late") == 1

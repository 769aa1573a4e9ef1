"""Small writes that wait together are published together, and each stays what it was alone."""

from __future__ import annotations

import json
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.commits.branches import CONTROL_SLOT
from omnigraph.failpoints import Failpoint, Pause
from omnigraph.store import locate
from tests.faults.rig import (
    ADD,
    ADD_FIRM,
    DROP,
    HIRE,
    MEET,
    NAME,
    assert_sound,
    new_graph,
    state_of,
)
from tests.places import AnyPath, dataset, names_in
from tests.together import run_together


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    found = place / "graph"
    new_graph(found)
    return found


def job(graph: og.Graph, text: str, **params: Any) -> Any:
    """Return a mutation to run; options start with `_`."""
    options = {name[1:]: params.pop(name) for name in [*params] if name.startswith("_")}
    return partial(graph.mutate, text, params, **options)


class Died(BaseException):
    """The process ends here."""


def jobs_of_four(graph: og.Graph) -> list[Any]:
    """Return an insert, an update, a delete with its edges, and a new edge."""
    return [
        job(graph, ADD, s="a", _actor="ann"),
        job(graph, NAME, s="p3", n="x", _actor="bob"),
        job(graph, DROP, s="p0", _actor="cid"),
        job(graph, MEET, i="m", a="p1", b="a", _actor="dan"),
    ]


def versions(graph: og.Graph, answers: list[Any]) -> list[int]:
    return [item.commit.manifest_version for item in answers]


def manifest_rows(root: AnyPath) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dataset(root / "__manifest").to_table().to_pylist()
    return rows


# ---- each write stays itself --------------------------------------------------------------


def test_each_has_its_own_commit_actor_counts_and_answer(root: AnyPath) -> None:
    with og.open(root) as graph:
        before = graph.commits.head()
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="a", _actor="ann", _operation_id="op-a"),
                job(graph, NAME, s="p3", n="x", _actor="bob"),
                job(graph, DROP, s="p0", _actor="cid"),
                job(graph, MEET, i="m", a="p1", b="a", _actor="dan"),
            ],
        )
        commits = [item.commit for item in answers]
        assert set(versions(graph, answers)) == {before.manifest_version + 1}
        assert [item.place for item in commits] == [0, 1, 2, 3]
        assert [item.actor_id for item in commits] == ["ann", "bob", "cid", "dan"]
        parents = [before.graph_commit_id, *(item.graph_commit_id for item in commits)]
        assert [item.parent_commit_id for item in commits] == parents[:-1]
        assert [(item.affected_nodes, item.affected_edges) for item in answers] == [
            (1, 0),
            (1, 0),
            (1, 5),
            (0, 1),
        ]
        assert commits[0].operation_id == "op-a"
        moments = [item.created_at_us for item in commits]
        assert moments == sorted(set(moments))
        assert graph.commits.list(limit=4) == commits[::-1]
        assert graph.commits.head() == commits[-1]
    assert_sound(root)
    with og.open(root, mode="ro") as again:
        assert again.commits.list(limit=4) == commits[::-1]


def test_one_publish_makes_one_version_of_each_table(root: AnyPath) -> None:
    with og.open(root) as graph:
        before = graph.snapshot()
        run_together(graph, [job(graph, ADD, s=f"n{i}") for i in range(20)])
        after = graph.snapshot()
    assert after.version == before.version + 1
    moved = [key for key in after.tables if after.tables[key] != before.tables[key]]
    assert moved == ["node:Person"]
    assert after.tables["node:Person"].version == before.tables["node:Person"].version + 1


def test_stored_ids_are_looked_up_once_for_all_that_follow(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, [job(graph, ADD, s=f"new{n}") for n in range(5)])
        assert len(set(versions(graph, answers))) == 1
        assert [item.io.get("key_probes", 0) for item in answers] == [2, 0, 0, 0, 0]


def test_a_write_that_landed_is_answered_though_its_ids_cannot_be_remembered(
    root: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object) -> None:
        raise og.StorageError("the network is down")

    with og.open(root) as graph:
        lookup = graph._engine.lines.main.writer.id_lookup
        monkeypatch.setattr(lookup, "remember_new_ids", fail)
        answers = run_together(graph, [job(graph, ADD, s=f"a{i}") for i in range(3)])
        assert [item.commit.place for item in answers] == [0, 1, 2]
        assert graph.mutate(ADD, {"s": "alone"}).commit == graph.commits.head()
        assert {("Person", name) for name in ("a0", "a1", "a2", "alone")} <= set(state_of(graph))


def test_a_refused_write_is_refused_alone(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="a"),
                job(graph, MEET, i="m1", a="p1", b="nobody"),
                job(graph, DROP, s="p0"),
                # Its end was deleted by the write before it, which is not published yet.
                job(graph, MEET, i="m2", a="p1", b="p0"),
                job(graph, MEET, i="m3", a="p1", b="a"),
                job(graph, HIRE, i="h1", p="a", f="f1"),
                # The same pair once more: unique, and held by a write of the same publish.
                job(graph, HIRE, i="h2", p="a", f="f1"),
                job(graph, HIRE, i="h3", p="a", f="f2"),
                # The third employer of one person: two is the most.
                job(graph, HIRE, i="h4", p="a", f="f0"),
            ],
        )
        refused = [isinstance(item, og.OmniGraphError) for item in answers]
        assert refused == [False, True, False, True, False, False, True, False, True]
        assert all(isinstance(answers[i], og.DataError) for i in (1, 3, 6, 8)), answers
        good = [item for item in answers if not isinstance(item, Exception)]
        assert len(set(versions(graph, good))) == 1
        assert not {key for key in state_of(graph) if key[1] in ("m1", "m2", "h2", "h4")}
    assert_sound(root)


def test_a_write_without_effect_makes_no_commit(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(
            graph, [job(graph, ADD, s="a"), job(graph, DROP, s="nobody"), job(graph, ADD, s="b")]
        )
        assert answers[1].commit is None
        assert answers[1].affected_nodes == 0
        assert answers[0].commit.manifest_version == answers[2].commit.manifest_version
        assert answers[2].commit.parent_commit_id == answers[0].commit.graph_commit_id


def test_a_repeat_inside_the_same_publish_gets_the_first_commit(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="a", _operation_id="one"),
                job(graph, ADD, s="a", _operation_id="one"),
                job(graph, MEET, i="m", a="p1", b="nobody", _operation_id="two"),
                job(graph, MEET, i="m", a="p1", b="a", _operation_id="two"),
            ],
        )
        assert [item.repeated for item in (answers[0], answers[1])] == [False, True]
        assert answers[0].commit == answers[1].commit
        assert answers[1].affected_nodes is None
        assert isinstance(answers[2], og.DataError)
        # The first of this id was refused, so the second is tried on its own.
        assert answers[3].repeated is False
        again = graph.mutate(ADD, {"s": "a"}, operation_id="one")
        assert again.commit == answers[0].commit
        assert again.repeated


def test_an_expected_head_is_judged_at_its_place(root: AnyPath) -> None:
    with og.open(root) as graph:
        head = graph.commits.head().graph_commit_id
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="a", _expected_head=head),
                job(graph, ADD, s="b"),
                job(graph, ADD, s="c", _expected_head=head),
                job(graph, ADD, s="d"),
            ],
        )
        assert isinstance(answers[2], og.PreconditionFailedError)
        good = [answers[0], answers[1], answers[3]]
        first = head_version = versions(graph, good)[0]
        assert versions(graph, good) == [first, first, head_version + 1]


def test_writes_to_one_row_are_made_one_after_the_other(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="x"),
                job(graph, DROP, s="p0"),
                job(graph, ADD, s="x"),
                job(graph, ADD, s="y"),
                job(graph, NAME, s="y", n="z"),
            ],
        )
        first = versions(graph, answers)[0]
        assert versions(graph, answers) == [first, first, first + 1, first + 1, first + 2]
        state = state_of(graph)
        assert ("Knows", "k1") not in state
        assert json.loads(state["Person", "y"])["data"]["name"] == "z"
    assert_sound(root)


def test_a_session_that_did_not_see_a_change_is_refused_as_ever(root: AnyPath) -> None:
    """What another session changed in the same publish counts as any other change."""
    with og.open(root) as graph, graph.as_actor("a") as one, graph.as_actor("b") as two:
        answers = run_together(
            graph,
            [
                partial(one.mutate, NAME, {"s": "p1", "n": "one"}),
                partial(two.mutate, NAME, {"s": "p1", "n": "two"}),
                partial(one.mutate, NAME, {"s": "p2", "n": "one"}),
            ],
        )
        assert isinstance(answers[1], og.VersionConflictError)
        assert not isinstance(answers[2], Exception)
        # The session that wrote has seen its own writes, and nothing else came after them.
        one.mutate(NAME, {"s": "p1", "n": "again"})
        two.refresh()
        two.mutate(NAME, {"s": "p1", "n": "now"})


def test_a_session_has_not_seen_what_came_after_it_in_the_same_publish(root: AnyPath) -> None:
    with og.open(root) as graph, graph.as_actor("a") as one, graph.as_actor("b") as two:
        answers = run_together(
            graph,
            [partial(one.mutate, ADD, {"s": "x"}), partial(two.mutate, ADD, {"s": "y"})],
        )
        assert len(set(versions(graph, answers))) == 1
        with pytest.raises(og.VersionConflictError):
            one.mutate(NAME, {"s": "p1", "n": "blind"})
        two.mutate(NAME, {"s": "p1", "n": "seen"})


def test_deleting_what_the_same_publish_added_waits(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(
            graph,
            [
                job(graph, MEET, i="m", a="p2", b="p3"),
                job(graph, DROP, s="p3"),
                job(graph, ADD, s="p3"),
            ],
        )
        assert len(set(versions(graph, answers))) == 3
        state = state_of(graph)
        assert ("Person", "p3") in state
        assert ("Knows", "m") not in state
    assert_sound(root)


# ---- what is never published with others --------------------------------------------------


def test_large_and_other_writes_go_alone_and_keep_their_place(root: AnyPath) -> None:
    many = [{"type": "Person", "data": {"slug": f"l{i}"}} for i in range(400)]
    few = [{"type": "Person", "data": {"slug": f"s{i}"}} for i in range(3)]
    replaced = [{"type": "Firm", "data": {"slug": f"f{i}"}} for i in range(3)]
    with og.open(root) as graph:
        graph.branches.create("dev")
        graph.mutate(ADD, {"s": "on dev"}, branch="dev")
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="a"),
                partial(graph.load, few, mode="merge"),
                partial(graph.load, many, mode="append"),
                job(graph, ADD, s="b"),
                partial(graph.load, replaced, mode="overwrite"),
                partial(graph.branches.merge, "dev"),
                job(graph, ADD, s="c"),
                job(graph, ADD, s="d"),
            ],
        )
        first = versions(graph, answers)[0]
        assert versions(graph, answers) == [
            first,
            first,
            *range(first + 1, first + 5),
            first + 5,
            first + 5,
        ]
    assert_sound(root)


def test_an_update_that_turns_out_large_goes_alone(root: AnyPath) -> None:
    rename = 'query r() { update Person set { name: "all" } where slug != "nobody" }'
    rows = [{"type": "Person", "data": {"slug": f"l{i}"}} for i in range(400)]
    with og.open(root) as graph:
        graph.load(rows, mode="append")
        answers = run_together(
            graph, [job(graph, ADD_FIRM, s="fa"), job(graph, rename), job(graph, ADD_FIRM, s="fb")]
        )
        assert answers[1].affected_nodes == 406
        first = versions(graph, answers)[0]
        assert versions(graph, answers) == [first, first + 1, first + 2]


def test_it_can_be_switched_off_for_all_or_for_some(root: AnyPath) -> None:
    with og.open(root, group_writes=False) as graph:
        answers = run_together(graph, [job(graph, ADD, s=f"a{i}") for i in range(3)])
        assert len(set(versions(graph, answers))) == 3
    with og.open(root, group_writes=og.GroupWrites(never_for=frozenset({"slow"}))) as graph:
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="b0"),
                job(graph, ADD, s="b1", _actor="slow"),
                job(graph, ADD, s="b2"),
                job(graph, ADD, s="b3"),
            ],
        )
        first = versions(graph, answers)[0]
        assert versions(graph, answers) == [first, first + 1, first + 2, first + 2]


# ---- history ------------------------------------------------------------------------------


def test_history_is_exact_at_every_commit(root: AnyPath, backend: str) -> None:
    """Feed replay, the state of every commit, its changes and blame tell the same story."""
    with og.open(root) as graph:
        # Every commit is read several times, which takes long in a bucket.
        for _round in range(3 if backend == "local" else 1):
            run_random_writers(graph, _round)
        graph.branches.create("dev")
        run_together(
            graph, [job(graph, ADD, s=f"d{i}", _branch="dev") for i in range(5)], branch="dev"
        )
        for branch in ("main", "dev"):
            check_history(graph, branch)
        graph.optimize()
        check_history(graph, "main")
    assert_sound(root)


def test_a_read_only_handle_writes_nothing_for_a_state_inside(root: AnyPath, backend: str) -> None:
    with og.open(root) as graph:
        graph.branches.create("dev")
        answers: list[Any] = []
        for branch in ("main", "dev"):
            jobs = [job(graph, ADD, s=f"{branch}{i}", _branch=branch) for i in range(3)]
            jobs += [job(graph, DROP, s="p0", _branch=branch)]
            answers = run_together(graph, jobs, branch=branch)
        names = [item.commit.graph_commit_id for item in answers]
        wanted = [images(graph, commit=name) for name in names[:-1]]
        graph.cleanup(keep=50, grace=0, dry_run=False)
    before = files_of(root)
    with og.open(root, mode="ro") as reader:
        if backend == "local":
            assert [images(reader, commit=name) for name in names[:-1]] == wanted
            check_history(reader, "main")
            check_history(reader, "dev")
        else:
            with pytest.raises(og.BadRequestError, match="published together with later ones"):
                images(reader, commit=names[0])
        assert images(reader, commit=names[-1]) == images(reader, branch="dev")
    assert files_of(root) == before


def files_of(root: AnyPath) -> list[str]:
    files = locate(root)
    return sorted(files.files.below(files.path("")))


def run_random_writers(graph: og.Graph, seed: int) -> None:
    import random

    def work(number: int) -> None:
        dice = random.Random(seed * 100 + number)  # noqa: S311 - a test
        with graph.as_actor(f"actor {number}") as mine:
            for step in range(6):
                text, params = dice.choice(
                    [
                        (ADD, {"s": f"{seed}-{number}-{step}"}),
                        (NAME, {"s": f"p{dice.randrange(6)}", "n": f"{number}-{step}"}),
                        (MEET, {"i": f"m{seed}-{number}-{step}", "a": "p1", "b": "p2"}),
                        (DROP, {"s": f"{seed}-{dice.randrange(8)}-{dice.randrange(6)}"}),
                    ]
                )
                try:
                    mine.mutate(text, params)
                except og.ConflictError:
                    mine.refresh()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check_history(graph: og.Graph, branch: str) -> None:
    commits = graph.commits.list(branch)[::-1]
    sizes = Counter(item.manifest_version for item in commits)
    assert max(sizes.values()) > 1, "nothing was published together"
    blocks = list(feed_of(graph, branch))
    assert [item.graph_commit_id for item in commits] == list(dict.fromkeys(n for n, _ in blocks))
    state: dict[tuple[str, str], Any] = {}
    owner: dict[tuple[str, str], str] = {}
    for commit in commits:
        mine = [change for name, change in blocks if name == commit.graph_commit_id and change]
        for change in mine:
            key = (change.type.name, change.id)
            assert state.get(key) == change.before, (commit, change)
            state.pop(key, None)
            if change.after is not None:
                state[key] = change.after
            owner[key] = commit.graph_commit_id
        if commit.parent_commit_id is not None and commit.kind != "init":
            assert list(graph.commits.changes(commit.graph_commit_id).changes) == mine
        assert images(graph, commit=commit.graph_commit_id, branch=branch) == state, commit
    for (type_name, entity_id), name in list(owner.items())[::7]:
        found = graph.commits.last_change(type_name, entity_id, branch)
        assert found is not None
        assert found.graph_commit_id == name, (type_name, entity_id)


def feed_of(graph: og.Graph, branch: str) -> Any:
    cursor = token = None
    while True:
        page = graph.feed.poll("beginning", cursor=cursor, page_token=token, branch=branch, limit=3)
        for block in page.blocks:
            yield block.commit.graph_commit_id, None
            for change in block.changes:
                yield block.commit.graph_commit_id, change
        token, cursor = page.next_page_token, page.cursor or cursor
        if page.caught_up:
            return


def images(graph: og.Graph, **at: Any) -> dict[tuple[str, str], Any]:
    found: dict[tuple[str, str], Any] = {}
    rows = graph.export(**at)
    assert not isinstance(rows, int)
    for row in rows:
        data: Any = dict(row["data"])  # type: ignore[call-overload]
        key = (str(row.get("type") or row.get("edge")), str(data.pop("id")))
        found[key] = {"properties": data}
        if "from" in row:
            found[key]["endpoints"] = {"from": row["from"], "to": row["to"]}
    return found


def count(graph: og.Graph, **at: Any) -> int:
    found = graph.query("query q() { match { $p: Person } return { count(*) as n } }", **at)
    return int(found.scalar())


def test_a_state_inside_can_be_asked_for_by_commit_or_moment(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, [job(graph, ADD, s=f"a{i}") for i in range(4)])
        for number, item in enumerate(answers):
            name = item.commit.graph_commit_id
            assert count(graph, commit=name) == 7 + number
            assert count(graph, timestamp=item.commit.created_at) == 7 + number
            assert graph.snapshot(commit=name).tables["node:Person"].row_count == 7 + number
        first, last = answers[0].commit, answers[3].commit
        assert count(graph, version=first.manifest_version) == 10
        found = graph.diff(first.graph_commit_id, answers[2].commit.graph_commit_id)
        assert {change.id for change in found.changes} == {"a1", "a2"}
        assert len(graph.diff(first.graph_commit_id, last.graph_commit_id).changes) == 3


def test_one_commit_of_a_publish_is_undone_or_picked_alone(root: AnyPath) -> None:
    with og.open(root) as graph:
        graph.branches.create("dev")
        answers = run_together(
            graph,
            [
                job(graph, ADD, s="a"),
                job(graph, NAME, s="p3", n="x"),
                job(graph, DROP, s="p0"),
                job(graph, ADD, s="b"),
            ],
        )
        names = [item.commit.graph_commit_id for item in answers]
        before = state_of(graph)
        graph.branches.revert(names[2])
        undone = state_of(graph)
        assert set(undone) - set(before) == {
            ("Person", "p0"),
            ("Works", "w0"),
            *(("Knows", f"k{i}") for i in range(1, 5)),
        }
        assert json.loads(undone["Person", "p3"])["data"]["name"] == "x"
        assert graph.branches.cherry_pick(names[1], "dev") is not None
        picked = state_of(graph, branch="dev")
        assert json.loads(picked["Person", "p3"])["data"]["name"] == "x"
        assert ("Person", "a") not in picked
    assert_sound(root)


def test_a_branch_can_start_between_two_commits_of_a_publish(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        names = [item.commit.graph_commit_id for item in answers]
        states = [state_of(graph, commit=name) for name in names]
        for number, name in enumerate(names):
            graph.branches.create(f"b{number}", from_=name)
        for number, name in enumerate(names):
            assert state_of(graph, branch=f"b{number}") == states[number]
            assert graph.commits.head(f"b{number}").graph_commit_id == name
            listed = graph.commits.list(branch=f"b{number}")
            assert [item.graph_commit_id for item in listed][: number + 1] == names[number::-1]
            assert [graph.commits.get(name).actor_id for name in names[: number + 1]] == [
                item.actor_id for item in listed[number::-1]
            ]
    assert_sound(root)
    with og.open(root) as again:
        assert [state_of(again, branch=f"b{number}") for number in range(4)] == states
        again.mutate(ADD, {"s": "more"}, branch="b1")
        # From a branch that was made there, and from what it inherits.
        again.branches.create("a0", from_="b1")
        again.branches.create("a1", from_=names[0])
        assert state_of(again, branch="a1") == states[0]
    assert_sound(root)


def test_a_branch_from_inside_a_publish_merges_from_where_it_started(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        names = [item.commit.graph_commit_id for item in answers]
        graph.branches.create("dev", from_=names[1])
        assert graph.branches.merge_plan("dev").outcome == "already_up_to_date"
        graph.mutate(ADD, {"s": "mine"}, branch="dev")
        graph.branches.create("other", from_=names[0])
        graph.mutate(ADD, {"s": "theirs"}, branch="other")
        before = state_of(graph)
        plan = graph.branches.merge_plan("dev")
        assert plan.base_commit_ids == (names[1],)
        assert [item["id"] for item in plan.changes] == ["mine"]
        graph.branches.merge("other", "dev")
        graph.branches.merge("dev")
        added = {("Person", "mine"), ("Person", "theirs")}
        after = state_of(graph)
        assert set(after) == set(before) | added
        assert {key: after[key] for key in before} == before
        graph.branches.merge("main", "other")
        assert state_of(graph, branch="other") == after
    assert_sound(root)


def test_a_cleanup_keeps_what_a_branch_from_inside_a_publish_merges_from(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        names = [item.commit.graph_commit_id for item in answers]
        graph.branches.create("dev", from_=names[1])
        graph.mutate(ADD, {"s": "mine"}, branch="dev")
        for number in range(4):
            graph.mutate(ADD, {"s": f"later{number}"})
        graph.cleanup(keep=1, grace=0, dry_run=False)
        before = state_of(graph)
        graph.branches.merge("dev")
        after = state_of(graph)
        assert set(after) == {*before, ("Person", "mine")}
        graph.branches.delete("dev")
        graph.cleanup(keep=1, grace=0, dry_run=False)
        assert state_of(graph) == after


def test_a_tag_can_name_a_commit_inside_a_publish(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        names = [item.commit.graph_commit_id for item in answers]
        wanted = state_of(graph, commit=names[1])
        made = graph.tags.create("t", commit=names[1])
        assert (made.commit_id, made.version) == (names[1], answers[1].commit.manifest_version)
        assert graph.tags.list() == [made]
        for number in range(4):
            graph.mutate(ADD, {"s": f"later{number}"})
        graph.cleanup(keep=1, grace=0, dry_run=False)
        assert state_of(graph, tag="t") == wanted
        graph.branches.create("dev", from_="t")
        assert state_of(graph, branch="dev") == wanted
        graph.tags.delete("t")
        assert graph.tags.list() == []
        newest = graph.tags.create("t")
        assert newest.commit_id is None
        assert state_of(graph, tag="t") == state_of(graph)


def test_a_tag_on_what_a_branch_took_over_keeps_where_branches_start(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        names = [item.commit.graph_commit_id for item in answers]
        wanted = state_of(graph, commit=names[1])
        graph.branches.create("b2", from_=names[2])
        graph.tags.create("t", branch="b2", commit=names[1])
        for number in range(4):
            graph.mutate(ADD, {"s": f"later{number}"}, branch="b2")
            graph.mutate(ADD, {"s": f"later{number}"})
        graph.cleanup(keep=1, grace=0, dry_run=False)
        graph.branches.create("dev", from_="t")
        assert state_of(graph, branch="dev") == wanted


def test_a_branch_inside_a_publish_is_refused_when_the_version_before_is_gone(
    root: AnyPath,
) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        name = answers[1].commit.graph_commit_id
        graph.mutate(ADD, {"s": "later"})
        graph.cleanup(keep=2, grace=0, dry_run=False)
        wanted = state_of(graph, commit=name)
        with pytest.raises(og.VersionReclaimedError, match="would be made from"):
            graph.branches.create("dev", from_=name)
        graph.tags.create("t", commit=name)
        assert state_of(graph, tag="t") == wanted
        assert graph.branches.list() == ["main"]


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.BRANCH_CREATE_POST_NATIVE,
        Failpoint.WRITE_POST_STAGE,
        Failpoint.PUBLISH_POST_EFFECTS,
        Failpoint.PUBLISH_PRE_SLOT_DELETE,
    ],
)
def test_a_branch_from_inside_a_publish_is_made_whole_or_not_seen(
    root: AnyPath, point: Failpoint
) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, jobs_of_four(graph))
        name = answers[1].commit.graph_commit_id

    def die() -> None:
        raise Died

    with og.open(root) as graph, failpoints.armed(point, die), pytest.raises(Died):
        graph.branches.create("dev", from_=name)
    with og.open(root) as graph:
        assert graph.branches.list() == ["main"]
        wanted = state_of(graph, commit=name)
        graph.branches.create("dev", from_=name)
        assert state_of(graph, branch="dev") == wanted
        graph.cleanup(keep=100, grace=0, dry_run=False)
        assert state_of(graph, branch="dev") == wanted
        assert names_in(root / "__manifest" / "_retired") == []
    assert_sound(root)


class Lapsing:
    """A slot whose owner is stopped for longer than its lease when a test says so."""

    def __init__(self, slot: Any) -> None:
        self.slot, self.lapsed = slot, False

    def __enter__(self) -> Lapsing:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        if not self.lapsed:
            self.slot.remove()

    def lapse(self) -> None:
        self.slot.remove()
        self.lapsed = True


def test_a_branch_that_a_cleanup_took_for_deleted_meanwhile_is_not_brought_into_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_graph(tmp_path / "graph")
    with og.open(tmp_path / "graph") as graph, og.open(tmp_path / "graph") as other:
        answers = run_together(graph, jobs_of_four(graph))
        name = answers[1].commit.graph_commit_id
        wanted = state_of(graph, commit=name)
        directory = graph._engine.lines.directory
        held: list[Lapsing] = []
        take = directory._slots.take

        def taken(slot: str, body: bytes) -> Any:
            found = take(slot, body)
            if slot == CONTROL_SLOT and found is not None:
                held.append(Lapsing(found))
                return held[-1]
            return found

        pause = Pause()
        cleanup = threading.Thread(target=lambda: other.cleanup(keep=100, grace=0, dry_run=False))

        def stop() -> None:
            held[-1].lapse()
            cleanup.start()
            assert pause.reached.wait(60)

        with monkeypatch.context() as patch:
            patch.setattr(directory._slots, "take", taken)
            with (
                failpoints.armed(Failpoint.CLEANUP_PRE_MANIFEST, pause),
                failpoints.armed(Failpoint.PUBLISH_PRE_SLOT_DELETE, stop),
                pytest.raises(og.ConflictError, match="being made for too long"),
            ):
                graph.branches.create("dev", from_=name)
            pause.released.set()
            cleanup.join(60)
        assert graph.branches.list() == ["main"]
        graph.branches.create("dev", from_=name)
        assert state_of(graph, branch="dev") == wanted


def test_a_feed_goes_on_inside_a_publish(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(graph, [job(graph, ADD, s=f"a{i}") for i in range(4)])
        start = f"after:{answers[1].commit.graph_commit_id}"
        page = graph.feed.poll(start, limit=1)
        assert [block.commit.place for block in page.blocks] == [2]
        rest = graph.feed.poll(cursor=page.cursor)
        assert [block.commit.place for block in rest.blocks] == [3]
        assert rest.caught_up


# ---- what lies on the disk ----------------------------------------------------------------


def test_a_write_alone_leaves_what_it_always_left(root: AnyPath) -> None:
    with og.open(root) as graph:
        graph.mutate(ADD, {"s": "a"})
    rows = manifest_rows(root)
    assert {row["object_type"] for row in rows} == {"graph_commit", "table", "table_version"}
    made = [row for row in rows if row["object_type"] == "graph_commit"]
    assert all("place" not in json.loads(row["metadata"]) for row in made)


def test_a_publish_of_many_says_which_rows_each_touched(root: AnyPath) -> None:
    with og.open(root) as graph:
        answers = run_together(
            graph,
            [job(graph, ADD, s="a"), job(graph, NAME, s="p3", n="x"), job(graph, DROP, s="p4")],
        )
    (row,) = [row for row in manifest_rows(root) if row["object_type"] == "graph_group"]
    known = json.loads(row["metadata"])
    assert known["seq"] == answers[0].commit.manifest_version
    assert known["members"] == [
        [answers[0].commit.graph_commit_id, {"node:Person": {"+": ["a"]}}],
        [answers[1].commit.graph_commit_id, {"node:Person": {"~": ["p3"]}}],
        [
            answers[2].commit.graph_commit_id,
            {"node:Person": {"-": ["p4"]}, "edge:Knows": {"-": ["k4"]}},
        ],
    ]


def test_a_cleanup_keeps_states_inside_what_it_keeps(root: AnyPath) -> None:
    with og.open(root) as graph:
        graph.mutate(ADD, {"s": "before"})
        old = run_together(graph, [job(graph, ADD, s=f"a{i}") for i in range(3)])
        kept = run_together(graph, [job(graph, NAME, s=f"p{i}", n="x") for i in range(4)])
        inside = [item.commit.graph_commit_id for item in kept]
        before = [images(graph, commit=name) for name in inside]
        graph.cleanup(keep=1, grace=0, dry_run=False)
        folder = root / graph.snapshot().tables["node:Person"].path / "_versions"
        assert not [name for name in names_in(folder) if name.startswith("d")]
        assert [images(graph, commit=name) for name in inside] == before
        with pytest.raises(og.VersionReclaimedError):
            list(graph.export(commit=old[0].commit.graph_commit_id))  # type: ignore[arg-type]
    with og.open(root) as graph:
        assert [images(graph, commit=name) for name in inside] == before
    assert_sound_after_cleanup(root)


def assert_sound_after_cleanup(root: AnyPath) -> None:
    with og.open(root) as graph:
        graph.mutate(ADD, {"s": "after"})
        assert ("Person", "after") in state_of(graph)


def test_blobs_and_vectors_are_published_together(place: AnyPath) -> None:
    schema = "node Doc { slug: String @key  body: Blob?  v: Vector(3)? }"
    add = (
        "query a($s: String, $b: Blob, $v: Vector(3)) { insert Doc { slug: $s, body: $b, v: $v } }"
    )
    with og.init(place / "docs", schema) as graph:
        graph.mutate(add, {"s": "x", "b": "base64:AAAA", "v": [0.0, 0.0, 0.0]})
        answers = run_together(
            graph,
            [
                job(graph, add, s=f"d{i}", b=f"base64:AAA{'ABCD'[i]}", v=[float(i), 1.0, 2.0])
                for i in range(4)
            ],
        )
        assert len(set(versions(graph, answers))) == 1
        for number, item in enumerate(answers):
            rows = images(graph, commit=item.commit.graph_commit_id)
            assert len(rows) == 2 + number
            assert rows["Doc", f"d{number}"]["properties"]["v"] == [float(number), 1.0, 2.0]
            assert rows["Doc", f"d{number}"]["properties"]["body"] == f"base64:AAA{'ABCD'[number]}"

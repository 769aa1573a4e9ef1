"""Random histories with branches, merges and tags, through two handles, against full copies.

OMNIGRAPH_MACHINE_EXAMPLES sets how many histories are tried. A failure prints the blob and the
steps that replay it.
"""

from __future__ import annotations

import contextlib
import copy
import os
import secrets
from collections.abc import Iterator
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import omnigraph as og
from omnigraph.ops import compact_tail as fold
from omnigraph.store.tables import compaction as maintenance
from omnigraph.store.tables import delta, journal, version_runs
from omnigraph.values.words import SideWord
from tests.faults.model import Op, Refused, perform
from tests.faults.rig import SCHEMA, SEED, slots_of, state_of
from tests.places import AnyPath, remove_tree
from tests.property.branch_model import Merge, Rows, World, state

EXAMPLES = int(os.environ.get("OMNIGRAPH_MACHINE_EXAMPLES", "10"))
EXAMPLES_ON_S3 = max(1, EXAMPLES // 5)
STEPS = 30
SKIPPED = os.environ.get("OMNIGRAPH_MACHINE_SKIP", "").split(",")

names = st.sampled_from(["dev", "fix", "team/a", "team", "ü"])
tag_names = st.sampled_from(["t0", "t1"])
handles = st.sampled_from([0, 1])
people = st.sampled_from([f"p{i}" for i in range(5)])
firms = st.sampled_from(["f0", "f1", "f2"])
edge_ids = st.sampled_from(["k1", "k2", "w0", "e0", "e1"])
levels = st.none() | st.integers(0, 3)
texts = st.none() | st.sampled_from(["a", "b", ""])


def _load_rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    person = st.builds(
        lambda s, n: {"type": "Person", "data": {"slug": s, "name": n}}, people, texts
    )
    firm = st.builds(lambda s: {"type": "Firm", "data": {"slug": s}}, firms)
    knows = st.builds(
        lambda i, a, b: {"edge": "Knows", "from": a, "to": b, "data": {"id": i}},
        edge_ids,
        people,
        people,
    )
    return st.lists(person | firm | knows, min_size=1, max_size=5)


def _op(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    return st.fixed_dictionaries({"op": st.just(kind), **fields})


ops: st.SearchStrategy[Op] = st.one_of(
    _op("insert_person", slug=people, name=texts, level=levels),
    _op("update_one", slug=people, level=levels),
    _op("update_below", below=st.integers(0, 4), name=texts),
    _op("upsert_person", slug=people, level=levels),
    _op("delete_person", slug=people),
    _op("insert_firm", slug=firms),
    _op("delete_firm", slug=firms),
    _op("knows", id=edge_ids, a=people, b=people),
    _op("works", id=edge_ids, a=people, b=firms),
    _op("delete_knows", a=people),
    _op("load", mode=st.sampled_from(["append", "merge", "overwrite"]), rows=_load_rows()),
)


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Make folds, compactions and large reads happen within a few steps."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (fold, "TAIL_FRAGMENTS", 3),
            (maintenance, "TIER_FRAGMENTS_MIN", 2),
            (maintenance, "INDEX_SEGMENTS_MAX", 2),
            (version_runs, "VERSION_RUNS_MAX", 2),
            (journal, "JOURNAL_TIER_BASE", 3),
            (journal, "CHECKPOINT_ROWS", 8),
            (delta, "_TAKE_ROWS_MAX", 3),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


WALKS = {
    "Knows": "query k() { match { $a: Person  $a knows $b } return { $a.slug, $b.slug, $b.level }}",
    "Works": "query w() { match { $a: Person  $a works $b } return { $a.slug, $b.slug, $b.name } }",
}


def walked(graph: og.Graph, **at: Any) -> dict[str, set[tuple[Any, ...]]]:
    """Return whom edges lead to, through what a handle keeps of tables and their branches."""
    return {
        edge: {tuple(row.values()) for row in graph.query(text, **at)}
        for edge, text in WALKS.items()
    }


def walks(rows: Rows) -> dict[str, set[tuple[Any, ...]]]:
    """Return what `walked` must find."""
    ends = {"Knows": ("Person", "level"), "Works": ("Firm", "name")}
    return {
        edge: {
            (row["src"], row["dst"], rows[target][row["dst"]].get(name))
            for row in rows[edge].values()
        }
        for edge, (target, name) in ends.items()
    }


class BranchMachine(RuleBasedStateMachine):
    """Two handles of one graph against a world of copies."""

    place: ClassVar[AnyPath]

    def __init__(self) -> None:
        super().__init__()
        self.root = self.place / secrets.token_hex(4)
        self.world = World()
        self.handles: list[og.Graph] = []
        self.limits = contextlib.ExitStack()
        self.turn = 0

    @initialize()
    def create(self) -> None:
        self.limits.enter_context(small_limits())
        first = og.init(self.root, SCHEMA, durability="none")
        self.handles = [first, og.open(self.root, durability="none")]
        self.world.begin(first.commits.head())
        self.write(0, "main", {"op": "load", "mode": "append", "rows": list(SEED)})

    def teardown(self) -> None:
        try:
            for handle in self.handles:
                handle.close()
            assert not slots_of(self.root)
        finally:
            self.limits.close()
            remove_tree(self.root)

    # ---- writing --------------------------------------------------------------------------

    def take_in(self, graph: og.Graph, branch: str, rows: Any, *, made: int) -> None:
        """Tell the world what a write added to a branch."""
        known = set(self.world.branches[branch].commits)
        new = [c for c in graph.commits.list(branch) if c.graph_commit_id not in known]
        assert len([c for c in new if c.kind != "optimize"]) == made
        self.world.advance(branch, new[::-1], rows)

    def write(self, handle: int, branch: str, op: Op) -> None:
        graph = self.handles[handle]
        graph.refresh(branch)
        model = self.world.model(branch)
        try:
            touched = model.apply(op)
        except Refused as refused:
            with pytest.raises((og.DataError, og.KeyConflictError)):
                perform(graph, op, branch=branch)
            note(f"refused: {refused}")
            return
        result = perform(graph, op, branch=branch)
        assert (result.commit is not None) == touched
        self.take_in(graph, branch, model.rows, made=int(touched))

    def pick(self, data: st.DataObject, label: str = "branch") -> str:
        return data.draw(st.sampled_from(sorted(self.world.branches)), label)

    @rule(handle=handles, data=st.data(), many=st.lists(ops, min_size=1, max_size=3))
    def writes(self, handle: int, data: st.DataObject, many: list[Op]) -> None:
        branch = self.pick(data)
        for op in many:
            self.write(handle, branch, op)

    @rule(handle=handles, name=names, data=st.data(), rows=_load_rows())
    def load_into_a_new_branch(
        self, handle: int, name: str, data: st.DataObject, rows: list[dict[str, Any]]
    ) -> None:
        if self.world.collision(name):
            return
        source = self.pick(data)
        graph = self.handles[handle]
        model = self.world.model(source)
        touched = True
        try:
            model.apply({"op": "load", "mode": "merge", "rows": rows})
        except Refused:
            touched = False
            with pytest.raises(og.OmniGraphError):
                graph.load(rows, mode="merge", branch=name, create_from=source)
        else:
            found = graph.load(rows, mode="merge", branch=name, create_from=source)
            assert found.branch_created
        if graph.branches.exists(name):
            self.world.create(name, source, self.world.branches[source].head)
            self.take_in(graph, name, model.rows, made=int(touched))

    # ---- branches and tags ----------------------------------------------------------------

    @rule(handle=handles, name=names, data=st.data(), how=st.sampled_from(["name", "old", "at"]))
    def branch(self, handle: int, name: str, data: st.DataObject, how: str) -> None:
        graph = self.handles[handle]
        source = self.pick(data)
        history = self.world.branches[source].commits
        commit = history[-1] if how == "name" else data.draw(st.sampled_from(history), "commit")
        version = self.world.commits[commit].version
        from_ = {"name": source, "old": commit, "at": f"{source}@{version}"}[how]
        if self.world.collision(name):
            with pytest.raises(og.AlreadyExistsError):
                graph.branches.create(name, from_=from_)
            return
        made = graph.branches.create(name, from_=from_)
        # A commit lies in the history of several branches; where it was found, the engine says.
        lives = {item.id.uid: item.id.name for item in graph.branches.details()}
        assert made.parent is not None
        parent = lives[made.parent]
        assert commit in self.world.branches[parent].commits
        self.world.create(name, parent if how == "old" else source, commit)
        assert graph.snapshot(name).commit.graph_commit_id == commit

    @precondition(lambda self: len(self.world.branches) > 1)
    @rule(handle=handles, data=st.data())
    def delete(self, handle: int, data: st.DataObject) -> None:
        others = sorted(set(self.world.branches) - {"main"})
        name = data.draw(st.sampled_from(others), "branch")
        if self.world.needed(name):
            with pytest.raises(og.ConflictError):
                self.handles[handle].branches.delete(name)
            return
        self.handles[handle].branches.delete(name)
        del self.world.branches[name]

    @rule(handle=handles, tag=tag_names, data=st.data())
    def tag(self, handle: int, tag: str, data: st.DataObject) -> None:
        graph = self.handles[handle]
        if tag in self.world.tags:
            graph.tags.delete(tag)
            del self.world.tags[tag]
            return
        branch = self.pick(data)
        commit = data.draw(st.sampled_from(self.world.branches[branch].commits), "commit")
        graph.tags.create(tag, branch=branch, version=self.world.commits[commit].version)
        self.world.tags[tag] = (self.world.home_of(branch, commit), commit)

    # ---- merging --------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.branches) > 1)
    @rule(
        handle=handles,
        data=st.data(),
        resolve=st.sampled_from([None, None, "ours", "theirs"]),
        by_property=st.booleans(),
        drop=st.booleans(),
    )
    def merge(
        self,
        handle: int,
        data: st.DataObject,
        resolve: SideWord | None,
        by_property: bool,
        drop: bool,
    ) -> None:
        source, target = self.pick(data, "source"), self.pick(data, "target")
        if source == target:
            with pytest.raises(og.BadRequestError):
                self.handles[handle].branches.merge(source, target)
            return
        self.merge_into(handle, source, target, resolve, by_property, drop)

    @precondition(lambda self: len(self.world.branches) > 1)
    @rule(
        handle=handles,
        data=st.data(),
        resolve=st.lists(st.sampled_from(["ours", "theirs"]), min_size=2, max_size=2),
        by_property=st.booleans(),
        then=st.lists(ops, min_size=2, max_size=2),
    )
    def cross(
        self,
        handle: int,
        data: st.DataObject,
        resolve: list[SideWord],
        by_property: bool,
        then: list[Op],
    ) -> None:
        """Merge two branches into each other, each at its old head, and go on on both."""
        one, other = self.pick(data, "one"), self.pick(data, "other")
        if one == other:
            return
        self.handles[handle].branches.create("old", from_=other)
        self.world.create("old", other, self.world.branches[other].head)
        self.merge_into(handle, one, other, resolve[0], by_property, drop=False)
        self.merge_into(handle, "old", one, resolve[1], by_property, drop=True)
        if "old" in self.world.branches:
            self.handles[handle].branches.delete("old")
            del self.world.branches["old"]
        self.write(handle, one, then[0])
        self.write(handle, other, then[1])

    @precondition(lambda self: len(self.world.branches) > 1)
    @rule(
        handle=handles,
        data=st.data(),
        slug=people,
        here=st.tuples(texts, levels),
        there=st.tuples(texts, levels),
        resolve=st.sampled_from([None, None, "ours", "theirs"]),
        by_property=st.booleans(),
    )
    def part(
        self,
        handle: int,
        data: st.DataObject,
        slug: str,
        here: tuple[Any, ...],
        there: tuple[Any, ...],
        resolve: SideWord | None,
        by_property: bool,
    ) -> None:
        """Write one person on two branches and merge them: chance seldom makes a conflict."""
        one, other = self.pick(data, "one"), self.pick(data, "other")
        if one == other:
            return
        for branch, (name, level) in ((one, here), (other, there)):
            op = {"op": "insert_person", "slug": slug, "name": name, "level": level}
            self.write(handle, branch, op)
        self.merge_into(handle, one, other, resolve, by_property, drop=False)

    def merge_into(
        self,
        handle: int,
        source: str,
        target: str,
        resolve: SideWord | None,
        by_property: bool,
        drop: bool,
    ) -> None:
        """Merge, and compare with what the world says of it."""
        graph = self.handles[handle]
        plan = graph.branches.merge_plan(
            source, target, resolve=resolve, property_merge=by_property
        )
        wanted = self.world.merge(source, target, resolve=resolve, by_property=by_property)
        assert plan.base_commit_ids == tuple(wanted.bases)
        stopped = bool(wanted.conflicts or wanted.loose)
        assert plan.outcome == ("conflicts" if stopped else wanted.outcome)
        self.check_conflicts(wanted, [item.to_json() for item in plan.conflicts])
        if stopped:
            with pytest.raises(og.MergeConflictError) as error:
                graph.branches.merge(source, target, resolve=resolve, property_merge=by_property)
            self.check_conflicts(wanted, list(error.value.conflicts))
            return
        theirs = self.world.branches[source].head
        done = graph.branches.merge(
            source, target, resolve=resolve, property_merge=by_property, delete_source=drop
        )
        assert done.outcome == wanted.outcome
        made = wanted.outcome != "already_up_to_date"
        assert (done.commit is not None) == made
        if done.commit is not None:
            assert done.commit.merged_parent_commit_id == theirs
        self.take_in(graph, target, wanted.rows, made=int(made))
        if drop:
            kept = source == "main" or self.world.needed(source)
            assert done.branch_deleted != kept
            if not kept:
                del self.world.branches[source]
                return
        assert graph.branches.merge(source, target).outcome == "already_up_to_date"

    @staticmethod
    def check_conflicts(wanted: Merge, found: list[dict[str, Any]]) -> None:
        exact = {(c["table_key"], c["entity_id"], c["kind"]) for c in found}
        loose = {(key, kind) for key, _id, kind in exact} & wanted.loose
        assert loose == wanted.loose
        rest = {item for item in exact if (item[0], item[2]) not in wanted.loose}
        assert rest == wanted.conflicts
        assert len(exact) == len(found), "a conflict is listed twice"

    # ---- looking --------------------------------------------------------------------------

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = og.open(self.root, durability="none")
        assert self.handles[handle].maintenance.recovered == []

    @rule(handle=handles)
    def clean_up(self, handle: int) -> None:
        """Forget deleted branches that no merge can need; every version of others stays."""
        self.handles[handle].cleanup(keep=10_000, dry_run=False)

    @rule(handle=handles, data=st.data())
    def travel(self, handle: int, data: st.DataObject) -> None:
        graph = self.handles[handle]
        branch = self.pick(data)
        commit = data.draw(st.sampled_from(self.world.branches[branch].commits), "commit")
        wanted = self.world.commits[commit]
        assert state_of(graph, branch=branch, version=wanted.version) == state(wanted.rows)
        assert state_of(graph, commit=commit) == state(wanted.rows)
        assert walked(graph, commit=commit) == walks(wanted.rows)
        for tag, (_life, named) in self.world.tags.items():
            assert state_of(graph, tag=tag) == state(self.world.commits[named].rows)

    @invariant()
    def every_branch_is_as_it_should_be(self) -> None:
        if not self.handles:
            return
        self.turn += 1
        graph = self.handles[self.turn % 2]
        names = sorted(self.world.branches)
        assert sorted(graph.branches.list()) == names
        for name in names:
            assert graph.commits.head(name).graph_commit_id == self.world.branches[name].head
            rows = self.world.head(name).rows
            assert state_of(graph, branch=name) == state(copy.copy(rows))
            assert walked(graph, branch=name) == walks(rows)


@pytest.mark.full_only
@pytest.mark.timeout(1200)
def test_branches_and_full_copies_agree(backend: str, place: AnyPath) -> None:
    chosen = settings(
        max_examples=EXAMPLES if backend == "local" else EXAMPLES_ON_S3,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        # Explaining a failure repeats long histories for minutes.
        phases=[p for p in Phase if p is not Phase.explain and p.name not in SKIPPED],
        suppress_health_check=list(HealthCheck),
    )
    machine = type("BranchMachineHere", (BranchMachine,), {"place": place})
    run_state_machine_as_test(machine, settings=chosen)

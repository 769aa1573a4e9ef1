"""A graph and a dict do the same writes, through two handles, and must always agree.

OMNIGRAPH_MACHINE_EXAMPLES sets how many histories are tried. A failure prints the blob and the
steps that replay it.
"""

from __future__ import annotations

import os
import secrets
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, note, settings
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
from tests.faults.model import Model, Op, Refused, perform
from tests.faults.rig import SCHEMA, State, assert_sound, state_of
from tests.places import AnyPath, remove_tree

EXAMPLES = int(os.environ.get("OMNIGRAPH_MACHINE_EXAMPLES", "20"))
EXAMPLES_ON_S3 = max(1, EXAMPLES // 5)
STEPS = 25

people = st.sampled_from([f"p{i}" for i in range(6)] + ["it's", "ü", ""])
firms = st.sampled_from(["f0", "f1", "f2", "f3"])
edge_ids = st.sampled_from([f"e{i}" for i in range(8)])
levels = st.none() | st.integers(-3, 8)
names = st.none() | st.sampled_from(["a", "b", "", "null"])
handles = st.sampled_from([0, 1])


def _node(type_name: str, slugs: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda slug: {"type": type_name, "data": {"slug": slug}}, slugs)


def _edge(type_name: str, targets: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda edge_id, src, dst: {
            "edge": type_name,
            "from": src,
            "to": dst,
            "data": {"id": edge_id},
        },
        edge_ids,
        people,
        targets,
    )


envelopes = st.one_of(
    _node("Person", people), _node("Firm", firms), _edge("Knows", people), _edge("Works", firms)
)


class GraphMachine(RuleBasedStateMachine):
    """Two handles of one graph against one model."""

    place: ClassVar[AnyPath]

    def __init__(self) -> None:
        super().__init__()
        self.root = self.place / secrets.token_hex(4)
        self.model = Model()
        self.handles: list[og.Graph] = []
        self.history: dict[int, State] = {}
        self.commits = 1

    @initialize()
    def create(self) -> None:
        self.handles = [
            og.init(self.root, SCHEMA, durability="none"),
            og.open(self.root, durability="none"),
        ]
        self.history[1] = {}

    def teardown(self) -> None:
        for handle in self.handles:
            handle.close()
        try:
            if self.handles:
                assert_sound(self.root)
        finally:
            remove_tree(self.root)

    # ---- writes ---------------------------------------------------------------------------

    def write(self, handle: int, op: Op) -> None:
        """Do a write on both sides; when the model refuses, so must the graph."""
        graph = self.handles[handle]
        graph.refresh("main")
        before = self.model.state()
        try:
            touched = self.model.apply(op)
        except Refused as refused:
            with pytest.raises((og.DataError, og.KeyConflictError)) as error:
                perform(graph, op)
            note(f"refused: {refused}; {error.value.message}")
            assert state_of(graph) == before
            assert self.model.state() == before
            return
        result = perform(graph, op)
        assert (result.commit is not None) == touched
        if result.commit is not None:
            self.commits += 1
            self.history[result.commit.manifest_version] = self.model.state()

    @rule(handle=handles, slug=people, name=names, level=levels)
    def insert_person(self, handle: int, slug: str, name: str | None, level: int | None) -> None:
        self.write(handle, {"op": "insert_person", "slug": slug, "name": name, "level": level})

    @rule(handle=handles, slug=people, level=levels)
    def upsert_person(self, handle: int, slug: str, level: int | None) -> None:
        self.write(handle, {"op": "upsert_person", "slug": slug, "level": level})

    @rule(handle=handles, below=st.integers(-4, 9), name=names)
    def update_below(self, handle: int, below: int, name: str | None) -> None:
        self.write(handle, {"op": "update_below", "below": below, "name": name})

    @rule(handle=handles, slug=people, level=levels)
    def update_one(self, handle: int, slug: str, level: int | None) -> None:
        self.write(handle, {"op": "update_one", "slug": slug, "level": level})

    @rule(handle=handles, slug=people)
    def delete_person(self, handle: int, slug: str) -> None:
        self.write(handle, {"op": "delete_person", "slug": slug})

    @rule(handle=handles, below=st.integers(-4, 3))
    def delete_below(self, handle: int, below: int) -> None:
        self.write(handle, {"op": "delete_below", "below": below})

    @rule(handle=handles, slug=firms)
    def insert_firm(self, handle: int, slug: str) -> None:
        self.write(handle, {"op": "insert_firm", "slug": slug})

    @rule(handle=handles, slug=firms)
    def delete_firm(self, handle: int, slug: str) -> None:
        self.write(handle, {"op": "delete_firm", "slug": slug})

    @rule(handle=handles, edge_id=edge_ids, a=people, b=people)
    def knows(self, handle: int, edge_id: str, a: str, b: str) -> None:
        self.write(handle, {"op": "knows", "id": edge_id, "a": a, "b": b})

    @rule(handle=handles, edge_id=edge_ids, a=people, b=firms)
    def works(self, handle: int, edge_id: str, a: str, b: str) -> None:
        self.write(handle, {"op": "works", "id": edge_id, "a": a, "b": b})

    @rule(handle=handles, slug=people, edge_id=edge_ids, b=people)
    def person_and_edge(self, handle: int, slug: str, edge_id: str, b: str) -> None:
        self.write(handle, {"op": "person_and_edge", "slug": slug, "id": edge_id, "b": b})

    @rule(handle=handles, a=people)
    def delete_knows(self, handle: int, a: str) -> None:
        self.write(handle, {"op": "delete_knows", "a": a})

    @rule(
        handle=handles,
        mode=st.sampled_from(["append", "merge", "overwrite"]),
        rows=st.lists(envelopes, min_size=1, max_size=6),
    )
    def load(self, handle: int, mode: str, rows: list[dict[str, Any]]) -> None:
        self.write(handle, {"op": "load", "mode": mode, "rows": rows})

    @rule(slug=people, name=names, level=levels)
    def write_through_a_stale_handle(self, slug: str, name: str | None, level: int | None) -> None:
        """An insert needs no look first; a strict write on a changed table refuses."""
        self.write(0, {"op": "insert_person", "slug": slug, "name": name, "level": 1})
        stale = self.handles[1]
        strict: Op = {"op": "update_one", "slug": slug, "level": level}
        with pytest.raises(og.VersionConflictError):
            perform(stale, strict)
        insert: Op = {"op": "insert_person", "slug": slug, "name": name, "level": level}
        result = perform(stale, insert)
        assert self.model.apply(insert)
        assert result.commit is not None
        self.commits += 1
        self.history[result.commit.manifest_version] = self.model.state()

    # ---- looks ----------------------------------------------------------------------------

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        self.handles[handle].close()
        self.handles[handle] = og.open(self.root, durability="none")
        assert self.handles[handle].maintenance.recovered == []

    @precondition(lambda self: len(self.history) > 1)
    @rule(handle=handles, data=st.data())
    def travel(self, handle: int, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.history)))
        graph = self.handles[handle]
        graph.refresh("main")
        assert state_of(graph, version=version) == self.history[version]

    @invariant()
    def both_handles_agree_with_the_model(self) -> None:
        for graph in self.handles:
            assert state_of(graph) == self.model.state()

    @invariant()
    def history_holds_every_write(self) -> None:
        if self.handles:
            kinds = [commit.kind for commit in self.handles[0].commits.list()]
            assert len([kind for kind in kinds if kind != "optimize"]) == self.commits


@pytest.mark.full_only
@pytest.mark.timeout(600)
def test_a_graph_and_a_dict_agree(backend: str, place: AnyPath) -> None:
    chosen = settings(
        max_examples=EXAMPLES if backend == "local" else EXAMPLES_ON_S3,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    machine = type("GraphMachineHere", (GraphMachine,), {"place": place})
    run_state_machine_as_test(machine, settings=chosen)

"""All branches at once, read in part: the same as if all histories had been read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commits import BranchInfo, GraphCommit
from omnigraph.commits.ancestry import ancestors, children_first
from omnigraph.commits.records import MAINTENANCE_KINDS
from omnigraph.graph import overview
from omnigraph.graph.overview import Overview

KINDS = ("mutation", sorted(MAINTENANCE_KINDS)[0])


class World:
    """Branches as lists of commits, and what is needed to look at them."""

    def __init__(self) -> None:
        self.infos = {"main": BranchInfo(name="main", branch_uid="main")}
        self.lines: dict[str, list[GraphCommit]] = {"main": []}
        self.number = 0
        self.commit("main", 0)

    def commit(
        self, uid: str, time: int, kind: str = "mutation", merged: GraphCommit | None = None
    ) -> None:
        line = self.lines[uid]
        line.append(
            GraphCommit(
                graph_commit_id=f"c{self.number:03}",
                manifest_version=len(line) + 1,
                parent_commit_id=line[-1].graph_commit_id if line else None,
                merged_parent_commit_id=None if merged is None else merged.graph_commit_id,
                merged_branch=None if merged is None else self.maker(merged),
                created_at_us=time,
                kind=kind,
            )
        )
        self.number += 1

    def maker(self, commit: GraphCommit) -> str:
        """Return the branch a commit was made on: the first that has it."""
        return next(uid for uid, line in self.lines.items() if commit in line)

    def branch(self, parent: str) -> None:
        name = f"b{len(self.infos)}"
        uid = f"{name}.{len(self.infos):026}"
        forked_at = len(self.lines[parent])
        self.infos[uid] = BranchInfo(
            name=name, branch_uid=uid, parent=parent, forked_at=forked_at, created_at_s=1
        )
        self.lines[uid] = list(self.lines[parent])

    # ---- as the graph shows it ------------------------------------------------------------

    def get(self, name: str) -> Any:
        line = next(self.lines[uid] for uid, info in self.infos.items() if info.name == name)
        history = SimpleNamespace(newest_first=lambda version: iter(line[:version][::-1]))
        state = SimpleNamespace(head=line[-1], version=len(line))
        manifest = SimpleNamespace(capture=lambda: state, history=history)
        return SimpleNamespace(manifest=manifest)

    @property
    def directory(self) -> Any:
        return SimpleNamespace(info=lambda branch: self.infos[branch.uid])

    def overview(self, shown: list[str]) -> Overview:
        return Overview(self, [self.infos[uid] for uid in shown])  # type: ignore[arg-type]

    def commits(self, shown: list[str]) -> dict[str, GraphCommit]:
        return {c.graph_commit_id: c for uid in shown for c in self.lines[uid]}


@st.composite
def worlds(draw: st.DrawFn, *, merges: bool = True, clocks_agree: bool = False) -> World:
    found = World()
    for step in range(1, draw(st.integers(1, 14))):
        uid = draw(st.sampled_from(sorted(found.lines)))
        time = step if clocks_agree else draw(st.integers(0, 9))
        match draw(st.sampled_from(["branch", "commit", "merge" if merges else "commit"])):
            case "branch":
                found.branch(uid)
            case "commit":
                found.commit(uid, time, draw(st.sampled_from(KINDS)))
            case _:
                other = draw(st.sampled_from(sorted(found.lines)))
                found.commit(uid, time, merged=found.lines[other][-1])
    return found


def shown(world: World, data: st.DataObject) -> list[str]:
    """Return some of the branches, as somebody may read them."""
    hidden = data.draw(st.sets(st.sampled_from(sorted(world.infos))))
    return [uid for uid in world.infos if uid not in hidden] or ["main"]


@given(worlds(), st.data())
def test_distances_are_those_of_whole_histories(world: World, data: st.DataObject) -> None:
    names = shown(world, data)
    base = data.draw(st.sampled_from(names))
    known = world.commits(names)

    def grown(uid: str) -> set[str]:
        found = ancestors([world.lines[uid][-1]], lambda name, _branch: known.get(name))
        return {name for name, item in found.items() if item.kind not in MAINTENANCE_KINDS}

    found = world.overview(names).heads(world.infos[base].name)
    assert {item.name: (item.ahead, item.behind) for item in found.branches} == {
        world.infos[uid].name: (len(grown(uid) - grown(base)), len(grown(base) - grown(uid)))
        for uid in names
    }


def pages(world: World, names: list[str], limit: int) -> list[GraphCommit]:
    found: list[GraphCommit] = []
    token = None
    while True:
        page = world.overview(names).graph(limit=limit, page_token=token)
        found += page.commits
        token = page.next_page_token
        if token is None:
            return found


@given(worlds(clocks_agree=True), st.data(), st.integers(1, 4))
def test_pages_are_parts_of_one_order(world: World, data: st.DataObject, limit: int) -> None:
    names = shown(world, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "HISTORY_SPARE_COMMITS", 1)
        assert pages(world, names, limit) == children_first(world.commits(names))


@given(worlds(merges=False), st.data(), st.integers(1, 4))
def test_no_page_shows_a_commit_before_one_made_from_it_whatever_clocks_say(
    world: World, data: st.DataObject, limit: int
) -> None:
    names = shown(world, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "HISTORY_SPARE_COMMITS", 1)
        page = world.overview(names).graph(limit=limit, page_token=None)
    known = world.commits(names)
    seen: set[str] = set()
    for commit in page.commits:
        seen.add(commit.graph_commit_id)
        children = {
            name for name, item in known.items() if item.parent_commit_id == commit.graph_commit_id
        }
        assert children <= seen

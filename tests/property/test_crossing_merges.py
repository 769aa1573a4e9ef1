"""Random histories of branches that merge each other crosswise, against a model of changes.

OMNIGRAPH_CROSSING_HISTORIES sets how many histories are tried, OMNIGRAPH_SEED which ones. A
failure prints the seed of its history and the steps that led to it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.property.change_model import PROPERTIES, Changes, OpenBranch, Rows

HISTORIES = int(os.environ.get("OMNIGRAPH_CROSSING_HISTORIES", "10"))
SEED = int(os.environ.get("OMNIGRAPH_SEED", "0"))
STEPS = 14
SLUGS = ("p", "q", "r", "s")
SCHEMA = "node Item { slug: String @key a: I32? b: I32? }"
NAMES = ("main", "x", "y")


def rows_of(graph: og.Graph, branch: str) -> Rows:
    found = graph.export(branch=branch)
    assert not isinstance(found, int)
    data: list[Any] = [row["data"] for row in found]
    return {row["slug"]: {name: row[name] for name in PROPERTIES} for row in data}


class History:
    """One graph and what the model knows of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - a test, not a secret
        self.graph = og.init(folder, SCHEMA, durability="none")
        self.changes = Changes()
        self.lines = {"main": OpenBranch()}
        self.steps: list[str] = []
        self.seen: Counter[str] = Counter()
        self.put("main", {slug: self.row() for slug in SLUGS[:3]})
        for name in NAMES[1:]:
            self.fork(name, "main")

    def row(self) -> dict[str, int]:
        return {name: self.rng.randrange(3) for name in PROPERTIES}

    def fork(self, name: str, source: str) -> None:
        self.steps.append(f"{name} from {source}")
        self.graph.branches.create(name, from_=source)
        self.lines[name] = self.lines[source].copy()

    # ---- changes --------------------------------------------------------------------------

    def put(self, branch: str, rows: Rows) -> None:
        self.steps.append(f"{branch}: {rows}")
        items = [{"type": "Item", "data": {"slug": slug, **row}} for slug, row in rows.items()]
        self.graph.load(items, mode="merge", branch=branch)
        self.changes.edit(self.lines[branch], {**self.lines[branch].rows, **rows})

    def edit(self, branch: str) -> None:
        rows = self.lines[branch].rows
        slug = self.rng.choice(SLUGS)
        kind = self.rng.random()
        if slug in rows and kind < 0.4:
            self.steps.append(f"{branch}: delete {slug}")
            text = "query q($s: String) { delete Item where slug = $s }"
            self.graph.mutate(text, {"s": slug}, branch=branch)
            self.changes.edit(self.lines[branch], {s: r for s, r in rows.items() if s != slug})
        elif slug in rows and kind < 0.9:
            row = {**rows[slug], self.rng.choice(PROPERTIES): self.rng.randrange(3)}
            if row != rows[slug]:
                self.put(branch, {slug: row})
        elif slug not in rows:
            self.put(branch, {slug: self.row()})

    def revert(self, branch: str) -> None:
        commit = self.graph.commits.head(branch)
        self.steps.append(f"{branch}: revert")
        if commit.parent_commit_id is not None:
            self.graph.branches.revert(commit.graph_commit_id, branch, resolve="theirs")
            self.changes.edit(self.lines[branch], rows_of(self.graph, branch))

    # ---- merges ---------------------------------------------------------------------------

    def merge(self, source: str, target: str) -> None:
        rng = self.rng
        by_property = rng.random() < 0.5
        plan = self.graph.branches.merge_plan(source, target, property_merge=by_property)
        theirs, ours = self.lines[source], self.lines[target]
        conflicts = {str(item.entity_id) for item in plan.conflicts}
        self.steps.append(f"{source} into {target}: {plan.outcome}, {sorted(conflicts)}")
        crossed = len(plan.base_commit_ids) > 1
        self.seen["crossed" if crossed else "plain"] += 1
        self.seen["conflicts"] += len(conflicts)
        for slug in conflicts:
            real = self.changes.conflict_is_real(theirs, ours, slug)
            self.seen["needless"] += not real
            assert real or crossed, f"{slug} is no conflict"
        options: dict[str, Any] = {"property_merge": by_property}
        if conflicts:
            with pytest.raises(og.MergeConflictError):
                self.graph.branches.merge(source, target, **options)
            options["resolve"] = {
                f"Item/{slug}": rng.choice(["ours", "theirs"]) for slug in conflicts
            }
        self.graph.branches.merge(source, target, **options)
        rows = rows_of(self.graph, target)
        clean = {slug: row for slug, row in rows.items() if slug not in conflicts}
        self.changes.check_clean(
            _without(theirs, conflicts), _without(ours, conflicts), clean, by_property=by_property
        )
        for slug in conflicts:
            side = theirs if options["resolve"][f"Item/{slug}"] == "theirs" else ours
            assert rows.get(slug) == side.rows.get(slug)
        self.changes.merge(theirs, ours, rows, conflicts)

    def cross(self, names: list[str]) -> None:
        """Merge branches into each other, all from the heads they had at first."""
        for name in names:
            self.fork(f"old_{name}", name)
        for name in names:
            for other in names:
                if other != name:
                    self.merge(f"old_{other}", name)
        for name in names:
            self.graph.branches.delete(f"old_{name}")
            del self.lines[f"old_{name}"]

    def step(self) -> None:
        rng = self.rng
        one, other = rng.sample(NAMES, 2)
        kind = rng.random()
        if kind < 0.25:
            self.cross([one, other] if rng.random() < 0.8 else list(NAMES))
        elif kind < 0.5:
            self.merge(one, other)
        elif kind < 0.55:
            self.revert(one)
        elif kind < 0.6 and one != "main":
            self.graph.branches.delete(one)
            self.fork(one, "main")
        else:
            for name in NAMES:
                self.edit(name)
        if rng.random() < 0.05:
            self.graph.cleanup(keep=10_000, dry_run=False)

    def run(self) -> Counter[str]:
        for _ in range(STEPS):
            self.step()
        for name in NAMES[1:]:
            self.merge(name, "main")
        for name in NAMES:
            assert rows_of(self.graph, name) == self.lines[name].rows
        self.graph.close()
        return self.seen


def _without(line: OpenBranch, slugs: set[str]) -> OpenBranch:
    return OpenBranch({s: row for s, row in line.rows.items() if s not in slugs}, line.known)


@pytest.mark.local
@pytest.mark.timeout(120 + 4 * HISTORIES)
def test_no_merge_brings_back_what_was_deleted_or_undoes_an_edit(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEED, SEED + HISTORIES):
        history = History(tmp_path / str(seed), seed)
        try:
            seen += history.run()
        except BaseException as error:
            error.add_note(f"OMNIGRAPH_SEED={seed} OMNIGRAPH_CROSSING_HISTORIES=1")
            error.add_note("\n".join(history.steps))
            raise
    assert seen["crossed"] >= HISTORIES, seen
    assert seen["plain"] >= HISTORIES, seen
    # A conflict more is safe, but a merge that only asks would pass every test above.
    assert 10 * seen["needless"] <= seen["conflicts"], seen

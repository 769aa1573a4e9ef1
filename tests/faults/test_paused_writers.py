"""A writer that stops for longer than its lease, while others write and clean up.

Nothing it acknowledges may be missing, and nothing it made late may be seen.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.limits import LEASE_MARGIN_S, LEASE_S
from tests.faults.matrix import FULL
from tests.faults.paused import OPERATION, PausedWriter
from tests.faults.rig import ADD, new_graph, slots_of, state_of
from tests.places import AnyPath

AFTER_SLOT = (
    "publish.post_slot_pre_effect",
    "publish.pre_table_commit",
    "commit",
    "publish.post_table_commit",
    "publish.post_effects",
    "publish.pre_cas",
    "publish",
    "publish.post_manifest_commit",
    "publish.pre_slot_delete",
)
ADD_FIRM = "query add($s: String) { insert Firm { slug: $s } }"
BEFORE_SLOT = ("write.post_capture", "write.post_stage")
DRAWN = {
    ("publish.post_slot_pre_effect", "main", False),
    ("commit", "main", False),
    ("publish", "main", False),
    ("publish", "dev", False),
    ("write.post_stage", "main", True),
}


@pytest.fixture
def root(place: AnyPath) -> AnyPath:
    found = place / "g"
    new_graph(found)
    return found


@pytest.fixture
def writers() -> Iterator[list[PausedWriter]]:
    found: list[PausedWriter] = []
    yield found
    for writer in found:
        writer.kill()


def clean(graph: og.Graph) -> None:
    """Clean up; on a busy machine the short lease of these tests can lapse on the way."""
    for _turn in range(9):
        with contextlib.suppress(og.ConflictError):
            graph.cleanup(keep=1, grace=0, dry_run=False)
            return
    graph.cleanup(keep=1, grace=0, dry_run=False)


def check(root: AnyPath, branch: str, answer: dict[str, object], rows: set[str]) -> None:
    """What was acknowledged is in the lineage of the newest manifest, once, with its row."""
    with og.open(root, durability="none") as graph:
        commits = [c for c in graph.commits.list(branch) if c.operation_id == OPERATION]
        slugs = {slug for kind, slug in state_of(graph, branch=branch) if kind != "Knows"}
        assert rows <= slugs
        if "commit" in answer:
            assert [c.graph_commit_id for c in commits] == [answer["commit"]]
            assert commits[0].manifest_version == answer["version"]
        assert ("paused" in slugs) == (len(commits) == 1)
        # The branch is not stuck, and nothing waits for recovery.
        graph.mutate(ADD, {"s": "last"}, branch=branch)
        assert graph.maintenance.pending_writes() == []
        for commit in commits:
            if commit.manifest_version >= graph.commits.head(branch).manifest_version - 1:
                found = state_of(graph, version=commit.manifest_version, branch=branch)
                assert ("Person", "paused") in found
    assert slots_of(root) == []


@pytest.mark.parametrize("others", ["another table", "the same table"])
@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("stop_at", [*BEFORE_SLOT, *AFTER_SLOT])
def test_a_writer_that_slept_through_commits_and_a_cleanup(
    root: AnyPath,
    backend: str,
    writers: list[PausedWriter],
    stop_at: str,
    branch: str,
    others: str,
) -> None:
    same = others == "the same table"
    if not FULL and (stop_at, branch, same) not in DRAWN:
        pytest.skip("only in full runs")
    if backend == "local" and stop_at in AFTER_SLOT:
        pytest.skip("a stopped owner keeps its lock on a disk: the branch waits for it")
    with og.open(root, durability="none") as graph:
        if branch != "main":
            graph.branches.create(branch)
            graph.mutate(ADD, {"s": "first"}, branch=branch)
    sleeper = PausedWriter(root, stop_at, branch)
    writers.append(sleeper)
    sleeper.wait_until_stopped()
    rows = {f"other{number}" for number in range(4)}
    with og.open(root, durability="none") as graph:
        if backend == "s3":
            time.sleep(LEASE_S + 2 * LEASE_MARGIN_S)
        for slug in sorted(rows):
            graph.mutate(ADD if same else ADD_FIRM, {"s": slug}, branch=branch)
        clean(graph)
    check(root, branch, sleeper.go_on(), rows)

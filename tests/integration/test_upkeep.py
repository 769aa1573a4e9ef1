"""A handle that writes for long keeps its graph small and fast by itself."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, Pause, armed
from omnigraph.graph.upkeep import Caretaker
from omnigraph.limits import RETAIN_S, RETAIN_VERSIONS, RETAIN_VERSIONS_MAX
from omnigraph.ops.cleanup import Retention
from tests.places import AnyPath, files_below, names_in

SCHEMA = "node P { k: String @key  v: I64? }"
ADD = "query add($k: String) { insert P { k: $k } }"
SET = "query set_v($k: String, $v: I64) { update P set { v: $v } where k = $k }"
ALL = "query q() { match { $p: P } return { $p.k } }"
SOON = og.Upkeep(every_commits=20, keep=5, older_than_s=0, grace_s=0)


def versions(root: AnyPath) -> int:
    return len(names_in(root / "__manifest" / "_versions"))


def write(graph: og.Graph, count: int, *, start: int = 0, branch: str = "main") -> None:
    for number in range(start, start + count):
        graph.mutate(ADD, {"k": f"k{number}"}, branch=branch)


def test_versions_and_files_stay_few_while_writing(place: AnyPath) -> None:
    with og.init(place / "g", SCHEMA, durability="none", upkeep=SOON) as graph:
        write(graph, 60)
        graph.close()
        assert graph.maintenance.upkeep is not None
        assert graph.maintenance.upkeep.runs >= 1
        assert graph.maintenance.upkeep.last_error is None
    assert versions(place / "g") < 45
    with og.open(place / "g", durability="none") as graph:
        assert len(graph.query(ALL)) == 60
        assert len(graph.commits.list()) >= 61


def test_branches_that_were_written_to_are_looked_after(place: AnyPath) -> None:
    with og.init(place / "g", SCHEMA, durability="none", upkeep=SOON) as graph:
        graph.branches.create("dev")
        write(graph, 20, branch="dev")
        graph.close()
        assert graph.maintenance.upkeep is not None
        assert graph.maintenance.upkeep.last_error is None
    with og.open(place / "g", durability="none") as graph:
        assert "optimize" in {commit.kind for commit in graph.commits.list("dev")}
        assert len(graph.query(ALL, branch="dev")) == 20
        write(graph, 3, start=100, branch="dev")
        assert graph.branches.merge("dev").outcome == "fast_forward"
        assert len(graph.query(ALL)) == 23


def test_without_it_everything_stays(place: AnyPath) -> None:
    with og.init(place / "g", SCHEMA, durability="none", upkeep=False) as graph:
        assert graph.maintenance.upkeep is None
        write(graph, 25)
    assert versions(place / "g") >= 26
    og.open(place / "g", mode="ro").close()
    with og.open(place / "g", mode="ro") as graph:
        assert graph.maintenance.upkeep is None


def test_a_short_handle_starts_no_thread(place: AnyPath) -> None:
    with og.init(place / "g", SCHEMA, durability="none") as graph:
        write(graph, 3)
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if name.startswith("omnigraph-upkeep")]


def test_it_is_time_again_after_a_while(place: AnyPath) -> None:
    upkeep = og.Upkeep(every_s=0.001, keep=5, older_than_s=0, grace_s=0)
    with og.init(place / "g", SCHEMA, durability="none", upkeep=upkeep) as graph:
        write(graph, 2)
        graph.close()
        assert graph.maintenance.upkeep is not None
        assert graph.maintenance.upkeep.runs >= 1


def test_neither_writes_nor_branches_nor_tags_wait_for_it(place: AnyPath) -> None:
    pause = Pause()
    with og.init(place / "g", SCHEMA, durability="none", upkeep=SOON) as graph:
        with armed(Failpoint.CLEANUP_PRE_MANIFEST, pause):
            write(graph, 20)
            assert pause.reached.wait(30)
            write(graph, 5, start=100)
            graph.branches.create("dev")
            write(graph, 5, start=200, branch="dev")
            graph.tags.create("now")
            graph.branches.merge("dev")
            pause.released.set()
        graph.close()
        assert graph.maintenance.upkeep is not None
        assert graph.maintenance.upkeep.last_error is None
    with og.open(place / "g", durability="none") as graph:
        assert len(graph.query(ALL)) == 30
        assert len(graph.query(ALL, tag="now")) == 25


def test_a_failure_is_kept_and_fails_no_writer() -> None:
    def fail(_branches: frozenset[str]) -> None:
        raise og.StorageError("no disk")

    caretaker = Caretaker(og.Upkeep(every_commits=1), fail)
    caretaker.note_commit("main")
    caretaker.close()
    caretaker.note_commit("main")
    assert caretaker.last_error is not None
    assert caretaker.runs == 0


@pytest.mark.parametrize(
    "wrong", [{"every_commits": 0}, {"keep": 0}, {"every_s": 0.0}, {"most": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(og.BadRequestError):
        og.Upkeep(**wrong)  # type: ignore[arg-type]


def test_the_default_retention_is_by_count_and_by_age() -> None:
    assert Retention.of(None, None) == Retention(
        keep=RETAIN_VERSIONS, older_than_s=RETAIN_S, most=RETAIN_VERSIONS_MAX
    )
    assert og.Upkeep().retention() == Retention.of(None, None)
    assert Retention.of(3, None) == Retention(keep=3)


def test_files_stay_within_a_bound_while_writing(place: AnyPath) -> None:
    with og.init(place / "g", SCHEMA, durability="none", upkeep=SOON) as graph:
        write(graph, 1)
        counts = []
        for part in range(6):
            for number in range(20):
                graph.mutate(SET, {"k": "k0", "v": part * 100 + number})
            graph.cleanup(keep=5, grace=0, dry_run=False)
            counts.append(sum(1 for _ in files_below(place / "g")))
    assert max(counts[2:]) <= counts[1] + 60, counts


FILES_PER_STATE = 7
"""Of one row written to one table: a data file, a version and a transaction, for the table and for
the manifest; a seventh for the folding that happens now and then."""
FILES_OF_A_TABLE = 60


def test_files_follow_the_states_that_stay_not_the_commits_made(tmp_path: Path) -> None:
    upkeep = og.Upkeep(every_commits=20, keep=10, most=30, grace_s=0)
    counts: list[int] = []
    with og.init(tmp_path / "g", SCHEMA, durability="none", upkeep=upkeep) as graph:
        caretaker = graph.maintenance.upkeep
        assert caretaker is not None
        for part in range(8):
            write(graph, 20, start=part * 20)
            # What writers do while a run goes on is not what is counted here.
            caretaker.wait()
            counts.append(sum(1 for _ in files_below(tmp_path / "g")))
        assert caretaker.last_error is None
    bound = FILES_PER_STATE * (30 + 20) + FILES_OF_A_TABLE
    assert max(counts) <= bound, (bound, counts)


@pytest.mark.parametrize("later", [True, False])
def test_indexes_of_a_large_load_are_built_in_the_background(
    place: AnyPath, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    monkeypatch.setattr("omnigraph.graph.engine.LARGE_WRITE_ROWS", 25_000 if later else 25_001)
    rows = [{"type": "P", "data": {"k": f"k{number}"}} for number in range(25_000)]
    free = threading.Event()
    with og.init(place / "g", SCHEMA, durability="none") as graph:
        upkeep = graph.maintenance.upkeep
        assert upkeep is not None
        assert upkeep.begin(lambda: free.wait(60))
        graph.load(rows, mode="append")
        kinds = [commit.kind for commit in graph.commits.list()]
        assert ("optimize" in kinds) is not later
        assert len(graph.query(ALL)) == 25_000
        assert graph.get("P", "k24999") is not None
        free.set()
        upkeep.wait()
        assert "optimize" in [commit.kind for commit in graph.commits.list()]
        write(graph, 1, start=25_000)
        assert len(graph.query(ALL)) == 25_001
    assert not upkeep.begin(lambda: None), "nothing is begun after the end"


def test_a_handle_that_closes_waits_for_the_indexes(
    place: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.engine.LARGE_WRITE_ROWS", 1)
    rows = [{"type": "P", "data": {"k": f"k{number}"}} for number in range(25_000)]
    with og.init(place / "g", SCHEMA, durability="none") as graph:
        graph.load(rows, mode="append")
    with og.open(place / "g", mode="ro") as graph:
        assert "optimize" in [commit.kind for commit in graph.commits.list()]

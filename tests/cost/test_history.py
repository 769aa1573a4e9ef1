"""The cost of writes, opens and looks at history does not grow with the number of commits."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

import omnigraph as og
from omnigraph.commits.past import LANDMARK_ROWS
from omnigraph.limits import CHECKPOINT_ROWS, TAIL_FRAGMENTS
from omnigraph.ops import compact_tail as fold
from omnigraph.store import measured
from omnigraph.store.tables import journal
from tests.cost.measure import (
    add_person,
    assert_flat,
    cost_of_open,
    counted_bytes,
    is_plain,
    new_graph,
)

DEPTHS = (10, 100, 1_000)
WINDOW = 40
"""Inserts looked at per depth: more than a fold's period, so each window sees one."""
FOLD_STEPS = 8
"""What one fold more or less in a window adds to any counter."""
SLACK = 2
FRAGMENTS_MAX = 64
OLD = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)


@dataclass
class Depth:
    """What inserts cost once the graph has some number of commits."""

    commits: int
    plain: list[Mapping[str, int]] = field(default_factory=list)
    total: Counter[str] = field(default_factory=Counter)
    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    cold_open: Mapping[str, int] = field(default_factory=dict)
    cold_insert: Mapping[str, int] = field(default_factory=dict)
    manifest_fragments: int = 0
    table_fragments: int = 0

    def typical(self) -> dict[str, int]:
        """Return the median of every counter over the inserts that folded nothing."""
        names = {name for io in self.plain for name in io}
        return {name: int(median(io.get(name, 0) for io in self.plain)) for name in names}


@dataclass
class History:
    """One graph that grew to a thousand commits, with its costs on the way."""

    graph: og.Graph
    depths: list[Depth] = field(default_factory=list)
    inserted: int = 0

    def insert(self) -> Mapping[str, int]:
        self.inserted += 1
        return add_person(self.graph, f"p{self.inserted}").io

    def commits(self) -> int:
        return self.graph.snapshot().version - 1

    def measure(self) -> Depth:
        found = Depth(self.commits())
        for _number in range(WINDOW):
            with counted_bytes() as moved:
                io = self.insert()
            found.total.update(io)
            if is_plain(io):
                found.plain.append(io)
                found.read.append(moved.read)
                found.written.append(moved.written)
        found.cold_open = cost_of_open(self.graph.uri)
        with og.open(self.graph.uri, durability="none") as cold:
            found.cold_insert = add_person(cold, f"c{self.commits()}").io
        self.graph.refresh()
        found.manifest_fragments = len(_manifest_fragments(self.graph))
        found.table_fragments = _person_fragments(self.graph)
        return found


def _manifest_fragments(graph: og.Graph) -> list[object]:
    return list(graph._engine.lines.main.manifest.capture().view.dataset.get_fragments())


def _person_fragments(graph: og.Graph) -> int:
    pin = graph.snapshot().tables["node:Person"]
    return len(graph._engine.tables.open(pin.path, pin.version).fragments())


def _grow(folder: Path, depths: tuple[int, ...]) -> History:
    history = History(new_graph(folder))
    for depth in depths:
        # Folds make commits of their own, so the graph ends a little deeper than asked for.
        for _number in range(depth - history.commits()):
            history.insert()
        history.depths.append(history.measure())
    return history


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return _grow(tmp_path_factory.mktemp("history"), DEPTHS)


# ---- writes -------------------------------------------------------------------------------


def test_every_counter_of_a_warm_insert_is_flat(history: History) -> None:
    assert_flat([depth.typical() for depth in history.depths], slack=SLACK)


def test_a_warm_insert_stays_within_its_gates_at_every_depth(history: History) -> None:
    for depth in history.depths:
        for io in depth.plain:
            assert (io["schema_text_reads"], io["schema_exists"]) == (3, 2)
            assert io["publish_attempts"] == 1
            assert io.get("manifest_scans", 0) == io.get("manifest_opens", 0) == 0
            assert (io["slot_puts"], io["slot_deletes"], io["data_commits"]) == (1, 1, 1)
            assert io.get("data_opens_pinned", 0) + io.get("data_opens_latest", 0) == 0
            assert io.get("data_scans", 0) <= 2


def test_inserts_and_their_folds_together_are_flat(history: History) -> None:
    totals = [depth.total for depth in history.depths]
    # Before the first fold there is no index to ask, which saves a scan per insert.
    assert_flat(totals, slack=WINDOW + FOLD_STEPS)
    assert_flat(totals[1:], slack=FOLD_STEPS)


def test_bytes_read_by_an_insert_are_flat(history: History) -> None:
    typical = [median(depth.read) for depth in history.depths]
    assert max(typical) <= 1.5 * min(typical) + 4096, typical


def test_bytes_written_by_an_insert_are_flat(history: History) -> None:
    typical = [median(depth.written) for depth in history.depths]
    assert max(typical) <= 1.5 * min(typical) + 4096, typical


def test_the_first_insert_of_a_handle_is_flat(history: History) -> None:
    opens = [depth.cold_insert["data_opens_pinned"] for depth in history.depths]
    assert opens == [1] * len(DEPTHS)
    for depth in history.depths:
        # A new handle reads the tail of unindexed fragments once; folding bounds it.
        assert depth.cold_insert["data_scans"] <= TAIL_FRAGMENTS + 1
        assert depth.cold_insert.get("manifest_scans", 0) == 0


# ---- what lies on disk --------------------------------------------------------------------


def test_fragments_stay_few_whatever_the_history(history: History) -> None:
    for depth in history.depths:
        assert depth.manifest_fragments < FRAGMENTS_MAX
        assert depth.table_fragments < 2 * FRAGMENTS_MAX


def test_a_cold_open_reads_few_fragments_and_no_table(history: History) -> None:
    for depth in history.depths:
        assert depth.cold_open["manifest_opens"] == 1
        assert depth.cold_open["manifest_scans"] < FRAGMENTS_MAX
        assert (depth.cold_open["schema_text_reads"], depth.cold_open["schema_exists"]) == (3, 2)
        assert not [name for name in depth.cold_open if name.startswith("data_")]


# ---- looking at history -------------------------------------------------------------------


def test_a_warm_snapshot_is_one_probe_and_nothing_else(history: History) -> None:
    history.graph.snapshot()
    with measured() as io:
        history.graph.snapshot()
    assert dict(io) == {"manifest_latest_probes": 1}


def test_looking_at_the_newest_commits_reads_no_table_and_no_manifest(history: History) -> None:
    graph = history.graph
    newest = graph.snapshot()
    with measured() as io:
        commits = graph.commits.list(limit=100)
        graph.commits.get(commits[-1].graph_commit_id)
        graph.commits.head()
        graph.snapshot(version=newest.version - 50)
        graph.snapshot(commit=commits[50].graph_commit_id)
    assert len(commits) == 100
    assert set(io) == {"manifest_latest_probes"}
    assert io["manifest_latest_probes"] <= 5


def test_a_handle_holds_few_commits_whatever_the_history(history: History) -> None:
    commits = history.graph._engine.lines.main.manifest.history
    assert len(commits.recent.commits) < 2 * CHECKPOINT_ROWS
    assert len(history.graph.commits.list()) == history.graph.snapshot().version >= DEPTHS[-1]


def test_a_cold_open_decodes_few_rows_whatever_the_history(history: History) -> None:
    for depth in history.depths:
        assert depth.cold_open["manifest_rows"] <= CHECKPOINT_ROWS + LANDMARK_ROWS


@pytest.mark.parametrize(
    "look",
    [
        lambda graph: graph.commits.last_change("Person", "p1"),
        lambda graph: graph.snapshot(version=2),
        lambda graph: graph.feed.poll("beginning", limit=3),
        lambda graph: graph.commits.list(until=OLD, limit=2),
    ],
    ids=["blame", "state", "feed", "list"],
)
def test_looking_at_the_oldest_commits_reads_some_of_the_history(
    history: History, look: Callable[[og.Graph], object]
) -> None:
    with og.open(history.graph.uri, mode="ro") as graph, measured() as io:
        look(graph)
    # Some checkpoints, and the rows between two of them.
    assert io["manifest_rows"] <= 2 * CHECKPOINT_ROWS
    assert io["manifest_scans"] <= FRAGMENTS_MAX
    assert io["data_opens_pinned"] <= 6


def test_an_operation_that_never_was_is_told_by_checkpoints(history: History) -> None:
    manifest = history.graph._engine.lines.main.manifest
    checkpoints = history.commits() // (CHECKPOINT_ROWS // 4)
    with measured() as io:
        assert manifest.commit_of("never") is None
    assert io["manifest_rows"] <= checkpoints + len(history.depths)
    with measured() as io:
        assert manifest.commit_of("never, too") is None
    assert dict(io) == {}


def test_another_handle_takes_in_a_commit_by_reading_only_what_is_new(history: History) -> None:
    with og.open(history.graph.uri, durability="none") as other:
        history.insert()
        with measured() as io:
            other.snapshot()
        assert io["manifest_latest_probes"] == io["manifest_opens"] == 1
        assert io["manifest_scans"] == 1


# ---- the tests above can fail -------------------------------------------------------------


def test_without_folding_the_same_checks_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "TAIL_FRAGMENTS", 10**9)
    monkeypatch.setattr(journal, "JOURNAL_TIER_BASE", 10**9)
    history = _grow(tmp_path, (10, 100))
    first, last = history.depths
    assert last.manifest_fragments > last.commits
    assert last.table_fragments > last.commits
    with pytest.raises(AssertionError, match="data_scans is not flat"):
        assert_flat([first.cold_insert, last.cold_insert], slack=SLACK)
    with pytest.raises(AssertionError, match=r"manifest_\w+ is not flat"):
        assert_flat([first.cold_open, last.cold_open], slack=SLACK)
    with pytest.raises(AssertionError):
        test_fragments_stay_few_whatever_the_history(history)
    with pytest.raises(AssertionError):
        test_a_cold_open_reads_few_fragments_and_no_table(history)

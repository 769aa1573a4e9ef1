"""The models of what grows: writers that share publishes or queue, and rows that are shuffled."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from benchmarks import _writers_model
from benchmarks._scale_model import History, Shuffle, Versions
from benchmarks._writers_model import Store, simulate
from omnigraph.limits import GROUP_MEMBERS_MAX, ROWS_PER_FILE_MAX

NEAR = Store(trip_s=0.0006, publish_s=0.008, member_s=0.0005)
FAR = Store(trip_s=0.025, publish_s=0.008, member_s=0.0005)


def test_a_lone_writer_waits_for_its_own_publish_only() -> None:
    found = simulate(FAR, 1, seconds=5)
    assert found.wait_s == pytest.approx(11 * 0.025 + 0.008 + 0.0005)
    assert set(found.groups) == {1}
    assert found.requests_each == FAR.requests


@pytest.mark.parametrize("writers", [2, 8, 32])
def test_writers_of_a_branch_share_a_publish(writers: int) -> None:
    found = simulate(FAR, writers, seconds=20)
    # The first to come leads; the others come while it waits for the store.
    assert set(found.groups) == {writers}
    assert found.requests_each == FAR.requests / writers
    assert found.wait_s == pytest.approx(11 * 0.025 + 0.008 + 0.0005 * writers, rel=0.01)


def test_a_publish_takes_along_so_many_and_the_others_wait_for_the_next() -> None:
    found = simulate(FAR, 3 * GROUP_MEMBERS_MAX, seconds=30)
    assert max(found.groups) == GROUP_MEMBERS_MAX
    assert found.rate == pytest.approx(GROUP_MEMBERS_MAX / (11 * 0.025 + 0.008 + 0.032), rel=0.05)
    assert found.wait_s == pytest.approx(3 * GROUP_MEMBERS_MAX / found.rate, rel=0.05)


def test_branches_share_nothing_but_the_processor() -> None:
    found = simulate(FAR, 8, branches=8, seconds=20)
    assert set(found.groups) == {1}
    assert found.rate == pytest.approx(8 * simulate(FAR, 1, seconds=20).rate, rel=0.05)
    near = simulate(NEAR, 32, branches=32, seconds=20)
    assert near.rate == pytest.approx(1 / 0.0085, rel=0.02)


def test_a_store_that_answers_so_many_requests_is_the_limit_of_many_branches() -> None:
    busy = replace(FAR, request_s=1 / 500)
    found = simulate(busy, 64, branches=64, seconds=30)
    assert found.rate == pytest.approx(500 / busy.requests, rel=0.05)
    # One branch asks so seldom that it does not notice.
    assert simulate(busy, 64, seconds=30).rate > 4 * found.rate


def test_a_leader_waits_for_those_who_were_answered_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # They come back one after another; nothing else gives them time here.
    hasty = replace(NEAR, trips_before=0, trips_after=11, member_s=1e-5)
    found = simulate(hasty, 32, pause_s=0.0005, seconds=5)
    monkeypatch.setattr(_writers_model, "GATHER_SHARE", 0.0)
    apart = simulate(hasty, 32, pause_s=0.0005, seconds=5)
    assert statistics.fmean(found.groups) > 1.5 * statistics.fmean(apart.groups)
    assert found.rate > 1.5 * apart.rate


def test_a_task_sends_each_end_once() -> None:
    assert Shuffle.rows(1_000_000, 100, 1) == pytest.approx(100, rel=0.01)
    assert Shuffle.rows(1_000, 10_000_000, 4) == pytest.approx(4_000)
    fewer, more = (Shuffle.rows(1_000, 50_000, tasks) for tasks in (2, 50))
    assert fewer < more < 50_000


def test_a_history_has_the_bytes_it_was_made_from() -> None:
    costs = History.of(100, 1_000_000, 400, 4_800_000, 6.0)
    assert costs.disk(100) == pytest.approx(1_000_000)
    assert costs.disk(400) == pytest.approx(4_800_000)
    assert costs.disk(200) / 200 == pytest.approx(11_000)
    assert costs.reclaimed_files(30, 50) == 0


def test_a_version_names_every_file_of_rows() -> None:
    costs = Versions.of(ROWS_PER_FILE_MAX, 1_100, 3 * ROWS_PER_FILE_MAX, 1_300)
    assert costs.disk(10 * ROWS_PER_FILE_MAX) == pytest.approx(2_000)
    assert costs.disk(10 * ROWS_PER_FILE_MAX + 1) == pytest.approx(2_100)

"""When a worker hangs: judged by its beats, and never for a time nobody looked."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.server.sharing import Counts
from omnigraph.server.silence import Silence


def test_beats_are_kept_apart_from_connections(tmp_path: Path) -> None:
    path = str(tmp_path / "counts")
    ours, theirs = Counts(path, 2), Counts(path, 2)
    ours.set(1, 7)
    ours.beat(1)
    ours.beat(1)
    assert [theirs.beats(worker) for worker in (0, 1)] == [0, 2]
    assert [theirs.get(worker) for worker in (0, 1)] == [0, 7]
    theirs.leave(1)
    assert ours.beats(1) == 2


def test_only_a_worker_that_stays_silent_hangs() -> None:
    silence = Silence(5.0)
    for second in range(6):
        assert silence.look(second, {0: second, 1: 1}) == {}
    assert silence.look(6.0, {0: 6, 1: 1}) == {1: 6.0}


def test_a_beat_just_in_time_is_enough() -> None:
    silence = Silence(2.0)
    moments = [(0.0, 1), (1.0, 1), (2.0, 1), (3.0, 2), (4.0, 2), (5.0, 2)]
    assert [silence.look(now_s, {0: count}) for now_s, count in moments] == [{}] * 6


def test_a_replaced_worker_begins_anew() -> None:
    silence = Silence(2.0)
    silence.look(0.0, {0: 1})
    silence.look(1.0, {0: 1})
    assert silence.look(2.0, {}) == {}
    assert silence.look(3.0, {0: 1}) == {}
    assert silence.look(4.0, {0: 1}) == {}


@pytest.mark.parametrize("away_s", [10.0, 3600.0])
def test_nothing_is_held_against_workers_while_nobody_looked(away_s: float) -> None:
    silence = Silence(5.0)
    silence.look(0.0, {0: 1, 1: 1})
    assert silence.look(away_s, {0: 1, 1: 1}) == {}
    assert silence.look(away_s + 1, {0: 2, 1: 1}) == {}
    late = [silence.look(away_s + second, {0: 2 + second, 1: 1}) for second in range(2, 7)]
    assert [sorted(found) for found in late] == [[], [], [], [], [1]]

"""Which workers have been silent for too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from omnigraph.limits import WORKER_LOOK_S

_MISSED_LOOKS_MAX: Final = 3


class Silence:
    """Judges by beats alone: the clocks of workers are not asked.

    Who has not looked for a while was stopped itself, perhaps with its workers, as when a machine
    sleeps or a container is paused. Then nothing is held against them, and the time begins anew.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._looked_s: float | None = None
        self._heard: dict[int, tuple[int, float]] = {}

    def look(self, now_s: float, beats: Mapping[int, int]) -> dict[int, float]:
        """Return how long workers have been silent, of those for whom it is too long.

        One that is not among the beats, because it is being started, begins anew.
        """
        looked_s, self._looked_s = self._looked_s, now_s
        was_away = looked_s is not None and now_s - looked_s > _MISSED_LOOKS_MAX * WORKER_LOOK_S
        before = {} if was_away else self._heard
        self._heard = {
            worker: heard
            if (heard := before.get(worker)) is not None and heard[0] == count
            else (count, now_s)
            for worker, count in beats.items()
        }
        silent = {worker: now_s - heard_s for worker, (_count, heard_s) in self._heard.items()}
        return {worker: long for worker, long in silent.items() if long > self._seconds_max}

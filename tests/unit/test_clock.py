"""Time is asked for in one place, so what depends on it is tested without waiting."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest

from omnigraph import clock
from omnigraph.errors import ResourceLimitError
from omnigraph.graph.upkeep import Caretaker, Upkeep
from omnigraph.limits import LEASE_MARGIN_S, LEASE_S
from omnigraph.read.running import QueryControl
from omnigraph.store.files.object_files import ObjectFiles, Tag
from omnigraph.store.slots import leases
from omnigraph.store.slots.leases import LeasedSlots
from tests.movable_clock import MovableClock

DAY_S = 86_400.0


def test_the_clock_of_the_machine_tells_the_time() -> None:
    assert abs(clock.now_us() / 1e6 - time.time()) < 60
    assert abs(clock.now_s() - time.time()) < 60
    before = clock.elapsed_s()
    clock.sleep(0.001)
    assert clock.elapsed_s() - before >= 0.001


def test_another_clock_holds_for_every_thread_until_the_block_ends() -> None:
    found: list[float] = []
    moved = MovableClock()
    before = clock.now_s()
    with clock.using(moved):
        moved.advance(DAY_S)
        clock.sleep(DAY_S)
        thread = threading.Thread(target=lambda: found.append(clock.now_s() - before))
        thread.start()
        thread.join()
    assert 2 * DAY_S <= found[0] < 2 * DAY_S + 60
    assert clock.now_s() - before < 60


def test_a_query_has_its_time_by_the_clock() -> None:
    moved = MovableClock()
    with clock.using(moved):
        running = QueryControl(timeout_s=5.0)
        running.check()
        moved.advance(6.0)
        with pytest.raises(ResourceLimitError):
            running.check()


def test_upkeep_is_due_when_its_time_has_passed() -> None:
    moved, works = MovableClock(), list[frozenset[str]]()
    with clock.using(moved):
        caretaker = Caretaker(Upkeep(every_commits=1_000, every_s=DAY_S), works.append)
        caretaker.note_commit("main")
        assert not works
        moved.advance(DAY_S)
        caretaker.note_commit("dev")
        caretaker.note_commit("dev")
        caretaker.close()
    assert works == [frozenset({"main", "dev"})]


# ---- leases -------------------------------------------------------------------------------


class _Slots:
    """Slots of owners that are all dead: their content never changes."""

    def __init__(self, names: list[str]) -> None:
        self.contents = {f"slots/{name}": b"nonce\nbody" for name in names}

    def get(self, name: str) -> tuple[bytes, Tag] | None:
        found = self.contents.get(name)
        return None if found is None else (found, cast("Tag", "same"))

    def tag(self, name: str) -> Tag | None:
        found = self.get(name)
        return None if found is None else found[1]


def _leased(names: list[str]) -> tuple[LeasedSlots, _Slots]:
    files = _Slots(names)
    return LeasedSlots("slots", cast("ObjectFiles", files)), files


def test_an_owner_is_dead_when_its_lease_has_passed_by_the_clock() -> None:
    slots, files = _leased(["a"])
    moved = MovableClock()
    with clock.using(moved):
        assert slots.peek("a") == (b"body", True)
        moved.advance(LEASE_S)
        assert slots.peek("a") == (b"body", True)
        moved.advance(LEASE_MARGIN_S)
        assert slots.peek("a") == (b"body", False)
        files.contents.clear()
        assert slots.peek("a") is None
        assert len(slots._seen) == 0


def test_waiting_for_slots_takes_no_longer_than_the_clock_says() -> None:
    slots, _files = _leased(["a", "b"])
    with clock.using(MovableClock()):
        slots.wait_until_known(["a", "b", "gone"])
        assert [slots.peek(name) for name in ("a", "b")] == [(b"body", False)] * 2
        assert slots.wait("a", timeout_s=1.0)


def test_more_slots_than_are_remembered_are_settled_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leases, "SLOTS_SEEN_MAX", 2)
    names = [f"s{number}" for number in range(5)]
    slots, _files = _leased(names)
    with clock.using(MovableClock()):
        slots.wait_until_known(names)
        assert len(slots._seen) == 2
        assert slots.peek("s4") == (b"body", False)
        # Forgotten, so watched anew: a slot is never taken from an owner that may live.
        assert slots.peek("s0") == (b"body", True)

"""A server that has grown, or shrunk, gives back what nothing is in."""

from __future__ import annotations

import threading

import pytest

from omnigraph.server import memory

MIB = 1024 * 1024


def test_memory_is_given_back_when_it_has_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[str, int | None] = {"mib": 100}
    looks, given_back = threading.Semaphore(0), list[int]()

    def resident() -> int | None:
        looks.release()
        return None if held["mib"] is None else held["mib"] * MIB

    def give_back() -> None:
        assert held["mib"] is not None
        given_back.append(held["mib"])
        held["mib"] -= 10

    def wait_for_looks() -> None:
        while looks.acquire(blocking=False):
            pass  # Those were before.
        for _look in range(6):
            assert looks.acquire(timeout=20)

    monkeypatch.setattr(memory, "SERVER_MEMORY_LOOK_S", 0.005)
    monkeypatch.setattr(memory, "SERVER_MEMORY_KEPT_BYTES", 8 * MIB)
    # What tests leave behind is not to stay for ever.
    monkeypatch.setattr("omnigraph.server.memory.gc.freeze", lambda: None)
    before = set(threading.enumerate())
    memory.give_memory_back(resident, give_back)
    (thread,) = (item for item in set(threading.enumerate()) - before if item.name == "memory")
    wait_for_looks()
    assert given_back == []
    held["mib"] = 107
    wait_for_looks()
    assert given_back == [], "8 MiB more is not worth it"
    held["mib"] = 120
    wait_for_looks()
    assert given_back == [120]
    held["mib"] = 105
    wait_for_looks()
    assert given_back == [120]
    held["mib"] = 90
    wait_for_looks()
    assert given_back == [120, 90], "where much was freed, there are holes"
    held["mib"] = 92
    wait_for_looks()
    assert given_back == [120, 90, 92], "it has grown since then"
    # The thread ends where nothing can be asked any more.
    held["mib"] = None
    thread.join(20)
    assert not thread.is_alive()


def test_the_memory_of_this_process_is_known() -> None:
    found = memory.resident_bytes()
    assert found is not None
    assert found > 10 * MIB

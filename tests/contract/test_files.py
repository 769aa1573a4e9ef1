"""What every kind of storage does with files, and with slots: one suite for all of them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph as og
from omnigraph.store import Durability, Location, Slots, Syncer, locate, open_slots
from omnigraph.store.slots import leases
from omnigraph.store.upkeep.reclaim import datasets_below
from tests.places import AnyPath

REPLACED = 60


@pytest.fixture
def location(place: AnyPath) -> Location:
    return locate(place)


def test_a_file_is_made_once(location: Location) -> None:
    files, path = location.files, location.path("folder", "a.json")
    assert files.read(path) is None
    assert not files.exists(path)
    assert files.create(path, b"first", sync=False)
    assert not files.create(path, b"second", sync=False)
    assert files.read(path) == b"first"
    assert files.exists(path)


def test_a_file_is_replaced_and_removed(location: Location) -> None:
    files, path = location.files, location.path("a")
    for content in (b"one", b"", b"three"):
        files.replace(path, content, sync=False)
        assert files.read(path) == content
    for _repetition in range(2):
        files.delete(path)
    assert files.read(path) is None


def test_folders_are_listed_one_level_deep(location: Location) -> None:
    files, tree = location.files, location.path("tree")
    files.replace(location.path("beside"), b"x", sync=False)
    assert files.folders(tree) == []
    for name in ("b/x", "é/y/z", "a b/_versions/1", "file"):
        files.replace(f"{tree}/{name}", b"x", sync=False)
    assert files.folders(tree) == ["a b", "b", "é"]
    assert files.folders(f"{tree}/é") == ["y"]


def test_only_empty_folders_go_with_the_last_file_in_them(location: Location) -> None:
    files, tree = location.files, location.path("tree")
    for name in ("a/b/c/x", "a/d"):
        files.replace(f"{tree}/{name}", b"four", sync=False)
    assert files.remove(f"{tree}/a/b/c") == 4
    files.remove_empty(f"{tree}/a/b", below=tree)
    assert not files.has_folder(f"{tree}/a/b")
    assert files.read(f"{tree}/a/d") == b"four"
    files.delete(f"{tree}/a/d")
    files.remove_empty(f"{tree}/a", below=tree)
    assert not files.has_folder(f"{tree}/a")


@pytest.mark.parametrize("name", ["plain", "a b", "é", "100%25", "x@y.json", "a%2Fb.json"])
def test_names_stay_as_they_are(location: Location, name: str) -> None:
    files, path = location.files, location.path("folder", name)
    assert files.create(path, b"x", sync=False)
    assert files.names(location.path("folder")) == [name]
    assert list(files.below(location.root)) == [path]
    assert files.read(path) == b"x"


def test_a_folder_shows_what_lies_in_it(location: Location) -> None:
    files = location.files
    assert files.names(location.path("folder")) == []
    assert not files.has_folder(location.path("folder"))
    for name in ("b", "a", "below/c"):
        files.replace(location.path("folder", *name.split("/")), name.encode(), sync=False)
    assert {"a", "b"} <= set(files.names(location.path("folder"))) <= {"a", "b", "below"}
    assert files.has_folder(location.path("folder", "below"))
    assert not files.has_folder(location.path("fold"))
    found = {item.path: item for item in files.entries(location.path("folder"))}
    assert {location.path("folder", "a"), location.path("folder", "below", "c")} <= set(found)
    assert sum(item.size_bytes for item in found.values()) == len("babelow/c")
    assert all(abs(time.time() - item.changed_at_s) < 600 for item in found.values())
    assert files.remove(location.path("folder")) == len("babelow/c")
    assert list(files.below(location.root)) == []


def test_an_empty_folder_can_be_seen(location: Location) -> None:
    location.files.make_folder(location.path("table", "_versions"))
    assert location.files.has_folder(location.path("table", "_versions"))
    location.files.remove(location.path("table"))
    assert not location.files.has_folder(location.path("table"))


def test_datasets_are_found_with_the_time_of_their_last_change(location: Location) -> None:
    files = location.files
    for name in ("tree/a.1/_versions/1", "tree/a.1/data/1", "tree/b/c.2/_versions/1"):
        files.replace(location.path(*name.split("/")), b"x", sync=False)
    found = datasets_below(files, location.path("tree"))
    assert set(found) == {location.path("tree", "a.1"), location.path("tree", "b", "c.2")}
    assert all(abs(time.time() - changed) < 600 for changed in found.values())


def test_a_part_of_a_file_is_read(location: Location) -> None:
    files, path = location.files, location.path("a")
    assert files.read(path, 0, 3) is None
    files.replace(path, b"0123456789", sync=False)
    assert files.read(path, 0, 3) == b"012"
    assert files.read(path, 4, 2) == b"45"
    assert files.read(path, 8, 9) == b"89"


def test_a_tag_changes_with_the_content(location: Location) -> None:
    files, path = location.files, location.path("a")
    files.replace(path, b"one", sync=False)
    tags = files.tags(location.root)
    if tags is None:
        pytest.skip("this storage has no tags")
    read = files.read_tagged(path)
    assert read == (b"one", tags["a"])
    files.replace(path, b"two", sync=False)
    assert (files.tags(location.root) or {})["a"] != tags["a"]


def test_storage_keeps_its_conditions(location: Location) -> None:
    for _repetition in range(2):
        assert location.files.keeps_conditions(location.path("probe"))


# ---- slots --------------------------------------------------------------------------------


@pytest.fixture
def slots(location: Location, monkeypatch: pytest.MonkeyPatch) -> Slots:
    monkeypatch.setattr(leases, "LEASE_S", 0.6)
    monkeypatch.setattr(leases, "LEASE_MARGIN_S", 0.1)
    monkeypatch.setattr(leases, "LEASE_POLL_S", 0.05)
    return open_slots(location, Syncer(Durability.NONE))


NAME = "main@1.json"


def test_a_slot_has_one_owner(slots: Slots) -> None:
    assert slots.peek(NAME) is None
    held = slots.take(NAME, b"mine")
    assert held is not None
    with held:
        assert slots.take(NAME, b"yours") is None
        assert slots.seize(NAME) is None
        assert slots.peek(NAME) == (b"mine", True)
        assert slots.names() == [NAME]
        assert slots.exists(NAME)
        held.rewrite(b"changed")
        assert slots.peek(NAME) == (b"changed", True)
        assert not held.lapsed
        held.remove()
    assert not slots.exists(NAME)
    again = slots.take(NAME, b"again")
    assert again is not None
    again.remove()


def test_a_living_owner_is_left_alone_however_long_it_works(slots: Slots) -> None:
    held = slots.take(NAME, b"mine")
    assert held is not None
    with held:
        assert not slots.wait(NAME, timeout_s=1.5)
        slots.wait_until_known([NAME])
        assert slots.seize(NAME) is None
        assert not held.lapsed
        held.remove()


def test_the_slot_of_a_dead_owner_is_taken_over(slots: Slots) -> None:
    held = slots.take(NAME, b"mine")
    assert held is not None
    held.close()
    assert slots.wait(NAME, timeout_s=30)
    seized = slots.seize(NAME)
    assert seized is not None
    with seized:
        assert seized.body == b"mine"
        assert slots.seize(NAME) is None
        seized.remove()
    assert slots.names() == []


def test_who_waits_goes_on_when_the_slot_is_gone(slots: Slots) -> None:
    held = slots.take(NAME, b"mine")
    assert held is not None
    with held:
        timer = threading.Timer(0.2, held.remove)
        timer.start()
        assert slots.wait(NAME, timeout_s=30)
        timer.join()
    assert slots.wait("never@there.json", timeout_s=0.1)


def test_settling_tells_the_dead_from_the_living(slots: Slots) -> None:
    living, dead = slots.take(NAME, b"living"), slots.take("dead@1.json", b"dead")
    assert living is not None
    assert dead is not None
    with living:
        dead.close()
        slots.wait_until_known(slots.names())
        assert slots.peek(NAME) == (b"living", True)
        assert slots.peek("dead@1.json") == (b"dead", False)
        living.remove()


def test_one_of_many_takes_a_slot(slots: Slots) -> None:
    found: list[object] = []

    def take(number: int) -> None:
        found.append(slots.take(NAME, str(number).encode()))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [held for held in found if held is not None]
    assert len(found) == 6
    winner.remove()  # type: ignore[attr-defined]  # it is a slot


# ---- leases -------------------------------------------------------------------------------


def test_an_owner_that_was_out_for_too_long_leaves_its_successors_slot(
    slots: Slots, backend: str
) -> None:
    """F5: its own slot may be another's by now."""
    if backend == "local":
        pytest.skip("a lock goes with its process")
    late = slots.take(NAME, b"late")
    assert isinstance(late, leases.LeasedSlot)
    # As if its process had slept.
    late._renewed -= 10
    late.remove()
    assert slots.exists(NAME)
    with pytest.raises(og.ConflictError, match="took over"):
        _overtaken(slots, late)


def _overtaken(slots: Slots, late: leases.LeasedSlot) -> None:
    assert slots.wait(NAME, timeout_s=30)
    owner = slots.seize(NAME)
    assert owner is not None
    with owner:
        try:
            late.rewrite(b"too late")
        finally:
            assert slots.peek(NAME) == (b"late", True)
            owner.remove()


def test_of_many_who_saw_the_same_content_one_replaces_it(location: Location) -> None:
    files, path = location.files, location.path("counter")
    assert not files.replace_if(path, b"0 0", b"1 0", sync=False)
    assert files.replace_if(path, None, b"0 0", sync=False)
    assert not files.replace_if(path, None, b"1 0", sync=False)
    won: list[int] = []

    def count(worker: int) -> None:
        # A bucket takes equal content for the same put, repeated: each worker puts its own.
        while True:
            before = files.read(path)
            assert before is not None
            number = int(before.split()[0]) + 1
            if number > REPLACED:
                return
            if files.replace_if(path, before, f"{number} {worker}".encode(), sync=False):
                won.append(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert sorted(won) == list(range(1, REPLACED + 1)), "each number was written by one"

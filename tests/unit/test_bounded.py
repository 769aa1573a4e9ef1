"""The one cache: it never holds more than its limit, whatever is put into it."""

from __future__ import annotations

import random
import threading

import pytest

from omnigraph.bounded import BoundedCache


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get("a") == 0
    assert "b" in cache
    cache.put("d", 3)
    assert list(cache) == ["a", "b", "d"]
    assert (cache.get("c"), cache.values(), len(cache)) == (None, [0, 1, 3], 3)


def test_many_values_are_looked_up_as_single_ones_are() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get_all("bxab") == [1, None, 0, 1]
    assert (cache.hits, cache.misses) == (3, 1)
    assert list(cache) == ["c", "a", "b"]


def test_weights_count_instead_of_numbers() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10)
    cache.put("a", "A", 6)
    cache.put("b", "B", 4)
    cache.put("a", "A again", 2)
    assert (cache.weight, list(cache)) == (6, ["b", "a"])
    cache.put("c", "C", 5)
    assert (cache.weight, list(cache)) == (7, ["a", "c"])


def test_a_value_heavier_than_the_limit_takes_no_other_with_it() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10)
    cache.put("a", "A", 6)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b"), cache.weight) == ("A", None, 6)
    cache.put("a", "A", 11)
    assert (len(cache), cache.weight) == (0, 0)


def test_a_value_that_grows_makes_others_go() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    cache.reweigh("b", 7)
    assert (list(cache), cache.weight) == (["b"], 7)
    cache.reweigh("gone", 5)
    cache.reweigh("b", 11)
    assert (list(cache), cache.weight) == ([], 0)


def test_a_value_can_be_taken_out() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    assert (cache.pop("a"), cache.pop("a"), cache.weight) == (1, None, 0)


def test_looks_are_counted() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    assert [cache.get(key) for key in "aba"] == [1, None, 1]
    assert (cache.hits, cache.misses) == (2, 1)


def test_a_cache_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room"):
        BoundedCache[str, int](0)


def test_threads_never_make_it_hold_more_than_its_limit() -> None:
    cache: BoundedCache[int, int] = BoundedCache(50)
    failures: list[object] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - a test
        for _turn in range(2_000):
            key = chance.randrange(100)
            match chance.randrange(4):
                case 0:
                    cache.put(key, key, chance.randrange(1, 20))
                case 1:
                    cache.reweigh(key, chance.randrange(1, 20))
                case 2:
                    cache.pop(key)
                case _:
                    found = cache.get(key)
                    if found not in (None, key) or cache.weight > cache.limit:
                        failures.append((key, found, cache.weight))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.weight <= cache.limit
    for key in cache:
        cache.pop(key)
    assert cache.weight == 0

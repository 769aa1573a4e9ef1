"""What queries keep in memory stays under its budget."""

from __future__ import annotations

import pytest

from omnigraph.errors import ResourceLimitError
from omnigraph.read.columns import ResidentCache


def test_the_least_recently_used_value_goes_first() -> None:
    cache = ResidentCache(bytes_max=10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_replacing_a_value_frees_its_place() -> None:
    cache = ResidentCache(bytes_max=10)
    for size in (10, 9, 2):
        cache.put("a", size, size)
    cache.put("b", "B", 8)
    assert (cache.get("a"), cache.get("b")) == (2, "B")


def test_a_value_that_never_fits_is_refused() -> None:
    cache = ResidentCache(bytes_max=10)
    cache.put("a", "A", 10)
    with pytest.raises(ResourceLimitError):
        cache.put("b", "B", 11)
    assert cache.get("a") == "A"


def test_the_lock_of_a_value_lasts_as_long_as_a_reader_needs_it() -> None:
    cache = ResidentCache()
    with cache.turn("a") as _held:
        assert cache.turn("a").locked()
        assert not cache.turn("b").locked()
    assert not cache.turn("a").locked()
    assert len(cache._turns) == 0


def test_the_newest_versions_known_stay_below_their_limit() -> None:
    cache = ResidentCache(newest_max=3)
    for number in range(10):
        cache.newest.put(("table", f"column {number}"), (number, (), 0))
    assert [key for key in range(10) if ("table", f"column {key}") in cache.newest] == [7, 8, 9]

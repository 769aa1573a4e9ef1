"""Ids are found by their bytes, wherever their array begins."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.limits import LANDMARK_KEYS
from omnigraph.read.columns import KeyMap

IDS = ["b", "", "ä", "a", "ab", "日本", "\U0001f600", "z\x00", "z"]


@pytest.mark.parametrize("start", [0, 1, 4, len(IDS)])
def test_every_id_of_a_slice_is_found_and_no_other(start: int) -> None:
    keys = KeyMap(pa.array(IDS, pa.string()).slice(start))
    for number, name in enumerate(IDS):
        assert keys.find(name) == (number - start if number >= start else -1)
    # The last is no text that can be stored.
    for name in ("aa", "zz", "c", "\ud800"):
        assert keys.find(name) == -1


def test_ids_that_were_added_are_found_beside_the_others() -> None:
    ids = pa.array(IDS, pa.string())
    grown = KeyMap(ids, KeyMap(ids.slice(0, 5)))
    assert [grown.find(name) for name in IDS] == list(range(len(IDS)))
    assert grown.find("c") == -1


@pytest.mark.parametrize("size", [1, LANDMARK_KEYS - 1, LANDMARK_KEYS, LANDMARK_KEYS + 1, 1000])
def test_ids_at_and_between_landmarks_are_found_and_no_other(size: int) -> None:
    names = [f"{number * 11 % size:04}" for number in range(size)]
    keys = KeyMap(pa.array(names, pa.string()))
    assert [keys.find(name) for name in names] == list(range(size))
    # One before the first, one behind each.
    assert {keys.find(name) for name in ("", *(f"{name}+" for name in names))} == {-1}

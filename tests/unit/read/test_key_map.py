"""Ids are found by their bytes, wherever their array begins."""

from __future__ import annotations

import pyarrow as pa
import pytest

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

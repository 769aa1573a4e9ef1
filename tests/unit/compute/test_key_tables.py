"""Texts are found where they stand, whatever their length and bytes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.compute.key_tables import TextTable
from omnigraph.limits import JOIN_CHUNK_ROWS, JOINED_TEXT_BYTES_MAX

# Few letters, so that texts meet; one is of two bytes, and one is what texts are filled up with.
LETTERS = st.sampled_from("ab\0ä")
TEXTS = st.text(LETTERS, max_size=18) | st.text(LETTERS, min_size=60, max_size=70)


@given(
    known=st.lists(st.none() | TEXTS, max_size=30, unique=True),
    asked=st.lists(st.none() | TEXTS, max_size=30),
    start=st.integers(0, 5),
    large=st.booleans(),
)
def test_a_text_is_found_at_its_place_and_no_other(
    known: list[str | None], asked: list[str | None], start: int, large: bool
) -> None:
    kind = pa.large_string() if large else pa.string()
    table = TextTable(pa.array(known, kind).slice(start))
    known = known[start:]
    chunks = pa.chunked_array([asked[:7], asked[7:], known], kind)
    wanted = [-1 if text is None or text not in known else known.index(text) for text in
              (*asked, *known)]  # fmt: skip
    assert table.find(chunks).tolist() == wanted
    assert table.find(chunks.combine_chunks().slice(2)).tolist() == wanted[2:]


@pytest.mark.parametrize("width", [4, 26, JOINED_TEXT_BYTES_MAX, JOINED_TEXT_BYTES_MAX + 1])
def test_many_texts_are_found_by_several_threads(width: int) -> None:
    size = 5 * JOIN_CHUNK_ROWS
    texts = [f"{number:x}".rjust(width, "-") for number in range(size)]
    found = TextTable(pa.array(texts[::2])).find(pa.array(texts))
    assert found[::2].tolist() == list(range(len(texts[::2])))
    assert set(found[1::2].tolist()) == {-1}


@given(texts=st.lists(st.none() | TEXTS, max_size=20), start=st.integers(0, 3))
def test_a_text_that_stands_twice_is_noticed(texts: list[str | None], start: int) -> None:
    given_texts = [text for text in texts[start:] if text is not None]
    table = TextTable(pa.array(texts, pa.string()).slice(start))
    assert table.has_duplicates() == (len(set(given_texts)) < len(given_texts))

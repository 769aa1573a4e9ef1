"""Ranges of a file tile its lines: each line is read by exactly one task."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.spark import parse


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from([b"", b"x", b"yy", b"\xc3\xa9", b"long line"]), max_size=6),
    st.booleans(),
    st.sets(st.integers(1, 30), max_size=4),
)
def test_every_line_is_read_once_wherever_the_file_is_cut(
    monkeypatch: pytest.MonkeyPatch, lines: list[bytes], ended: bool, cuts: set[int]
) -> None:
    text = b"\n".join(lines) + (b"\n" if ended else b"")
    monkeypatch.setattr(parse, "open_file", lambda _path: io.BytesIO(text))
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    parts = [
        parse.lines_starting_in("a.jsonl", start, stop) for start, stop in itertools.pairwise(edges)
    ]
    assert b"".join(parts) == text
    for part in parts[:-1]:
        assert part.endswith(b"\n") or not part or part == text[-len(part) :]


@pytest.mark.parametrize(
    ("start", "stop", "found"),
    [
        (0, 1, b"ab\n"),
        (1, 3, b""),
        (3, 4, b"c\n"),
        (2, 6, b"c\nlast"),
        (5, 9, b"last"),
        (6, 9, b""),
    ],
)
def test_a_range_has_the_lines_that_begin_in_it(
    monkeypatch: pytest.MonkeyPatch, start: int, stop: int, found: bytes
) -> None:
    monkeypatch.setattr(parse, "open_file", lambda _path: io.BytesIO(b"ab\nc\nlast"))
    assert parse.lines_starting_in("a.jsonl", start, stop) == found

"""CSV files are read in chunks, and cut between records, whatever quotes they have."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.intake.csv_files import csv_chunks, csv_header, record_starts, scan_stretch
from omnigraph.intake.records import Chunk, CsvForm

FORM = CsvForm()
PARTS = ['"', '""', ",", "\n", "\r\n", "\r", "x", "yy", "é", '"a\nb"', "1,2\n", '"c","d"\n', " "]


def _read(raw: bytes, **more: Any) -> list[Chunk]:
    return list(csv_chunks(io.BytesIO(raw), FORM, **more))


def _seen(chunks: list[Chunk], before: int = 0) -> tuple[list[Any], list[Any]]:
    """Return records with their lines, and problems with theirs."""
    rows = [
        (before + int(line), *row)
        for chunk in chunks
        if chunk.records.table is not None
        for line, row in zip(
            chunk.records.lines,
            zip(*chunk.records.table.to_pydict().values(), strict=True),
            strict=True,
        )
    ]
    problems = [
        (before + item.line if item.line is not None else None, item.message)
        for chunk in chunks
        for item in chunk.problems.items
    ]
    return rows, problems


def _cut(raw: bytes, step: int) -> list[int]:
    handle = io.BytesIO(raw)
    stretches = [
        scan_stretch(handle, FORM, start, min(start + step, len(raw)), len(raw))
        for start in range(0, len(raw), step)
    ]
    return [start for start in record_starts(stretches) if start < len(raw)] or [0]


def _read_in_pieces(raw: bytes, step: int) -> tuple[list[Any], list[Any], int]:
    starts = _cut(raw, step)
    header = csv_header(io.BytesIO(raw), FORM)
    rows: list[Any] = []
    problems: list[Any] = []
    before = 0
    for start, stop in zip(starts, [*starts[1:], len(raw)], strict=True):
        handle = io.BytesIO(raw)
        handle.seek(start)
        known = header if start else None
        chunks = list(csv_chunks(handle, FORM, header=known, size_bytes=stop - start))
        found = _seen(chunks, before)
        rows += found[0]
        problems += found[1]
        before += chunks[-1].lines if chunks else 0
        if any(chunk.broken for chunk in chunks):
            break
    return rows, problems, len(starts)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(PARTS), max_size=60), st.integers(1, 12))
def test_a_file_that_is_cut_holds_the_same_records(parts: list[str], step: int) -> None:
    raw = ("a,b\n" + "".join(parts)).encode()
    rows, problems, _pieces = _read_in_pieces(raw, step)
    assert (rows, problems) == _seen(_read(raw))


def test_text_that_looks_like_records_inside_quotes_is_not_cut() -> None:
    inner = "1,2\n" * 50
    raw = f'a,b\n"{inner}",x\n3,4\n5,6\n'.encode()
    rows, problems, pieces = _read_in_pieces(raw, 16)
    assert [row[1:] for row in rows] == [(inner, "x"), ("3", "4"), ("5", "6")]
    assert [row[0] for row in rows] == [2, 53, 54]
    assert (problems, pieces) == ([], 2)


def test_a_quote_inside_a_value_that_has_none_around_it_is_a_character() -> None:
    raw = b'a,b\n5" pipe,x\n6" pipe,y\n7,z\n'
    rows, problems, pieces = _read_in_pieces(raw, 12)
    assert [row[1] for row in rows] == ['5" pipe', '6" pipe', "7"]
    assert problems == []
    assert pieces == 3


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_chunks_hold_all_records_with_their_lines(
    monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("omnigraph.intake.csv_files.LOAD_BLOCK_BYTES", 16)
    raw = ending.join(["a,b", *(f'{n},"v{ending}{n}"' for n in range(20)), ""]).encode()
    chunks = _read(b"\xef\xbb\xbf" + raw, chunk_bytes=32)
    rows, problems = _seen(chunks)
    assert len(chunks) > 3
    assert rows == [(2 + 2 * n, str(n), f"v{ending}{n}") for n in range(20)]
    assert problems == []


def test_what_comes_before_a_byte_that_is_no_text_is_read() -> None:
    (chunk,) = _read(b"a,b\n1,2\n3\n\xff,4\n5,6\n")
    assert _seen([chunk]) == (
        [(2, "1", "2")],
        [(3, "expected 2 values, got 1"), (4, "not valid UTF-8 (invalid start byte)")],
    )
    assert chunk.broken

"""Ranges of a file tile its lines: each line is read by exactly one task."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.catalog import accept_initial
from omnigraph.lang import compile_schema
from omnigraph.spark import parse
from omnigraph.spark.tasks import LINE, Job, Parsed, Part, Piece, places_of


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


SCHEMA = accept_initial(
    compile_schema("node Person { name: String @key  age: I32? }").catalog,
    domain="01ARZ3NDEKTSV4RRFFQ69G5FAV",
)


def _parsed(piece: Piece, folder: Path) -> tuple[Parsed, list[tuple[int, str]]]:
    """Return a task's answer, and the rows it left with their lines."""
    found = parse.parse(piece, Job(schema=SCHEMA, scratch=str(folder)))
    rows = [feather.read_table(item.path) for item in found.written]
    pairs = [
        (line, name)
        for table in rows
        for line, name in zip(*(table[key].to_pylist() for key in (LINE, "name")), strict=True)
    ]
    return found, pairs


def test_lines_are_counted_through_the_files_of_a_piece(tmp_path: Path) -> None:
    texts = ["name,age\na,1\n\nb,2\n", "name\n", "name,age\nc,3\n"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.csv").write_text(text, encoding="utf-8")
    parts = tuple(
        Part(label=f"{n}", path=str(tmp_path / f"{n}.csv"), source=n) for n in range(len(texts))
    )
    piece = Piece(form="csv", type_name="Person", parts=parts)
    found, rows = _parsed(piece, tmp_path)
    assert (found.lines, len(found.written)) == ([4, 1, 2], 1)
    assert rows == [(2, "a"), (4, "b"), (7, "c")]
    places = places_of([piece], [found.lines], named=True)
    assert [places.of(0, line) for line, _name in rows] == [("0", 2), ("0", 4), ("2", 2)]
    found, rows = _parsed(replace(piece, skip=(4,)), tmp_path)
    assert rows == [(2, "a"), (7, "c")]


def test_rows_of_a_range_are_written_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.intake.record_chunks.COLUMN_BATCH_ROWS", 7)
    monkeypatch.setattr(parse, "COLUMN_BATCH_ROWS", 7)
    monkeypatch.setattr("omnigraph.intake.record_chunks.SPARK_FRAME_ROWS", 20)
    monkeypatch.setattr(parse, "SPARK_FRAME_ROWS", 20)
    table = pa.table({"name": [f"p{n}" for n in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=40)
    part = Part(label="a", path=str(tmp_path / "a.parquet"), start=35, stop=95)
    found, rows = _parsed(Piece(form="parquet", type_name="Person", parts=(part,)), tmp_path)
    assert rows == [(n + 1, f"p{n + 35}") for n in range(60)]
    assert found.lines == [60]
    assert max(item.rows for item in found.written) <= 20


def test_a_column_that_is_wrong_is_told_with_its_file(tmp_path: Path) -> None:
    for name, text in (("a", "name\nx\n"), ("b", "name,size\ny,1\n")):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    parts = tuple(Part(label=n, path=str(tmp_path / f"{n}.csv")) for n in ("a", "b"))
    found, rows = _parsed(Piece(form="csv", type_name="Person", parts=parts), tmp_path)
    assert [(item.file, item.field, item.line) for item in found.syntax] == [("b", "size", None)]
    assert rows == []


KINDS = {
    "right": {"name": ["x", "y"], "age": [1, 2]},
    "other types": {"name": ["x"], "age": ["3"]},
    "a bad value": {"name": ["x", "y"], "age": [1, 2**40]},
    "a wrong column": {"name": ["x"], "size": [1]},
    "no rows": {"name": pa.array([], pa.string())},
}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["right", "right", "right", *KINDS]), min_size=1, max_size=9),
    st.sampled_from(["csv", "parquet"]),
    st.integers(1, 9),
    st.sets(st.integers(1, 20), max_size=2),
)
def test_small_files_read_together_give_what_each_gives_alone(
    tmp_path: Path, kinds: list[str], form: str, rows_max: int, skip: set[int]
) -> None:
    for number, kind in enumerate(kinds):
        table = pa.table(KINDS[kind])
        path = str(tmp_path / f"{number}.{form}")
        pq.write_table(table, path) if form == "parquet" else csv.write_csv(table, path)
    parts = tuple(
        Part(label=f"{n}", path=str(tmp_path / f"{n}.{form}"), source=n) for n in range(len(kinds))
    )
    piece = Piece(form=form, type_name="Person", parts=parts, skip=tuple(skip))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "COLUMN_BATCH_ROWS", rows_max)
        together, rows = _parsed(piece, tmp_path)
        patch.setattr(parse, "_alike", lambda _one, _other: False)
        alone, rows_alone = _parsed(piece, tmp_path)
    assert rows == rows_alone
    assert together.syntax == alone.syntax
    assert together.lines == alone.lines

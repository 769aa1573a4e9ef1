"""Words in files beside the tables: a search is faster by them, and never wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.read import stems, word_files, words
from omnigraph.store import measured

pytestmark = pytest.mark.local

SCHEMA = "node Doc { slug: String @key  body: String? @index  note: String? @index }"
TEXT = """\
query q($q: String) {
    match { $d: Doc } return { $d, bm25($d.body, $q) as s } order { bm25($d.body, $q) }
}
"""
BODIES = ["red apple", "green apple and pear", "pear", None, "naïve apples, apples"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_files, "WORD_FILE_ROWS_MIN", 2)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = [
        {"type": "Doc", "data": {"slug": f"d{number}", "body": body, "note": f"n{number}"}}
        for number, body in enumerate(BODIES)
    ]
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load(rows, mode="append")
        graph.optimize()
    return tmp_path / "g"


def files_of(place: Path) -> list[Path]:
    return sorted((place / "_words").rglob("*.words"))


def found(place: Path, text: str = "apple") -> tuple[list[Any], int]:
    """Return the answer of a process that knows nothing, and how often it looked at texts."""
    with og.open(place, mode="ro") as graph, measured() as io:
        rows = [tuple(row.values()) for row in graph.query(TEXT, {"q": text}).to_pylist()]
    return rows, io["segment_builds"]


def without_files(place: Path, text: str = "apple") -> list[Any]:
    kept = {path: path.read_bytes() for path in files_of(place)}
    for path in kept:
        path.unlink()
    rows, builds = found(place, text)
    assert builds > 0
    for path, data in kept.items():
        path.write_bytes(data)
    return rows


def test_a_new_process_searches_without_looking_at_texts(place: Path) -> None:
    assert len(files_of(place)) == 2
    rows, builds = found(place)
    assert [row[0] for row in rows] == ["d4", "d0", "d1"]
    assert builds == 0
    assert rows == without_files(place)


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        flipped,
        lambda data: data[:-1],
        lambda data: data[:20],
        lambda _data: b"",
        lambda _data: b"x",
    ],
)
def test_a_damaged_file_is_passed_over_and_written_anew(
    place: Path, damage: Callable[[bytes], bytes]
) -> None:
    before, _builds = found(place)
    whole = [path.read_bytes() for path in files_of(place)]
    for path in files_of(place):
        path.write_bytes(damage(path.read_bytes()))
    assert found(place) == (before, 1)
    with og.open(place) as graph:
        graph.maintenance.ensure_indices()
    assert [path.read_bytes() for path in files_of(place)] == whole
    assert found(place) == (before, 0)


def test_files_that_changed_places_are_passed_over(place: Path) -> None:
    before, _builds = found(place)
    one, two = files_of(place)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert found(place) == (before, 1)


def test_rows_written_or_deleted_later_count(place: Path) -> None:
    with og.open(place) as graph:
        graph.mutate('query m() { delete Doc where slug = "d0" }')
        graph.mutate('query m() { insert Doc { slug: "d9", body: "apple" } }')
        graph.mutate('query m() { update Doc set { body: "plum" } where slug = "d1" }')
    rows, _builds = found(place)
    assert sorted(row[0] for row in rows) == ["d4", "d9"]
    assert rows == without_files(place)


def test_words_of_other_rules_are_passed_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(words, "RULES", words.RULES + 1)
        assert found(place)[1] == 1
    assert found(place)[1] == 0
    monkeypatch.setattr(stems, "RULES", "snowball of tomorrow")
    assert found(place)[1] == 1


def test_words_of_another_language_are_passed_over(place: Path) -> None:
    english = files_of(place)
    with og.open(place) as graph:
        before = graph.commits.head().graph_commit_id
        graph.schema.apply(SCHEMA.replace("@index  note", "@index @language(none)  note"))
        assert graph.query(TEXT, {"q": "apples"}).to_pylist()[0]["d"] == "d4"
        assert len(graph.query(TEXT, {"q": "apples"})) == 1
        assert len(graph.query(TEXT, {"q": "apples"}, commit=before)) == 3
    assert found(place, "apples")[1] == 1
    with og.open(place) as graph:
        graph.optimize()
    assert len(files_of(place)) == len(english) + 1
    rows, builds = found(place, "apples")
    assert ([row[0] for row in rows], builds) == (["d4"], 0)
    assert rows == without_files(place, "apples")


def test_a_renamed_property_does_not_take_over_the_words_of_another(place: Path) -> None:
    steps = ("old: String? @rename_from(body)  note: String?", "old: String?  body: String? %s")
    with og.open(place) as graph:
        for step in (steps[0], steps[1] % "@rename_from(note)"):
            graph.schema.apply(f"node Doc {{ slug: String @key  {step} }}")
    assert found(place)[0] == []
    assert [row[0] for row in found(place, "n2")[0]] == ["d2"]


def test_a_cleanup_removes_words_whose_rows_are_gone(place: Path) -> None:
    before = files_of(place)
    with og.open(place) as graph:
        graph.cleanup(keep=1, grace=0, dry_run=False)
        assert files_of(place) == before
        graph.mutate('query m() { update Doc set { note: "x" } where slug != "" }')
        graph.optimize()
        assert len(files_of(place)) == 4
        graph.cleanup(keep=1, grace=0, dry_run=False)
    left = files_of(place)
    assert len(left) == 2
    assert not set(left) & set(before)
    assert found(place)[1] == 0

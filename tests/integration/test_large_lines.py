"""Entities of many megabytes: whatever is stored can be exported, and every export loaded."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.intake import envelopes
from omnigraph.rows import sizes
from omnigraph.spark.parse import lines_starting_in
from tests.integration.helpers import NewGraph, exported, head, jsonl, load, messages, node, rows

pytestmark = pytest.mark.local
SCHEMA = "node Doc { k: String @key  text: String?  words: [String]?  file: Blob?  v: [F64]? }"
MIB = 1024 * 1024
LIMIT = 2000


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    return new_graph(SCHEMA)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the limit one that a test reaches."""
    monkeypatch.setattr(envelopes, "LINE_BYTES_MAX", LIMIT)
    monkeypatch.setattr(sizes, "LINE_BYTES_MAX", LIMIT)


def test_an_entity_of_many_megabytes_is_exported_and_loaded(
    graph: og.Graph, new_graph: NewGraph, tmp_path: Path
) -> None:
    frame = pa.table({"k": ["a", "b"], "text": ["x" * 40 * MIB, "short"]})
    graph.load_table("Doc", frame, mode="append")
    text = pa.table({"k": ["c"], "file": pa.array([b"\x01" * 30 * MIB], pa.large_binary())})
    graph.load_table("Doc", text, mode="append")
    path = tmp_path / "all.jsonl"
    assert graph.export(path) == 3
    assert max(len(line) for line in path.read_bytes().splitlines()) > 32 * MIB
    copy = new_graph(SCHEMA, name="copy")
    copy.load(path, mode="append")
    assert exported(copy) == exported(graph)


WAYS: dict[str, Callable[[og.Graph, int], object]] = {
    "frame": lambda graph, size: graph.load_table(
        "Doc", pa.table({"k": ["ok", "a"], "text": ["", "x" * size]}), mode="append"
    ),
    "mutation": lambda graph, size: graph.mutate(
        'query q($t: String) { insert Doc { k: "a", text: $t } }', {"t": "x" * size}
    ),
    "update": lambda graph, size: graph.mutate(
        'query q($t: String) { update Doc set { text: $t } where k = "old" }', {"t": "x" * size}
    ),
    "list": lambda graph, size: graph.load_table(
        "Doc", pa.table({"k": ["a"], "words": [["x" * 10] * (size // 13)]}), mode="append"
    ),
    "numbers": lambda graph, size: graph.load_table(
        "Doc", pa.table({"k": ["a"], "v": [[0.125] * (size // 6)]}), mode="append"
    ),
    "blob": lambda graph, size: graph.load_table(
        "Doc", pa.table({"k": ["a"], "file": [b"x" * (size * 3 // 4)]}), mode="append"
    ),
    "escaped": lambda graph, size: graph.load_table(
        "Doc", pa.table({"k": ["a"], "text": ["\x01" * (size // 6)]}), mode="append"
    ),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", WAYS)
def test_what_no_line_could_hold_is_not_stored(graph: og.Graph, way: str) -> None:
    load(graph, [node("Doc", k="old")])
    before = head(graph)
    with pytest.raises(og.DataError, match="bytes as a line of JSON; the limit is 2000") as refused:
        WAYS[way](graph, LIMIT)
    assert refused.value.problems[0]["type"] == "Doc"
    assert head(graph) == before


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", WAYS)
def test_what_fits_comes_out_and_in_again(
    graph: og.Graph, new_graph: NewGraph, tmp_path: Path, way: str
) -> None:
    load(graph, [node("Doc", k="old")])
    WAYS[way](graph, LIMIT - 200)
    graph.export(tmp_path / "all.jsonl")
    copy = new_graph(SCHEMA, name="copy")
    copy.load(tmp_path / "all.jsonl", mode="append")
    assert rows(copy, "Doc") == rows(graph, "Doc")


@pytest.mark.usefixtures("small")
def test_a_line_that_grows_when_it_is_exported_is_measured_as_exported(graph: og.Graph) -> None:
    line = json.dumps(node("Doc", k="a", text="x" * (LIMIT - 60)), separators=(",", ":"))
    assert len(line) <= LIMIT
    with pytest.raises(og.DataError) as refused:
        graph.load(jsonl(line), mode="append")
    assert "as a line of JSON" in messages(refused.value)[0]
    assert refused.value.problems[0]["line"] == 1


def test_a_line_above_the_limit_is_not_read_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelopes, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(envelopes, "LOAD_BLOCK_BYTES", 16)
    lines = [b"short\n", b"y" * 5000 + b"\n", b"\n", b"next\n", b"z" * 60 + b"\n", b"last"]
    found = [
        line for block in envelopes.file_blocks(io.BytesIO(b"".join(lines)), None) for line in block
    ]
    assert [line[:5] for line in found] == [line[:5] for line in lines]
    assert max(map(len, found)) <= 100 + 16 + 1
    assert [line for line in found if len(line) <= 100] == [lines[i] for i in (0, 2, 3, 4, 5)]


def test_pieces_of_a_file_hold_every_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelopes, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(envelopes, "LOAD_BLOCK_BYTES", 16)
    lines = [b"short\n", b"y" * 500 + b"\n", b"next\n", b"z" * 60 + b"\n", b"last"]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(lines))
    size = path.stat().st_size
    found: list[bytes] = []
    for start in range(0, size, 50):
        found += lines_starting_in(str(path), start, min(start + 50, size)).splitlines()
    assert [line[:4] for line in found] == [line[:4] for line in lines]
    assert max(map(len, found)) <= 100 + 50 + 1

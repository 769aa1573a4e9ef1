"""Loads larger than memory should hold: temporary files, streaming, parts; nothing is left over."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.intake import envelopes
from omnigraph.ops import load as load_operation
from omnigraph.rows import references, spill
from omnigraph.store.tables import upsert
from omnigraph.values.words import LoadWord
from tests.integration.helpers import NewGraph, edge, jsonl, load, node, rows

SCHEMA = """
node Doc { name: String @key  text: String?  score: F64?  scan: Blob?  points: [F64]? }
edge Cites: Doc -> Doc { note: String? }
"""
ROWS = 300_000
TEXT = "some words that make the row wide, "
INPUT_MB = ROWS * len(TEXT) * 45 / 2**20
"""Size of the text alone; kept in memory it would be there at least once."""

CHILD = """
import sys
import omnigraph as og
from omnigraph.limits import LOAD_MEMORY_BYTES


def resident_mb(name):
    with open("/proc/self/status") as rows:
        return next(int(row.split()[1]) for row in rows if row.startswith(name)) / 1024


graph = og.init(sys.argv[2], sys.argv[3], durability="none")
graph.load([{"type": "Doc", "data": {"name": "first"}}], mode="append")
before = resident_mb("VmRSS:")
graph.load(sys.argv[1], mode="append")
print(resident_mb("VmHWM:") - before)
"""
GROWTH_MB = 400
"""Chunks in memory (64 MB), rows being parsed, ids and lines, and what Lance writes with: some
150 MB on two cores, more on more."""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make temporary files go to a folder of the test's own, and make loads use them early."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(envelopes, "LOAD_CHUNK_ROWS", 10)
    monkeypatch.setattr(envelopes, "LOAD_MEMORY_BYTES", 1000)
    return folder


@pytest.fixture
def spills(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[spill.SpillFile]]:
    """Collect the temporary files that are made, and expect some."""
    made: list[spill.SpillFile] = []
    make = spill.SpillFile.__init__

    def note(self: spill.SpillFile, schema: object) -> None:
        made.append(self)
        make(self, schema)

    monkeypatch.setattr(spill.SpillFile, "__init__", note)
    yield made
    assert made


def _docs(count: int, *, start: int = 0, text: str = "x") -> list[dict[str, object]]:
    return [
        node("Doc", name=f"d{number}", text=f"{text}{number}", score=number / 2, points=[1.0])
        for number in range(start, start + count)
    ]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs the process's own sizes")
def test_memory_of_a_load_does_not_follow_the_size_of_its_input(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    with open(source, "w", encoding="utf-8") as out:
        for number in range(ROWS):
            text = f"{number} {TEXT * 45}"
            out.write(f'{{"type":"Doc","data":{{"name":"d{number}","text":"{text}"}}}}\n')
    command = [sys.executable, "-c", CHILD, str(source), str(tmp_path / "graph"), SCHEMA]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert float(found.stdout) < GROWTH_MB < INPUT_MB


@pytest.mark.usefixtures("temporary", "spills")
@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_rows_from_a_temporary_file_are_the_rows_of_the_input(
    new_graph: NewGraph, mode: LoadWord
) -> None:
    graph = new_graph(SCHEMA)
    items = [
        *_docs(95),
        *(edge("Cites", f"d{n}", f"d{n * 7 % 95}", note="n" * n) for n in range(60)),
    ]
    items[3] = node("Doc", name="d3", scan="base64:aGVsbG8=")
    graph.load(items, mode=mode)
    docs, cites = rows(graph, "Doc"), rows(graph, "Cites")
    assert len(docs) == 95
    assert docs["d94"]["text"] == "x94"
    assert docs["d3"]["scan"] == "base64:aGVsbG8="
    assert sorted(len(str(row["note"])) for row in cites.values()) == list(range(60))


@pytest.mark.usefixtures("temporary", "spills")
def test_a_merge_from_a_temporary_file_replaces_some_rows_and_adds_others(
    new_graph: NewGraph,
) -> None:
    graph = new_graph(SCHEMA)
    load(graph, _docs(50))
    graph.load(_docs(50, start=25, text="y"), mode="merge")
    assert {key: str(row["text"])[0] for key, row in rows(graph, "Doc").items()} == {
        f"d{number}": "x" if number < 25 else "y" for number in range(75)
    }
    graph.load(_docs(75, text="z"), mode="merge")
    assert {str(row["text"])[0] for row in rows(graph, "Doc").values()} == {"z"}


@pytest.mark.usefixtures("spills")
def test_a_load_leaves_no_temporary_file(new_graph: NewGraph, temporary: Path) -> None:
    graph = new_graph(SCHEMA)
    graph.load(_docs(100), mode="append")
    assert not list(temporary.iterdir())


@pytest.mark.usefixtures("spills")
@pytest.mark.parametrize(
    ("last", "error"),
    [
        (node("Doc", name="d1"), og.DataError),
        (node("Doc", name="new", text=5), og.DataError),
        (edge("Cites", "d1", "nobody"), og.DataError),
        (node("Doc", name="old"), og.KeyConflictError),
    ],
    ids=["duplicate", "bad value", "missing endpoint", "exists"],
)
def test_a_refused_load_leaves_no_temporary_file(
    new_graph: NewGraph, temporary: Path, last: dict[str, object], error: type[Exception]
) -> None:
    graph = new_graph(SCHEMA)
    load(graph, [node("Doc", name="old")])
    with pytest.raises(error, match="line 101: "):
        graph.load([*_docs(100), last], mode="append")
    assert not list(temporary.iterdir())


def test_a_full_temporary_disk_is_a_storage_error(
    new_graph: NewGraph, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(og.StorageError, match="No space left on device") as refused:
        graph.load(_docs(100), mode="append")
    assert "TMPDIR" in str(refused.value.hint)
    assert not list(temporary.iterdir())


@pytest.mark.usefixtures("temporary", "spills")
def test_lines_of_problems_are_exact_across_chunks_and_files(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA.replace("points: [F64]?", "points: [F64]?  @range(score, 0.0..190.0)"))
    lines = [json.dumps(item) for item in _docs(400)]
    lines[123:123] = ["", '{"edge":"Cites","from":"d1","to":"gone","data":{}}']
    with pytest.raises(og.DataError) as refused:
        graph.load(jsonl(*lines), mode="append")
    found = [(problem["line"], problem.get("id")) for problem in refused.value.problems]
    assert found[0][0] == 125
    # Two lines were put in front of these, and lines count from one.
    assert found[1:] == [(number + 3, f"d{number}") for number in range(381, 400)]


def test_a_merge_too_large_for_one_join_is_staged_in_parts(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    load(graph, _docs(40))
    load(graph, _docs(40, start=40))
    first = graph.commits.head().graph_commit_id
    monkeypatch.setattr(upsert, "UPSERT_PART_BYTES", 500)
    monkeypatch.setattr(upsert, "batch_rows", lambda _rows: 16)
    frame = pa.table(
        {"name": [f"d{n}" for n in range(20, 120)], "text": [f"y{n}" for n in range(20, 120)]}
    )
    graph.load_table("Doc", frame, mode="merge")
    found = rows(graph, "Doc")
    assert {key: str(row["text"])[0] for key, row in found.items()} == {
        f"d{number}": "x" if number < 20 else "y" for number in range(120)
    }
    assert graph.snapshot().tables["node:Doc"].row_count == 120
    changes = graph.diff(first, "main").changes
    kinds = [str(change.op) for change in changes]
    assert (kinds.count("update"), kinds.count("insert"), len(kinds)) == (60, 40, 100)


@pytest.mark.usefixtures("temporary", "spills")
def test_vectors_of_rows_in_a_temporary_file_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_operation, "EMBED_CHUNK_ROWS", 16)
    schema = "node Doc { name: String @key  text: String?  vec: Vector(4)? @embed(text) }"
    with og.init(tmp_path / "g", schema, durability="none"):
        pass
    with og.open(tmp_path / "g", durability="none", embedder=og.HashEmbedder()) as graph:
        items = [node("Doc", name=f"d{number}", text=f"t{number}") for number in range(100)]
        graph.load([*items, node("Doc", name="without")], mode="append")
        found = rows(graph, "Doc")
        assert found["without"].get("vec") is None
        wanted = np.asarray(og.HashEmbedder().embed(["t70"], dimension=4))[0]
        assert found["d70"]["vec"] == [float(value) for value in wanted]


def test_ends_are_missed_among_many_edges(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many ends are looked up by a join, few in a set: both find the same."""
    graph = new_graph("node P { k: String @key }\nedge E: P -> P")
    people = pa.table({"k": [f"p{n}" for n in range(50)]})
    graph.bulk({"P": people.slice(0, 10)}, mode="append", engine="local")
    ends = [f"p{n % 50}" for n in range(200)]
    wrong = pa.table({"from": [*ends, "p1"], "to": ["p5"] * 200 + ["nobody"]})
    found = []
    for least in (10, 1000):
        monkeypatch.setattr(references, "JOINED_ROWS_MIN", least)
        with pytest.raises(og.DataError) as refused:
            graph.bulk({"P": people.slice(20), "E": wrong}, mode="append", engine="local")
        found.append(sorted({str(item["message"]) for item in refused.value.problems}))
    assert found[0] == found[1]
    assert found[0][0] == "E: dst 'nobody' not found in P"
    assert len(found[0]) == 11
    monkeypatch.setattr(references, "JOINED_ROWS_MIN", 10)
    right = pa.table({"from": ends[20:40] + ends[:10], "to": ends[20:50]})
    done = graph.bulk({"P": people.slice(20), "E": right}, mode="append", engine="local")
    assert done.edges["E"] == 30

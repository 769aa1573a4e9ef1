"""What the first search of a process costs, with and without the words that `optimize` wrote down.

    python benchmarks/cold_search.py [documents] [words of each]

Every measurement is a process of its own, which opens the graph and searches once; the processor
time is that of the search alone. The answers with and without files must be the same.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from _harness import Report

import omnigraph as og
from omnigraph.store.upkeep.words import WORDS

VOCABULARY, ROUNDS = 30_000, 5
_AT_MOST = {"files": 150.0}
SCHEMA = "node Doc { slug: String @key  title: String  body: String @index }"
QUERY = """\
query words($q: String) {
    match { $d: Doc } return { $d, bm25($d.body, $q) as s } order { bm25($d.body, $q) } limit 10
}
"""
PROGRAM = """\
import json, sys, time
import omnigraph as og
with og.open(sys.argv[1], mode="ro") as graph:
    graph.query("query q() { match { $d: Doc { slug: \\"d1\\" } } return { $d.title } }")
    begun, wall = time.process_time(), time.perf_counter()
    rows = graph.query(sys.argv[2], {"q": sys.argv[3]}).to_pylist()
    print(json.dumps([time.process_time() - begun, time.perf_counter() - wall, rows]))
"""


def documents(rows: int, length: int) -> tuple[pa.Table, list[str]]:
    """Return a table of documents and the words they are made of, frequent ones first."""
    rng = np.random.default_rng(7)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(3, 10))) for _ in range(VOCABULARY)]
    chosen = np.minimum(rng.zipf(1.3, (rows, length)), VOCABULARY) - 1
    bodies = [" ".join(row) for row in np.array(words)[chosen]]
    names = [f"d{number}" for number in range(rows)]
    return pa.table({"slug": names, "title": names, "body": bodies}), words


def first_search(place: Path, text: str) -> tuple[float, float, object]:
    """Search in a new process; return processor time, time and the answer."""
    command = [sys.executable, "-c", PROGRAM, str(place), QUERY, text]
    done = subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - ours
    cpu, wall, rows = json.loads(done.stdout)
    return cpu, wall, rows


def main() -> None:
    """Run the benchmark."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    length = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    report = Report("cold_search", {"documents": rows, "words": length})
    table, words = documents(rows, length)
    text = f"{words[40]} {words[400]} {words[4000]}"
    with tempfile.TemporaryDirectory() as folder:
        place, bare = Path(folder) / "g", Path(folder) / "bare"
        with og.init(place, SCHEMA, durability="none") as graph:
            graph.load_table("Doc", table, mode="append")
            graph.optimize()
        shutil.copytree(place, bare)
        shutil.rmtree(bare / WORDS)
        found: dict[str, list[tuple[float, float, object]]] = {"files": [], "rows": []}
        for _round in range(ROUNDS):
            found["files"].append(first_search(place, text))
            found["rows"].append(first_search(bare, text))
        answers = [answer for runs in found.values() for _cpu, _wall, answer in runs]
        assert all(answer == answers[0] for answer in answers), "the answers differ"
        size = sum(file.stat().st_size for file in (place / WORDS).rglob("*.words"))
    cpu = {name: statistics.median(run[0] for run in runs) * 1e3 for name, runs in found.items()}
    wall = {name: statistics.median(run[1] for run in runs) * 1e3 for name, runs in found.items()}
    report.section("First bm25 of a process")
    for name, words_from in (("files", "words from files"), ("rows", "words from the rows")):
        report.figure(f"{words_from}, CPU", cpu[name], " ms", at_most=_AT_MOST.get(name))
        report.figure(f"{words_from}, wall", wall[name], " ms")
    report.figure("words from files / from the rows, CPU", cpu["files"] / cpu["rows"], "x")
    report.figure("files", size / 1e6, " MB")
    report.write()


if __name__ == "__main__":
    main()

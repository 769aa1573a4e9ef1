"""How fast search is, beside Lance's own search on the same table.

    python benchmarks/search.py [rows]

Fills a graph with texts of 30 words and vectors of 128 numbers, then asks for the ten best by words
and by distance, again and again. Lance is asked through its indexes and, for vectors, without.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from _harness import Report, interleave, ratio_of

import omnigraph as og

WORDS, SIZE, LENGTH, ROUNDS = 30_000, 128, 30, 30
SCHEMA = f"""
node Doc {{ slug: String @key  body: String @index  vec: Vector({SIZE}) @index  kind: I32 }}
"""
TEXT = """
query words($q: String) {
    match { $d: Doc } return { $d, bm25($d.body, $q) as s } order { bm25($d.body, $q) } limit 10
}
query phrase($q: String) { match { $d: Doc  match_text($d.body, $q) } return { count(*) as n } }
query fuzzy($q: String) { match { $d: Doc  fuzzy($d.body, $q, 1) } return { count(*) as n } }
"""
VECTOR = f"""
query near($v: Vector({SIZE})) {{
    match {{ $d: Doc }} return {{ $d, nearest($d.vec, $v) as s }}
    order {{ nearest($d.vec, $v) }} limit 10
}}
query some($v: Vector({SIZE})) {{
    match {{ $d: Doc {{ kind: 3 }} }} return {{ $d }} order {{ nearest($d.vec, $v) }} limit 10
}}
query both($v: Vector({SIZE}), $q: String) {{
    match {{ $d: Doc }} return {{ $d }}
    order {{ rrf(nearest($d.vec, $v), bm25($d.body, $q)) }} limit 10
}}
"""


def documents(rows: int) -> tuple[Any, list[str]]:
    """Return a table of documents and the words they are made of, frequent ones first."""
    rng = np.random.default_rng(7)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(3, 10))) for _ in range(WORDS)]
    chosen = np.minimum(rng.zipf(1.3, (rows, LENGTH)), WORDS) - 1
    bodies = [" ".join(row) for row in np.array(words)[chosen]]
    vectors = pa.array(rng.normal(size=rows * SIZE).astype(np.float32))
    table = pa.table(
        {
            "slug": [f"d{number}" for number in range(rows)],
            "body": bodies,
            "vec": pa.FixedSizeListArray.from_arrays(vectors, SIZE),
            "kind": pa.array(rng.integers(0, 100, rows), pa.int32()),
        }
    )
    return table, words


def main() -> None:
    """Run the benchmark."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    report = Report("search", {"rows": rows, "words": LENGTH, "dimension": SIZE})
    table, words = documents(rows)
    query = [float(value) for value in np.random.default_rng(3).normal(size=SIZE)]
    with (
        tempfile.TemporaryDirectory() as folder,
        og.init(Path(folder) / "g", SCHEMA, durability="none") as graph,
    ):
        graph.load_table("Doc", table, mode="append")
        report.section("First use of a column")
        some = {"q": f"{words[40]} {words[400]}"}
        for name, run in (
            ("words", lambda: graph.query(TEXT, some, name="words")),
            ("vectors", lambda: graph.query(VECTOR, {"v": query}, name="near")),
            ("indexes", graph.maintenance.ensure_indices),
        ):
            started = time.perf_counter()
            run()
            report.figure(f"first use of {name}", time.perf_counter() - started, " s")
        pin = graph.snapshot().tables["node:Doc"]
        dataset: Any = lance.dataset(str(Path(graph.uri) / pin.path), version=pin.version)
        compare(report, graph, dataset, words, query)
    report.write()


def compare(
    report: Report,
    graph: og.Graph,
    dataset: lance.LanceDataset,
    words: list[str],
    query: list[float],
) -> None:
    """Time the engine and Lance, turn by turn."""
    some = {"q": f"{words[40]} {words[400]}"}
    phrase, near = {"q": f"{words[20]} {words[0]}"}, {"v": query}
    asked = {"column": "vec", "q": np.array(query, dtype=np.float32), "k": 10}
    best = {"columns": ["id", "_score"], "full_text_query": some["q"], "limit": 10}
    columns = ["id", "_distance"]
    report.section("Ten best, and counts")
    found = interleave(
        {
            "words": lambda: graph.query(TEXT, some, name="words"),
            "words, Lance": lambda: dataset.scanner(**best).to_table(),
            "phrase": lambda: graph.query(TEXT, phrase, name="phrase"),
            "fuzzy": lambda: graph.query(TEXT, {"q": words[300]}, name="fuzzy"),
            "nearest": lambda: graph.query(VECTOR, near, name="near"),
            "nearest in one of a hundred": lambda: graph.query(VECTOR, near, name="some"),
            "nearest, Lance without index": lambda: dataset.scanner(
                columns=columns, nearest={**asked, "use_index": False}
            ).to_table(),
            "nearest, Lance with index": lambda: dataset.scanner(
                columns=columns, nearest=asked
            ).to_table(),
            "rrf": lambda: graph.query(VECTOR, {**near, **some}, name="both"),
        },
        rounds=ROUNDS,
    )
    report.time("search", found)
    for name, base in (("words", "words, Lance"), ("nearest", "nearest, Lance without index")):
        value, note = ratio_of(found, name, base)
        report.figure(f"{name}, as a multiple of Lance", value, "x", note=note)


if __name__ == "__main__":
    main()

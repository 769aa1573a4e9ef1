"""How long entity resolution takes: in one process, and on Spark with a session that is warm.

    python benchmarks/resolve.py [--nodes N] [--no-spark] [--cores N]

A tenth of the people stand twice, with a typing error; each knows two others. Blocks are the first
two letters of the name within a city of 5,000, and the mail address; names are compared by edits,
cities by their text. Each engine runs once, in a process of its own. CPU and memory are the
driver's: on Spark, workers have theirs.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from _harness import peak_memory_mb, run_child

import omnigraph as og
from omnigraph.resolve import Comparison, Key, Rules, propose, resolve

SCHEMA = """
node Person { key: String @key  name: String  city: String  mail: String? }
edge Knows: Person -> Person { @unique(src, dst) }
"""
RULES = Rules(
    type="Person",
    blocks=[
        [Key("city", by="normalised"), Key("name", by="prefix", length=2)],
        Key("mail", by="normalised"),
    ],
    compare=[Comparison("name", by="edit", weight=2.0), Comparison("city", by="normalised")],
    threshold=0.9,
    survivor="most_edges",
    properties={"*": "first"},
)
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def make(place: Path, nodes: int) -> None:
    """Make the graph."""
    draw = np.random.default_rng(7)
    first = draw.choice(LETTERS, (nodes, 4))
    last = draw.choice(LETTERS, (nodes, 6))
    names = ["".join(a) + " " + "".join(b) for a, b in zip(first, last, strict=True)]
    cities = [f"City {number}" for number in draw.integers(0, max(1, nodes // 5_000), nodes)]
    for copy in range(nodes // 10):
        # A typing error in the last name; the original is anywhere before the copies.
        names[-1 - copy] = names[copy][:7] + "x" + names[copy][8:]
        cities[-1 - copy] = cities[copy].upper()
    rows = {
        "key": [f"p{number:08}" for number in range(nodes)],
        "name": names,
        "city": cities,
        "mail": [None if number % 2 else f"{number}@mail.org" for number in range(nodes)],
    }
    ends = np.unique(draw.integers(0, nodes, (nodes * 2, 2)), axis=0)
    with og.init(place, SCHEMA, durability="none") as graph:
        graph.load_table("Person", pa.table(rows), mode="append")
        knows = {
            name: [f"p{number:08}" for number in ends[:, column]]
            for column, name in enumerate(("from", "to"))
        }
        graph.load_table("Knows", pa.table(knows), mode="append")


def measure(place: str, engine: str, cores: int) -> dict[str, float]:
    """Resolve a graph, propose the merge, and return what it took."""
    session = None
    with og.open(place, durability="none") as graph:
        if engine == "spark":
            from omnigraph.spark import start_session

            session = start_session(f"local[{cores},4]")
            resolve(graph, RULES, session=session)
        start, cpu_start = time.perf_counter(), time.process_time()
        found = resolve(graph, RULES, session=session)
        resolved, cpu = time.perf_counter(), time.process_time() - cpu_start
        report = propose(graph, found, branch=f"same-{engine}")
        written = time.perf_counter()
    if session is not None:
        session.stop()
    return {
        "nodes": report.nodes,
        "compared": report.compared,
        "matches": report.pairs,
        "merged": report.merged,
        "resolve_s": round(resolved - start, 2),
        "driver_cpu_s": round(cpu, 2),
        "propose_s": round(written - resolved, 2),
        "driver_peak_mb": round(peak_memory_mb()),
    }


def main() -> None:
    """Make a graph and resolve it with both engines."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--nodes", type=int, default=100_000)
    arguments.add_argument("--cores", type=int, default=2)
    arguments.add_argument("--no-spark", action="store_true")
    arguments.add_argument("--child", nargs=2)
    given = arguments.parse_args()
    if given.child:
        print(json.dumps(measure(*given.child, given.cores)))
        return
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "g")
        make(place, given.nodes)
        for engine in ("local", "spark")[: 1 if given.no_spark else 2]:
            found = run_child(__file__, "--child", str(place), engine, "--cores", str(given.cores))
            print(engine, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

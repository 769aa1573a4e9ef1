"""How fast query text compiles, and that twice the text takes twice the time.

    python benchmarks/compile.py

Compiles generated `.gq` files of 1,000 and 2,000 lines, of every kind of query, against a schema of
60 types. Fails when the longer one takes more than 2.2 times as long.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping

from omnigraph.lang import compile_queries, compile_schema, lint_queries

RATIO_MAX = 2.2
NODES = 40
EDGES = 20
ROUNDS = 11

Run = Callable[[], object]


def schema_text() -> str:
    """Return a schema of 40 node types and 20 edge types."""
    nodes = [
        f"""node Thing{i} {{
            slug: String @key
            name: String @index
            size: I32?
            rate: F64?
            born: Date?
            seen: DateTime?
            kind: enum(small, large)?
            tags: [String]?
            body: String?
            vec: Vector(8)? @embed(body)
        }}"""
        for i in range(NODES)
    ]
    edges = [
        f"edge Joins{i}: Thing{i} -> Thing{i if i % 2 else i + 1} {{ since: Date?  weight: F64? }}"
        for i in range(EDGES)
    ]
    return "\n".join(nodes + edges)


def _query(number: int) -> str:
    edge = number % EDGES
    thing = f"Thing{edge}"
    match number % 4:
        case 0:
            return f"""query read{number}($name: String, $least: I32?) @description("by name") {{
    match {{
        $a: {thing} {{ name: $name, kind: "small" }}
        $a $w:joins{edge} $b
        $a.size >= $least? and ($w.weight > 0.5 or $w.since is null)
        not {{ $b.tags contains "old" }}
    }}
    return {{ $a.name, $b.name as other, $w.weight, $a.size * 2 + 1 as twice }}
    order {{ other desc, $a.name }}
    limit 20
}}
"""
        case 1:
            return f"""query count{number}() {{
    match {{
        $a: {thing}
        optional {{ $a joins{edge} $b }}
        $a.born > date("2001-02-03")
    }}
    return {{ $a.kind, count($b) as n, max($a.size) as largest, sum($a.rate) / count(*) as mean }}
    order {{ n desc, avg($a.size) }}
}}
"""
        case 2:
            return f"""query find{number}($text: String, $n: I64) {{
    match {{
        $a: {thing}
        search($a.body, $text)
        $a.kind in ["small", "large"]
    }}
    return distinct {{ $a.slug, bm25($a.body, $text) as score }}
    order {{ score desc }}
    limit $n
}}
"""
        case _:
            return f"""query write{number}($slug: String, $name: String, $size: I32?) {{
    insert {thing} {{ slug: $slug, name: $name, size: $size, tags: ["new"], seen: now() }}
    upsert {thing} {{ slug: $slug, kind: "large" }}
    update {thing} set {{ rate: 1.5 }} where slug = $slug and size is not null
    insert Joins{edge} {{ from: $slug, to: $slug, weight: 0.5 }}
}}
"""


def query_text(lines: int) -> str:
    """Return a file of at least so many lines, whole queries only."""
    parts: list[str] = []
    count = 0
    while count < lines:
        parts.append(_query(len(parts)))
        count += parts[-1].count("\n")
    return "".join(parts)


def times_s(runs: Mapping[str, Run]) -> dict[str, list[float]]:
    """Return the processor times of each, run turn by turn after a round that warms up."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS + 1):
        for name, run in runs.items():
            gc.collect()
            started = time.process_time()
            run()
            if number:
                found[name].append(time.process_time() - started)
    return found


def main() -> int:
    """Time everything, print a table, and return 1 when compiling is not linear."""
    schema = schema_text()
    catalog = compile_schema(schema).catalog
    short, long = query_text(1000), query_text(2000)
    texts = {"schema": schema, "queries": short, "queries, twice": long, "lint": short}
    found = times_s(
        {
            "schema": lambda: compile_schema(schema),
            "queries": lambda: compile_queries(short, catalog),
            "queries, twice": lambda: compile_queries(long, catalog),
            "lint": lambda: lint_queries(short, catalog, name="f.gq"),
        }
    )
    seconds = {name: statistics.median(times) for name, times in found.items()}
    print(f"{'what':<16}{'lines':>8}{'ms':>10}{'lines/s':>12}")
    for name, text in texts.items():
        lines = text.count("\n") + (not text.endswith("\n"))
        print(f"{name:<16}{lines:>8}{seconds[name] * 1e3:>10.1f}{lines / seconds[name]:>12,.0f}")
    # Runs that follow each other see the same machine, so their ratio is steadier than one of
    # medians; a wide spread says that the machine was too busy to trust the verdict.
    ratios = [b / a for a, b in zip(found["queries"], found["queries, twice"], strict=True)]
    ratio = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"time(2000) / time(1000) = {ratio:.2f}, at most {RATIO_MAX} (rounds: {spread})")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())

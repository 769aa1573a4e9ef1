"""What 2,000 one-row commits do to a graph, with and without maintenance in the background.

python benchmarks/longevity.py [--commits N]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from _harness import RESULTS

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }"
ADD = "query add($n: String) { insert Person { name: $n, age: 1 } }"


def on_disk(root: Path) -> tuple[int, int]:
    """Return the number of files of a graph and their bytes."""
    files = [Path(parent, name) for parent, _f, names in os.walk(root) for name in names]
    return len(files), sum(path.stat().st_size for path in files)


def run(root: Path, commits: int, *, maintained: bool) -> dict[str, float]:
    """Commit one row at a time and look at the first and the last hundred."""
    times: list[float] = []
    upkeep = og.Upkeep(every_commits=100, keep=50, older_than_s=0, grace_s=0)
    with og.init(root, SCHEMA, durability="none", upkeep=maintained and upkeep) as graph:
        for number in range(commits):
            start = time.perf_counter()
            graph.mutate(ADD, {"n": f"p{number:08}"})
            times.append(time.perf_counter() - start)
    files, size = on_disk(root)
    # The very first writes also open and compile; they are not what is compared.
    first, last = times[20:120], times[-100:]
    return {
        "first_ms": median(first) * 1e3,
        "last_ms": median(last) * 1e3,
        "ratio": median(last) / median(first),
        "files": files,
        "mebibytes": size / 2**20,
    }


def main() -> None:
    """Run both and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=2_000)
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, maintained in (("maintained", True), ("left alone", False)):
            found[name] = run(Path(folder) / name, options.commits, maintained=maintained)
        with og.open(Path(folder) / "left alone", durability="none") as graph:
            start = time.perf_counter()
            report = graph.cleanup(keep=50, grace=0, dry_run=False)
            found["cleanup"] = {
                "versions": report.versions,
                "seconds": time.perf_counter() - start,
                "mebibytes": report.bytes / 2**20,
            }
    for name, figures in found.items():
        print(f"{name:<11}", "  ".join(f"{key} {value:,.2f}" for key, value in figures.items()))
    print("target: maintained ratio <= 1.3")
    RESULTS.mkdir(exist_ok=True)
    body = json.dumps({"commits": options.commits, **found}, indent=2)
    (RESULTS / "longevity.json").write_text(body + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a graph costs as it grows: constants measured at small sizes, checked at larger ones.

    python benchmarks/scale.py [--only rows,versions,commits,...] [--folder DIR]

Each part fits the constants of `_scale_model.py` (of `_writers_model.py` for writers) and compares
what they predict with three other sizes: bytes, files and requests, which a busy machine does not
change. `docs/scale.md` says what follows for large graphs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _harness import RESULTS, Report, process_bytes, run_child
from _scale_model import History, Rows, Shuffle, Versions
from _writers_model import Store, simulate

import omnigraph as og

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.servers.proxy import Proxy
from tests.servers.seaweed import Seaweed

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
ADD = "query add($n: String) { insert Person { name: $n } }"
ADD_EDGE = 'query add() { insert Knows { from: "p1"  to: "p2" } }'
COUNTED = "query q() { match { $a $v:knows $b  $b $w:knows $c } return { count(*) as n } }"
PAIRS = "query q() { match { $a knows $b  $b knows $c } return { count(*) as n } }"
ERROR_MAX = 0.2

FITTED = ((50_000, 200_000), (100_000, 200_000))
SIZES = ((50_000, 400_000), (200_000, 800_000), (100_000, 1_600_000))
FAR = 300_000
VERSION_NODES = 20_000
VERSIONS_FITTED = (200_000, 400_000)
VERSIONS = (800_000, 1_600_000, 3_200_000)
COMMITS_FITTED = (100, 200)
COMMITS = (300, 500, 800)
KEPT = 50
BRANCHES_FITTED = 5
BRANCHES = (10, 20, 40)
GROWN = (10, 30, 70)
SHUFFLE_NODES = 200_000
SHUFFLE_FITTED = 250_000
SHUFFLES = (500_000, 1_000_000, 2_000_000)
WRITERS = 32
CURVE = (1, 8, 32, 64, 256, 1000)
SHARED = (1, 4, 16, 64, 250, 1000)
REQUESTS_S = 5_000
"""Branches that writers share, in a bucket that answers so many requests a second."""
TRIPS, BRANCH_TRIPS, BRANCH_REQUESTS = 11, 13, 16
"""Answers that an insert waits for; the same on a branch, and its requests."""


def check(report: Report, name: str, predicted: float, measured: float, unit: str) -> None:
    """Report how far a prediction is off."""
    off = abs(predicted / measured - 1)
    note = f"predicted {predicted:,.4g}{unit}, measured {measured:,.4g}{unit}"
    report.figure(f"{name}: prediction off by", off, "", at_most=ERROR_MAX, note=note)


def on_disk(place: Path) -> tuple[int, int]:
    """Return the number of files of a graph and their bytes."""
    sizes = [path.stat().st_size for path in place.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def names(numbers: np.ndarray) -> pa.Array:
    """Return keys of nodes."""
    return pc.binary_join_element_wise("p", pc.cast(pa.array(numbers), pa.string()), "")


def far_apart(nodes: int) -> np.ndarray:
    """Return numbers of ten digits, in no order."""
    draw = np.random.default_rng(2)
    found = np.unique(draw.integers(10**9, 10**10, nodes * 2))
    return draw.permutation(found)[:nodes]


# ---- rows ---------------------------------------------------------------------------------


def load(
    place: Path,
    nodes: int,
    edges: int,
    *,
    index: bool = True,
    numbers: np.ndarray | None = None,
) -> tuple[int, int]:
    """Load a random graph; return the bytes of its nodes and of its edges."""
    draw = np.random.default_rng(1)
    keys = names(np.arange(nodes) if numbers is None else numbers)
    with og.init(place, SCHEMA, durability="none", upkeep=False) as graph:
        ages = pa.array(draw.integers(0, 90, nodes), pa.int32())
        people = pa.table({"name": keys, "age": ages})
        graph.bulk({"Person": people}, mode="append", engine="local", index=index)
        between = on_disk(place)[1]
        source, target = (keys.take(pa.array(ends)) for ends in draw.integers(0, nodes, (2, edges)))
        knows = pa.table({"from": source, "to": target})
        graph.bulk({"Knows": knows}, mode="append", engine="local", index=index)
    return between, on_disk(place)[1] - between


def resident(place: Path) -> int:
    """Return the bytes a process holds after it has counted paths by edges and by pairs."""
    with og.open(place, mode="ro") as graph:
        graph.query(COUNTED)
        graph.query(PAIRS)
        return graph.maintenance.cache_stats().size_bytes


def rows(report: Report, folder: Path) -> None:
    """Bytes of nodes and edges, on disk and in memory."""
    report.section("rows")
    found: dict[tuple[int, int], tuple[int, int]] = {}
    memory: dict[tuple[int, int], int] = {}
    for size in (*FITTED, *SIZES):
        place = folder / f"rows-{size[0]}-{size[1]}"
        found[size] = load(place, *size)
        memory[size] = resident(place)
    (few, edges), (more, _same) = FITTED
    node_memory = (memory[FITTED[1]] - memory[FITTED[0]]) / (more - few)
    costs = Rows(
        node_disk=found[FITTED[0]][0] / few,
        edge_disk=found[FITTED[0]][1] / edges,
        node_memory=node_memory,
        edge_memory=(memory[FITTED[0]] - node_memory * few) / edges,
    )
    for name, value in asdict(costs).items():
        report.figure(f"bytes of a row: {name.replace('_', ', ')}", value, " B")
    for size in SIZES:
        label = f"{size[0]:,} nodes, {size[1]:,} edges"
        check(report, f"{label}, on disk", costs.disk(*size), sum(found[size]), " B")
        check(report, f"{label}, in memory", costs.memory(*size), memory[size], " B")
    # Few ends are met twice, and keys are longer: what compression gains is least.
    apart = load(folder / "far", FAR, FAR, numbers=far_apart(FAR))
    report.figure("keys of 11 letters: bytes of a node on disk", apart[0] / FAR, " B")
    report.figure("keys of 11 letters: bytes of an edge on disk", apart[1] / FAR, " B")


def versions(report: Report, folder: Path) -> None:
    """Bytes of one version of a table: it names all files of rows."""
    report.section("versions of a table")
    found: dict[int, int] = {}
    for edges in (*VERSIONS_FITTED, *VERSIONS):
        place = folder / f"versions-{edges}"
        load(place, VERSION_NODES, edges, index=False)
        with og.open(place, durability="none", upkeep=False) as graph:
            graph.mutate(ADD_EDGE)
        files = (place / "edges").glob("*/_versions/*.manifest")
        found[edges] = max(files, key=lambda path: path.stat().st_mtime_ns).stat().st_size
    few, many = VERSIONS_FITTED
    costs = Versions.of(few, found[few], many, found[many])
    report.figure("bytes of a table's version for each file of rows", costs.file, " B")
    for edges in VERSIONS:
        check(report, f"{edges:,} edges, a version", costs.disk(edges), found[edges], " B")


# ---- commits and branches -----------------------------------------------------------------


def history(place: Path, commits: int) -> dict[str, float]:
    """Commit one row at a time, then optimize and clean up; return what that came to."""
    with og.init(place, SCHEMA, durability="none", upkeep=False) as graph:
        files, size = on_disk(place)
        for number in range(commits):
            graph.mutate(ADD, {"n": f"p{number}"})
        files_then, size_then = on_disk(place)
        cpu, written = time.process_time(), process_bytes()[1]
        graph.optimize()
        graph.cleanup(keep=KEPT, grace=0, dry_run=False)
        return {
            "bytes": size_then - size,
            "files": files_then - files,
            "reclaimed": files_then - on_disk(place)[0],
            "upkeep cpu": time.process_time() - cpu,
            "upkeep written": process_bytes()[1] - written,
        }


def commits(report: Report, folder: Path) -> None:
    """Bytes and files of a history, and what its upkeep takes."""
    report.section("commits of one row")
    numbers = (*COMMITS_FITTED, *COMMITS)
    found = {number: history(folder / f"commits-{number}", number) for number in numbers}
    few, many = COMMITS_FITTED
    costs = History.of(
        few, found[few]["bytes"], many, found[many]["bytes"], found[few]["files"] / few
    )
    report.figure("bytes of a commit, of 100", costs.disk(100) / 100, " B")
    report.figure("and for each doubling of commits", costs.bytes_doubling, " B more")
    report.figure("files of a commit", costs.files, "")
    for number in COMMITS:
        label, here = f"{number} commits", found[number]
        check(report, f"{label}, on disk", costs.disk(number), here["bytes"], " B")
        predicted = costs.reclaimed_files(number, KEPT)
        check(report, f"{label}, files that cleanup removes", predicted, here["reclaimed"], "")
        each = here["upkeep cpu"] / number * 1e3
        report.figure(f"{label}: processor time of upkeep, each", each, " ms")
        written = here["upkeep written"] / number
        report.figure(f"{label}: bytes that upkeep writes, each", written, " B")


def branches(report: Report, folder: Path) -> None:
    """Bytes of a branch: made, and written to once."""
    report.section("branches")
    each: dict[int, tuple[float, float]] = {}
    place = folder / "branches"
    with og.init(place, SCHEMA, durability="none", upkeep=False) as graph:
        graph.mutate(ADD, {"n": "first"})
        for number in (BRANCHES_FITTED, *BRANCHES):
            labels = [f"b{number}-{one}" for one in range(number)]
            sizes = [on_disk(place)[1]]
            for label in labels:
                graph.branches.create(label)
            sizes.append(on_disk(place)[1])
            for label in labels:
                graph.mutate(ADD, {"n": label}, branch=label)
            sizes.append(on_disk(place)[1])
            each[number] = ((sizes[1] - sizes[0]) / number, (sizes[2] - sizes[1]) / number)
    made, written = each[BRANCHES_FITTED]
    report.figure("bytes of a branch", made, " B")
    report.figure("bytes of its first write", written, " B")
    for number in BRANCHES:
        check(report, f"{number} branches more", made + written, sum(each[number]), " B")


# ---- requests -----------------------------------------------------------------------------


def bucket(report: Report, _folder: Path) -> None:
    """Requests of a write in a bucket: whatever the rows, the commits and the branches."""
    report.section("requests in a bucket")
    with Seaweed() as server, Proxy(server.endpoint) as proxy:
        root = f"s3://{server.bucket}/scale"
        og.init(root, SCHEMA, storage_options=server.options()).close()
        options = server.options(proxy.endpoint)
        with og.open(root, storage_options=options, upkeep=False) as graph:
            counts: list[dict[str, float]] = []
            for first, last in itertools.pairwise((0, 0, *GROWN)):
                for number in range(first, last):
                    graph.mutate(ADD, {"n": f"more {number}"})
                    if number % 4 == 0:
                        graph.branches.create(f"more{number}")
                counts.append(_requests(graph, proxy, f"new{last}"))
    for name, value in counts[0].items():
        report.figure(f"requests: {name}", value, "")
    for commits, found in zip(GROWN, counts[1:], strict=True):
        for name, value in found.items():
            label = f"{name}, {commits} commits and {commits // 4} branches more"
            check(report, label, counts[0][name], value, "")


def _requests(graph: og.Graph, proxy: Proxy, label: str) -> dict[str, float]:
    """Count the requests of steps; writes several times, as some of them also fold."""
    found: dict[str, float] = {}
    graph.mutate(ADD, {"n": f"{label} warm"})

    def counted(name: str, number: int, branch: str) -> None:
        seen = []
        for one in range(number):
            with proxy.watched() as traffic:
                graph.mutate(ADD, {"n": f"{label} {name} {one}"}, branch=branch)
            seen.append(len(traffic))
        found[name] = statistics.median(seen)

    counted("insert", 5, "main")
    with proxy.watched() as traffic:
        graph.branches.create(label)
    found["make a branch"] = len(traffic)
    counted("first insert on a branch", 1, label)
    counted("insert on a branch", 5, label)
    return found


# ---- shuffles -----------------------------------------------------------------------------


def shuffle(report: Report, folder: Path) -> None:
    """Bytes that a counted pattern of two hops shuffles on Spark."""
    report.section("a counted 2-hop on Spark")
    numbers = (SHUFFLE_FITTED, *SHUFFLES)
    places = [folder / f"shuffle-{number}" for number in numbers]
    for place, number in zip(places, numbers, strict=True):
        load(place, SHUFFLE_NODES, number, index=False)
    found = run_child(__file__, "--folder", str(folder / "spark"), "--child", *map(str, places))
    tasks = [int(found[f"{place}: tasks"]) for place in places]
    written = [found[f"{place}: bytes"] for place in places]
    sent = Shuffle.rows(SHUFFLE_NODES, SHUFFLE_FITTED, tasks[0])
    costs = Shuffle(row=written[0] / (2 * sent))
    report.figure("bytes of a shuffled row", costs.row, " B")
    for number, read_by, value in zip(SHUFFLES, tasks[1:], written[1:], strict=True):
        predicted = costs.disk(SHUFFLE_NODES, number, read_by, 2)
        check(report, f"{number:,} edges, {read_by} tasks, shuffled", predicted, value, " B")


def child(folder: Path, places: list[str]) -> None:
    """Run the pattern on every graph in one session; print what was shuffled."""
    from _spark_process import watched_session

    import omnigraph.spark as ogs
    from omnigraph.spark.frames import scan
    from omnigraph.spark.queries.degrees import divided

    answers: dict[str, float] = {}
    with watched_session(folder, cores=2, memory="1g", partitions=4) as watched:
        for place in places:
            with og.open(place, mode="ro") as graph:
                read = scan(graph, graph.snapshot(), "Knows", ("src",), None)
            # Both hops are counted at once, on two cores.
            answers[f"{place}: tasks"] = len(divided(read, 1))
            with watched.job(place):
                ogs.query(watched.session, place, COUNTED).scalar()
    for place in places:
        answers[f"{place}: bytes"] = watched.costs[place].shuffle_bytes
    print(json.dumps(answers))


# ---- writers ------------------------------------------------------------------------------


def writers(report: Report, _folder: Path) -> None:
    """Fit the model of writers to some measured figures, and compare it with the others."""
    report.section("writers")
    content = json.loads((RESULTS / "writers.json").read_text(encoding="utf-8"))
    seen = {item["name"]: item for item in content["figures"]}
    many_to_one = f": time of a write of {WRITERS} writers / of one alone"

    def ratio(place: str) -> float:
        return 1 / float(seen[place + many_to_one]["value"])

    def wait(place: str) -> float:
        return float(seen[f"{place}: wait of one write, median"]["value"])

    def rate(place: str) -> float:
        found = re.findall(r"-> (\d+)", seen[place + many_to_one]["note"])
        return statistics.median(int(item) for item in found)

    alone_s = ratio("disk") / rate("disk")
    member_s = (WRITERS / rate("disk") - alone_s) / (WRITERS - 1)
    publish_s = 1 / rate("disk, a branch each") - member_s
    trip_s = (alone_s - publish_s - member_s) / TRIPS
    disk = Store(trip_s=trip_s, publish_s=publish_s, member_s=member_s)
    far_s = (ratio("bucket") / rate("bucket") - publish_s - member_s) / TRIPS
    # What the server and the proxy before it can do, beside the writers on the same machine.
    request_s = 1 / (rate("bucket, a branch each") * BRANCH_REQUESTS)
    far = replace(disk, trip_s=far_s, request_s=request_s)
    apart = replace(far, trips_after=BRANCH_TRIPS - far.trips_before, requests=BRANCH_REQUESTS)
    report.figure("processor time of a publish", publish_s * 1e3, " ms")
    report.figure("processor time of a write in it", member_s * 1e3, " ms")
    report.figure("an answer of the bucket", far.trip_s * 1e3, " ms")
    report.figure("requests a second, all together", 1 / request_s, "")
    runs = {
        "disk": (disk, 1),
        "disk, a branch each": (disk, WRITERS),
        "bucket": (far, 1),
        "bucket, a branch each": (apart, WRITERS),
    }
    for place, (store, lines) in runs.items():
        alone, many = simulate(store, 1), simulate(store, WRITERS, branches=lines)
        gain = many.rate / alone.rate
        if place == "bucket":
            measured = float(seen["bucket: requests for each write"]["value"])
            check(report, f"{place}, requests of a write", many.requests_each, measured, "")
            check(report, f"{place}, throughput", gain, ratio(place), "x")
        else:
            note = f"measured {ratio(place):.1f}x, which the constants were taken from"
            report.figure(f"{place}, throughput of {WRITERS}, simulated", gain, "x", note=note)
        check(report, f"{place}, wait", many.wait_s / alone.wait_s, wait(place), "x")
    for place, (store, lines) in runs.items():
        for number in CURVE:
            found = simulate(store, number, branches=number if lines > 1 else 1, seconds=300)
            note = f"a write takes {found.wait_s:.2f} s, {found.requests_each:.2f} requests"
            report.figure(f"{place}: {number} writers, simulated", found.rate, "/s", note=note)
    wide = replace(apart, request_s=1 / REQUESTS_S)
    for lines in SHARED:
        found = simulate(wide, CURVE[-1], branches=lines, seconds=120)
        note = f"a write takes {found.wait_s:.2f} s, {found.requests_each:.2f} requests"
        label = f"{CURVE[-1]} writers on {lines} branches, simulated"
        report.figure(label, found.rate, "/s", note=note)


PARTS = {
    "rows": rows,
    "versions": versions,
    "commits": commits,
    "branches": branches,
    "bucket": bucket,
    "shuffle": shuffle,
    "writers": writers,
}


def main() -> None:
    """Measure the parts asked for and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--folder", help="where to put the graphs")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(Path(options.folder), options.child)
        return
    report = Report("scale", {"only": options.only})
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-", dir=options.folder) as name:
        for part in options.only.split(","):
            PARTS[part](report, Path(name))
    report.write()


if __name__ == "__main__":
    main()

"""What one inserted row costs in a bucket: requests and bytes read, by the size of its table.

    python benchmarks/object_store.py [--quick] [--rows SMALL,LARGE]

A proxy in front of a real S3 server (SeaweedFS, on this machine) counts. A handle is warm when it
has written before. An insert looks its key up in one page of the key index: the page is read if it
is not in memory yet, so both cases are told apart. Without an index the ids of the table are read;
the first write after such a load makes the index.
"""

from __future__ import annotations

import argparse
import random
import time
from statistics import fmean, median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _harness import Report

import omnigraph as og
from omnigraph.testing import Proxy, Seaweed, Traffic

SCHEMA = "node Person { name: String @key }"
ADD = "query add($n: String) { insert Person { name: $n } }"
PAGE_ROWS = 4096
"""Keys in one page of the index, as Lance divides it."""
PAGES = 8
"""Pages that inserts aim at, if there are as many."""
RATIO_MAX = 1.2
REQUESTS_MAX = 14


def key(rank: int, number: int) -> str:
    """Return a key that lies between those of two neighbouring rows."""
    return f"{str(rank * 10).rjust(12, '0')}-{number:04d}"


def keys(rows: int) -> pa.Array:
    """Return the keys of a table, which leave room between them."""
    return pc.utf8_lpad(pa.array(np.arange(rows) * 10).cast(pa.string()), 12, "0")


class Table:
    """A table in a bucket, and inserts into it that are counted."""

    def __init__(self, server: Seaweed, proxy: Proxy, rows: int, *, index: bool) -> None:
        self.rows = rows
        self._proxy = proxy
        root = f"s3://{server.bucket}/{rows}-{'indexed' if index else 'plain'}"
        began = time.perf_counter()
        with og.init(root, SCHEMA, storage_options=server.options()) as graph:
            rows_of = {"Person": pa.table({"name": keys(rows)})}
            graph.bulk(rows_of, mode="append", engine="local", index=index)
            if index:
                # A small table gets its index later by itself.
                graph.ensure_indices()
        self.seconds = time.perf_counter() - began
        self.graph = og.open(root, storage_options=server.options(proxy.endpoint))
        self._count = 0

    def insert(self, rank: int) -> Traffic | None:
        """Insert a row beside the one of a rank; None when the write also folded a tail."""
        self._count += 1
        with self._proxy.watched() as found:
            io = self.graph.mutate(ADD, {"n": key(rank, self._count)}).io
        return found if io["publish_attempts"] == 1 else None

    def by_page(self) -> tuple[list[Traffic], list[Traffic]]:
        """Return inserts whose page was not in memory, and some whose page was."""
        count = -(-self.rows // PAGE_ROWS)
        pages = random.Random(7).sample(range(count), min(count, PAGES + 1))  # noqa: S311
        ranks = [min(page * PAGE_ROWS + PAGE_ROWS // 2, self.rows - 2) for page in pages]
        self.insert(ranks[0])
        found = [[self.insert(rank) for rank in ranks[1:]] for _time in range(2)]
        first, again = ([item for item in part if item is not None] for part in found)
        return first, again


def read_bytes(traffic: Traffic | None) -> int:
    """Return the bytes that were read, listings apart."""
    requests = [] if traffic is None else traffic.requests
    return sum(item.answered_bytes for item in requests if item.kind == "GET")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", default="10000,10000000")
    options = parser.parse_args()
    small, large = (int(item) for item in options.rows.split(","))
    large = min(large, 200_000) if options.quick else large
    report = Report("object_store", {"quick": options.quick, "rows": [small, large]})
    cold: dict[int, float] = {}
    with Seaweed() as server, Proxy(server.endpoint) as proxy:
        for rows in (small, large):
            report.section(f"{rows:,} rows")
            table = Table(server, proxy, rows, index=True)
            report.figure("loaded and indexed in", table.seconds, " s")
            first, again = table.by_page()
            cold[rows] = fmean(read_bytes(item) for item in first)
            warm = fmean(read_bytes(item) for item in again)
            each = ", ".join(f"{len(item)}: {read_bytes(item):,} B" for item in first)
            report.figure(f"read, {rows:,} rows, page not in memory", cold[rows], " B", note=each)
            report.figure(f"read, {rows:,} rows, page in memory", warm, " B", at_most=0)
            for name, part in (("page not in memory", first), ("page in memory", again)):
                usual = median(len(item) for item in part)
                report.figure(f"requests, {rows:,} rows, {name}", usual, "", at_most=REQUESTS_MAX)
            table.graph.close()
            plain = Table(server, proxy, rows, index=False)
            # It makes the index as well, which reads the keys once more.
            with proxy.watched() as traffic:
                plain.graph.mutate(ADD, {"n": key(rows // 2, 0)})
            found = read_bytes(traffic)
            report.figure(f"read, {rows:,} rows, first insert, no key index", found, " B")
            plain.graph.close()
    report.section("with size")
    ratio = cold[large] / cold[small]
    report.figure("bytes read, large / small", ratio, "x", at_most=RATIO_MAX)
    report.write()


if __name__ == "__main__":
    main()

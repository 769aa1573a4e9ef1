"""What one inserted row costs in a bucket: requests and bytes read, by the size of its table.

    python benchmarks/object_store.py [--quick] [--rows SMALL,LARGE]

A proxy in front of a real S3 server (SeaweedFS, on this machine) counts. A handle is warm when it
has written before. An insert looks its key up in one page of the key index: the page is read if it
is not in memory yet, so both cases are told apart. Without an index the ids of the table are read;
the first write after such a load makes the index.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from _harness import Report

import omnigraph as og

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.servers.proxy import Proxy, Traffic
from tests.servers.seaweed import Seaweed

SCHEMA = "node Person { name: String @key }"
ADD = "query add($n: String) { insert Person { name: $n } }"
PAGE_ROWS = 4096
"""Keys in one page of the index, as Lance divides it."""
PLACES = 11
"""Rows an insert is put beside, spread evenly: a page with fewer keys is met less often."""
AGAIN = 2
"""How many of these places are written to once more, with their page in memory."""
STRETCHES = 4
"""Places far apart in a large index that are looked at first: each brings the outline around it."""
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
                graph.maintenance.ensure_indices()
        self.seconds = time.perf_counter() - began
        self._reopen = partial(og.open, root, storage_options=server.options(proxy.endpoint))
        self.graph = self._reopen()
        self._count = 0

    def insert(self, rank: int) -> Traffic | None:
        """Insert a row beside the one of a rank; None when the write also folded a tail."""
        self._count += 1
        with self._proxy.watched() as found:
            io = self.graph.mutate(ADD, {"n": key(rank, self._count)}).io
        return found if io["publish_attempts"] == 1 else None

    def inserts(self) -> dict[str, list[Traffic]]:
        """Return inserts by what of the index was in memory, the same way for every size.

        Each place gets a handle that has written to the page beside it, and so has read the
        outline around both.
        """
        found: dict[str, list[Traffic | None]] = {"not its page": [], "its page": []}
        for number in range(PLACES):
            rank = int((number + 0.5) / PLACES * self.rows)
            self.graph.close()
            self.graph = self._reopen()
            beside = rank - PAGE_ROWS if rank >= PAGE_ROWS else rank + PAGE_ROWS
            self.insert(beside)
            found["not its page"].append(self.insert(rank))
            if number < AGAIN:
                found["its page"].append(self.insert(rank))
        if self.rows >= STRETCHES * PAGE_ROWS * PLACES:
            ranks = [int((n + 0.25) / STRETCHES * self.rows) for n in range(STRETCHES)]
            found["nothing"] = [self.insert(rank) for rank in ranks]
        return {name: [item for item in part if item] for name, part in found.items()}


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
            for known, part in table.inserts().items():
                if not part:
                    continue
                label = f"{rows:,} rows, {known} in memory"
                warm = known != "nothing"
                read = fmean(read_bytes(item) for item in part)
                if known == "not its page":
                    cold[rows] = read
                report.figure(f"read, {label}", read, " B")
                requests = [len(item) for item in part]
                limit = REQUESTS_MAX if warm else None
                # The edge of a stretch may lie between a place and the page beside it.
                note = f"most {max(requests)}"
                usual = median(requests)
                report.figure(f"requests, {label}", usual, "", at_most=limit, note=note)
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

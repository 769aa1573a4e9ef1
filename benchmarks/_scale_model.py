"""What a graph costs, as functions of its size; `scale.py` measures the constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

from omnigraph.limits import ROWS_PER_FILE_MAX


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Constants of nodes and edges, in bytes."""

    node_disk: float
    edge_disk: float
    node_memory: float
    edge_memory: float

    def disk(self, nodes: int, edges: int) -> float:
        """Return the bytes of a loaded graph, key indexes included."""
        return nodes * self.node_disk + edges * self.edge_disk

    def memory(self, nodes: int, edges: int) -> float:
        """Return the bytes that adjacency takes while a process traverses all edges."""
        return nodes * self.node_memory + edges * self.edge_memory


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Constants of one version of a table, in bytes: it names every file of rows."""

    base: float
    file: float

    @classmethod
    def of(cls, few: int, few_bytes: float, many: int, many_bytes: float) -> Versions:
        """Return the constants that versions of two measured tables have."""
        each = (many_bytes - few_bytes) / (files_of(many) - files_of(few))
        return cls(base=few_bytes - each * files_of(few), file=each)

    def disk(self, rows: int) -> float:
        """Return the bytes that one more commit to a table writes for its version."""
        return self.base + self.file * files_of(rows)


def files_of(rows: int) -> int:
    """Return how many files hold the rows of a compacted table."""
    return math.ceil(rows / ROWS_PER_FILE_MAX)


@dataclass(frozen=True, kw_only=True)
class History:
    """Constants of commits of one row that no upkeep has touched.

    A version of the manifest names the files before it, of which folding leaves a number that grows
    with the logarithm of the commits.
    """

    bytes_first: float
    bytes_doubling: float
    files: float

    @classmethod
    def of(cls, few: int, few_bytes: float, many: int, many_bytes: float, files: float) -> History:
        """Return the constants that two measured histories have."""
        growth = (many_bytes / many - few_bytes / few) / math.log2(many / few)
        first = few_bytes / few - growth * math.log2(few)
        return cls(bytes_first=first, bytes_doubling=growth, files=files)

    def disk(self, commits: int) -> float:
        """Return the bytes of some commits, one row each."""
        return commits * (self.bytes_first + self.bytes_doubling * math.log2(commits))

    def reclaimed_files(self, commits: int, kept: int) -> float:
        """Return how many files a cleanup removes that keeps the newest states."""
        return max(0, commits - kept) * self.files


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """Constants of a counted hop on Spark: bytes of a row that is shuffled."""

    row: float

    @staticmethod
    def rows(nodes: int, edges: int, tasks: int) -> float:
        """Return the rows of one hop: each task sends each end it has met once.

        `tasks` is how many read the edges. Ends are taken to be drawn evenly.
        """
        each = edges / tasks
        return tasks * nodes * -math.expm1(each * math.log1p(-1 / nodes))

    def disk(self, nodes: int, edges: int, tasks: int, hops: int) -> float:
        """Return the bytes that a pattern of some hops writes for its shuffles."""
        return hops * self.row * self.rows(nodes, edges, tasks)

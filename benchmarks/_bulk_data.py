"""The input of the bulk benchmark: people and acquaintances, as Parquet and as JSONL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person { since: I32? }
"""
ROW_GROUP = 262_144


class Input:
    """String keys, random ends; made chunk by chunk, so that its size is not bound by memory.

    `hub` is the share of all edges that end at one node.
    """

    def __init__(
        self, folder: Path, nodes: int, edges: int, *, jsonl: bool, hub: float = 0.0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.nodes, self.edges = nodes, edges
        self.people = folder / "people.parquet"
        self.knows = folder / "knows.parquet"
        self.lines = folder / "input.jsonl"
        rng = np.random.default_rng(7)
        with self.lines.open("w", encoding="utf-8") as out:
            lines = out if jsonl else None
            _write(self.people, nodes, lambda start, rows: _people(rng, start, rows), lines)
            _write(self.knows, edges, lambda _start, rows: _knows(rng, nodes, rows, hub), lines)

    @property
    def rows(self) -> int:
        """Rows of all types."""
        return self.nodes + self.edges

    @property
    def sources(self) -> dict[str, str]:
        """What `bulk` is given."""
        return {"Person": str(self.people), "Knows": str(self.knows)}


def _write(path: Path, rows: int, make: Callable[[int, int], pa.Table], out: TextIO | None) -> None:
    writer = None
    for start in range(0, rows, ROW_GROUP):
        table = make(start, min(ROW_GROUP, rows - start))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        if out is not None:
            out.writelines(_lines(table))
    if writer is not None:
        writer.close()


def _people(rng: np.random.Generator, start: int, count: int) -> pa.Table:
    ages = pa.array(rng.integers(0, 90, count), pa.int32())
    names = _ids(np.arange(start, start + count))
    city = pc.binary_join_element_wise("city", pc.cast(ages, pa.string()), " ")
    return pa.table({"name": names, "age": ages, "city": city})


def _knows(rng: np.random.Generator, nodes: int, count: int, hub: float) -> pa.Table:
    ends = rng.integers(0, nodes, (count, 2))
    ends[: int(count * hub), 1] = 0
    since = pa.array(1990 + ends[:, 0] % 30, pa.int32())
    return pa.table({"from": _ids(ends[:, 0]), "to": _ids(ends[:, 1]), "since": since})


def _ids(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("p", pc.cast(pa.array(numbers), pa.string()), "")


def _lines(table: pa.Table) -> list[str]:
    found: list[str] = []
    for row in table.to_pylist():
        envelope: dict[str, object]
        if "name" in row:
            envelope = {"type": "Person", "data": row}
        else:
            envelope = {"edge": "Knows", "from": row.pop("from"), "to": row.pop("to"), "data": row}
        found.append(json.dumps(envelope) + "\n")
    return found

"""What the cost tests share: a small schema, its writes, and ways to count beside the engine's."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.store import measured

SCHEMA = """
node Person { name: String @key email: String? @unique age: I32? }
node Company { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company
"""
TABLES = ("node:Company", "node:Person", "edge:Knows", "edge:WorksAt")

QUERIES = """
query add_person($name: String, $age: I32) { insert Person { name: $name, age: $age } }
query add_knows($a: String, $b: String) { insert Knows { from: $a, to: $b } }
"""

OPENS = ("data_opens_pinned", "data_opens_latest")


def new_graph(folder: Path, schema: str = SCHEMA) -> og.Graph:
    """Create a graph whose writes are not synced: syncing changes no count but `syncs`."""
    return og.init(folder / "graph", schema, durability="none", upkeep=False)


def add_person(graph: og.Graph, name: str) -> og.MutationResult:
    return graph.mutate(QUERIES, {"name": name, "age": 1}, name="add_person")


def add_knows(graph: og.Graph, *, source: str, target: str) -> og.MutationResult:
    return graph.mutate(QUERIES, {"a": source, "b": target}, name="add_knows")


def three_table_rows(tag: str, *, people: int = 4) -> list[dict[str, object]]:
    """Return people, a company and its edges: three tables in one load."""
    names = [f"{tag}{number}" for number in range(people)]
    rows: list[dict[str, object]] = [{"type": "Company", "data": {"name": tag}}]
    rows += [{"type": "Person", "data": {"name": name}} for name in names]
    rows += [{"edge": "WorksAt", "from": name, "to": tag, "data": {}} for name in names]
    return rows


def is_plain(io: Mapping[str, int]) -> bool:
    """Whether a write did no folding beside itself."""
    return io["publish_attempts"] == 1


class Bytes:
    """Bytes this process read and wrote inside a block, from the kernel's own count."""

    def __init__(self) -> None:
        self.read = 0
        self.written = 0


@contextmanager
def counted_bytes() -> Iterator[Bytes]:
    found = Bytes()
    before = _process_io()
    yield found
    after = _process_io()
    found.read = after["rchar"] - before["rchar"]
    found.written = after["wchar"] - before["wchar"]


def _process_io() -> dict[str, int]:
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        pytest.skip("this system does not count the bytes of a process")
    pairs = (row.split(": ") for row in text.splitlines())
    return {name: int(value) for name, value in pairs}


@contextmanager
def recorded_opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Record every dataset opened inside the block, whoever asks for it and whatever is counted."""
    opened: list[str] = []
    original = lance.dataset

    def record(uri: str, *args: object, **options: object) -> object:
        opened.append(os.fspath(uri))
        return original(uri, *args, **options)  # type: ignore[arg-type]  # passed on as given

    with monkeypatch.context() as patch:
        patch.setattr(lance, "dataset", record)
        yield opened


def cost_of_open(uri: str) -> Counter[str]:
    """Return what a cold open of a graph costs."""
    with measured() as io, og.open(uri, durability="none"):
        return Counter(io)


def assert_flat(costs: Sequence[Mapping[str, int]], *, slack: int) -> None:
    """Check that every counter is the same in every row of costs, up to the slack."""
    for name in sorted({name for cost in costs for name in cost}):
        values = [cost.get(name, 0) for cost in costs]
        assert max(values) - min(values) <= slack, f"{name} is not flat: {values}"

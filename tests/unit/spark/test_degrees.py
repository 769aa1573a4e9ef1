"""Workers count edges by node, whatever they may hold at once."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.graph.seam import catalog_at
from omnigraph.lang import compile_query
from omnigraph.plan import ReadPlan
from omnigraph.plan.read import NodeScan
from omnigraph.spark.frames import Scan, scan
from omnigraph.spark.queries import degrees
from omnigraph.spark.queries.degrees import KEY, WEIGHT, Degrees, Meant, divided

NAMES = st.text(alphabet="aä9\U0001f600", max_size=5)
EDGES = st.lists(st.tuples(NAMES, NAMES), max_size=40)


@dataclass(frozen=True)
class FakeScan:
    """Rows that a scan would read, a batch for each group."""

    rows: Sequence[Sequence[tuple[str, str]]]
    names: tuple[str, ...] = ("src", "dst")

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(len(self.rows)))

    def read(self, task: int, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        assert batch_rows > 0
        # One that begins within its buffers, as slices do.
        rows = [("before", "before"), *self.rows[task]]
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=["src", "dst"]).slice(1)


@dataclass(frozen=True)
class FakeMeant:
    """Some ids."""

    wanted: Sequence[str]

    def ids(self) -> pa.ChunkedArray:
        half = len(self.wanted) // 2
        parts = [self.wanted[:half], self.wanted[half:]]
        return pa.chunked_array([pa.array(part, pa.string()) for part in parts])


def counts(found: Degrees) -> Counter[str]:
    total: Counter[str] = Counter()
    for task in range(len(found.groups)):
        for batch in found.read(task):
            assert batch.schema.types == [pa.string(), pa.int64()]
            ids, numbers = batch.column(KEY).to_pylist(), batch.column(WEIGHT).to_pylist()
            for id, number in zip(ids, numbers, strict=True):
                total[id] += number
    return total


@given(
    groups=st.lists(EDGES, max_size=5),
    tasks=st.integers(1, 3),
    held_bytes=st.sampled_from([1, 100, 1 << 30]),
    wanted=st.none() | st.lists(NAMES, unique=True),
)
def test_edges_are_counted(
    groups: list[list[tuple[str, str]]],
    tasks: int,
    held_bytes: int,
    wanted: list[str] | None,
) -> None:
    plan = FakeScan(groups)
    found = Degrees(
        scan=plan,  # type: ignore[arg-type]
        start="src",
        groups=divided(plan, tasks),  # type: ignore[arg-type]
        held_bytes=held_bytes,
        meant=None if wanted is None else FakeMeant(wanted),  # type: ignore[arg-type]
    )
    assert len(found.groups) <= max(tasks, 1)
    edges = [edge for group in groups for edge in group]
    expected = Counter(one for one, other in edges if wanted is None or other in wanted)
    assert counts(found) == expected


@pytest.mark.parametrize("parts", [1, 2, 64])
def test_an_id_is_always_in_the_same_part(parts: int) -> None:
    names = ["", "a", "ab", "abc", "xabc", "ö", "p123", "\U0001f600"]
    first = degrees._part_of(pa.array(names), parts).tolist()
    again = degrees._part_of(pa.array(["q", *reversed(names)]).slice(1), parts).tolist()
    assert first == again[::-1]
    assert max(first) < parts


def test_nodes_that_are_meant_are_those_of_the_condition(tmp_path: Path) -> None:
    schema = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
    rows = [
        {"type": "Person", "data": {"name": f"p{n}", "age": None if n == 3 else n}}
        for n in range(6)
    ]
    with og.init(tmp_path / "g", schema, durability="none") as graph:
        graph.load(rows, mode="append")
        text = "query q($n: I32) { match { $p: Person  $p.age < $n } return { $p.name } }"
        plan = compile_query(text, catalog_at(graph, graph.snapshot())).plan
        assert isinstance(plan, ReadPlan)
        (step,) = (item for item in plan.steps if isinstance(item, NodeScan))
        assert step.condition is not None
        meant = Meant(
            scan=scan(graph, graph.snapshot(), "Person", ("id", "age")),
            variable="p",
            condition=step.condition,
            parameters={"n": 5},
            now=datetime.datetime.now(datetime.UTC),
        )
        assert meant.ids().to_pylist() == ["p0", "p1", "p2", "p4"]
        # A filter of the storage may let more through, and never decides alone.
        loose: Scan = replace(meant.scan, where="age < 100")
        assert replace(meant, scan=loose).ids().to_pylist() == ["p0", "p1", "p2", "p4"]

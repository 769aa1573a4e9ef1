"""Entity resolution on Spark finds what it finds in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.lang import compile_schema
from omnigraph.pipeline import read_pipeline, run_pipeline
from omnigraph.resolve import Comparison, Key, Rules, propose, resolve
from omnigraph.spark import resolving
from omnigraph.spark.resolving import part_count
from tests.spark.worlds import FULL, NewGraph

pytest.importorskip("rapidfuzz")

SCHEMA = """
node Person { key: String @key  name: String?  city: String?  face: Vector(4)?  seen: I32? }
edge Knows: Person -> Person { @unique(src, dst) }
edge Likes: Person -> Person { since: I32? }
"""
RULES = Rules(
    type="Person",
    blocks=[Key("name", by="prefix", length=3), [Key("city"), Key("name", by="initials")]],
    compare=[
        Comparison("name", by="edit", weight=2.0, threshold=0.6),
        Comparison("city", by="normalised"),
        Comparison("face", by="vector"),
    ],
    threshold=0.85,
    survivor="most_edges",
    newest_by="seen",
    properties={"*": "newest", "name": "longest"},
    block_nodes_max=40,
    cluster_nodes_max=6,
)
FIRST = ["Ann", "Anna", "Bob", "Robert", "Cy", "Ännchen", "Dee", "Deborah"]
LAST = ["Lee", "Leigh", "Hill", "Young", "O'Neil", "Oneil"]


def _fill(graph: og.Graph, nodes: int, seed: int) -> None:
    """Make people of few names, in several loads, so that their table has several fragments."""
    draw = np.random.default_rng(seed)
    for part in np.array_split(np.arange(nodes), 4):
        size = len(part)
        pairs = zip(draw.choice(FIRST, size), draw.choice(LAST, size), strict=True)
        names = [f"{first} {last}" for first, last in pairs]
        cities = [
            None if at % 7 == 0 else str(name) for at, name in enumerate(draw.choice(LAST, size))
        ]
        faces = draw.integers(0, 2, (size, 4)).astype(np.float32)
        rows = {
            "key": [f"p{number:05}" for number in part],
            "name": [None if at % 11 == 0 else name for at, name in enumerate(names)],
            "city": cities,
            "face": [None if at % 3 == 0 else row.tolist() for at, row in enumerate(faces)],
            "seen": draw.integers(0, 9, size).tolist(),
        }
        graph.load_table("Person", pa.table(rows), mode="append")
    ends = draw.integers(0, nodes, (nodes * 2, 2))
    unique = np.unique(ends, axis=0)
    for kind, joined in (("Knows", unique), ("Likes", ends)):
        columns = {
            name: [f"p{number:05}" for number in joined[:, column]]
            for column, name in enumerate(("from", "to"))
        }
        graph.load_table(kind, pa.table(columns), mode="append")


@pytest.mark.parametrize("seed", range(5 if FULL else 1))
def test_both_engines_find_and_propose_the_same(
    spark: Any, new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # Several tasks read, and several parts are compared.
    monkeypatch.setattr(resolving, "SPARK_SCAN_ROWS", 60)
    monkeypatch.setattr(resolving, "SPARK_RESOLVE_PART_BYTES", 20_000)
    graph = new_graph(SCHEMA)
    _fill(graph, 2_000 if FULL else 200, seed)
    here = resolve(graph, RULES, engine="local")
    there = resolve(graph, RULES, session=spark)
    for name in ("pairs", "clusters", "skipped"):
        assert getattr(there, name).equals(getattr(here, name)), name
    assert there.report() == here.report()
    assert there.plan.nodes.equals(here.plan.nodes)
    report = here.report()
    assert min(report.merged, report.blocks_skipped, report.clusters_too_large) > 0
    assert all(item["redirected"] for item in report.edges.values())
    assert report.edges["Knows"]["collapsed"]
    propose(graph, here, branch="here")
    propose(graph, there, branch="there")
    assert not graph.diff("here", "there").counts()
    assert not list(Path(graph.uri, "_scratch").glob("*"))


@pytest.mark.skipif(not FULL, reason="the step is tested without Spark; this one takes a while")
def test_a_pipeline_resolves_on_spark(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph(SCHEMA)
    (tmp_path / "people.csv").write_text("key,name\na,Ann Lee\nb,ann lee\nc,Bob\n")
    (tmp_path / "in.toml").write_text("""
branch = "in"
[resolve]
type = "Person"
blocks = [{ property = "name", by = "normalised" }]
compare = [{ property = "name", by = "edit" }]
threshold = 0.9
[then]
merge = "main"
[[Person]]
data = "people.csv"
""")
    pipeline = read_pipeline(tmp_path / "in.toml")
    report = run_pipeline(graph, pipeline, run_id="one", engine="spark", session=spark)
    assert [step.detail for step in report.steps][1] == "1 Person node merged on branch in"
    assert graph.get("Person", "b") is None
    assert graph.get("Person", "c") is not None


def test_parts_are_planned_by_bytes() -> None:
    node = compile_schema(SCHEMA).catalog.nodes["Person"]
    wide = compile_schema(SCHEMA.replace("Vector(4)", "Vector(768)")).catalog.nodes["Person"]
    assert part_count(node, RULES, 0) == 1
    assert part_count(node, RULES, 10_000_000) > part_count(node, RULES, 1_000_000) > 1
    assert part_count(wide, RULES, 1_000_000) > 10 * part_count(node, RULES, 1_000_000)

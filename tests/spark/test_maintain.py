"""Optimizing on Spark does what optimizing in one process does."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed, error
from omnigraph.graph.seam import table_at
from omnigraph.spark import optimize
from omnigraph.spark.engine import Engine
from omnigraph.spark.maintain import SparkWorkers
from omnigraph.store import Table
from omnigraph.store.tables.workers import InProcess
from tests.spark.test_sources import _code
from tests.spark.worlds import FULL, NewGraph, content, full_only

SCHEMA = """\
node Doc {
    slug: String @key
    kind: enum(note, page) @index
    tags: [String]
    text: String @index
    face: Vector(4) @index
}

edge Cites: Doc -> Doc { @unique(src, dst) }
"""

INDEXES = ("face_ivf_flat", "id_idx", "kind_bitmap", "slug_idx", "text_inverted")


def _fill(graph: og.Graph, *, loads: int) -> None:
    """Leave many small fragments, with rows struck out, that no index knows."""
    for number in range(loads):
        docs = [
            {
                "type": "Doc",
                "data": {
                    "slug": f"d{number}-{n}",
                    "kind": "note" if n % 2 else "page",
                    "tags": [f"t{n % 3}"],
                    "text": f"words of number{n}",
                    "face": [n, number, 1.0, 0.5],
                },
            }
            for n in range(30)
        ]
        ends = [f"d{number}-{n}" for n in range(30)]
        cites = [{"edge": "Cites", "from": a, "to": b} for a, b in itertools.pairwise(ends)]
        graph.bulk(_file(graph, [*docs, *cites]), mode="append", index=False)
    graph.mutate('query q() { delete Doc where slug = "d0-3" }')


def _file(graph: og.Graph, rows: list[Any]) -> str:
    path = Path(graph.uri).parent / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def _shape(graph: og.Graph) -> dict[str, Any]:
    """Return fragments and covered fragments by index, for every table."""
    found: dict[str, Any] = {}
    snapshot = graph.snapshot()
    for key in snapshot.tables:
        table = table_at(graph, snapshot, key)
        fragments = {item.fragment_id for item in table.fragments()}
        indexes = {
            item.name: (len(item.segments), table.index_fragments(item.name) == fragments)
            for item in table.dataset.describe_indices()
        }
        found[key] = (len(fragments), indexes)
    return found


def _answers(graph: og.Graph) -> list[Any]:
    queries = [
        'query q() { match { $d: Doc  $d.slug = "d1-7" } return { $d.text } }',
        'query q() { match { $d: Doc  $d.kind = "page" } return { count($d) as n } }',
        'query q() { match { $d: Doc  search($d.text, "number11") } return { $d.slug } }',
        'query q() { match { $a: Doc  $a cites $b  $a.slug = "d2-1" } return { $b.slug } }',
        "query q() { match { $d: Doc } return { $d.slug }"
        " order { nearest($d.face, [5.0, 2.0, 1.0, 0.5]) } limit 3 }",
    ]
    return [sorted(map(str, graph.query(text).to_pylist())) for text in queries]


class _OnlyIndexes(SparkWorkers):
    """Leaves all fragments, so that there is something to divide."""

    def rewrite(self, tables: Sequence[Table]) -> Iterator[list[Any]]:
        return iter([[] for _table in tables])


class _OnlyIndexesHere(InProcess):
    def rewrite(self, tables: Sequence[Table]) -> Iterator[list[Any]]:
        return iter([[] for _table in tables])


def test_workers_compact_and_index_as_one_process_does(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    local = new_graph(SCHEMA, name="local")
    _fill(local, loads=3)
    shutil.copytree(local.uri, tmp_path / "spark")
    with og.open(tmp_path / "spark", durability="none") as remote:
        _compare(spark, local, remote)


def _compare(spark: Any, local: og.Graph, remote: og.Graph) -> None:
    before = content(remote)
    local.optimize(workers=_OnlyIndexesHere())
    # Few rows per task: every index that can be is built in parts and joined.
    remote.optimize(workers=_OnlyIndexes(Engine(spark), 40))
    shape = _shape(remote)
    assert shape == _shape(local)
    assert shape["node:Doc"] == (3, dict.fromkeys(INDEXES, (1, True)))
    assert _answers(remote) == _answers(local)
    seen: list[str] = []
    wanted = local.optimize()
    found = optimize(remote, session=spark, progress=seen.append)
    assert [item.to_json() for item in found.tables] == [item.to_json() for item in wanted.tables]
    assert [item.fragments_removed for item in found.tables] == [3, 3]
    assert found.commit is not None
    assert _shape(remote) == _shape(local)
    assert sorted(seen) == ["edge:Cites", "node:Doc"]
    assert content(remote) == before == content(local)
    assert _answers(remote) == _answers(local)
    if FULL:
        assert optimize(remote, session=spark).commit is None


@full_only
def test_an_optimize_that_fails_halfway_is_undone(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    _fill(graph, loads=2)
    before = content(graph)
    with (
        armed(Failpoint.OPTIMIZE_AFTER_COMPACT_PRE_INDEX, error),
        pytest.raises(og.OmniGraphError),
    ):
        optimize(graph, session=spark)
    with og.open(graph.uri, durability="none") as other:
        assert content(other) == before
        assert optimize(other, session=spark).commit is not None
        assert content(other) == before


@full_only
def test_the_command_line_optimizes_on_spark(
    spark: Any, new_graph: NewGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = new_graph(SCHEMA)
    _fill(graph, loads=2)
    spark.range(1).collect()
    assert _code(["optimize", graph.uri, "--engine", "spark", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert all(item["committed"] for item in tables if item["table_key"] != "__manifest")
    assert _code(["optimize", graph.uri, "--master", "local[2]"]) == 2

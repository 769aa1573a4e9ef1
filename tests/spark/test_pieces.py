"""Inputs of every shape, cut and put together by bytes, give what one process gives."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.spark import Tuning, load
from omnigraph.spark.progress import Stage
from tests.spark.worlds import FULL, NewGraph, content, jsonl, world

SCHEMA = """\
node Person { name: String @key  age: I32? }
node Note { code: String @key  text: String? }
edge Knows: Person -> Person { @unique(src, dst) }
"""
SMALL = Tuning(piece_bytes=150_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(6):
        rows = "".join(f"p{number}-{n},{n}\n" for n in range(3))
        (many / f"{number}.csv").write_text(f"name,age\n{rows}", encoding="utf-8")
    notes = "".join(f'n{n},"one\nn{n},two ""{"x" * 40}"\n' for n in range(6000))
    (tmp_path / "notes.csv").write_text(f"code,text\n{notes}", encoding="utf-8")
    people = pa.table({"name": [f"q{n}" for n in range(900)], "age": list(range(900))})
    pq.write_table(people, tmp_path / "people.parquet", row_group_size=400)
    lines = [{"edge": "Knows", "from": "q1", "to": "p0-0"}]
    lines += [{"edge": "Knows", "from": f"q{n}", "to": "q0"} for n in range(300)]
    text = "\n".join(json.dumps(line) for line in lines)
    (tmp_path / "knows.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def _sources(folder: Path) -> list[Any]:
    return [
        og.Rows(type="Person", data=str(folder / "many")),
        og.Rows(type="Note", data=str(folder / "notes.csv")),
        og.Rows(type="Person", data=str(folder / "people.parquet")),
        str(folder / "knows.jsonl"),
    ]


def test_every_shape_loads_as_in_one_process(spark: Any, new_graph: NewGraph, folder: Path) -> None:
    local, remote = new_graph(SCHEMA, name="local"), new_graph(SCHEMA, name="remote")
    local.bulk(_sources(folder), mode="append", engine="local")
    stages: list[Stage] = []
    options: dict[str, Any] = {"engine": "spark", "session": spark, "tuning": SMALL}
    start = time.monotonic()
    result = remote.bulk(_sources(folder), mode="append", progress=stages.append, **options)
    seconds = time.monotonic() - start
    assert content(remote) == content(local)
    done = [stage for stage in stages if stage.finished]
    names = ["start", "plan", "parse", "duplicates", "check", "write", "publish"]
    assert [stage.name for stage in done] == names
    assert sum(stage.seconds for stage in done) > 0.8 * seconds
    assert result.total_entities == 18 + 6000 + 900 + 301
    # What is wrong is told with the same places, in files that were cut and that were put together.
    (folder / "many" / "4.csv").write_text("name,age\nx,1\n\ny,old\n", encoding="utf-8")
    raw = (folder / "notes.csv").read_text(encoding="utf-8")
    spoilt = raw.replace("n5000,", "n5000,,", 1)
    (folder / "notes.csv").write_text(spoilt, encoding="utf-8")
    told: list[Any] = []
    for graph, more in ((local, {"engine": "local"}), (remote, options)):
        with pytest.raises(og.DataError) as caught:
            graph.bulk(_sources(folder), mode="merge", **more)
        told.append((str(caught.value), caught.value.problems))
        sources = _sources(folder)
        left = graph.bulk(sources, mode="merge", allow_rejects=2, dry_run=True, **more)
        told[-1] += ((left.nodes, left.edges, left.rejected),)
    assert told[0] == told[1]
    places = {(Path(str(item["file"])).name, item["line"]) for item in told[1][1]}
    assert places == {("4.csv", 4), ("notes.csv", 10_002)}


def test_what_was_done_and_a_wrong_head_are_noticed_before_anything_is_read(
    new_graph: NewGraph, folder: Path
) -> None:
    graph = new_graph(SCHEMA)
    people = {"Person": str(folder / "people.parquet")}
    first = graph.bulk(people, mode="append", operation_id="one", engine="local")
    gone = {"Person": str(folder / "gone.parquet")}
    # No session is started for that, and no file is looked for.
    again = graph.bulk(gone, mode="append", operation_id="one", engine="spark", master="nowhere")
    assert (again.repeated, again.commit, again.nodes) == (True, first.commit, {})
    with pytest.raises(og.PreconditionFailedError):
        graph.bulk(gone, mode="append", expected_head="x", engine="spark", master="nowhere")


def test_no_check_holds_all_rows_in_one_place(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    """Spark guesses that frames made by workers are tiny; a broadcast of one is an error here."""
    rows = world(random.Random(3), people=40)  # noqa: S311
    first, second = jsonl(tmp_path / "a.jsonl", rows), jsonl(tmp_path / "b.jsonl", rows[:40])
    twice = jsonl(tmp_path / "c.jsonl", [*rows, *rows[:3]])
    name = "spark.sql.maxBroadcastTableSize"
    before = spark.conf.get(name)
    spark.conf.set(name, "1b")
    options: dict[str, Any] = {"session": spark, "tuning": Tuning(held_rows=0, merge_rows=0)}
    try:
        graph = new_graph()
        assert load(graph, first, mode="append", **options).commit is not None
        if FULL:
            assert load(graph, second, mode="merge", **options).commit is not None
        with pytest.raises(og.DataError, match="duplicate"):
            load(graph, twice, mode="merge", **options)
        people = tmp_path / "p.csv"
        people.write_text("name,age\nann,1\nann,2\n")
        kept = {"Person": og.Rows(data=people, duplicates="last")}
        if FULL:
            assert load(graph, kept, mode="merge", **options).nodes == {"Person": 1}
    finally:
        spark.conf.set(name, before)

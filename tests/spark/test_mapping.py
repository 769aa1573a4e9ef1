"""Mappings give the same rows and the same problems on Spark as in one process."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.spark import Tuning
from tests.integration.test_mapping import MAPPING, ORDERS, SCHEMA
from tests.spark.worlds import NewGraph, content, outcome

SMALL = Tuning(piece_bytes=60, merge_rows=0, held_rows=0)


def test_mapped_inputs_give_the_same_graph(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(ORDERS)
    (tmp_path / "crew.toml").write_text(MAPPING.replace("orders.csv.gz", "orders.csv"))
    (tmp_path / "a.jsonl").write_text('{"type": "Person", "data": {"name": "env"}}\n')
    flat = [{"who": f"f{n % 4}", "age": n, "address": {"city": "Bonn"}} for n in range(6)]
    (tmp_path / "flat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in flat))
    more = og.Rows(
        type="Person",
        data=tmp_path / "flat.jsonl",
        columns={"who": "name", "address.city": "city"},
        duplicates="last",
    )
    sources = [*og.read_mapping(tmp_path / "crew.toml"), tmp_path / "a.jsonl", more]
    local, remote = new_graph(SCHEMA, name="local"), new_graph(SCHEMA, name="spark")
    wanted = outcome(partial(local.bulk, sources, mode="append"))
    found = outcome(
        partial(remote.bulk, sources, mode="append", engine="spark", session=spark, tuning=SMALL)
    )
    assert found == wanted
    assert wanted[0] == {"Person": 8, "Place": 2}
    assert content(remote) == content(local)


def test_bad_rows_of_frames_and_records_are_left_out_alike(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    lines = ['{"name": "a", "age": "old"}', '{"name": "b"}', "{", '{"name": "b", "x": 1}']
    (tmp_path / "p.jsonl").write_text("\n".join(lines) + "\n")
    local, remote = new_graph(SCHEMA, name="local"), new_graph(SCHEMA, name="spark")
    frame = pa.table({"name": ["x", None, "y"], "age": [1, 2, 3]})
    lazy = spark.createDataFrame([("x", 1), (None, 2), ("y", 3)], "name string, age int")

    def load(graph: og.Graph, rows: Any, allowed: int, **more: Any) -> Any:
        sources = [
            og.Rows(type="Person", data=tmp_path / "p.jsonl"),
            og.Rows(type="Person", data=rows),
        ]
        return graph.bulk(sources, mode="append", allow_rejects=allowed, **more)

    options: dict[str, Any] = {"engine": "spark", "session": spark, "tuning": SMALL}
    wanted = outcome(partial(load, local, frame, 0))
    assert wanted[0] == "data"
    assert outcome(partial(load, remote, lazy.coalesce(1), 0, **options)) == wanted
    assert load(local, frame, 4).rejected == 4
    assert load(remote, lazy.coalesce(1), 4, **options).rejected == 4
    assert content(remote) == content(local)
    wrong = og.Rows(type="Person", data=lazy, compute={"nam": "name"})
    with pytest.raises(og.BadRequestError, match="Person has no 'nam'"):
        remote.bulk(wrong, mode="append", **options)

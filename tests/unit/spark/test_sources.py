"""What a load on Spark makes of its sources, before any worker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.lang import compile_schema
from omnigraph.spark.sources import plan

CATALOG = compile_schema("node Person { name: String @key  nick: String? }").catalog


def test_a_piece_knows_what_means_null(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name,nick\nann,-\nbob,\n", encoding="utf-8")
    rows = og.Rows(data=str(tmp_path / "people.csv"), null="-")
    (piece,), frames = plan({"Person": rows}, CATALOG, str(tmp_path))
    assert (piece.reading.csv.nulls, piece.type_name, frames) == (("-",), "Person", [])


def test_graphml_is_left_to_one_process(tmp_path: Path) -> None:
    (tmp_path / "crew.graphml").write_text("<graphml/>", encoding="utf-8")
    with pytest.raises(og.BadRequestError, match="GraphML is read in one process") as caught:
        plan(str(tmp_path / "crew.graphml"), CATALOG, str(tmp_path))
    assert caught.value.hint == "use engine='local'"

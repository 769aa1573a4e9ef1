"""A load on Spark does what a load in one process does: the same graph, or the same errors."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.spark import Tuning, load
from tests.spark.worlds import (
    FULL,
    SPOILS,
    ULID,
    NewGraph,
    content,
    full_only,
    jsonl,
    outcome,
    world,
)

SMALL = 1500
"""Bytes per task: every input is cut in the middle of lines, many times."""
ROUNDS = int(os.environ.get("OMNIGRAPH_SPARK_ROUNDS", "10" if FULL else "1"))


def _both(
    spark: Any, new_graph: NewGraph, tmp_path: Path, steps: list[tuple[Any, list[Any]]]
) -> list[Any]:
    local, remote = new_graph(name="local"), new_graph(name="spark")
    outcomes: list[Any] = []
    for number, (mode, rows) in enumerate(steps):
        path = jsonl(tmp_path / f"{number}.jsonl", rows)
        wanted = outcome(partial(local.load, path, mode=mode))
        # Every other load goes the ways of large ones: workers merge, and Spark joins ids.
        limit = number % 2 * 10**6
        tuning = Tuning(piece_bytes=SMALL, merge_rows=limit, held_rows=limit)
        found = outcome(partial(load, remote, path, mode=mode, session=spark, tuning=tuning))
        assert found == wanted, (number, mode)
        assert content(remote) == content(local), (number, mode)
        outcomes.append(wanted)
    assert not list((tmp_path / "spark" / "_scratch").glob("*"))
    return outcomes


def test_valid_inputs_give_the_same_graph_in_every_mode(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    rng = random.Random(11)  # noqa: S311
    first, second, third = world(rng), world(rng, names="q"), world(rng, people=15)
    found = _both(
        spark,
        new_graph,
        tmp_path,
        [
            ("append", first),
            ("append", first),
            ("merge", third),
            ("overwrite", second),
            ("append", []),
            ("overwrite", []),
        ],
    )
    kinds = [item[0] if isinstance(item[0], str) else "ok" for item in found]
    assert kinds == ["ok", "KeyConflictError", *["ok"] * 3, "BadRequestError"]


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_inputs_give_the_same_graph_or_the_same_errors(
    spark: Any, new_graph: NewGraph, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311
    steps: list[tuple[Any, list[Any]]] = []
    for _ in range(3):
        rows: list[Any] = world(rng, people=rng.randint(2, 20), names=rng.choice("pq"))
        if rng.random() < 0.4:
            SPOILS[rng.choice(sorted(SPOILS))](rng, rows)
        steps.append((rng.choice(["append", "merge", "overwrite"]), rows))
    _both(spark, new_graph, tmp_path, steps)


def test_invalid_inputs_give_the_same_errors(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    rng = random.Random(5)  # noqa: S311
    steps: list[tuple[Any, list[Any]]] = [("append", world(rng))]
    for name, mode in zip(sorted(SPOILS), ("append", "overwrite", "append"), strict=True):
        rows: list[Any] = world(rng, names="q")
        SPOILS[name](rng, rows)
        steps.append((mode, rows))
    found = _both(spark, new_graph, tmp_path, steps)
    assert all(isinstance(item[0], str) for item in found[1:]), found


@full_only
def test_committed_rows_are_part_of_every_verdict(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    base: list[Any] = [
        {"type": "Person", "data": {"name": "ann", "mail": "a@x", "born": 3}},
        {"type": "Person", "data": {"name": "bob"}},
        {"type": "Note", "data": {"id": "n", "text": "t"}},
        {"edge": "Wrote", "from": "ann", "to": "n", "data": {"id": "w1"}},
        {"edge": "Wrote", "from": "ann", "to": "n", "data": {"id": "w2"}},
        {"edge": "Knows", "from": "ann", "to": "bob"},
    ]
    taken = [{"type": "Person", "data": {"name": "eve", "mail": "a@x"}}]
    third = [{"edge": "Wrote", "from": "ann", "to": "n", "data": {"id": "w3"}}]
    moved = [{"edge": "Wrote", "from": "bob", "to": "n", "data": {"id": "w1"}}]
    alone = [{"type": "Person", "data": {"name": "ann"}}]
    again = [{"edge": "Knows", "from": "ann", "to": "bob", "data": {"weight": 2.0}}]
    twice = [*again, *again]
    steps: list[tuple[Any, list[Any]]] = [
        ("append", base),
        ("merge", taken),
        ("append", third),
        ("merge", again),
        ("merge", twice),
        ("overwrite", alone),
        ("merge", moved),
        ("append", third),
        ("overwrite", [*alone, {"edge": "Knows", "from": "ann", "to": "ann"}]),
    ]
    found = _both(spark, new_graph, tmp_path, steps)
    good = [index for index, item in enumerate(found) if not isinstance(item[0], str)]
    assert good == [0, 3, 6, 7]


def test_typed_files_give_the_same_graph_or_the_same_errors(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("name,age,mail\nann,1,m\nbob,,\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("name,age,mail\n\ncy,,m2\n", encoding="utf-8")
    (tmp_path / "bad.csv").write_text("name,age\ndi,old\ndi,1\ned,200\n", encoding="utf-8")
    (tmp_path / "taken.csv").write_text("name,mail\nfi,m\ngo,m2\nann,\n", encoding="utf-8")
    (tmp_path / "wide.csv").write_text("name,size\nfi,1\n", encoding="utf-8")
    notes = pa.table({"id": ["n1", "n2", "n3"], "text": ["x", "y", "z"]})
    pq.write_table(notes, tmp_path / "notes.parquet", row_group_size=1)
    wrote = pa.table({"a": ["ann", "ann", "bob"], "n": ["n1", "n3", "n9"]})

    def files(*names: str) -> list[str]:
        return [str(tmp_path / name) for name in names]

    steps: list[tuple[Any, Any, int]] = [
        ("append", {"Person": files("a.csv", "b.csv"), "Note": files("notes.parquet")}, 0),
        ("append", {"Person": files("a.csv")}, 0),
        ("append", {"Person": files("taken.csv", "b.csv")}, 0),
        ("merge", {"Person": files("b.csv", "taken.csv")}, 0),
        ("append", {"Person": files("bad.csv")}, 0),
        ("append", {"Person": files("b.csv", "wide.csv")}, 0),
        ("append", {"Wrote": og.Rows(data=wrote, from_col="a", to_col="n")}, 0),
        ("append", {"Wrote": og.Rows(data=wrote, from_col="a", to_col="n")}, 1),
        ("append", {"Person": files("bad.csv")}, 2),
        ("append", {"Person": files("bad.csv")}, 3),
        ("append", files("nowhere.jsonl"), 0),
    ]
    local, remote = new_graph(name="local"), new_graph(name="spark")
    found: list[Any] = []
    for number, (mode, sources, allowed) in enumerate(steps):
        outcomes: list[Any] = []
        for graph, engine, options in (
            (local, "local", {}),
            (remote, "spark", {"session": spark}),
        ):
            rejects = tmp_path / f"{engine}.jsonl"
            run = partial(
                graph.bulk,
                sources,
                mode=mode,
                engine=engine,  # type: ignore[arg-type]
                allow_rejects=allowed,
                rejects=rejects,
                **options,
            )
            outcomes.append(outcome(run))
            if rejects.exists():
                reasons = sorted(ULID.sub("ID", rejects.read_text()).splitlines())
                outcomes[-1] = (outcomes[-1], reasons)
                rejects.unlink()
        assert outcomes[0] == outcomes[1], number
        assert content(remote) == content(local), number
        found.append(outcomes[0])
    assert [len(item[1]) for item in found[:-1]][-3:] == [1, 2, 1]
    assert found[2][0][0] == "KeyConflictError"

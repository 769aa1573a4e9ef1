"""A declared pipeline whose load and merge are done on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.cli.main import main

SCHEMA = """\
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
PIPELINE = """\
graph = "g"
branch = "in-{run}"
mode = "merge"
allow_rejects = 1
rejects = "rejects.jsonl"
queries = "checks.gq"
checks = ["too_old"]

[then]
merge = "main"
tag = "after-{run}"
delete_branch = true

[sources.visits]
data = "visits/*.csv"

[[rows]]
type = "Person"
source = "visits"
columns = { who = "name" }
ignore = true
duplicates = "last"

[[rows]]
type = "Knows"
source = "visits"
columns = { who = "from", met = "to" }
ignore = true
"""
CHECKS = "query too_old() { match { $p: Person $p.age > 150 } return { $p.name } }"


def test_a_pipeline_loads_and_merges_on_spark(spark: Any, tmp_path: Path, capsys: Any) -> None:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    (tmp_path / "in.toml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "checks.gq").write_text(CHECKS, encoding="utf-8")
    (tmp_path / "visits").mkdir()
    for number, rows in enumerate(["ann,41,bob\nbob,x,ann\n", "bob,7,ann\nann,42,ann\n"]):
        text = f"who,age,met\n{rows}"
        (tmp_path / "visits" / f"{number}.csv").write_text(text, encoding="utf-8")
    command = ["pipeline", "run", str(tmp_path / "in.toml"), "--engine", "spark", "--json"]
    reports = []
    for _run in range(2):
        with pytest.raises(SystemExit) as left:
            main([*command, "--run-id", "r1"])
        assert left.value.code == 0
        reports.append(json.loads(capsys.readouterr().out))
    first, again = reports
    assert (first["rows_in"], first["rejected"]) == (6, 1)
    steps = {step["name"]: step for step in first["steps"]}
    stages = [part["name"] for part in steps["load"]["parts"]]
    assert stages[:2] == ["start", "plan"]
    assert stages[-2:] == ["write", "publish"]
    assert {step["outcome"] for step in again["steps"]} <= {"done_before", "nothing_to_do"}
    assert again["merge_commit"] == first["merge_commit"]
    with og.open(tmp_path / "g", mode="ro") as graph:
        people: Any = graph.export(types=["Person"])
        ages = {row["data"]["id"]: row["data"]["age"] for row in people}
        assert ages == {"ann": 42, "bob": 7}
        assert graph.snapshot().tables["edge:Knows"].row_count == 3
        assert list(graph.branches.list()) == ["main"]
    rejected = json.loads((tmp_path / "rejects.jsonl").read_text(encoding="utf-8"))
    assert (Path(rejected["file"]).name, rejected["line"]) == ("0.csv", 3)

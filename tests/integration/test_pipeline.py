"""Declared pipelines: steps in order, each once for a run, whatever happens in between."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, armed
from omnigraph.pipeline import StepOutcome, read_pipeline, run_pipeline
from tests.integration.conftest import Cli

EXAMPLES = Path(__file__).parents[2] / "examples"
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
QUERIES = """\
query too_old() { match { $p: Person  $p.age > 150 } return { $p.name, $p.age } }
query nameless() { match { $p: Person  $p.name = "" } return { $p.name } }
"""
PIPELINE = """\
graph = "g"
branch = "in-{run}"
mode = "merge"
queries = "checks.gq"
checks = ["too_old", "nameless"]

[then]
merge = "main"
tag = "after-{run}"
optimize = true
delete_branch = true

[[Person]]
data = "people.csv"
compute = { name = 'trim(who)' }
"""
STEPS = ["load", "check", "merge", "tag", "optimize", "delete_branch"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    (tmp_path / "checks.gq").write_text(QUERIES)
    (tmp_path / "people.csv").write_text("who,age\n ann ,41\nbob,\n")
    (tmp_path / "in.toml").write_text(PIPELINE)
    return tmp_path


def _run(folder: Path, **options: Any) -> Any:
    with og.open(folder / "g", durability="none") as graph:
        return run_pipeline(graph, read_pipeline(folder / "in.toml"), **options)


def _outcomes(report: Any) -> dict[str, str]:
    return {step.name: str(step.outcome) for step in report.steps}


def _state(folder: Path) -> tuple[Any, ...]:
    """Return what a run leaves: rows, commits of main by what made them, branches, tags."""
    with og.open(folder / "g", mode="ro") as graph:
        lines: Any = graph.export()
        rows = sorted(json.dumps(line, sort_keys=True) for line in lines)
        kinds = [commit.kind for commit in graph.commits.list()]
        branches = sorted(graph.branches.list())
        return rows, kinds, branches, [tag.name for tag in graph.tags.list()]


def test_a_run_loads_checks_merges_and_cleans_up(folder: Path) -> None:
    report = _run(folder, run_id="r1")
    assert [step.name for step in report.steps] == STEPS
    assert report.ok
    assert (report.rows_in, report.rejected) == (2, 0)
    assert report.rows == {"Person": {"before": 0, "after": 2}}
    assert report.changed == {"Person": {"insert": 2, "update": 0, "delete": 0}}
    rows, _kinds, branches, tags = _state(folder)
    assert (len(rows), branches, tags) == (2, ["main"], ["after-r1"])
    with og.open(folder / "g", mode="ro") as graph:
        assert graph.snapshot(tag="after-r1").commit.graph_commit_id == report.merge_commit


def test_a_run_that_is_repeated_does_nothing(folder: Path) -> None:
    first = _run(folder, run_id="r1")
    before = _state(folder)
    again = _run(folder, run_id="r1")
    assert _state(folder) == before
    assert set(_outcomes(again).values()) <= {"done_before", "nothing_to_do"}
    assert (again.merge_commit, again.commit) == (first.merge_commit, first.commit)
    assert again.changed == first.changed


def test_without_a_run_id_the_input_names_the_run(folder: Path) -> None:
    first = _run(folder)
    assert first.run_id.startswith("in-")
    assert _run(folder).run_id == first.run_id
    (folder / "people.csv").write_text("who,age\ncy,3\n")
    other = _run(folder)
    assert other.run_id != first.run_id
    assert _outcomes(other)["load"] == "done"
    assert len(_state(folder)[0]) == 3


def test_a_check_that_finds_rows_stops_the_run_before_the_merge(folder: Path) -> None:
    (folder / "people.csv").write_text("who,age\nann,151\n")
    seen: list[Any] = []
    with pytest.raises(og.CheckFailedError, match="the check 'too_old' returns 1 row on branch"):
        _run(folder, run_id="r1", on_report=seen.append)
    assert _outcomes(seen[0]) == {"load": "done", "check": "failed"}
    assert not seen[0].ok
    rows, _kinds, branches, tags = _state(folder)
    assert (rows, tags) == ([], [])
    assert branches == ["in-r1", "main"]


def test_a_branch_that_was_written_to_since_is_not_deleted(folder: Path) -> None:
    def write(name: str, ended: bool) -> None:
        if (name, ended) == ("merge", True):
            with og.open(folder / "g") as other:
                other.load(
                    [{"type": "Person", "data": {"name": "late"}}], mode="append", branch="in-r1"
                )

    report = _run(folder, run_id="r1", progress=write)
    assert report.steps[-1].detail == "in-r1 was written to after its merge, and stays"
    assert _state(folder)[2] == ["in-r1", "main"]


VICTIM = """\
import os, signal, sys
import omnigraph as og
from omnigraph.failpoints import Failpoint, arm
from omnigraph.pipeline import read_pipeline, run_pipeline

step, moment = sys.argv[1], sys.argv[2]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def watch(name, ended):
    if name != step:
        return
    if moment == ("end" if ended else "begin"):
        die()
    if not ended and moment not in ("begin", "end"):
        arm(Failpoint(moment), die)

with og.open("g", durability="none") as graph:
    run_pipeline(graph, read_pipeline("in.toml"), run_id="r1", progress=watch)
"""
MOMENTS = [
    *((step, moment) for step in STEPS for moment in ("begin", "end")),
    ("load", "publish.pre_cas"),
    ("load", "publish.post_manifest_commit"),
    ("merge", "publish.pre_cas"),
    ("merge", "publish.post_manifest_commit"),
    ("delete_branch", "branch_delete.post_fence"),
]


def test_a_run_that_was_killed_anywhere_is_continued(folder: Path, tmp_path: Path) -> None:
    """Processes are killed at each step, all on copies of one graph; all end in the same state."""
    (folder / "victim.py").write_text(VICTIM)
    untouched = tmp_path / "untouched"
    shutil.copytree(folder, untouched, ignore=shutil.ignore_patterns("untouched"))
    _run(folder, run_id="r1")
    rows, kinds, branches, tags = _state(folder)
    chosen = MOMENTS if os.environ.get("OMNIGRAPH_FAULTS") == "full" else MOMENTS[1::3]
    started = []
    for number, (step, moment) in enumerate(chosen):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(untouched, copy)
        arguments = [sys.executable, "victim.py", step, moment]
        started.append((copy, subprocess.Popen(arguments, cwd=copy)))  # noqa: S603 - our own
    for (copy, victim), (step, moment) in zip(started, chosen, strict=True):
        assert victim.wait(timeout=120) == -signal.SIGKILL, (step, moment)
        report = _run(copy, run_id="r1")
        assert report.ok, (step, moment)
        again, kinds_again, *others = _state(copy)
        assert (again, others) == (rows, [branches, tags]), (step, moment)
        assert kinds_again.count("merge") == kinds.count("merge"), (step, moment)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[then]", "[them]", "there is no 'them'"),
        ('mode = "merge"', 'mode = "join"', "'mode' is one of append"),
        ("optimize = true", "optimise = true", r"\[then\] has no 'optimise'"),
        ("optimize = true", 'optimize = "yes"', "'optimize' is true or false"),
        ('merge = "main"\n', "", "'delete_branch' needs 'merge'"),
        ('queries = "checks.gq"\n', "", "'checks' needs 'queries'"),
        ('"too_old"', '"too_odd"', "too_odd"),
        ('branch = "in-{run}"', 'branch = "main"', "cannot be merged into itself"),
        ("trim(who)", "trm(who)", "unknown function `trm`"),
        ("[[Person]]", "[[Persn]]", "unknown type 'Persn'"),
        ('merge = "main"', 'merge = "nowhere"', "nowhere"),
        ('data = "people.csv"', 'data = "nobody.csv"', "file not found"),
        ('queries = "checks.gq"', 'queries = "a\\u0000"', "cannot read"),
        ('mode = "merge"', f"mode = {'9' * 5000}", "is not a TOML file"),
        ('branch = "in-{run}"', 'branch = "../{run}"', "'../run' is not a branch name"),
        ('tag = "after-{run}"', 'tag = "a b"', "'a b' is not a tag name"),
        ('tag = "after-{run}"', 'tag = "after/{run}"', "'after/run' is not a tag name"),
    ],
)
def test_a_wrong_pipeline_is_refused_before_anything_happens(
    folder: Path, old: str, new: str, message: str
) -> None:
    text = (folder / "in.toml").read_text()
    assert old in text
    (folder / "in.toml").write_text(text.replace(old, new))
    before = _state(folder)
    with pytest.raises(og.OmniGraphError, match=message):
        _run(folder, run_id="r1")
    assert _state(folder) == before


def test_wrong_run_ids_are_refused(folder: Path) -> None:
    with pytest.raises(og.BadRequestError, match="is not a run id"):
        _run(folder, run_id="a/b")


def test_the_command_line_runs_checks_explains_and_reports(folder: Path, cli: Cli) -> None:
    assert "in fits" in cli("pipeline", "check", "in.toml").out
    shown = cli("pipeline", "explain", "in.toml").out
    assert "1. load into branch in-in-" in shown
    assert "name <- trim(who)" in shown
    reports = ["--report", "r.html", "--report", "r.json"]
    dry = cli("pipeline", "run", "in.toml", "--dry-run")
    assert "2 rows checked, nothing written" in dry.out
    found = cli("pipeline", "run", "in.toml", "--run-id", "r1", *reports)
    assert (found.code, found.err) == (0, "")
    assert "in run r1: ok" in found.out
    assert "2 rows in, 0 rows rejected" in found.out
    page = (folder / "r.html").read_text()
    assert "<h1>in: run r1</h1>" in page
    assert "in-r1 into main: fast_forward" in page
    data = json.loads((folder / "r.json").read_text())
    assert data["merged_into"] == "main"
    assert [step["name"] for step in data["steps"]] == STEPS
    again = cli("pipeline", "run", "in.toml", "--run-id", "r1", "--json").json
    assert again["merge_commit"] == data["merge_commit"]
    (folder / "people.csv").write_text("who,age\n<b>,200\n")
    failed = cli("pipeline", "run", "in.toml", "--run-id", "r2", "--report", "f.html")
    assert failed.code == 5
    assert "in run r2: FAILED" in failed.out
    assert "the check &#x27;too_old&#x27; returns 1 row" in (folder / "f.html").read_text()
    assert cli("pipeline", "run", "in.toml", "--report", "r.txt").code == 2
    (folder / "people.csv").write_text("who,size\nann,200\n")
    wrong = cli("pipeline", "check", "in.toml")
    assert "Person has no property for size" in wrong.err


def test_the_example_reads_messy_files(tmp_path: Path, cli: Cli) -> None:
    library = EXAMPLES / "library"
    with og.init(tmp_path / "library.omni", (library / "schema.pg").read_text()) as graph:
        graph.load(library / "data.jsonl", mode="merge")
    file = str(EXAMPLES / "donations" / "pipeline.toml")
    found = cli("pipeline", "run", file, "--store", "library.omni", "--json").json
    assert found["ok"]
    assert found["rejected"] == 1
    assert found["changed"]["Book"] == {"insert": 3, "update": 0, "delete": 0}
    assert found["changed"]["CopyOf"]["insert"] == 2
    again = cli("pipeline", "run", file, "--store", "library.omni", "--json").json
    assert {step["outcome"] for step in again["steps"]} == {StepOutcome.DONE_BEFORE}


def test_a_run_that_crashed_is_not_reported_as_ok(folder: Path) -> None:
    def stop(name: str, ended: bool) -> None:
        if (name, ended) == ("check", False):
            raise KeyboardInterrupt

    seen: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        _run(folder, run_id="r1", progress=stop, on_report=seen.append)
    assert (seen[0].ok, seen[0].error) == (False, "KeyboardInterrupt")


def test_a_master_is_for_spark(folder: Path, cli: Cli) -> None:
    with pytest.raises(og.BadRequestError, match="the engine 'local' takes no Spark"):
        _run(folder, engine="local", master="local[1]")
    found = cli("pipeline", "run", "in.toml", "--engine", "local", "--master", "local[1]")
    assert (found.code, "--master needs --engine spark" in found.err) == (2, True)


def test_a_long_name_runs_without_a_run_id(folder: Path) -> None:
    text = (folder / "in.toml").read_text()
    (folder / "in.toml").write_text(f'name = "{"n" * 64}"\n' + text)
    report = _run(folder)
    assert (len(report.run_id), report.pipeline) == (64, "n" * 64)


def test_what_was_loaded_before_is_not_counted_again(folder: Path) -> None:
    def stop(name: str, ended: bool) -> None:
        if (name, ended) == ("load", True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(folder, run_id="r1", progress=stop)
    report = _run(folder, run_id="r1")
    assert (report.rows_in, report.steps[0].outcome) == (0, StepOutcome.DONE_BEFORE)
    assert report.steps[0].detail == "on branch in-r1"
    assert report.rows == {"Person": {"before": 0, "after": 2}}


def test_files_that_the_mapping_of_a_folder_names_are_part_of_the_run(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "elsewhere").mkdir()
    mapping = '[Person]\ndata = "../elsewhere/people.csv"\ncolumns = { who = "name" }\n'
    (folder / "data" / "mapping.toml").write_text(mapping)
    (folder / "elsewhere" / "people.csv").write_text("who\nann\n")
    text = PIPELINE.partition("[[Person]]")[0].replace("graph", 'envelopes = "data"\ngraph', 1)
    (folder / "in.toml").write_text(text)
    first = _run(folder)
    (folder / "elsewhere" / "people.csv").write_text("who\nann\nbob\n")
    second = _run(folder)
    (folder / "data" / "mapping.toml").write_text(mapping + "constants = { age = 5 }\n")
    third = _run(folder)
    assert len({first.run_id, second.run_id, third.run_id}) == 3
    assert third.changed == {"Person": {"insert": 0, "update": 2, "delete": 0}}


@pytest.mark.parametrize("at", ["load", "delete_branch"])
def test_a_run_does_not_go_on_with_other_input(folder: Path, at: str) -> None:
    def stop(name: str, ended: bool) -> None:
        if (name, ended) == (at, True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(folder, run_id="r1", progress=stop)
    before = _state(folder)
    (folder / "people.csv").write_text("who,age\nann,1\nbob,2\ncy,3\n")
    with pytest.raises(og.ConflictError, match="run r1 has loaded other input"):
        _run(folder, run_id="r1")
    assert _state(folder) == before
    assert _run(folder, run_id="r2").ok


def test_input_may_change_until_it_was_loaded(folder: Path) -> None:
    (folder / "people.csv").write_text("who,age\nann,old\n")
    with pytest.raises(og.DataError):
        _run(folder, run_id="r1")
    (folder / "people.csv").write_text("who,age\nann,41\n")
    assert _run(folder, run_id="r1").rows == {"Person": {"before": 0, "after": 1}}


def test_commits_say_what_was_loaded(folder: Path) -> None:
    with og.open(folder / "g", mode="ro") as graph:

        def message(report: Any) -> str:
            return graph.commits.get(report.merge_commit).message or ""

        said = message(_run(folder, run_id="r1"))
        assert re.fullmatch(
            r"pipeline in, run r1\n\nInput: people.csv, 22 bytes \([0-9a-f]{16}\)", said
        )
        for name in ("b.csv", "c\n.csv"):
            (folder / name).write_text(f"who,age\n{name[0]},1\n")
        text = (folder / "in.toml").read_text().replace('"people.csv"', '"*.csv"')
        (folder / "in.toml").write_text('message = "nightly"\n' + text)
        said = message(_run(folder, run_id="r2"))
        assert re.fullmatch(
            r"nightly\n\nInput: 3 files from b.csv to people.csv, 46 bytes \([0-9a-f]{16}\)", said
        )


@pytest.mark.parametrize("at", ["load", "merge", "delete_branch"])
def test_a_run_whose_input_is_gone_is_continued_once_it_was_loaded(folder: Path, at: str) -> None:
    def stop(name: str, ended: bool) -> None:
        if (name, ended) == (at, True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _run(folder, run_id="r1", progress=stop)
    (folder / "people.csv").unlink()
    report = _run(folder, run_id="r1")
    assert report.ok
    assert report.rows == {"Person": {"before": 0, "after": 2}}
    assert _state(folder)[2:] == (["main"], ["after-r1"])
    with og.open(folder / "g", mode="ro") as graph:
        assert "Input: people.csv, 22 bytes" in (
            graph.commits.get(report.merge_commit).message or ""
        )
    with pytest.raises(og.NotFoundError, match=r"people.csv") as caught:
        _run(folder)
    assert "give its run id" in str(caught.value.hint)
    with pytest.raises(og.NotFoundError, match=r"people.csv"):
        _run(folder, run_id="r2")
    assert _state(folder)[2] == ["main"]


def test_rejects_that_cannot_be_written_after_the_commit_are_reported(folder: Path) -> None:
    text = (folder / "in.toml").read_text()
    (folder / "in.toml").write_text('rejects = "out/rejects.jsonl"\nallow_rejects = 1\n' + text)
    (folder / "out").mkdir()
    (folder / "people.csv").write_text("who,age\nann,old\nbob,2\n")

    with armed(Failpoint.PUBLISH_POST_MANIFEST_COMMIT, lambda: shutil.rmtree(folder / "out")):
        report = _run(folder, run_id="r1")
    assert report.ok
    assert (report.rows_in, report.rejected) == (2, 1)
    assert "the rejected rows could not be written to" in (report.steps[0].detail or "")


def test_a_place_that_a_report_cannot_be_written_to_is_noticed_first(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = _state(folder)
    shown = cli("pipeline", "run", "in.toml", "--run-id", "r1", "--report", "missing/r.html")
    assert (shown.code, "cannot write missing/r.html" in shown.err) == (1, True)
    assert _state(folder) == before
    (folder / "out").mkdir()
    with armed(Failpoint.PUBLISH_POST_MANIFEST_COMMIT, lambda: shutil.rmtree(folder / "out")):
        shown = cli("pipeline", "run", "in.toml", "--run-id", "r1", "--report", "out/r.html")
    assert (shown.code, "warning: cannot write out/r.html" in shown.err) == (0, True)
    assert "merged into main" in shown.out

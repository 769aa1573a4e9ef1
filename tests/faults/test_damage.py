"""Damaged files: whatever is done with the graph then, it fails with an error of ours or works.

A few trials run in the gate; OMNIGRAPH_DAMAGE says how many instead, and OMNIGRAPH_SEED which. Each
process makes its graph anew, so a seed repeats the kind of damage and not always the file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lance import LanceDataset

import omnigraph as og
from omnigraph.store.tables.lance_errors import LancePanic, calm, translated
from tests.faults.damage import SCHEMA, WORK, make

pytestmark = pytest.mark.local
TRIALS = int(os.environ.get("OMNIGRAPH_DAMAGE") or 12)
SEED = int(os.environ.get("OMNIGRAPH_SEED") or 0)
SECONDS_PER_TRIAL = 30
FIND = 'query q() { match { $p: Person { name: "after" } } return { $p.name } }'


def test_only_our_errors_come_out_of_a_damaged_graph(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.damage", str(folder), str(SEED), str(TRIALS)]
    done = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, timeout=60 + TRIALS * SECONDS_PER_TRIAL
    )
    escaped = [line for line in done.stdout.splitlines() if not line.startswith("seed ")]
    assert (done.returncode, escaped) == (0, []), done.stdout + done.stderr[-2000:]
    assert done.stdout.count("seed ") == TRIALS


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("whole") / "graph"
    make(found)
    return found


BODIES = [b"", b"{", b"[]", b"\xff\xfe", b'{"a": 1}', b"7", b"null"]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", ["_schema.ir.json", "__schema_state.json", "branch"])
def test_a_damaged_control_file_is_named(
    template: Path, tmp_path: Path, name: str, body: bytes
) -> None:
    copied = tmp_path / "graph"
    shutil.copytree(template, copied)
    branch = next(copied.glob("__manifest/_refs/branches/*.json"))
    path = branch if name == "branch" else copied / name
    path.write_bytes(body)

    def use() -> None:
        with og.open(copied, durability="none") as graph:
            graph.branches.details()
            for work in WORK.values():
                work(graph)

    with pytest.raises(og.OmniGraphError) as refused:
        use()
    assert refused.value.http_status == 500
    assert path.name in refused.value.message


@pytest.mark.parametrize("body", BODIES)
def test_a_damaged_schema_of_the_past_is_named(template: Path, tmp_path: Path, body: bytes) -> None:
    copied = tmp_path / "graph"
    shutil.copytree(template, copied)
    (path,) = copied.glob("_schema_history/*.json")
    with og.open(copied, durability="none") as graph:
        graph.branches.merge("dev", delete_source=True)
        graph.schema.apply(f"{SCHEMA}node More {{ k: String @key }}")
    path.write_bytes(body)
    with og.open(copied, durability="none") as graph:
        WORK["query"](graph)
        with pytest.raises(og.OmniGraphError) as refused:
            WORK["older"](graph)
    assert refused.value.http_status == 500
    assert path.name in refused.value.message


def test_every_kind_of_work_works_on_a_whole_graph(template: Path, tmp_path: Path) -> None:
    copied = tmp_path / "graph"
    shutil.copytree(template, copied)
    with og.open(copied, durability="none") as graph:
        before = graph.snapshot().version
        for work in WORK.values():
            work(graph)
        # The trials prove something only if the same work is done where nothing is damaged.
        assert graph.snapshot().version > before
        assert graph.maintenance.pending_writes() == []


# ---- panics ---------------------------------------------------------------------------------


def panic(text: str = "index out of bounds\nand more") -> BaseException:
    kind = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})
    found = kind(text)
    assert isinstance(found, BaseException)
    return found


def test_a_panic_becomes_an_error_of_ours() -> None:
    with pytest.raises(og.StorageError) as refused, translated("reading it"):
        raise panic()
    assert refused.value.message == "reading it: Lance cannot go on: index out of bounds"
    with pytest.raises(LancePanic), calm():
        raise panic()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_is_no_panic(kind: type[BaseException]) -> None:
    with pytest.raises(kind), translated("reading it"):
        raise kind


def test_other_errors_pass_the_calm_block() -> None:
    with pytest.raises(ZeroDivisionError), calm():
        _ = 1 // 0
    with pytest.raises(og.StorageError, match="it: 'no such column'"), translated("it"):
        raise KeyError("no such column")


def test_a_panicking_commit_is_undone_or_told(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "graph"
    shutil.copytree(template, copied)
    real: Any = LanceDataset.commit
    falls = [1]

    def commit(*arguments: Any, **options: Any) -> Any:
        if falls:
            falls.pop()
            raise panic()
        return real(*arguments, **options)

    with og.open(copied, durability="none") as graph:
        monkeypatch.setattr(LanceDataset, "commit", staticmethod(commit))
        graph.mutate('query q() { insert Person { name: "after" } }')
        assert not falls
        assert graph.query(FIND).scalar() == "after"

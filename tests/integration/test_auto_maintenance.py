"""A handle that maintains itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph.auto import AutoMaintenance

SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"


def versions(root: Path) -> int:
    return len(os.listdir(root / "__manifest" / "_versions"))


def test_versions_stay_few_while_writing(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        auto = graph.maintain_automatically(every=10, keep=5, grace=0)
        for number in range(60):
            graph.mutate(ADD, {"k": f"k{number}"})
        graph.close()
        assert auto.runs >= 1
        assert auto.last_error is None
    assert versions(tmp_path / "g") < 60
    with og.open(tmp_path / "g", durability="none") as graph:
        assert len(graph.query("query q() { match { $p: P } return { $p.k } }")) == 60
        assert len(graph.commits.list()) >= 61


def test_a_failure_is_kept_and_fails_no_writer() -> None:
    def fail() -> None:
        raise og.StorageError("no disk")

    auto = AutoMaintenance(fail, every=1)
    auto.note_commit()
    auto.close()
    assert auto.last_error is not None
    assert auto.runs == 0


def test_a_read_only_handle_maintains_nothing(tmp_path: Path) -> None:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    with (
        og.open(tmp_path / "g", mode="ro") as graph,
        pytest.raises(og.BadRequestError, match="read-only"),
    ):
        graph.maintain_automatically()

"""A handle that maintains itself."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.graph.auto import AutoMaintenance
from tests.places import AnyPath, names_in

SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"


def versions(root: AnyPath) -> int:
    return len(names_in(root / "__manifest" / "_versions"))


def test_versions_stay_few_while_writing(place: AnyPath) -> None:
    with og.init(place / "g", SCHEMA, durability="none") as graph:
        auto = graph.maintain_automatically(every=10, keep=5, grace=0)
        for number in range(60):
            graph.mutate(ADD, {"k": f"k{number}"})
        graph.close()
        assert auto.runs >= 1
        assert auto.last_error is None
    assert versions(place / "g") < 60
    with og.open(place / "g", durability="none") as graph:
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


def test_a_read_only_handle_maintains_nothing(place: AnyPath) -> None:
    og.init(place / "g", SCHEMA, durability="none").close()
    with (
        og.open(place / "g", mode="ro") as graph,
        pytest.raises(og.BadRequestError, match="read-only"),
    ):
        graph.maintain_automatically()

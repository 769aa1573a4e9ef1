"""A cluster whose graphs and ledger lie where the configuration says, on a disk or in a bucket."""

from __future__ import annotations

import os
from typing import Any

import pytest

import omnigraph as og
from omnigraph import cluster
from omnigraph.cluster.ledger import Ledger, LedgerError, State
from omnigraph.errors import NotFoundError
from tests.cluster.folders import WIDER, Folder, changes
from tests.places import AnyPath


def test_a_cluster_lives_where_its_storage_is(folder: Folder, place: AnyPath) -> None:
    store = place / "store"
    folder.config["storage"] = os.fspath(store)
    folder.save()
    with pytest.raises(NotFoundError):
        cluster.read_cluster(store)
    assert folder.apply()["converged"]
    assert not (folder.path / "graphs").exists()
    assert not (folder.path / "__cluster").exists()
    served = cluster.read_cluster(store)
    assert served.graphs.keys() == cluster.read_cluster(folder.path).graphs.keys()
    with og.open(served.graphs["papers"].uri, actor="act-guest") as graph:
        graph.mutate(served.graphs["papers"].queries["add"].source, {"doi": "p1"})

    folder.put("papers.pg", WIDER)
    assert changes(folder.apply()) == {"schema.papers": "update"}
    assert folder.apply()["state_written"] is False
    del folder.config["graphs"]["papers"], folder.config["policies"]["team"]
    folder.save()
    cluster.approve(folder.path, "graph.papers", actor="boss").check()
    assert folder.apply()["converged"]
    assert list(cluster.read_cluster(store).graphs) == ["notes"]
    assert not (store / "graphs" / "papers.omni").exists()
    with pytest.raises(NotFoundError):
        og.open(served.graphs["papers"].uri)


def test_only_who_saw_the_newest_ledger_writes_it(place: AnyPath) -> None:
    root = os.fspath(place / "ledger")
    first, second = Ledger(root), Ledger(root)
    with first.lock("test") as lock:
        assert first.write(State(state_revision=1), expected=None, lock=lock)
        known = second.read()
        assert known is not None
        newer = first.write(State(state_revision=2), expected=known[1], lock=lock)
        for expected in (None, known[1]):
            with pytest.raises(LedgerError, match="somebody else"):
                second.write(State(state_revision=9), expected=expected, lock=lock)
        held = second.lock_body()
        assert held is not None
        assert held[0].operation == "test"
        assert first.write(State(state_revision=3), expected=newer, lock=lock)
    assert second.lock_body() is None
    first.close()
    second.close()


def test_a_lock_that_was_not_renewed_in_time_is_renewed_unless_it_is_taken(
    place: AnyPath, backend: str
) -> None:
    def sleep(slot: Any) -> None:
        if backend == "s3":  # On a disk a lock goes with its process only.
            slot._renewed = -1000.0
            assert slot.lapsed

    ledger = Ledger(os.fspath(place / "ledger"))
    with ledger.lock("test") as lock:
        sleep(lock._slot)
        assert lock.is_held()
        assert not lock._slot.lapsed
        ledger.force_unlock(lock.body.id)
        sleep(lock._slot)
        assert not lock.is_held()
    ledger.close()

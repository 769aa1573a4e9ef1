"""A cluster whose graphs and ledger lie where the configuration says, on a disk or in a bucket."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import cluster
from omnigraph.cluster.ledger import Ledger, LedgerError, State
from omnigraph.errors import NotFoundError
from omnigraph.server import Settings, Token, Tokens, open_service, running
from tests.cluster.folders import WIDER, Folder, changes
from tests.integration.conftest import Cli
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


def test_commands_leave_a_graph_of_a_cluster_to_it(
    cli: Cli, folder: Folder, place: AnyPath
) -> None:
    store = place / "store"
    folder.config["storage"] = os.fspath(store)
    folder.save()
    assert cli("cluster", "apply", "--config", str(folder.path)).code == 0
    schema = str(folder.path / "papers.pg")
    papers, new = (os.fspath(store / "graphs" / f"{name}.omni") for name in ("papers", "new"))
    for command in (["schema", "apply", papers], ["init", new]):
        refused = cli(*command, "--schema", schema)
        assert refused.code != 0
        assert "belongs to a cluster" in refused.err
    assert cli("init", os.fspath(place / "own"), "--schema", schema).code == 0
    listed = cli("queries", "list", "--cluster", os.fspath(store), "--graph", "papers")
    assert "read all()" in listed.out


def test_a_cluster_in_a_bucket_is_served(folder: Folder, place: AnyPath) -> None:
    store = os.fspath(place / "store")
    folder.config["storage"] = store
    folder.save()
    folder.apply()
    secret = secrets.token_hex(8)
    tokens = Tokens([Token.of("act-lena", secret)])
    service = open_service(Settings(cluster=store), tokens, {"OMNIGRAPH_DURABILITY": "none"})
    with running(service) as url:
        graph = og.connect(url, graph="papers", token=secret)
        assert len(graph.query("query q() { match { $p: Paper } return { $p.doi } }")) == 0
        graph.close()
    service.close()


def test_the_files_of_a_cluster_are_read_from_a_disk(cli: Cli, tmp_path: Path) -> None:
    for command in ("validate", "plan", "apply", "status"):
        refused = cli("cluster", command, "--config", "s3://bucket/cluster")
        assert refused.code != 0
        assert "`storage:` may name a bucket" in refused.out + refused.err


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

"""A cluster whose graphs and ledger lie where the configuration says, on a disk or in a bucket."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import cluster
from omnigraph.cluster.state import State, StateError, StateFile
from omnigraph.errors import NotFoundError
from omnigraph.server import Settings, Token, Tokens, open_service, running
from omnigraph.store.slots import leases
from tests.cluster.folders import WIDER, Folder, changes
from tests.faults.victim import Zygote
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


def test_only_who_saw_the_newest_state_writes_it(place: AnyPath) -> None:
    root = os.fspath(place / "cluster")
    first, second = StateFile(root), StateFile(root)
    with first.lock("test"):
        none = first.read()
        one = first.write(none, State(state_revision=1))
        two = first.write(one, State(state_revision=2))
        for older in (none, one):
            with pytest.raises(StateError, match="changed the ledger"):
                first.write(older, State(state_revision=9))
        held = second.lock_body()
        assert held is not None
        assert held[0].operation == "test"
        with pytest.raises(StateError, match="the cluster is being changed"), second.lock("test"):
            pytest.fail("two have the lock")
        with pytest.raises(StateError, match="took the lock"):
            second.write(two, State(state_revision=3))
        first.force_unlock(held[0].id)
        with pytest.raises(StateError, match="took the lock"):
            first.write(two, State(state_revision=3))
    assert second.lock_body() is None
    assert second.read().state == State(state_revision=2)
    first.close()
    second.close()


def test_an_applier_killed_in_a_bucket_is_finished_by_the_next(
    folder: Folder, place: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*points: str) -> None:
        # One that starts after the bucket's address is in the environment.
        with Zygote() as zygote:
            for point in points:
                assert zygote.run("cluster", folder.path, point=point, number=1)["killed"], point

    # The owners are dead: there is no need to give them long.
    monkeypatch.setattr(leases, "LEASE_S", 0.6)
    monkeypatch.setattr(leases, "LEASE_MARGIN_S", 0.1)
    folder.config["storage"] = os.fspath(place / "store")
    folder.save()
    die("init.after_tables", "cluster.post_effect", "cluster.pre_state")
    assert folder.apply()["converged"]
    with og.open(place / "store" / "graphs" / "papers.omni") as graph:
        graph.mutate('query a() { insert Paper { doi: "p1" } }')
    del folder.config["graphs"]["papers"], folder.config["policies"]["team"]
    folder.save()
    cluster.approve(folder.path, "graph.papers", actor="boss").check()
    die("cluster.post_state", "cluster.post_remove")
    assert list(cluster.read_cluster(folder.path).graphs) == ["notes"]
    assert folder.apply()["converged"]
    assert not (place / "store" / "graphs" / "papers.omni").exists()
    assert folder.apply()["state_written"] is False

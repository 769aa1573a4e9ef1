"""A cluster whose graphs and ledger lie where the configuration says, on a disk or in a bucket."""

from __future__ import annotations

import os

import pytest

import omnigraph as og
from omnigraph import cluster
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

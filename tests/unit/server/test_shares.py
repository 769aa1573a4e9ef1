"""What each of several workers gets of what a server has, and what they tell each other."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.error_kinds import ErrorKind
from omnigraph.errors import NotFoundError
from omnigraph.graph.seam import limit_cache, note_commits
from omnigraph.identity import Tokens
from omnigraph.limits import UPKEEP_COMMITS
from omnigraph.server.orders import Refusal
from omnigraph.server.service import open_service
from omnigraph.server.settings import Settings

SCHEMA = "node City { name: String @key }"
ADD = 'query add() { insert City { name: "a" } }'
ALL = "query all() { match { $c: City } return { $c.name } }"


def test_workers_share_what_a_server_has() -> None:
    settings = Settings(store="x", workers=3, requests_max=10, actor_reads_max=2, cache_bytes_max=9)
    shares = [settings.of_worker(number) for number in range(3)]
    assert {item.requests_max for item in shares} == {4}
    assert {item.actor_reads_max for item in shares} == {1}
    assert {item.cache_bytes_max for item in shares} == {3}
    assert {item.actor_writes_max for item in shares} == {settings.actor_writes_max}
    assert [item.upkeep for item in shares] == [True, False, False]
    assert not Settings(store="x", workers=2, upkeep=False).of_worker(0).upkeep


def test_commits_of_other_workers_count_for_upkeep(tmp_path: Path) -> None:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    settings = Settings(store=str(tmp_path / "g"), unauthenticated=True)
    service = open_service(settings, Tokens(()), {"OMNIGRAPH_DURABILITY": "none"})
    try:
        graph = service.serving.graphs.find(None).graph
        upkeep = graph._acting.engine.upkeep
        assert upkeep is not None
        service.note([("default", "main", UPKEEP_COMMITS - 1), ("unknown", "main", 5)])
        upkeep.wait()
        assert upkeep.runs == 0
        note_commits(graph, "main", 1)
        upkeep.wait()
        assert upkeep.runs == 1
    finally:
        service.close()


def test_commits_are_told_once_and_kept_until_they_are(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        commit = graph.mutate(ADD).commit
    assert commit is not None
    settings = Settings(store=str(tmp_path / "g"), unauthenticated=True)
    service = open_service(settings, Tokens(()), {})
    try:
        service.committed("default", commit)
        assert service.take_noted() == []
        service.tells_commits = True
        service.committed("default", commit)
        service.committed("default", commit)
        found = service.take_noted()
        assert found == [("default", "main", 2)]
        assert service.take_noted() == []
        service.keep_noted(found)
        assert service.take_noted() == found
    finally:
        service.close()


def test_the_read_cache_of_a_graph_can_be_made_smaller(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load([{"type": "City", "data": {"name": f"c{n}"}} for n in range(100)], mode="append")
        limit_cache(graph, 1)
        with pytest.raises(og.ResourceLimitError):
            graph.query(ALL)
        limit_cache(graph, 1 << 20)
        assert len(graph.query(ALL)) == 100
        assert 0 < graph.maintenance.cache_stats().size_bytes <= 1 << 20


def test_a_worker_that_cannot_start_tells_why() -> None:
    sent = Refusal.of(NotFoundError("no graph there", hint="look again"))
    found = sent.error()
    assert (found.kind, found.message, found.hint) == (
        ErrorKind.NOT_FOUND, "no graph there", "look again",
    )  # fmt: skip

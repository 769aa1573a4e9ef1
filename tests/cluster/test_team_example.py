"""The example of a team stays correct."""

from __future__ import annotations

import shutil
from pathlib import Path

import omnigraph as og
from omnigraph import cluster
from omnigraph.policy import load_policy, run_cases

TEAM = Path(__file__).resolve().parents[2] / "examples" / "team"


def test_the_example_can_be_applied_and_used(memory: Path) -> None:
    place = memory / "team"
    shutil.copytree(TEAM, place, ignore=shutil.ignore_patterns("store"))
    cluster.apply(place, actor="act-lena").check()
    papers = cluster.read_cluster(place).graphs["papers"]
    with og.open(papers.uri, policy=papers.policy, actor="agent-7") as graph:
        draft = graph.branch("draft")
        for doi in ("a", "b"):
            values = {"doi": doi, "title": doi.upper(), "year": 2020}
            draft.mutate(papers.queries["add_paper"].source, values)
        draft.mutate(papers.queries["cite"].source, {"from": "a", "to": "b"})
        graph.as_actor("act-omar").branches.merge("draft")
        cited = graph.query(papers.queries["cited_by"].source, {"doi": "a"})
        assert [row["other.doi"] for row in cited] == ["b"]
        assert len(graph.query(papers.queries["newest"].source)) == 2


def test_the_cases_of_the_example_hold() -> None:
    outcomes = run_cases(load_policy(TEAM / "team.yaml"), TEAM / "cases.yaml")
    assert all(outcome.ok for outcome in outcomes)

"""Clusters to work on: a folder of files that tests change."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from omnigraph import cluster
from tests.policy.bundles import BUNDLE, SERVER

SCHEMA = "node Paper { doi: String @key  year: I32? }\n"
WIDER = "node Paper { doi: String @key  year: I32?  title: String? }\n"
NARROWER = "node Paper { doi: String @key }\n"
QUERIES = """\
query all() @description("All papers") @instruction("Call it first.") {
    match { $p: Paper } return { $p.doi }
}
query add($doi: String) { insert Paper { doi: $doi } }
"""
CONFIG: dict[str, Any] = {
    "version": 1,
    "metadata": {"name": "library"},
    "graphs": {
        "papers": {"schema": "papers.pg", "queries": "queries"},
        "notes": {"schema": "notes.pg"},
    },
    "policies": {
        "team": {"file": "team.yaml", "applies_to": ["papers"]},
        "operators": {"file": "server.yaml", "applies_to": ["cluster"]},
    },
}


class Folder:
    """The configuration of a cluster on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = copy.deepcopy(CONFIG)
        (path / "queries").mkdir(parents=True)
        self.put("papers.pg", SCHEMA)
        self.put("notes.pg", "node Note { text: String }\n")
        self.put("queries/papers.gq", QUERIES)
        self.put("team.yaml", BUNDLE)
        self.put("server.yaml", SERVER)
        self.save()

    def put(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def save(self) -> None:
        self.put("cluster.yaml", yaml.safe_dump(self.config, sort_keys=False))

    def apply(self) -> dict[str, Any]:
        return cluster.apply(self.path, actor="ann").check().to_json()

    def graph(self, graph_id: str) -> Path:
        return self.path / "graphs" / f"{graph_id}.omni"


def changes(report: dict[str, Any]) -> dict[str, str]:
    """What became of each resource: its operation, or why it was blocked."""
    return {item["resource"]: item.get("reason", item["operation"]) for item in report["changes"]}


def codes(report: dict[str, Any]) -> list[str]:
    return [item["code"] for item in report["diagnostics"]]

"""`cluster.yaml` and the files it names: every mistake has a code, and all are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph import cluster
from tests.cluster.folders import SCHEMA, Folder, codes

Edit = Callable[[Folder], Any]


def test_a_configuration_becomes_resources(folder: Folder) -> None:
    report: Any = cluster.validate(folder.path).check().to_json()
    assert report["config_file"] == "cluster.yaml"
    assert [item["address"] for item in report["resources"]] == [
        "graph.notes",
        "graph.papers",
        "policy.operators",
        "policy.team",
        "query.papers.add",
        "query.papers.all",
        "schema.notes",
        "schema.papers",
    ]
    assert {"from": "query.papers.add", "to": "schema.papers"} in report["dependencies"]
    assert {"from": "policy.team", "to": "graph.papers"} in report["dependencies"]
    assert not (folder.path / "__cluster").exists()


def test_a_digest_changes_with_what_it_stands_for(folder: Folder) -> None:
    def digests() -> dict[str, str]:
        report: Any = cluster.validate(folder.path).to_json()
        return dict(report["resource_digests"])

    before = digests()
    folder.put("papers.pg", f"// a comment\n{SCHEMA}")
    assert digests() == before
    folder.put("papers.pg", SCHEMA.replace("year: I32?", "year: I64?"))
    after = digests()
    assert {a for a in after if after[a] != before[a]} == {"schema.papers"}


@pytest.mark.parametrize(
    "queries",
    [
        ["queries/papers.gq"],
        {"all": {"file": "queries/papers.gq"}, "add": {"file": "queries/papers.gq"}},
    ],
)
def test_queries_are_named_in_three_ways(folder: Folder, queries: object) -> None:
    whole = cluster.validate(folder.path).to_json()["resource_digests"]
    folder.config["graphs"]["papers"]["queries"] = queries
    folder.save()
    assert cluster.validate(folder.path).to_json()["resource_digests"] == whole


def config(**changes: object) -> Edit:
    return lambda folder: folder.config.update(changes)


def in_papers(**changes: object) -> Edit:
    return lambda folder: folder.config["graphs"]["papers"].update(changes)


def policy(**changes: object) -> Edit:
    return lambda folder: folder.config["policies"]["team"].update(changes)


def text(name: str, content: str) -> Edit:
    return lambda folder: folder.put(name, content)


def provider(**values: object) -> Edit:
    return config(providers={"embedding": {"p": values}})


@pytest.mark.parametrize(
    ("code", "edit"),
    [
        ("invalid_cluster_yaml", config(extra=1)),
        ("invalid_cluster_yaml", config(version="one")),
        ("invalid_cluster_yaml", config(storage="ftp://host/x")),
        ("invalid_cluster_yaml", config(graphs={"a_b": {"schema": "papers.pg"}}, policies={})),
        ("invalid_cluster_yaml", config(graphs={"cluster": {"schema": "papers.pg"}}, policies={})),
        ("invalid_cluster_yaml",
         config(policies={"..": {"file": "team.yaml", "applies_to": ["papers"]}})),
        ("invalid_cluster_yaml", config(graphs={"../x": {"schema": "papers.pg"}}, policies={})),
        ("unsupported_cluster_config_version", config(version=2)),
        ("future_phase_field", config(state={"lock": False})),
        ("schema_file_missing", in_papers(schema="none.pg")),
        ("schema_parse_error", text("papers.pg", "node {")),
        ("schema_catalog_error", text("papers.pg", "node Paper { a: String  a: I32 }")),
        ("query_file_missing", in_papers(queries="nowhere")),
        ("query_file_missing", in_papers(queries=["none.gq"])),
        ("query_parse_error", text("queries/bad.gq", "query {")),
        ("query_typecheck_error",
         text("queries/bad.gq", "query b() { match { $p: Book } return { $p.id } }")),
        ("query_key_mismatch", in_papers(queries={"other": {"file": "queries/papers.gq"}})),
        ("duplicate_query_name",
         text("queries/z.gq", "query all() { match { $p: Paper } return { $p.doi } }")),
        ("policy_file_missing", policy(file="none.yaml")),
        ("policy_invalid", text("team.yaml", "version: 1")),
        ("policy_invalid", policy(file="server.yaml")),
        ("policy_missing_applies_to", policy(applies_to=[])),
        ("policy_mixed_binding_kinds", policy(applies_to=["papers", "cluster"])),
        ("duplicate_policy_binding",
         config(policies={n: {"file": "team.yaml", "applies_to": ["papers"]} for n in "ab"})),
        ("dangling_graph_reference", policy(applies_to=["nothing"])),
        ("dangling_graph_reference", in_papers(embedding_provider="nobody")),
        ("wrong_kind_reference", policy(applies_to=["schema.papers"])),
        ("embedding_api_key_inline", provider(kind="openai", api_key="hunter2")),
        ("embedding_api_key_required", provider(kind="openai")),
        ("invalid_cluster_yaml", provider(kind="oracle", api_key="${KEY}")),
        ("future_phase_field",
         in_papers(external_blobs={"allow": [{"base": "s3://b", "scope": "server_safe"}]})),
    ],
)  # fmt: skip
def test_a_mistake_has_its_code(folder: Folder, code: str, edit: Edit) -> None:
    edit(folder)
    folder.save()
    report = cluster.validate(folder.path).to_json()
    assert report["ok"] is False
    assert code in codes(report)
    assert code in codes(cluster.plan(folder.path).to_json())
    assert "hunter2" not in str(report)
    assert cluster.apply(folder.path).ok is False
    assert not (folder.path / "__cluster").exists()


def test_a_repeated_key_and_a_missing_folder(folder: Folder, tmp_path: Path) -> None:
    folder.put("cluster.yaml", "version: 1\nversion: 1\n")
    assert codes(cluster.validate(folder.path).to_json()) == ["duplicate_yaml_key"]
    assert codes(cluster.validate(tmp_path / "none").to_json()) == ["config_dir_not_found"]
    (folder.path / "cluster.yaml").unlink()
    assert codes(cluster.validate(folder.path).to_json()) == ["invalid_cluster_yaml"]


def test_all_mistakes_are_told_at_once(folder: Folder) -> None:
    folder.put("papers.pg", "node {")
    folder.put("team.yaml", "version: 1")
    folder.put("queries/bad.gq", "query {")
    found = codes(cluster.validate(folder.path).to_json())
    assert set(found) == {"schema_parse_error", "policy_invalid", "query_parse_error"}

"""`omnigraph cluster`, `queries`, and policies by cluster on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.folders import NARROWER, Folder
from tests.integration.conftest import Cli


def test_a_cluster_from_validation_to_approval(cli: Cli, folder: Folder) -> None:
    at = ("--config", str(folder.path))
    shown = cli("cluster", "validate", *at)
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "OK: 8 resources")
    assert "create graph.papers" in cli("cluster", "plan", *at).out
    shown = cli("cluster", "apply", *at, "--as", "ann")
    assert shown.out.splitlines()[-1] == "applied 8, converged"
    assert cli("cluster", "plan", *at).out == "no changes\n"
    assert "applied  query.papers.all" in cli("cluster", "status", *at).out

    folder.put("papers.pg", NARROWER)
    shown = cli("cluster", "apply", *at)
    assert shown.code == 0
    assert "update schema.papers blocked (approval_required)" in shown.out
    assert "drop_property Paper.year" in shown.out
    assert shown.out.splitlines()[-1] == "applied 0, 1 left, not converged"
    assert "omnigraph cluster approve schema.papers" in shown.err
    assert cli("cluster", "approve", "schema.papers", *at).code == 2
    shown = cli("cluster", "approve", "schema.papers", *at, "--as", "boss")
    assert shown.out == "approved: update schema.papers by boss\n"
    assert cli("cluster", "apply", *at, "--json").json["converged"] is True
    assert cli("cluster", "approve", "schema.papers", *at, "--as", "boss").code == 1
    assert cli("cluster", "force-unlock", "x", *at).code == 1


def test_mistakes_end_with_1_and_are_listed(cli: Cli, folder: Folder) -> None:
    folder.put("papers.pg", "node {")
    at = ("--config", str(folder.path))
    for command in ("validate", "plan", "apply", "status"):
        shown = cli("cluster", command, *at)
        assert (shown.code, shown.out) == (1, "")
        assert "[schema_parse_error]" in shown.err
    body = cli("cluster", "apply", *at, "--json")
    assert (body.code, body.json["ok"]) == (1, False)


def test_stored_queries_are_listed_and_checked(cli: Cli, folder: Folder) -> None:
    folder.apply()
    at = ("--cluster", str(folder.path))
    assert cli("queries", "list", *at).code == 1
    assert cli("queries", "list", *at, "--graph", "none").code == 3
    shown = cli("queries", "list", *at, "--graph", "papers")
    assert shown.out.splitlines() == [
        "mutation add($doi: String)",
        "read all()",
        "    All papers",
        "    Call it first.",
    ]
    (add, every) = cli("queries", "list", *at, "--graph", "papers", "--json").json["queries"]
    assert add == {
        "name": "add",
        "tool_name": "add",
        "mutation": True,
        "mcp_expose": True,
        "params": [{"name": "doi", "type": "String", "nullable": False}],
    }
    assert (every["description"], every["instruction"]) == ("All papers", "Call it first.")
    shown = cli("queries", "validate", *at, "--graph", "papers")
    assert (shown.code, shown.out) == (0, "2 queries checked: 0 broken\n")
    assert cli("queries", "validate", *at, "--graph", "papers", "--json").json["ok"] is True


def test_policies_are_found_by_cluster(cli: Cli, folder: Folder) -> None:
    folder.apply()
    at = ("--cluster", str(folder.path))
    shown = cli("policy", "validate", *at)
    assert (shown.code, "operators, team" in shown.err) == (1, True)
    assert "team: OK, a graph policy" in cli("policy", "validate", *at, "--graph", "papers").out
    assert cli("policy", "validate", *at, "--graph", "notes").code == 3
    asked = ("--actor", "agent-7", "--action", "change", "--branch", "main")
    body = cli("policy", "explain", *at, "--graph", "papers", *asked, "--json").json
    assert body["allowed"] is False


def test_what_a_cluster_manages_is_not_changed_past_it(cli: Cli, folder: Folder) -> None:
    folder.apply()
    place = str(folder.graph("papers"))
    schema = str(folder.path / "papers.pg")
    denied = cli("schema", "apply", place, "--schema", schema)
    assert denied.code == 1
    assert "cluster apply" in denied.err
    assert cli("schema", "plan", place, "--schema", schema).code == 0
    new = str(folder.graph("other"))
    denied = cli("init", new, "--schema", schema)
    assert (denied.code, "cluster" in denied.err) == (1, True)


def test_a_graph_of_a_cluster_is_maintained_by_its_name(
    cli: Cli, folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.apply()
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("OMNIGRAPH_HOME", str(home))
    (home / "config.yaml").write_text(
        f"""
clusters: {{library: {{root: "{folder.path}"}}}}
profiles: {{day: {{cluster: library, default_graph: papers}}}}
"""
    )
    at = ("--cluster", str(folder.path), "--graph", "papers")
    for command in (["optimize"], ["repair"], ["cleanup", "--keep", "3"], ["ensure-indices"]):
        shown = cli(*command, *at, "--json")
        assert (shown.code, shown.json["uri"]) == (0, str(folder.graph("papers"))), command
        for named in (("--cluster", "library", "--graph", "papers"), ("--profile", "day")):
            assert cli(*command, *named).code == 0, (command, named)
        assert cli(*command, "--cluster", "library").code == 1, "it has several graphs"
        assert cli(*command, "--cluster", "library", "--graph", "none").code == 3
        assert cli(*command, str(folder.graph("papers")), "--graph", "papers").code == 2
    queries = str(folder.path / "queries" / "papers.gq")
    checked = cli("lint", "--query", queries, *at, "--json").json
    assert (checked["status"], checked["schema_source"]["kind"]) == ("ok", "graph")
    notes = cli("lint", "--query", queries, "--cluster", "library", "--graph", "notes")
    assert notes.code == 1
    both = cli("lint", "--query", queries, *at, "--schema", str(folder.path / "papers.pg"))
    assert both.code == 2
    shim = cli("query", "check", "--query", queries, "--schema", str(folder.path / "papers.pg"))
    assert (shim.code, "2 queries checked" in shim.out) == (0, True)
    assert "read all()" in cli("queries", "list", "--profile", "day", "--graph", "papers").out
    assert cli("queries", "list").code == 2
    assert cli("--cluster", "library", "queries", "list", "--graph", "papers").code == 0
    assert cli("policy", "validate", "--profile", "day", "--graph", "papers").code == 0
    assert cli("branch", "list", "--profile", "day").code == 1, "data is read through a server"
    assert cli("branch", "list", *at).code == 2

"""`omnigraph policy`, and policies in force on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import Cli
from tests.policy.bundles import BUNDLE, SERVER

CASES = """\
version: 1
cases:
  - {id: agents-work-aside, actor: agent-7, action: change, branch: x, expect: allow}
  - {id: main-is-safe, actor: agent-7, action: change, branch: main, expect: deny}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(BUNDLE, encoding="utf-8")
    (tmp_path / "server.yaml").write_text(SERVER, encoding="utf-8")
    (tmp_path / "cases.yaml").write_text(CASES, encoding="utf-8")
    (tmp_path / "s.pg").write_text("node P { k: String @key }\n", encoding="utf-8")


def test_validate_tells_what_a_bundle_is(cli: Cli) -> None:
    shown = cli("policy", "validate", "team.yaml")
    assert shown.code == 0
    assert "team.yaml: OK, a graph policy with 4 actors and 6 rules" in shown.out
    assert "WARN rule 'curators-merge'" in shown.out
    assert "a server policy with 1 actor and 1 rule" in cli("policy", "validate", "server.yaml").out
    body = cli("policy", "validate", "team.yaml", "--json", "--cedar").json
    assert (body["ok"], body["kind"], body["name"]) == (True, "graph", "team.yaml")
    assert 'permit (principal in Group::"readers"' in body["cedar"]


def test_validate_fails_on_mistakes(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(BUNDLE.replace("[agent-7]", "[]"), encoding="utf-8")
    shown = cli("policy", "validate", "bad.yaml")
    assert (shown.code, shown.out) == (1, "")
    assert "group 'agents' has no actors" in shown.err
    assert cli("policy", "validate", "none.yaml").code == 3
    assert cli("policy", "validate").code == 2
    assert cli("policy", "validate", "team.yaml", "--graph", "x").code == 2


def test_cases_pass_or_fail_the_command(cli: Cli, tmp_path: Path) -> None:
    shown = cli("policy", "test", "team.yaml", "--tests", "cases.yaml")
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "2 of 2 cases as expected")
    wrong = CASES.replace("expect: deny", "expect: allow")
    (tmp_path / "wrong.yaml").write_text(wrong, encoding="utf-8")
    shown = cli("policy", "test", "team.yaml", "--tests", "wrong.yaml")
    assert shown.code == 1
    assert "ERROR main-is-safe: expected allow, got deny" in shown.out
    body = cli("policy", "test", "team.yaml", "--tests", "wrong.yaml", "--json").json
    assert (body["ok"], [case["ok"] for case in body["cases"]]) == (False, [True, False])


def test_explain_answers_one_question(cli: Cli) -> None:
    asked = ("policy", "explain", "team.yaml", "--actor", "agent-7", "--action", "branch_create")
    shown = cli(*asked, "--branch", "main", "--target-branch", "work")
    assert shown.out.splitlines()[:2] == ["decision: allow", "matched rule: agents-fork"]
    body = cli(*asked, "--target-branch", "main", "--json").json
    assert body["allowed"] is False
    assert body["near_rule_ids"] == ["agents-fork"]
    assert cli("policy", "explain", "server.yaml", "--actor", "act-omar", "--action",
               "graph_list").out.startswith("decision: allow")  # fmt: skip
    assert cli("policy", "explain", "team.yaml", "--actor", "a", "--action", "fly").code == 1


def test_commands_obey_the_policy_of_the_environment(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(tmp_path / "g")
    assert cli("init", place, "--schema", "s.pg").code == 0
    monkeypatch.setenv("OMNIGRAPH_POLICY", "team.yaml")
    add = ("mutate", "-e", 'query add() { insert P { k: "x" } }', "--store", place)
    denied = cli(*add, "--as", "agent-7", "--json")
    assert denied.code == 6
    assert denied.json["policy_denial"]["near_rule_ids"] == ["agents-work-aside"]
    assert denied.json["code"] == "forbidden"
    assert cli("snapshot", place).code == 6
    monkeypatch.setenv("OMNIGRAPH_ACTOR", "agent-7")
    assert cli("snapshot", place).code == 0
    assert cli("branch", "create", "work", place).code == 0
    assert cli(*add, "--branch", "work").code == 0
    assert cli(*add, "--branch", "work", "--as", "act-guest").code == 6

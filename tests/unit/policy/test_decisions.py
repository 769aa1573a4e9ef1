"""Cedar says what the bundle says; every answer has its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import BadRequestError, PolicyDeniedError
from omnigraph.policy import (
    Access,
    Action,
    Bundle,
    CedarPolicy,
    OpenAccess,
    ReadOnlyAccess,
    ServerState,
    check,
    load_policy,
    policy_for,
    policy_from_text,
    run_cases,
    server_state,
)
from omnigraph.policy.bundle import Rule
from tests.policy.bundles import BUNDLE, SERVER

POLICY = policy_from_text(BUNDLE, name="team.yaml")


def ask(actor: str | None, action: str, branch: str | None = None, to: str | None = None) -> Access:
    return Access(action=Action(action), actor=actor, branch=branch, target_branch=to)


@pytest.mark.parametrize(
    ("access", "rule"),
    [
        (ask("act-guest", "read", "main"), "readers-read"),
        (ask("act-guest", "read"), "readers-read"),
        (ask("act-guest", "change", "main"), None),
        (ask("agent-7", "read", "main"), "agents-read-main"),
        (ask("agent-7", "read", "x"), "agents-work-aside"),
        (ask("agent-7", "read"), None),
        (ask("agent-7", "change", "release"), None),
        (ask("agent-7", "branch_create", "main", "x"), "agents-fork"),
        (ask("agent-7", "branch_create", "x", "main"), None),
        (ask("agent-7", "branch_delete", None, "x"), "agents-fork"),
        (ask("agent-7", "branch_merge", "x", "main"), None),
        (ask("act-omar", "branch_merge", "x", "main"), "curators-merge"),
        (ask("act-omar", "branch_merge", "main", "x"), None),
        (ask("act-omar", "invoke_query"), "curators-run"),
        (ask("nobody", "read", "main"), None),
        (ask("curators", "branch_merge", "x", "main"), None),
        (ask(None, "read", "main"), None),
        (ask("act-omar", "graph_list"), None),
    ],
)
def test_a_rule_allows_or_nothing_does(access: Access, rule: str | None) -> None:
    decision = POLICY.decide(access)
    assert (decision.allowed, decision.matched_rule_id) == (rule is not None, rule)
    assert decision.allowed or decision.hint


def test_a_server_bundle_decides_about_the_server_only() -> None:
    policy = policy_from_text(SERVER)
    assert policy.decide(ask("act-omar", "graph_list")).matched_rule_id == "operators-list"
    assert not policy.decide(ask("act-omar", "read", "main")).allowed
    assert not policy.decide(ask("act-lena", "graph_list")).allowed


def test_a_denial_explains_itself() -> None:
    with pytest.raises(PolicyDeniedError) as caught:
        check(POLICY, ask("agent-7", "change", "main"))
    error = caught.value
    assert error.message == (
        "'agent-7' may not change on branch 'main': 'main' is protected and no rule of team.yaml "
        "allows it there"
    )
    assert error.hint == "change is allowed by 'agents-work-aside' on unprotected branches"
    assert error.to_json()["policy_denial"] == {
        "action": "change",
        "resource": "graph",
        "actor": "agent-7",
        "branch": "main",
        "policy": "team.yaml",
        "near_rule_ids": ["agents-work-aside"],
    }


def test_nothing_is_denied_without_a_policy() -> None:
    check(None, ask(None, "change", "main"))


ACTORS = ["a", 'b"quote', "c\\x}", "ä"]
GROUPS = ["g", 'h "); permit(principal, action, resource); //']
BRANCHES = [None, "main", "dev", 'x"y']
GRAPH_ACTIONS = [action for action in Action if not action.on_server]


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    groups = {g: draw(st.sets(st.sampled_from(ACTORS), min_size=1)) for g in GROUPS}
    rules = []
    for number in range(draw(st.integers(1, 4))):
        key = draw(st.sampled_from([None, "branch_scope", "target_branch_scope"]))
        legal = [a for a in GRAPH_ACTIONS if key is None or a.scope_key == key]
        rules.append(
            Rule(
                id=f"rule {number} '\"\\",
                group=draw(st.sampled_from(GROUPS)),
                actions=tuple(draw(st.lists(st.sampled_from(legal), min_size=1, unique=True))),
                scope_key=key,
                scope="any" if key is None else draw(st.sampled_from(["any", "protected",
                                                                      "unprotected"])),
            )
        )  # fmt: skip
    return Bundle(
        name="generated",
        kind="graph",
        groups={name: frozenset(actors) for name, actors in groups.items()},
        rules=tuple(rules),
        protected_branches=frozenset(draw(st.sets(st.sampled_from(["main", 'x"y'])))),
    )


def by_hand(bundle: Bundle, access: Access) -> str | None:
    """The meaning of a bundle, written down a second time without Cedar."""
    for rule in bundle.rules:
        if access.actor not in bundle.groups[rule.group] or access.action not in rule.actions:
            continue
        branch = access.branch if rule.scope_key == "branch_scope" else access.target_branch
        protected = branch in bundle.protected_branches
        if rule.scope == "any" or (branch and protected is (rule.scope == "protected")):
            return rule.id
    return None


@settings(max_examples=60)
@given(bundles(), st.data())
def test_cedar_decides_as_the_bundle_reads(bundle: Bundle, data: st.DataObject) -> None:
    policy = CedarPolicy(bundle)
    for _ in range(8):
        access = Access(
            action=data.draw(st.sampled_from(GRAPH_ACTIONS)),
            actor=data.draw(st.sampled_from([*ACTORS, "nobody"])),
            branch=data.draw(st.sampled_from(BRANCHES)),
            target_branch=data.draw(st.sampled_from(BRANCHES)),
        )
        assert policy.decide(access).matched_rule_id == by_hand(bundle, access)


def test_cases_are_asked_in_order(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(
        "version: 1\ncases:\n"
        "  - {id: one, actor: agent-7, action: change, branch: x, expect: allow}\n"
        "  - {id: two, actor: agent-7, action: change, branch: main, expect: allow}\n",
        encoding="utf-8",
    )
    outcomes = run_cases(POLICY, tmp_path / "cases.yaml")
    assert [(item.id, item.ok) for item in outcomes] == [("one", True), ("two", False)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 2\ncases: []", "version 2 is not known"),
        ("version: 1\ncases: []", "there are no cases"),
        ("version: 1\ncases: [{id: a, actor: x, action: rd, expect: deny}]", "unknown action 'rd'"),
        ("version: 1\ncases: [{id: a, actor: x, action: read, expect: no}]", "Invalid enum value"),
        (
            "version: 1\ncases: [{id: a, actor: x, action: read, expect: deny}, "
            "{id: a, actor: y, action: read, expect: deny}]",
            "case a is defined twice",
        ),
    ],
)
def test_a_wrong_file_of_cases_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cases.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(BadRequestError, match=message):
        run_cases(POLICY, tmp_path / "cases.yaml")


def test_a_policy_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.yaml").write_text(BUNDLE, encoding="utf-8")
    monkeypatch.setitem(__import__("sys").modules, "cedarpy", None)
    with pytest.raises(BadRequestError) as caught:
        load_policy(tmp_path / "p.yaml")
    assert caught.value.hint == "pip install 'omnigraph[policy]'"


@pytest.mark.parametrize(
    ("tokens", "policy", "unauthenticated", "state"),
    [
        (False, False, True, ServerState.OPEN),
        (True, False, False, ServerState.DEFAULT_DENY),
        (True, True, False, ServerState.POLICY_ENABLED),
        (True, False, True, ServerState.DEFAULT_DENY),
    ],
)
def test_the_state_of_a_server_follows_tokens_and_policy(
    tokens: bool, policy: bool, unauthenticated: bool, state: ServerState
) -> None:
    found = server_state(tokens=tokens, policy=policy, unauthenticated=unauthenticated)
    assert found is state


@pytest.mark.parametrize("unauthenticated", [True, False])
def test_a_policy_without_tokens_does_not_start(unauthenticated: bool) -> None:
    with pytest.raises(BadRequestError, match="a policy without tokens"):
        server_state(tokens=False, policy=True, unauthenticated=unauthenticated)
    with pytest.raises(BadRequestError, match="no tokens are configured"):
        server_state(tokens=False, policy=False)


def test_each_state_has_its_policy() -> None:
    assert policy_for(ServerState.POLICY_ENABLED, POLICY) is POLICY
    assert isinstance(policy_for(ServerState.POLICY_ENABLED, None), ReadOnlyAccess)
    assert isinstance(policy_for(ServerState.DEFAULT_DENY, POLICY), ReadOnlyAccess)
    opened = policy_for(ServerState.OPEN, None)
    assert isinstance(opened, OpenAccess)
    allowed = {action for action in Action if opened.decide(ask(None, action)).allowed}
    assert allowed == set(GRAPH_ACTIONS)
    closed = policy_for(ServerState.DEFAULT_DENY, None)
    allowed = {action for action in Action if closed.decide(ask("a", action)).allowed}
    assert allowed == {Action.READ}
    assert not closed.decide(ask(None, "read")).allowed

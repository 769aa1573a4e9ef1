"""What a cluster shall be against what it is: the decisions, without files and graphs."""

from __future__ import annotations

from typing import Any

import pytest

from omnigraph.cluster.planning import Actual, Change, Desired, Preview, make_plan, plan_json
from omnigraph.cluster.reports import Findings
from omnigraph.cluster.state import Applied, Approval

NEEDS = [
    ("schema.a", "graph.a"),
    ("query.a.q", "schema.a"),
    ("policy.p", "graph.a"),
    ("graph.a", "provider.embedding.e"),
]


def resources(**digests: str) -> dict[str, Applied]:
    """A graph with everything it can have; digests are given by kind."""
    return {
        "provider.embedding.e": Applied(digest=digests.get("provider", "1"), bindings=("a",)),
        "graph.a": Applied(digest=digests.get("graph", "1")),
        "schema.a": Applied(digest=digests.get("schema", "1")),
        "query.a.q": Applied(digest=digests.get("query", "1")),
        "policy.p": Applied(digest=digests.get("policy", "1"), bindings=("a",)),
    }


def desired(found: dict[str, Applied]) -> Desired:
    return Desired(root="/nowhere", resources=found, dependencies=NEEDS)


def approval(resource: str, operation: str, before: str | None, after: str | None) -> Approval:
    return Approval(
        id="1",
        resource=resource,
        operation=operation,
        before_digest=before,
        after_digest=after,
        approved_by="boss",
        created_at=0,
    )


def planned(
    wanted: dict[str, Applied], actual: Actual, *given: Approval
) -> tuple[dict[str, str], list[str]]:
    """What becomes of each resource, in order, and the codes that were told."""
    findings = Findings()
    plan = make_plan(desired(wanted), actual, {item.resource: item for item in given}, findings)
    verdicts = {change.resource: change.reason or change.operation for change in plan}
    return verdicts, [item.code for item in findings.items]


def test_what_is_made_comes_before_what_needs_it() -> None:
    verdicts, codes = planned(resources(), Actual())
    assert list(verdicts) == list(resources())
    assert set(verdicts.values()) == {"create"}
    assert codes == []


def test_what_is_removed_goes_the_other_way_round() -> None:
    given = approval("graph.a", "delete", "1", None)
    verdicts, codes = planned({}, Actual(applied=resources()), given)
    assert list(verdicts) == list(reversed(resources()))
    assert set(verdicts.values()) == {"delete"}
    assert codes == []


def test_equal_things_are_no_change_whatever_the_order_of_bindings() -> None:
    policy = {"policy.p": Applied(digest="1", bindings=("a", "b"))}
    other = {"policy.p": Applied(digest="1", bindings=("b", "a"))}
    assert planned(resources() | policy, Actual(applied=resources() | other)) == ({}, [])


def test_a_graph_is_made_with_its_schema() -> None:
    plan = make_plan(desired(resources()), Actual(), {}, Findings())
    assert {c.resource: c.disposition for c in plan}["schema.a"] == "derived"


def test_a_place_that_is_taken_blocks_what_rests_on_the_graph() -> None:
    verdicts, codes = planned(resources(), Actual(occupied={"a": "taken"}))
    assert verdicts == {
        "provider.embedding.e": "create",
        "graph.a": "graph_create_failed",
        "schema.a": "apply_dependency_blocked",
        "query.a.q": "apply_dependency_blocked",
        "policy.p": "apply_dependency_blocked",
    }
    assert codes == ["graph_create_failed"]


@pytest.mark.parametrize(
    ("preview", "verdict"),
    [
        (Preview(), "update"),
        (Preview(drops=True), "approval_required"),
        (Preview(refusal=("apply_unsupported_change", "no")), "apply_unsupported_change"),
        (Preview(refusal=("schema_apply_failed", "rows")), "schema_apply_failed"),
        (Preview(drops=True, refusal=("schema_apply_failed", "rows")), "schema_apply_failed"),
    ],
)
def test_a_schema_changes_as_far_as_its_graph_lets_it(preview: Preview, verdict: str) -> None:
    actual = Actual(applied=resources(), previews={"a": preview})
    verdicts, codes = planned(resources(schema="2", query="2"), actual)
    assert verdicts["schema.a"] == verdict
    waits = verdict != "update"
    assert verdicts["query.a.q"] == ("apply_dependency_blocked" if waits else "update")
    assert codes == ([verdict] if waits else [])


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (approval("schema.a", "update", "1", "2"), "update"),
        (approval("schema.a", "update", "1", "3"), "approval_stale"),
        (approval("schema.a", "update", "0", "2"), "approval_stale"),
        (approval("schema.a", "delete", "1", "2"), "approval_stale"),
        (approval("graph.a", "update", "1", "2"), "approval_required"),
    ],
)
def test_an_approval_is_for_one_change_from_digest_to_digest(given: Approval, verdict: str) -> None:
    actual = Actual(applied=resources(), previews={"a": Preview(drops=True)})
    verdicts, codes = planned(resources(schema="2"), actual, given)
    assert verdicts == {"schema.a": verdict}
    assert codes == ([] if verdict == "update" else [verdict])


def test_a_graph_that_stays_keeps_its_parts_and_its_policy() -> None:
    provider = {"provider.embedding.e": resources()["provider.embedding.e"]}
    verdicts, codes = planned(provider, Actual(applied=resources()))
    assert verdicts == {
        "policy.p": "apply_dependency_blocked",
        "query.a.q": "apply_dependency_blocked",
        "schema.a": "apply_dependency_blocked",
        "graph.a": "approval_required",
    }
    assert codes == ["approval_required"]


def test_a_plan_names_what_depends_on_its_changes() -> None:
    wanted = desired(resources(provider="2"))
    plan = make_plan(wanted, Actual(applied=resources()), {}, Findings())
    found: Any = plan_json(wanted, plan)
    assert found["blast_radius"] == [
        {
            "resource": "provider.embedding.e",
            "affected": ["graph.a", "policy.p", "query.a.q", "schema.a"],
        }
    ]
    assert found["desired_revision"] == {"config_digest": wanted.config_digest}
    assert found["approvals_required"] == []


def test_a_change_says_only_what_there_is_to_say() -> None:
    made = Change(resource="policy.p", after=Applied(digest="1"))
    assert made.to_json() == {
        "resource": "policy.p",
        "operation": "create",
        "after_digest": "1",
        "disposition": "applied",
    }
    rebound = Change(
        resource="policy.p",
        before=Applied(digest="1"),
        after=Applied(digest="1", bindings=("a",)),
    )
    assert rebound.to_json() == {
        "resource": "policy.p",
        "operation": "update",
        "before_digest": "1",
        "after_digest": "1",
        "disposition": "applied",
        "binding_change": True,
        "metadata_change": "policy_bindings",
    }

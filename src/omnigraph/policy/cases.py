"""Questions with the answers people expect: tests of a bundle, kept beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from omnigraph.errors import BadRequestError
from omnigraph.policy.bundle import decode, read_policy_text
from omnigraph.policy.protocol import Access, Action, Decision, Policy
from omnigraph.values.value import Value


class _Case(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    actor: str
    action: str
    expect: Literal["allow", "deny"]
    branch: str | None = None
    target_branch: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    cases: list[_Case]


class Outcome(Value, frozen=True, kw_only=True, rename={"expected": "expect"}):
    """One case and what the policy said to it."""

    derived: ClassVar[Mapping[str, str]] = {"ok": "ok"}

    id: str
    expected: str
    decision: Decision

    @property
    def ok(self) -> bool:
        """Whether the policy said what was expected."""
        return self.decision.allowed is (self.expected == "allow")


def run_cases(policy: Policy, path: str | os.PathLike[str]) -> list[Outcome]:
    """Ask a policy every question of a file. Raises `BadRequestError` for a file that is wrong."""
    name = os.path.basename(os.fspath(path))
    file = decode(read_policy_text(path), _File, name=name)
    if file.version != 1:
        raise BadRequestError(f"{name}: version {file.version} is not known; write version: 1")
    if not file.cases:
        raise BadRequestError(f"{name}: there are no cases")
    repeated = {case.id for case in file.cases if [c.id for c in file.cases].count(case.id) > 1}
    if repeated:
        raise BadRequestError(f"{name}: case {', '.join(sorted(repeated))} is defined twice")
    return [
        Outcome(id=case.id, expected=case.expect, decision=policy.decide(_access(case, name)))
        for case in file.cases
    ]


def _access(case: _Case, name: str) -> Access:
    return Access(
        action=parse_action(case.action, name=f"{name}: case '{case.id}'"),
        actor=case.actor,
        branch=case.branch,
        target_branch=case.target_branch,
    )


def parse_action(text: str, *, name: str) -> Action:
    """Return an action by its name. Raises `BadRequestError`."""
    if text not in set(Action):
        raise BadRequestError(f"{name}: unknown action '{text}'; there are {', '.join(Action)}")
    return Action(text)

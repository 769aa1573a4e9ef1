"""The step of a pipeline that merges what is the same: its part of the file, and its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from omnigraph.errors import BadRequestError
from omnigraph.graph import Session
from omnigraph.resolve import Rules, parse_rules, propose, proposed, resolve, rules_of
from omnigraph.values.pipelines import StepOutcome
from omnigraph.wording import counted


class ResolveStep(Struct, frozen=True, kw_only=True):
    """What `[resolve]` says. Without a branch the merge is made on the one that was loaded."""

    rules: Rules
    branch: str | None = None
    text: str = ""
    """The text of the file with the rules, if they are in one."""


def resolve_step(fields: object, name: str, read: Callable[[str], str]) -> ResolveStep:
    """Return what the table `resolve` of a pipeline file says: rules, or the file that has them.

    `read` returns the text of a file that the pipeline names.
    """
    if not isinstance(fields, Mapping):
        raise BadRequestError(f"{name}: 'resolve' is a table")
    given = {key: value for key, value in fields.items() if key != "branch"}
    branch = fields.get("branch")
    if branch is not None and (not isinstance(branch, str) or not branch):
        raise BadRequestError(f"{name}: 'branch' of [resolve] is a text, not {branch!r}")
    if "rules" not in given:
        return ResolveStep(rules=rules_of(given, f"{name}: [resolve]"), branch=branch)
    file = given["rules"]
    if len(given) > 1 or not isinstance(file, str):
        raise BadRequestError(f"{name}: [resolve] has rules, or names a file with 'rules'")
    text = read(file)
    return ResolveStep(rules=parse_rules(text, file), branch=branch, text=text)


def run_resolve(
    graph: Session,
    step: ResolveStep,
    *,
    loaded: str,
    operation: str,
    engine: Mapping[str, Any],
    terms: Mapping[str, Any],
) -> tuple[StepOutcome, str, str | None]:
    """Merge what is the same on the branch that was loaded, once for an operation id.

    Returns the outcome, words about it, and the commit.
    """
    branch = step.branch or loaded
    before = proposed(graph, branch, operation)
    if before is not None:
        return StepOutcome.DONE_BEFORE, f"on branch {branch}", before
    resolved = resolve(graph, step.rules, branch=loaded, **engine)
    report = propose(graph, resolved, branch=branch, operation_id=operation, **terms)
    left = [
        f"{counted(count, what)} left out as too large"
        for count, what in (
            (report.blocks_skipped, "block"),
            (report.clusters_too_large, "cluster"),
        )
        if count
    ]
    merged = f"{counted(report.merged, f'{report.type} node')} merged on branch {branch}"
    if report.commit is None:
        merged = f"no {report.type} nodes are the same"
    outcome = StepOutcome.NOTHING if report.commit is None else StepOutcome.DONE
    return outcome, "; ".join([merged, *left]), report.commit

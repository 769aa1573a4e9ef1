"""Writes the merge of what is the same to a branch, as one commit, for people to review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Required, TypedDict

from msgspec.structs import replace

from omnigraph.errors import ConflictError, NotFoundError, PreconditionFailedError
from omnigraph.graph import Rows, Session
from omnigraph.graph.results import LoadResult
from omnigraph.graph.seam import check_names, commit_of_operation
from omnigraph.resolve.finding import Resolved
from omnigraph.resolve.merging import FROM, OP, TO
from omnigraph.values.resolutions import ResolveReport
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.values.words import BulkWord, EngineWord

    class _Terms(TypedDict, total=False):
        mode: Required[BulkWord]
        engine: EngineWord
        actor: str | None
        message: str


def propose(
    graph: Session,
    resolved: Resolved,
    *,
    branch: str,
    operation_id: str | None = None,
    message: str | None = None,
    actor: str | None = None,
    dry_run: bool = False,
) -> ResolveReport:
    """Write a plan to a branch as one commit; a branch that is missing is made for it.

    The branch must be in the state that was looked at, so that nothing is merged that was not
    compared. Repeating a proposal returns the first one.

    Args:
        graph: The graph.
        resolved: What `resolve` returned.
        branch: The branch to write to; main only if it is named.
        operation_id: As for `Graph.mutate`; made of the rules and the state unless given.
        message: What the commit says about itself.
        actor: Actor of the commit.
        dry_run: Validate the merged state, and write nothing.
    """
    check_names(branch=branch, tag=None)
    report = replace(resolved.report(), proposed_on=branch, dry_run=dry_run)
    if resolved.plan.is_empty:
        return report
    operation = operation_id or f"resolve:{resolved.rules.digest()}:{resolved.commit}"
    terms: _Terms = {"mode": "apply", "engine": "local", "actor": actor}
    terms["message"] = message or _message(resolved)
    if dry_run:
        graph.bulk(_events(resolved), branch=resolved.branch, dry_run=True, **terms)
        return report
    if proposed(graph, branch, operation) is None:
        _make_branch(graph, resolved, branch, actor)
    try:
        result: LoadResult = graph.bulk(
            _events(resolved),
            branch=branch,
            expected_head=resolved.commit,
            operation_id=operation,
            **terms,
        )
    except PreconditionFailedError as error:
        raise ConflictError(
            f"branch '{branch}' is not in the state that was looked at ({resolved.commit})",
            hint=f"resolve branch '{branch}' itself, or name a branch that does not exist",
        ) from error
    commit = None if result.commit is None else result.commit.graph_commit_id
    return replace(report, commit=commit, repeated=result.repeated)


def proposed(graph: Session, branch: str, operation_id: str) -> str | None:
    """Return the commit of a branch that a proposal made, None if there is none."""
    try:
        commit = commit_of_operation(graph, branch, operation_id)
    except NotFoundError:
        return None
    return None if commit is None else commit.graph_commit_id


def _make_branch(graph: Session, resolved: Resolved, branch: str, actor: str | None) -> None:
    if not graph.branches.exists(branch):
        graph.branches.create(branch, resolved.commit, actor=actor)


def _message(resolved: Resolved) -> str:
    nodes = counted(resolved.plan.merged, f"{resolved.rules.type} node")
    return f"resolve: merge {nodes} into others that are the same"


def _events(resolved: Resolved) -> dict[str, Rows]:
    """Return the plan as rows of change data capture."""
    plan = resolved.plan
    sources = {resolved.rules.type: Rows(data=plan.nodes, op_col=OP)}
    for name, item in plan.edges.items():
        sources[name] = Rows(data=item.events, op_col=OP, from_col=FROM, to_col=TO)
    return sources

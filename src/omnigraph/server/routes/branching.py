"""Branches and tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, cast

from fastapi import Query
from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.errors import AlreadyExistsError, NotFoundError, OmniGraphError
from omnigraph.graph import Session
from omnigraph.ops.merge.merging import Resolution
from omnigraph.policy import Action
from omnigraph.server.call import Call, CallOf, state_of
from omnigraph.server.idempotency import Json
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import WRITES, answers, errors
from omnigraph.server.routes.states import allow_state, branch_of_tag
from omnigraph.store import Claim
from omnigraph.values.answers import BranchDeleted, BranchList, BranchOutput, MergeAnswer, TagList
from omnigraph.values.commits import BranchInfo, Tag
from omnigraph.values.merges import MergePlan, MergeResult
from omnigraph.values.pages import page
from omnigraph.values.requests import BranchRequest, MergeRequest, TagRequest

router = topic("branches")


@router.get("/branches", responses=answers(BranchList) | errors(400, 404))
async def list_branches(
    call: CallOf,
    limit: Annotated[int | None, Query(ge=1)] = None,
    page_token: Annotated[str | None, Query()] = None,
    details: Annotated[bool, Query(description="Tell where and when they were made.")] = False,
) -> Response:
    """List the branches the caller may read, main first."""
    infos = await call.read(lambda graph: graph.branches.details())
    part, token = page(infos, key=lambda item: item.name, limit=limit, page_token=page_token)
    answer = BranchList(
        branches=[item.name for item in part], details=tuple(part) if details else (), **token
    )
    return json_response(answer.to_json())


@router.post("/branches", responses=answers(BranchOutput) | errors(*WRITES, 412))
async def create_branch(call: CallOf, body: Sent[BranchRequest]) -> Response:
    """Make a branch from a branch, commit id, tag or branch@version."""
    base = MAIN if body.from_ is None else body.from_
    call.allow(Action.BRANCH_CREATE, branch=base, target_branch=body.name)

    expected_head = call.if_commit()

    def tell(made: BranchInfo) -> Json:
        return BranchOutput(
            uri=call.uri, from_=base, name=body.name, actor_id=call.actor, details=made
        ).to_json()

    def landed(graph: Session, error: OmniGraphError, claim: Claim) -> BranchInfo | None:
        if not isinstance(error, AlreadyExistsError):
            return None
        branches = [item for item in graph.branches.details() if item.name == body.name]
        # The time of a branch is in whole seconds.
        since = [item for item in branches if item.created_at_s >= claim.since_us // 1_000_000]
        return since[0] if since else None

    answer = await call.write(
        lambda graph, _operation_id: graph.branches.create(
            body.name, base, expected_head=expected_head
        ),
        tell,
        lasting=True,
        landed=landed,
    )
    return json_response(answer)


@router.delete("/branches/{branch:path}", responses=answers(BranchDeleted) | errors(*WRITES, 412))
async def delete_branch(call: CallOf, branch: str) -> Response:
    """Delete a branch; what was merged elsewhere stays there."""
    call.allow(Action.BRANCH_DELETE, target_branch=branch)
    expected_head = call.if_commit()
    return await _deleted(
        call, branch, lambda graph: graph.branches.delete(branch, expected_head=expected_head)
    )


async def _deleted(call: Call, name: str, delete: Callable[[Session], None]) -> Response:
    """Delete something, and say so however often that is asked."""
    deletion = BranchDeleted(uri=call.uri, name=name, actor_id=call.actor)

    def work(graph: Session, _operation_id: str | None) -> BranchDeleted:
        delete(graph)
        return deletion

    def landed(_graph: Session, error: OmniGraphError, _claim: Claim) -> BranchDeleted | None:
        return deletion if isinstance(error, NotFoundError) else None

    answer = await call.write(work, lambda made: made.to_json(), lasting=True, landed=landed)
    return json_response(answer)


@router.post("/branches/merge", responses=answers(MergeAnswer) | errors(*WRITES, 412))
async def merge(call: CallOf, body: Sent[MergeRequest]) -> Response:
    """Merge a branch into another as one commit with two parents."""
    source, target = body.source.strip(), (body.target or MAIN).strip()
    call.allow(Action.BRANCH_MERGE, branch=source, target_branch=target)
    if body.delete_branch:
        call.allow(Action.BRANCH_DELETE, target_branch=source)
    expected_head, message = call.if_commit(), call.message()

    def work(graph: Session, operation_id: str | None) -> MergeResult:
        return graph.branches.merge(
            source,
            target,
            resolve=cast("Resolution | None", body.resolve),
            property_merge=body.property_merge,
            checks=body.checks,
            delete_source=body.delete_branch,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )

    def tell(result: MergeResult) -> Json:
        call.committed(result.commit)
        answer = result.to_json()
        if not body.delete_branch:
            del answer["branch_deleted"]
        return answer

    # That the branch was deleted stands in no commit.
    return json_response(await call.write(work, tell, lasting=body.delete_branch))


@router.post("/branches/merge/preview", responses=answers(MergePlan) | errors(400, 404, 409))
async def merge_preview(call: CallOf, body: Sent[MergeRequest]) -> Response:
    """Tell what a merge would do: every change and every conflict. Nothing is written."""
    source, target = body.source.strip(), (body.target or MAIN).strip()
    call.allow_read(source)
    call.allow_read(target)
    plan = await call.read(
        lambda graph: graph.branches.merge_plan(
            source,
            target,
            resolve=cast("Resolution | None", body.resolve),
            property_merge=body.property_merge,
        )
    )
    return json_response(plan.to_json())


@router.get("/tags", responses=answers(TagList) | errors(404))
async def list_tags(call: CallOf) -> Response:
    """List the tags of branches the caller may read."""
    tags = await call.read(lambda graph: graph.tags.list())
    return json_response(TagList(tags=tuple(tags)).to_json())


@router.post("/tags", responses=answers(Tag) | errors(*WRITES, 412))
async def create_tag(call: CallOf, body: Sent[TagRequest]) -> Response:
    """Name a state, so that it stays whatever happens to its branch."""
    branch, commit, version = state_of(body.branch, body.snapshot)
    await allow_state(call, branch=branch, commit=commit, tag=None)
    call.allow(Action.BRANCH_CREATE, branch=branch or MAIN, target_branch=branch or MAIN)
    expected_head = call.if_commit()

    def work(graph: Session, _operation_id: str | None) -> Tag:
        return graph.tags.create(
            body.name,
            branch=branch,
            commit=commit,
            version=version if version is not None else body.version,
            timestamp=body.timestamp,
            expected_head=expected_head,
        )

    def landed(graph: Session, error: OmniGraphError, claim: Claim) -> Tag | None:
        if not isinstance(error, AlreadyExistsError):
            return None
        tags = [item for item in graph.tags.list() if item.name == body.name]
        since = [item for item in tags if item.created_at_us >= claim.since_us]
        return since[0] if since else None

    answer = await call.write(work, lambda made: made.to_json(), lasting=True, landed=landed)
    return json_response(answer)


@router.delete("/tags/{name:path}", responses=answers(BranchDeleted) | errors(*WRITES, 412))
async def delete_tag(call: CallOf, name: str) -> Response:
    """Forget a tag; the state it named stays."""
    expected_head = call.if_commit()

    def delete(graph: Session) -> None:
        call.allow(Action.BRANCH_DELETE, target_branch=branch_of_tag(graph, name))
        graph.tags.delete(name, expected_head=expected_head)

    return await _deleted(call, name, delete)

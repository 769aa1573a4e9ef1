"""Commits, changes, differences and snapshots."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal, cast

from fastapi import Query
from starlette.responses import Response

from omnigraph.catalog.temporal import parse_datetime
from omnigraph.commits import MAIN, GraphCommit
from omnigraph.errors import BadRequestError
from omnigraph.graph import Session
from omnigraph.limits import FEED_CHANGES_DEFAULT, FEED_CHANGES_MAX
from omnigraph.ops.merge.merging import Resolution
from omnigraph.policy import Action
from omnigraph.server.call import Call, CallOf
from omnigraph.server.idempotency import Json
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import WRITES, answers, errors
from omnigraph.server.routes.states import allow_name, allow_state, readable_commit
from omnigraph.values.answers import ChangesPage, CommitList, CommitMade, EntityOutput, RecoveryList
from omnigraph.values.changes import FeedPage
from omnigraph.values.commits import Snapshot
from omnigraph.values.inspection import DiffPage
from omnigraph.values.pages import page
from omnigraph.values.requests import ApplyCommitRequest

router = topic("history")

Kinds = Annotated[list[Literal["node", "edge"]], Query(alias="kind")]
Types = Annotated[list[str], Query(alias="type")]
Ops = Annotated[list[Literal["insert", "update", "delete"]], Query(alias="op")]
Limit = Annotated[int | None, Query(ge=1)]
ChangeLimit = Annotated[int, Query(ge=1, le=FEED_CHANGES_MAX)]
Token = Annotated[str | None, Query()]
Text = Annotated[str | None, Query()]


@router.get("/snapshot", responses=answers(Snapshot) | errors(400, 404, 410))
async def snapshot(
    call: CallOf,
    branch: Text = None,
    commit: Text = None,
    version: Annotated[int | None, Query()] = None,
    tag: Text = None,
    timestamp: Text = None,
) -> Response:
    """Tell which version of every table is published."""
    await allow_state(call, branch=branch, commit=commit, tag=tag)
    state = await call.read(
        lambda graph: graph.snapshot(
            branch, commit=commit, version=version, tag=tag, timestamp=timestamp
        )
    )
    return json_response(state.to_json())


@router.get("/commits", responses=answers(CommitList) | errors(400, 404))
async def list_commits(
    call: CallOf,
    branch: Text = None,
    actor: Text = None,
    since: Text = None,
    until: Text = None,
    limit: Limit = None,
    page_token: Token = None,
) -> Response:
    """List the commits of a branch, newest first."""
    name = MAIN if branch is None else branch
    call.allow_read(name)
    first, last = _instant(since, "since"), _instant(until, "until")
    commits = await call.read(
        lambda graph: graph.commits.list(name, actor=actor, since=first, until=last)
    )
    part, token = page(
        commits, key=lambda item: item.graph_commit_id, limit=limit, page_token=page_token
    )
    return json_response(CommitList(commits=tuple(part), **token).to_json())


def _instant(text: str | None, name: str) -> datetime.datetime | None:
    if text is None:
        return None
    try:
        return parse_datetime(text)
    except ValueError as error:
        raise BadRequestError(f"{name}: {error}") from error


@router.get("/commits/{commit_id}", responses=answers(GraphCommit) | errors(404))
async def show_commit(call: CallOf, commit_id: str) -> Response:
    """Show one commit, whatever branch it is on."""
    return json_response((await readable_commit(call, commit_id)).to_json())


@router.get(
    "/commits/{commit_id}/changes",
    responses=answers(ChangesPage) | errors(400, 404, 409, 410, 413, 503),
)
async def commit_changes(
    call: CallOf,
    commit_id: str,
    kind: Kinds = [],  # noqa: B006  # FastAPI copies defaults
    type_: Types = [],  # noqa: B006
    op: Ops = [],  # noqa: B006
    limit: ChangeLimit = FEED_CHANGES_DEFAULT,
    page_token: Token = None,
) -> Response:
    """Tell what a commit changed, with the values before and after."""
    await readable_commit(call, commit_id)
    block = await call.read(
        lambda graph: graph.commits.changes(commit_id, kinds=kind, types=type_, ops=op)
    )
    part, token = block.page(limit=limit, page_token=page_token)
    return json_response(part.to_json() | token)


@router.get("/changes", responses=answers(FeedPage) | errors(400, 404, 409, 410, 413, 503))
async def changes(
    call: CallOf,
    branch: Text = None,
    cursor: Text = None,
    start: Text = None,
    page_token: Token = None,
    limit: ChangeLimit = FEED_CHANGES_DEFAULT,
    kind: Kinds = [],  # noqa: B006
    type_: Types = [],  # noqa: B006
    op: Ops = [],  # noqa: B006
) -> Response:
    """Deliver the commits since a cursor, and what they changed."""
    places = {"cursor": cursor, "start": start, "page_token": page_token}
    given = [name for name, value in places.items() if value is not None]
    if len(given) > 1:
        raise BadRequestError(f"give {' or '.join(given)}, not both")
    name = MAIN if branch is None else branch
    call.allow_read(name)
    feed = await call.read(
        lambda graph: graph.feed.poll(
            start or "now",
            cursor=cursor,
            page_token=page_token,
            branch=name,
            limit=limit,
            kinds=kind,
            types=type_,
            ops=op,
        )
    )
    return json_response(feed.to_json())


@router.get("/diff", responses=answers(DiffPage) | errors(400, 404, 409, 410))
async def diff(
    call: CallOf,
    before: Annotated[str, Query(alias="from")],
    after: Annotated[str, Query(alias="to")],
    kind: Kinds = [],  # noqa: B006
    type_: Types = [],  # noqa: B006
    op: Ops = [],  # noqa: B006
    limit: Annotated[int | None, Query(ge=1, le=FEED_CHANGES_MAX)] = None,
    page_token: Token = None,
) -> Response:
    """Tell what turns one state into another; with a limit in pages, and with a summary."""
    await allow_name(call, before)
    await allow_name(call, after)
    difference = await call.read(
        lambda graph: graph.diff(before, after, kinds=kind, types=type_, ops=op)
    )
    if limit is None and page_token is None:
        return json_response(difference.to_json())
    part, token = page(
        difference.changes,
        key=lambda item: f"{item.kind} {item.type_id} {item.id} {item.op}",
        limit=limit,
        page_token=page_token,
    )
    answer = DiffPage(
        before=difference.before,
        after=difference.after,
        changes=tuple(part),
        summary=difference.counts(),
        **token,
    )
    return json_response(answer.to_json())


@router.post("/commits/{commit_id}/revert", responses=answers(CommitMade) | errors(*WRITES, 412))
async def revert(call: CallOf, commit_id: str, body: Sent[ApplyCommitRequest]) -> Response:
    """Undo one commit in a new one."""
    return await _apply_commit(call, commit_id, body, inverse=True)


@router.post("/commits/{commit_id}/pick", responses=answers(CommitMade) | errors(*WRITES, 412))
async def pick(call: CallOf, commit_id: str, body: Sent[ApplyCommitRequest]) -> Response:
    """Make the changes of one commit on a branch."""
    return await _apply_commit(call, commit_id, body, inverse=False)


async def _apply_commit(
    call: Call, commit_id: str, body: ApplyCommitRequest, *, inverse: bool
) -> Response:
    branch = MAIN if body.branch is None else body.branch
    await readable_commit(call, commit_id)
    call.allow(Action.CHANGE, branch=branch)
    expected_head, message = call.if_commit(), call.message()

    def work(graph: Session, operation_id: str | None) -> CommitMade:
        apply = graph.branches.revert if inverse else graph.branches.cherry_pick
        made = apply(
            commit_id,
            branch,
            resolve=cast("Resolution | None", body.resolve),
            property_merge=body.property_merge,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        return CommitMade(commit=made)

    def tell(made: CommitMade) -> Json:
        call.committed(made.commit)
        return made.to_json()

    return json_response(await call.write(work, tell))


@router.get("/blame", responses=answers(CommitMade) | errors(400, 404, 410))
async def blame(
    call: CallOf,
    type_: Annotated[str, Query(alias="type")],
    id_: Annotated[str, Query(alias="id")],
    branch: Text = None,
) -> Response:
    """Tell which commit last changed an entity; none when it never existed."""
    name = MAIN if branch is None else branch
    call.allow_read(name)
    commit = await call.read(lambda graph: graph.commits.last_change(type_, id_, name))
    return json_response(CommitMade(commit=commit).to_json())


@router.get("/entity", responses=answers(EntityOutput) | errors(400, 404, 410))
async def entity(
    call: CallOf,
    table: Annotated[str, Query(description="node:Type or edge:Type")],
    id_: Annotated[str, Query(alias="id")],
    version: Annotated[int | None, Query(description="Graph version of the branch.")] = None,
    branch: Text = None,
    commit: Text = None,
    tag: Text = None,
) -> Response:
    """Return one entity as it is, or as it was at a graph version, commit or tag."""
    await allow_state(call, branch=branch, commit=commit, tag=tag)
    row = await call.read(
        lambda graph: graph.entity_at(
            table, id_, version=version, branch=branch, commit=commit, tag=tag
        )
    )
    return json_response(EntityOutput(entity=row).to_json())


@router.get("/recoveries", responses=answers(RecoveryList) | errors(404))
async def recoveries(call: CallOf) -> Response:
    """List what became of interrupted writes, and those that are under way."""
    call.allow_read()

    def work(graph: Session) -> RecoveryList:
        maintenance = graph.maintenance
        return RecoveryList(
            recoveries=tuple(maintenance.recoveries()), pending=tuple(maintenance.pending_writes())
        )

    return json_response((await call.read(work)).to_json())

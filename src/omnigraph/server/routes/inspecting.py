"""What people look at before they decide: types, branches side by side, neighbours, pictures."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.server.call import CallOf, state_of
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import answers, errors
from omnigraph.server.routes.states import allow_state
from omnigraph.values.inspection import (
    HISTORY_COMMITS_DEFAULT,
    NEIGHBOURS_DEFAULT,
    NEIGHBOURS_MAX,
    VERSIONS_DEFAULT,
    AllowedActions,
    BranchHeads,
    CommitGraph,
    EntityHistory,
    LintReport,
    NeighbourPage,
    SchemaDescription,
    Subgraph,
)
from omnigraph.values.requests import LintRequest, SubgraphRequest

router = topic("inspection")

Text = Annotated[str | None, Query()]
Version = Annotated[int | None, Query(description="Graph version of the branch.")]
TypeName = Annotated[str, Query(alias="type")]
Id = Annotated[str, Query(alias="id")]


@router.get("/access", responses=answers(AllowedActions) | errors(404))
async def access(call: CallOf, branch: Text = None) -> Response:
    """Tell what the caller may do on a branch; whether it exists is not told."""
    actions = await call.read(lambda graph: graph.branches.allowed(branch or MAIN))
    return json_response(actions.to_json())


@router.post("/lint", responses=answers(LintReport) | errors(400, 404, 410))
async def lint(call: CallOf, body: Sent[LintRequest]) -> Response:
    """Check queries or a schema and run nothing; errors are findings, not failures."""
    branch, commit, version = state_of(body.branch, body.snapshot)
    await allow_state(call, branch=branch, commit=commit, tag=body.tag)
    report = await call.read(
        lambda graph: graph.schema.lint(
            body.source,
            language=body.language,
            branch=branch,
            commit=commit,
            version=body.version if version is None else version,
            tag=body.tag,
        )
    )
    return json_response(report.to_json())


@router.get("/schema/types", responses=answers(SchemaDescription) | errors(400, 404, 410))
async def schema_types(
    call: CallOf,
    branch: Text = None,
    commit: Text = None,
    version: Version = None,
    tag: Text = None,
) -> Response:
    """Return the types of a state as data."""
    await allow_state(call, branch=branch, commit=commit, tag=tag)
    description = await call.read(
        lambda graph: graph.schema.describe(branch=branch, commit=commit, version=version, tag=tag)
    )
    return json_response(description.to_json())


@router.get("/branches/heads", responses=answers(BranchHeads) | errors(404))
async def branch_heads(call: CallOf, base: Text = None) -> Response:
    """List the branches with their newest commits, and how far each is from a base."""
    name = MAIN if base is None else base
    heads = await call.read(lambda graph: graph.branches.heads(name))
    return json_response(heads.to_json())


@router.get("/history", responses=answers(CommitGraph) | errors(400, 404))
async def history(
    call: CallOf,
    limit: Annotated[int, Query(ge=1)] = HISTORY_COMMITS_DEFAULT,
    page_token: Text = None,
) -> Response:
    """List the commits of all branches, each before its parents, with branches and tags."""
    commits = await call.read(
        lambda graph: graph.branches.history(limit=limit, page_token=page_token)
    )
    return json_response(commits.to_json())


@router.get("/neighbours", responses=answers(NeighbourPage) | errors(400, 404, 410))
async def neighbours(
    call: CallOf,
    type_: TypeName,
    id_: Id,
    edge: Text = None,
    direction: Annotated[Literal["out", "in"] | None, Query()] = None,
    limit: Annotated[int, Query(ge=0, le=NEIGHBOURS_MAX)] = NEIGHBOURS_DEFAULT,
    page_token: Text = None,
    branch: Text = None,
    commit: Text = None,
    version: Version = None,
    tag: Text = None,
) -> Response:
    """Count the edges of a node by type and direction, and return a page of its neighbours."""
    await allow_state(call, branch=branch, commit=commit, tag=tag)
    page = await call.read(
        lambda graph: graph.entities.neighbours(
            type_,
            id_,
            edge=edge,
            direction=direction,
            limit=limit,
            page_token=page_token,
            branch=branch,
            commit=commit,
            version=version,
            tag=tag,
        )
    )
    return json_response(page.to_json())


@router.get("/entity/history", responses=answers(EntityHistory) | errors(400, 404, 410))
async def entity_history(
    call: CallOf,
    type_: TypeName,
    id_: Id,
    branch: Text = None,
    limit: Annotated[int, Query(ge=1)] = VERSIONS_DEFAULT,
) -> Response:
    """Tell every change of an entity on a branch, newest first, and who made it."""
    name = MAIN if branch is None else branch
    call.allow_read(name)
    versions = await call.read(lambda graph: graph.entities.history(type_, id_, name, limit=limit))
    return json_response(versions.to_json())


@router.post("/subgraph", responses=answers(Subgraph) | errors(400, 404, 410, 413))
async def subgraph(call: CallOf, body: Sent[SubgraphRequest]) -> Response:
    """Return some nodes and all edges between them."""
    branch, commit, version = state_of(body.branch, body.snapshot)
    await allow_state(call, branch=branch, commit=commit, tag=body.tag)
    picture = await call.read(
        lambda graph: graph.entities.subgraph(
            body.nodes,
            branch=branch,
            commit=commit,
            version=body.version if version is None else version,
            tag=body.tag,
        )
    )
    return json_response(picture.to_json())

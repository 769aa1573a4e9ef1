"""Puts routes, gate and error handling together."""

from __future__ import annotations

import asyncio
import functools
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Path
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import OmniGraphError
from omnigraph.limits import OPENAPI_FORMS
from omnigraph.policy import ServerState
from omnigraph.server.gate import Gate
from omnigraph.server.graph_ids import GRAPH_ID
from omnigraph.server.http_errors import (
    Failure,
    HttpProblem,
    failure,
    invalid_request,
    problem_body,
)
from omnigraph.server.responses import error_response
from omnigraph.server.routes import (
    blobs,
    branching,
    clusters,
    exporting,
    history,
    inspecting,
    maintaining,
    operations,
    querying,
    schema,
    stored,
    uploading,
    writing,
)
from omnigraph.server.routes.describing import complete
from omnigraph.server.service import Service
from omnigraph.server.shortcuts import Shortcuts
from omnigraph.values.headers import JSON
from omnigraph.values.schemas import referenced
from omnigraph.version import __version__

TITLE = "OmniGraph"
NESTED = "/graphs/{graph_id}"
_TOPICS = (
    *(querying, writing, uploading, exporting, branching, history, schema, stored, blobs),
    *(inspecting, maintaining),
)
# What clients that were made from the published interface call these operations.
_OPERATION_IDS = {
    "healthz": "health",
    "list_graphs": "listGraphs",
    "blob": "getBlob",
    "blob_head": "headBlob",
    "list_branches": "listBranches",
    "create_branch": "createBranch",
    "delete_branch": "deleteBranch",
    "merge": "mergeBranches",
    "changes": "pollChanges",
    "baseline": "captureChangeBaseline",
    "list_commits": "listCommits",
    "show_commit": "getCommit",
    "commit_changes": "getCommitChanges",
    "load_ndjson": "loadNdjson",
    "load_parquet": "loadParquet",
    "mutate_if_commit": "mutate_if_graph_commit",
    "invoke": "invoke_query",
    "invoke_if_commit": "invoke_query_if_graph_commit",
    "show_schema": "getSchema",
    "apply_schema": "applySchema",
    "snapshot": "getSnapshot",
}
_TYPES = {404: "not_found", 405: "method_not_allowed"}


async def _graph_id(graph_id: Annotated[str, Path(pattern=f"^{GRAPH_ID.pattern}$")]) -> str:
    """Describe the graph's id; the gate has looked at it already."""
    return graph_id


def _flat_id(route: APIRoute) -> str:
    return _OPERATION_IDS.get(route.name, route.name)


def _nested_id(route: APIRoute) -> str:
    return f"cluster_{_flat_id(route)}"


def create_api() -> FastAPI:
    """Return the routes: those of a graph twice, with and without the graph in the path."""
    api = FastAPI(
        title=TITLE,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_flat_id,
    )
    bearer = [Depends(HTTPBearer(auto_error=False))]
    api.include_router(operations.router)
    api.include_router(clusters.router, dependencies=bearer)
    for prefix, dependencies, make_id in (
        ("", bearer, _flat_id),
        (NESTED, [*bearer, Depends(_graph_id)], _nested_id),
    ):
        for topic in _TOPICS:
            api.include_router(
                topic.router,
                prefix=prefix,
                dependencies=dependencies,
                generate_unique_id_function=make_id,
            )
    api.add_exception_handler(OmniGraphError, _failed)
    api.add_exception_handler(HttpProblem, _failed)
    api.add_exception_handler(Exception, _failed)
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _refused)
    return api


async def _failed(_request: Request, error: Exception) -> Response:
    return error_response(failure(error))


async def _invalid(_request: Request, error: Exception) -> Response:
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    return error_response(invalid_request(problems))


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return error_response(failure(error))
    words = {
        404: f"no such path: {request.url.path}",
        405: f"{request.method} is not for this path",
    }
    message = words.get(error.status_code, str(error.detail))
    type_ = _TYPES.get(error.status_code, "bad_request")
    body = problem_body(error.status_code, message, type_=type_)
    refusal = Failure(status=error.status_code, body=body, headers=dict(error.headers or {}))
    return error_response(refusal)


def create_app(service: Service) -> Gate:
    """Return the server as an ASGI application."""
    api = create_api()
    secured = service.serving.state is not ServerState.OPEN

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        content = await asyncio.to_thread(published, secured)
        return Response(content, media_type=JSON)

    return Gate(Shortcuts(api, [topic.router for topic in _TOPICS]), service)


@functools.lru_cache(maxsize=OPENAPI_FORMS)
def published(secured: bool) -> bytes:
    """Return the interface of every server; made once: it takes longer than all else at a start."""
    return msgspec.json.encode(openapi_document(create_api(), secured))


def openapi_document(api: FastAPI, secured: bool = True) -> dict[str, Any]:
    """Return the published interface; without tokens there is nothing to secure."""
    document = api.openapi()
    for name, path in document["paths"].items():
        for method, operation in path.items():
            complete(name, method, operation)
            if not secured:
                operation.pop("security", None)
    document.setdefault("components", {})["schemas"] = referenced(document["paths"])
    if not secured:
        document.get("components", {}).pop("securitySchemes", None)
    return document

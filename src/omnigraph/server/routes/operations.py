"""What operators and other programs ask of the server itself."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import PolicyDeniedError
from omnigraph.policy import Action, ServerState, check
from omnigraph.server.call import Call, CallOf
from omnigraph.server.gate import PROTECTED_RESOURCE
from omnigraph.server.http_errors import HttpProblem
from omnigraph.server.json_routes import topic
from omnigraph.server.metrics import CONTENT_TYPE
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import answers, body, errors
from omnigraph.server.service import Service
from omnigraph.values.answers import GraphInfo, GraphList, Health, ProtectedResource, Readiness
from omnigraph.values.inspection import ServedName, WhoAmI
from omnigraph.version import INTERNAL_SCHEMA_VERSION

router = topic("operations")


@router.get("/healthz", responses=answers(Health))
@router.head("/healthz", include_in_schema=False)
async def healthz(request: Request) -> Response:
    """Tell that the process answers, and which storage format it reads and writes."""
    service: Service = request.state.service
    health = Health(version=service.version, internal_schema_version=INTERNAL_SCHEMA_VERSION)
    return json_response(health.to_json())


@router.get("/graphs/{graph_id}/healthz", include_in_schema=False)
@router.head("/graphs/{graph_id}/healthz", include_in_schema=False)
async def graph_healthz(request: Request, graph_id: str) -> Response:
    """Tell the same to clients that put a graph before every path; it says nothing of the graph."""
    return await healthz(request)


@router.get("/readyz", responses=answers(Readiness) | {503: body(Readiness)})
@router.head("/readyz", include_in_schema=False)
async def readyz(request: Request) -> Response:
    """Tell whether requests are welcome."""
    service: Service = request.state.service
    serving = service.serving
    readiness = Readiness(
        ready=not service.draining,
        status="draining" if service.draining else "serving",
        booted_serving_digest=serving.digest,
        state_revision=serving.revision,
        state_cas=serving.cas,
        served_graph_count=len(serving.graphs),
        quarantined_graph_count=len(serving.graphs.quarantined),
        shutdown_grace_seconds=service.settings.drain_seconds,
    )
    return json_response(readiness.to_json(), status=503 if service.draining else 200)


@router.get(PROTECTED_RESOURCE, responses=answers(ProtectedResource) | errors(404))
async def protected_resource(request: Request) -> Response:
    """Tell how callers identify themselves: with a bearer token in a header."""
    service: Service = request.state.service
    if not len(service.serving.tokens):
        raise HttpProblem(404, "this server takes no tokens", type_="not_found")
    resource = ProtectedResource(
        resource=str(request.base_url).rstrip("/"),
        resource_name="OmniGraph",
        bearer_methods_supported=["header"],
        authorization_servers=service.serving.tokens.issuers,
    )
    return json_response(resource.to_json())


@router.get("/graphs", responses=answers(GraphList) | errors(405))
async def list_graphs(call: CallOf) -> Response:
    """List the graphs, if the server's policy allows it."""
    if call.serving.graphs.is_single:
        raise HttpProblem(
            405, "this server serves one graph", type_="method_not_allowed", headers={"Allow": ""}
        )
    check(call.serving.policy, call.access(Action.GRAPH_LIST))
    graphs = [
        GraphInfo(graph_id=item.graph_id, uri=f"/graphs/{item.graph_id}")
        for item in call.serving.graphs.all()
        if call.opens(item.graph_id)
    ]
    return json_response(GraphList(graphs=graphs).to_json())


@router.get("/whoami", responses=answers(WhoAmI) | errors())
async def whoami(call: CallOf) -> Response:
    """Tell whom the server takes the caller for, and which graphs there are to ask for."""
    graphs = call.serving.graphs
    listed = graphs.is_single or _may_list(call)
    caller = WhoAmI(
        actor=call.actor,
        authenticated=call.actor is not None,
        version=call.service.version,
        serves_one_graph=graphs.is_single,
        graphs=tuple(
            ServedName(graph_id=item.graph_id, uri=f"/graphs/{item.graph_id}")
            for item in graphs.all()
            if listed and call.opens(item.graph_id)
        ),
    )
    return json_response(caller.to_json())


def _may_list(call: Call) -> bool:
    return call.serving.policy.decide(call.access(Action.GRAPH_LIST)).allowed


@router.get(
    "/metrics",
    response_class=Response,
    responses={**errors(), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(call: CallOf) -> Response:
    """Return the counters in the Prometheus text format."""
    if call.serving.state is ServerState.POLICY_ENABLED:
        # They tell of every graph that is served, and how much is done with it.
        single = call.serving.graphs.is_single
        action = Action.ADMIN if single else Action.GRAPH_LIST
        check(call.serving.policy, call.access(action))
    hidden = [item for item in call.serving.graphs.all() if not call.opens(item.graph_id)]
    if hidden:
        raise PolicyDeniedError(
            "the token is good for some of the graphs, and metrics tell of all",
            hint="ask with a token for all graphs",
        )
    text = await call.service.threads.read(call.service.metrics.render)
    return Response(text, media_type=CONTENT_TYPE)

"""The schema of a graph."""

from __future__ import annotations

from starlette.responses import Response

from omnigraph.commits import MAIN
from omnigraph.errors import ConflictError
from omnigraph.graph import Session
from omnigraph.graph.seam import check_schema
from omnigraph.policy import Action
from omnigraph.server.call import CallOf
from omnigraph.server.idempotency import Json
from omnigraph.server.json_routes import Sent, topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import answers, errors
from omnigraph.values.answers import SchemaOutput
from omnigraph.values.requests import SchemaRequest
from omnigraph.values.schema_changes import SchemaChange

router = topic("schema")


@router.get("/schema", responses=answers(SchemaOutput) | errors(404))
async def show_schema(call: CallOf) -> Response:
    """Return the accepted schema; it is the same for all branches."""

    def work(graph: Session) -> str:
        check_schema(graph)
        return graph.schema_source

    return json_response(SchemaOutput(schema_source=await call.read(work)).to_json())


@router.post("/schema/plan", responses=answers(SchemaChange) | errors(400, 404))
async def plan_schema(call: CallOf, body: Sent[SchemaRequest]) -> Response:
    """Tell which steps lead to a schema and what stored rows say to them."""
    call.allow_read()
    plan = await call.read(
        lambda graph: graph.schema.plan(
            body.schema_source, allow_data_loss=body.allow_data_loss, name="<schema>"
        )
    )
    return json_response({**plan.to_json(), "uri": call.uri, "render": plan.render()})


@router.post(
    "/schema/apply",
    responses=answers(SchemaChange) | errors(400, 404, 409, 412, 413, 422, 429),
)
async def apply_schema(call: CallOf, body: Sent[SchemaRequest]) -> Response:
    """Make a schema the graph's, with its tables, as one commit."""
    call.allow(Action.SCHEMA_APPLY, target_branch=MAIN)
    if call.served.schema_is_managed:
        managed = ConflictError(
            "the schema of this graph is managed by its cluster",
            hint="change it in the cluster's configuration and apply that",
        )
        managed.retryable = False
        raise managed
    expected_head, message = call.if_commit(), call.message()

    def work(graph: Session, operation_id: str | None) -> SchemaChange:
        return graph.schema.apply(
            body.schema_source,
            allow_data_loss=body.allow_data_loss,
            name="<schema>",
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )

    def tell(change: SchemaChange) -> Json:
        call.committed(change.commit)
        return {**change.to_json(), "uri": call.uri, "render": change.render()}

    return json_response(await call.write(work, tell))

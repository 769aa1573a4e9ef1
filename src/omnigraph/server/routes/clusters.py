"""The cluster behind a server: what applying its files would do, and applying them."""

from __future__ import annotations

from starlette.responses import Response

from omnigraph import cluster
from omnigraph.errors import ConflictError, NotFoundError
from omnigraph.policy import Action, check
from omnigraph.server.call import Call, CallOf
from omnigraph.server.json_routes import topic
from omnigraph.server.responses import json_response
from omnigraph.server.routes.describing import answers, errors
from omnigraph.values.answers import ClusterReport, Deployment

router = topic("cluster")


@router.post("/cluster/plan", responses=answers(ClusterReport) | errors(404, 409))
async def plan_cluster(call: CallOf) -> Response:
    """Tell what applying the server's own files would do. Nothing is written."""
    folder = _folder(call)
    plan = await call.service.threads.read(lambda: cluster.plan(folder))
    return json_response(_public(plan))


@router.post("/cluster/deployments", responses=answers(Deployment) | errors(400, 404, 409))
async def deploy(call: CallOf) -> Response:
    """Apply the server's own files and serve what came of it, without a restart."""
    folder, service = _folder(call), call.service

    def work() -> cluster.Report:
        report = cluster.apply(folder, actor=call.actor).check()
        service.reload(service.serving.tokens)
        return report

    report = await service.threads.write(work)
    if service.peers is not None:
        await service.peers.reload_others()
    return await _deployment(call, report)


@router.get("/cluster/deployments", responses=answers(Deployment) | errors(404, 409))
async def deployment_status(call: CallOf) -> Response:
    """Tell how the cluster is, and whether this process serves what was applied last."""
    folder = _folder(call)
    report = await call.service.threads.read(lambda: cluster.status(folder))
    return await _deployment(call, report)


@router.get(
    "/cluster/deployments/{deployment_id}", responses=answers(Deployment) | errors(404, 409)
)
async def deployment(call: CallOf, deployment_id: str) -> Response:
    """Tell of one deployment; only the last one is known."""
    folder = _folder(call)
    applied = await call.service.threads.read(lambda: cluster.read_cluster(folder))
    if deployment_id != str(applied.state_revision):
        raise NotFoundError(f"no deployment '{deployment_id}'", hint="ask for the last one")
    report = await call.service.threads.read(lambda: cluster.status(folder))
    return await _deployment(call, report)


def _folder(call: Call) -> str:
    """Return where the cluster is described, for those who may manage it."""
    folder = call.service.settings.cluster
    if folder is None:
        raise NotFoundError("this server serves one graph, not a cluster")
    check(call.serving.policy, call.access(Action.CONFIG_MANAGE))
    if not cluster.is_described(folder):
        raise ConflictError(
            "the server was started on what was applied, not on the cluster's files",
            hint="start it on the folder with cluster.yaml, or apply where that is",
        )
    return folder


async def _deployment(call: Call, report: cluster.Report) -> Response:
    folder = str(call.service.settings.cluster)
    applied = await call.service.threads.read(lambda: cluster.read_cluster(folder))
    return json_response(
        {
            "deployment_id": str(applied.state_revision),
            "active": applied.state_cas == call.service.serving.cas,
            "deployment": _public(report),
        }
    )


def _public(report: cluster.Report) -> dict[str, object]:
    """Return a report without the places it speaks of: these are the server's own."""
    hidden = {"config_dir", "state_path", "lock_path"}
    return {
        name: {k: v for k, v in value.items() if k not in hidden}
        if isinstance(value, dict)
        else value
        for name, value in report.to_json().items()
        if name not in hidden
    }

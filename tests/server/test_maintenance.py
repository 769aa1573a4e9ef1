"""The care of a graph over HTTP: each step can be looked at before it is done."""

from __future__ import annotations

import asyncio

import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError, PolicyDeniedError
from omnigraph.failpoints import Failpoint, armed, error
from omnigraph.remote import RemoteGraph
from omnigraph.remote.aio import AsyncRemoteGraph
from tests.server.helpers import TOKENS, Api, Serve

POLICY = """\
version: 1
groups:
  operators: [act-omar]
  readers: [act-guest]
rules:
  - id: operators-care
    allow: {actors: {group: operators}, actions: [admin]}
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read], branch_scope: any}
"""


@pytest.fixture
def worn(serve: Serve) -> Api:
    """Return a server whose graph was written to in many small steps."""
    api = serve()
    api.load()
    for number in range(6):
        api.add(f"p{number}")
    return api


def test_an_optimize_is_told_before_it_is_done(worn: Api) -> None:
    trial = worn.ok(worn.post("/optimize", {"dry_run": True}))
    assert trial["dry_run"] is True
    assert trial["commit"] is None
    assert trial["uri"] == "/graphs/default"
    person = next(item for item in trial["tables"] if item["table_key"] == "node:Person")
    before = {item["table_key"]: item for item in worn.ok(worn.get("/tables"))["tables"]}
    assert before["node:Person"]["rows"] == 8
    assert person["fragments_removed"] == before["node:Person"]["fragments"] > 1
    assert person["fragments_added"] == 1
    assert person["committed"] is False

    done = worn.ok(worn.post("/optimize"))
    assert "dry_run" not in done
    assert done["commit"]["kind"] == "optimize"
    after = {item["table_key"]: item for item in worn.ok(worn.get("/tables"))["tables"]}
    assert after["node:Person"]["fragments"] == 1
    assert after["node:Person"]["uncovered_rows"] == 0
    nothing = worn.ok(worn.post("/optimize", {"dry_run": True}))
    assert not any(item["fragments_removed"] for item in nothing["tables"])
    assert not any(item["pending_indexes"] for item in nothing["tables"])


def test_a_cleanup_removes_nothing_unless_it_is_told_to(worn: Api) -> None:
    head = worn.ok(worn.get("/snapshot"))
    first = worn.ok(worn.post("/cleanup"))
    assert first["dry_run"] is True
    assert str(worn.store) not in str(first)
    assert worn.ok(worn.get("/snapshot")) == head
    done = worn.ok(worn.post("/cleanup", {"keep_versions": 1, "dry_run": False}))
    assert (done["dry_run"], done["keep_versions"]) == (False, 1)


@pytest.mark.parametrize(
    "body", [{"keep_versions": 0}, {"older_than_secs": -1}, {"keep": 3}, {"dry_run": "no"}]
)
def test_a_cleanup_that_is_not_understood_is_refused(worn: Api, body: dict[str, object]) -> None:
    assert worn.post("/cleanup", body).status_code == 400


def test_a_repair_looks_first(worn: Api) -> None:
    found = worn.ok(worn.post("/repair"))
    assert {item["classification"] for item in found["tables"]} == {"no_drift"}
    assert (found["confirm"], found["uri"]) == (False, "/graphs/default")
    assert worn.post("/repair", {"branch": "none"}).status_code == 404


def test_care_needs_the_right_to_administer(serve: Serve) -> None:
    api = serve(tokens=TOKENS, policy=POLICY)
    for path in ("/optimize", "/repair", "/cleanup", "/recover"):
        assert api.post(path, {}, "act-guest").status_code == 403
        api.ok(api.post(path, {}, "act-omar"))
    api.ok(api.get("/tables", "act-guest"))
    assert api.get("/tables", "act-omar").status_code == 403
    with og.connect(api.url, token=TOKENS["act-guest"]) as served:
        assert isinstance(served, RemoteGraph)
        with pytest.raises(PolicyDeniedError):
            served.optimize()


def interrupt(api: Api) -> None:
    """Leave a write as if the disk had failed in the middle of it."""
    with armed(Failpoint.PUBLISH_PRE_CAS, error):
        body = {"query": 'query q() { insert Person { name: "late" } }'}
        assert api.post("/mutate", body).status_code == 500


def test_an_interrupted_write_is_recovered_when_the_server_is_told_to(worn: Api) -> None:
    interrupt(worn)
    (waiting,) = worn.ok(worn.get("/recoveries"))["pending"]
    assert waiting["owner_alive"] is False
    assert worn.ok(worn.post("/recover")) == {"resolved": ["rolled_forward"]}
    after = worn.ok(worn.get("/recoveries"))
    assert after["pending"] == []
    assert after["recoveries"][0]["operation_id"] == waiting["operation_id"]
    assert worn.ok(worn.post("/recover")) == {"resolved": []}
    interrupt(worn)
    with RemoteGraph(worn.url) as served:
        assert served.maintenance.recover() == ["rolled_forward"]
        assert served.maintenance.pending_writes() == []

    async def same() -> None:
        async with AsyncRemoteGraph(worn.url) as away:
            assert await away.maintenance.recover() == []

    asyncio.run(same())


def test_the_client_takes_care_as_an_open_graph_does(worn: Api) -> None:
    with RemoteGraph(worn.url) as served:
        assert served.maintenance.tables()[1].fragments > 1
        trial = served.optimize(dry_run=True)
        assert trial.dry_run
        assert max(item.fragments_removed for item in trial.tables) > 1
        assert served.optimize().commit is not None
        assert served.cleanup(keep=1).dry_run
        assert not served.repair().refused
        with pytest.raises(BadRequestError, match="works on storage"):
            served.maintenance.dump("x.tar")  # type: ignore[attr-defined]

    async def same() -> None:
        async with AsyncRemoteGraph(worn.url) as away:
            assert (await away.optimize(dry_run=True)).commit is None
            assert (await away.maintenance.tables())[1].fragments == 1

    asyncio.run(same())

"""Messages of commits over HTTP: a header for every write, one meaning for the client."""

from __future__ import annotations

import omnigraph as og
from tests.server.helpers import ADD, Serve

MESSAGE = "Omnigraph-Message"


def test_a_message_crosses_the_wire_on_every_write(serve: Serve) -> None:
    api = serve()
    with og.connect(api.url) as graph:
        graph.load(
            [{"type": "Person", "data": {"name": "ann"}}], mode="append", message="über 漢字\n2"
        )
        graph.mutate(ADD, {"n": "eve"}, message="one more: 100 %")
        graph.branches.create("work")
        graph.mutate(ADD, {"n": "wim"}, branch="work", message="on a branch")
        graph.branches.merge("work", message="merged")
        graph.branches.revert(graph.commits.head().graph_commit_id, message="undone")
        said = [commit.message for commit in graph.commits.list()]
        assert said[:4] == ["undone", "merged", "one more: 100 %", "über 漢字\n2"]
        page = graph.feed.poll("beginning", limit=100)
        assert page.blocks[-1].commit.message == "undone"


def test_a_key_with_another_message_is_another_request(serve: Serve) -> None:
    api = serve()
    body = {"query": ADD, "params": {"n": "eve"}}
    first = api.post("/mutate", body, headers={"Idempotency-Key": "k", MESSAGE: "one"})
    again = api.post("/mutate", body, headers={"Idempotency-Key": "k", MESSAGE: "one"})
    assert api.ok(first)["commit"] == api.ok(again)["commit"]
    other = api.post("/mutate", body, headers={"Idempotency-Key": "k", MESSAGE: "two"})
    assert other.status_code == 422


def test_a_message_that_is_no_text_is_refused(serve: Serve) -> None:
    api = serve()
    body = {"query": ADD, "params": {"n": "eve"}}
    assert api.post("/mutate", body, headers={MESSAGE: "%ff"}).status_code == 400
    assert api.post("/mutate", body, headers={MESSAGE: "%20"}).status_code == 400
    assert api.post("/mutate", body, headers={MESSAGE: "%00"}).status_code == 400
    assert len(api.ok(api.get("/commits"))["commits"]) == 1

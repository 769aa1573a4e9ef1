"""What a page asks of a server: who is there, what may be done, and what is to be seen."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.remote import RemoteGraph
from omnigraph.remote.aio import AsyncRemoteGraph
from tests.server.helpers import ADD, LINES, POLICY, TOKENS, Api, Serve


@pytest.fixture(scope="module")
def full(serve: Serve) -> Api:
    api = serve()
    api.load()
    return api


@pytest.fixture(scope="module")
def guarded(serve: Serve) -> Api:
    api = serve(tokens=TOKENS, policy=POLICY)
    lena = "act-lena"
    api.ok(api.post("/load", {"data": LINES}, lena))
    for name in ("work", "secret"):
        api.ok(api.post("/branches", {"name": name}, lena))
        body = {"query": ADD, "params": {"n": f"in-{name}"}, "branch": name}
        api.ok(api.post("/mutate", body, lena))
    return api


def test_without_tokens_there_is_no_actor(full: Api) -> None:
    assert full.ok(full.get("/whoami")) == {
        "actor": None,
        "authenticated": False,
        "version": og.__version__,
        "serves_one_graph": True,
        "graphs": [{"graph_id": "default", "uri": "/graphs/default"}],
    }


def test_who_is_asking_is_told_to_those_with_a_token_only(guarded: Api) -> None:
    assert guarded.get("/whoami").status_code == 401
    assert guarded.ok(guarded.get("/whoami", "act-guest"))["actor"] == "act-guest"


def test_what_is_allowed_depends_on_the_branch(guarded: Api) -> None:
    def allowed(actor: str, branch: str) -> list[str]:
        found = guarded.ok(guarded.get(f"/access?branch={branch}", actor))
        return list(found["actions"])

    assert allowed("act-guest", "work") == ["read"]
    assert allowed("act-guest", "secret") == []
    assert allowed("act-guest", "no-such-branch") == ["read"]
    assert "branch_merge" in allowed("act-lena", "main")


LOOKS = [
    ("GET", "/schema/types?branch=secret", None),
    ("GET", "/branches/heads?base=secret", None),
    ("GET", "/neighbours?type=Person&id=ann&branch=secret", None),
    ("GET", "/entity?table=node:Person&id=ann&branch=secret", None),
    ("GET", "/entity/history?type=Person&id=in-secret&branch=secret", None),
    ("POST", "/lint", {"source": "nonsense", "branch": "secret"}),
    ("POST", "/subgraph", {"nodes": [["Person", "ann"]], "branch": "secret"}),
]


@pytest.mark.parametrize(("method", "path", "body"), LOOKS, ids=lambda value: str(value)[:24])
def test_a_branch_that_may_not_be_read_is_not_looked_at(
    guarded: Api, method: str, path: str, body: object
) -> None:
    sent: dict[str, Any] = {} if body is None else {"json": body}
    found = guarded.send(method, path, "act-guest", **sent)
    assert found.status_code == 403
    assert "in-secret" not in found.text
    assert guarded.send(method, path, "act-lena", **sent).status_code == 200


def test_the_history_of_all_branches_leaves_out_those_that_may_not_be_read(guarded: Api) -> None:
    heads = guarded.ok(guarded.get("/history", "act-guest"))["heads"]
    assert set(heads) == {"work"}
    assert set(guarded.ok(guarded.get("/history", "act-lena"))["heads"]) == {
        *("main", "work", "secret")
    }
    assert guarded.get("/history", "act-nobody").status_code == 403
    secret = guarded.ok(guarded.get("/branches/heads", "act-lena"))["branches"][1]["head"]
    hidden = f"/schema/types?commit={secret['graph_commit_id']}"
    assert guarded.get(hidden, "act-guest").status_code == 404


def test_every_commit_stands_before_its_parents(full: Api) -> None:
    full.ok(full.post("/branches", {"name": "side"}))
    for number in range(3):
        full.add(f"main{number}")
        full.add(f"side{number}", branch="side")
    full.ok(full.post("/branches/merge", {"source": "side"}))
    commits = full.ok(full.get("/history"))["commits"]
    places = {item["graph_commit_id"]: number for number, item in enumerate(commits)}
    for item in commits:
        for parent in (item["parent_commit_id"], item["merged_parent_commit_id"]):
            assert parent is None or places[parent] > places[item["graph_commit_id"]]
    heads = {item["name"]: item for item in full.ok(full.get("/branches/heads"))["branches"]}
    assert (heads["side"]["ahead"], heads["side"]["behind"]) == (0, 4)
    other = {
        item["name"]: item for item in full.ok(full.get("/branches/heads?base=side"))["branches"]
    }
    assert (other["main"]["ahead"], other["main"]["behind"]) == (4, 0)


def test_a_query_can_be_answered_as_a_graph(full: Api) -> None:
    text = "query q() { match { $p: Person  $p $e: knows $q } return { $p, $e.id, $q, $q.age } }"
    found = full.ok(full.post("/query", {"query": text, "form": "graph"}))
    types = [item.get("entity") for item in found["column_types"]]
    assert types == [
        {"kind": "node", "type_name": "Person"},
        {"kind": "edge", "type_name": "Knows"},
        {"kind": "node", "type_name": "Person"},
        None,
    ]
    assert [(item["id"], item["label"]) for item in found["graph"]["nodes"]] == [
        *(("ann", "ann"), ("bob", "bob"))
    ]
    (edge,) = found["graph"]["edges"]
    assert (edge["edge"], edge["from"], edge["to"]) == ("Knows", "ann", "bob")
    assert "column_types" not in full.ok(full.post("/query", {"query": text}))


def test_a_diff_comes_in_pages_with_a_summary_of_all(full: Api) -> None:
    full.ok(full.post("/branches", {"name": "pages"}))
    for name in ("p1", "p2", "p3"):
        full.add(name, branch="pages")
    found: list[Any] = []
    token = ""
    while True:
        page = full.ok(full.get(f"/diff?from=main&to=pages&limit=2{token}"))
        assert page["summary"] == {"Person": {"insert": 3, "update": 0, "delete": 0}}
        found += [item["id"] for item in page["changes"]]
        if "next_page_token" not in page:
            break
        token = f"&page_token={page['next_page_token']}"
    assert found == ["p1", "p2", "p3"]
    assert "summary" not in full.ok(full.get("/diff?from=main&to=pages"))


def test_spans_of_findings_count_characters(full: Api) -> None:
    text = "// \U0001f600\nquery q() { match { $p: Persn } return { $p.name } }"
    found = full.ok(full.post("/lint", {"source": text}))
    assert not found["ok"]
    start, end = found["diagnostics"][0]["span"]
    assert text[start:end] == "Persn"
    assert "file" not in found["diagnostics"][0]


def test_an_answer_comes_as_a_file_for_other_programs(full: Api) -> None:
    text = (
        "query q($n: String) { match { $p: Person { name: $n } }"
        " return { $p.name, $p.tags, $p.age } }"
    )
    add = "query a($n: String, $t: [String]) { insert Person { name: $n, tags: $t } }"
    full.ok(full.post("/mutate", {"query": add, "params": {"n": 'a,"b', "t": ["x", "y"]}}))

    def asked(kind: str) -> bytes:
        body = {"query": text, "params": {"n": 'a,"b'}}
        found = full.post("/query", body, headers={"Accept": kind})
        assert found.status_code == 200, found.text
        assert found.headers["content-type"].partition(";")[0] == kind
        return found.content

    row = '"a,""b","[""x"",""y""]",'
    assert asked("text/csv").decode() == f"p.name,p.tags,p.age\r\n{row}\r\n"
    table = pq.read_table(io.BytesIO(asked("application/vnd.apache.parquet")))
    assert table.column(1).to_pylist() == [["x", "y"]]


def test_a_served_graph_is_drawn_where_it_is_looked_at(full: Api) -> None:
    pairs = "query q() { match { $a: Person $a knows $b } return { $a, $b } }"
    with RemoteGraph(full.url) as served:
        assert served.draw([("Person", "ann")], neighbours=5).summary == "2 nodes and 1 edge"
        assert served.draw(served.query(pairs)).summary == "2 nodes and 1 edge"
        assert "Person --> Paper : Wrote" in str(served.schema.draw().mermaid)
        with pytest.raises(og.BadRequestError, match="not of a graph that is open here"):
            served.query(pairs).plot()

    async def same() -> str:
        async with AsyncRemoteGraph(full.url) as away:
            return (await away.draw([("Person", "ann")], neighbours=5)).summary

    assert asyncio.run(same()) == "2 nodes and 1 edge"


@pytest.mark.parametrize("limit", [2**63 - 1, 2**63, 2**80])
def test_a_limit_may_be_any_number(serve: Serve, limit: int) -> None:
    api = serve()
    api.load()
    found = api.ok(api.get(f"/entity/history?type=Person&id=ann&limit={limit}"))
    assert (len(found["versions"]), found["complete"]) == (1, True)
    assert api.ok(api.get(f"/commits?limit={limit}"))["commits"]
    assert len(api.service.serving.graphs.all()[0].graph.commits.list(limit=limit)) == 2

"""Bodies of answers, field by field, as clients of three generations expect them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from tests.server.helpers import ADD, ALL, LINES, Api, Serve, error

COMMIT = {
    "graph_commit_id": str,
    "manifest_branch": (str, type(None)),
    "graph_branch": (str, type(None)),
    "manifest_version": int,
    "graph_manifest_version": int,
    "parent_commit_id": (str, type(None)),
    "merged_parent_commit_id": (str, type(None)),
    "actor_id": (str, type(None)),
    "created_at": int,
}


def shaped(body: Any, fields: dict[str, Any]) -> None:
    """Check that every field is there with its type, and that no other is missing a type."""
    for name, kind in fields.items():
        assert name in body, f"{name} is missing"
        assert isinstance(body[name], kind), f"{name} is {body[name]!r}"


def twins(body: Any, pairs: dict[str, str]) -> None:
    for older, newer in pairs.items():
        assert body[newer] == body[older], (older, newer)


@pytest.fixture(scope="module")
def full(serve: Serve) -> Api:
    api = serve()
    api.load()
    return api


def test_health_names_the_release_and_the_format(full: Api) -> None:
    body = full.ok(full.get("/healthz"))
    assert body == {
        "status": "ok",
        "version": og.__version__,
        "internal_schema_version": og.INTERNAL_SCHEMA_VERSION,
    }


def test_readiness(full: Api) -> None:
    body = full.ok(full.get("/readyz"))
    assert body["ready"] is True
    assert body["status"] == "serving"
    assert body["served_graph_count"] == 1
    assert body["quarantined_graph_count"] == 0
    shaped(body, {"shutdown_grace_seconds": float})


def test_snapshot_has_both_vocabularies(full: Api) -> None:
    body = full.ok(full.get("/snapshot?branch=main"))
    twins(body, {"branch": "graph_branch", "manifest_version": "graph_manifest_version"})
    assert body["internal_schema_version"] == og.INTERNAL_SCHEMA_VERSION
    by_key = {item["table_key"]: item for item in body["tables"]}
    assert set(by_key) == {"node:Person", "node:Paper", "edge:Knows", "edge:Wrote"}
    for old, new in zip(body["tables"], body["datasets"], strict=True):
        shaped(old, {"table_path": str, "table_version": int, "row_count": int})
        assert old["table_key"] == f"{new['entity_kind']}:{new['type_name']}"
        assert old["table_path"] == new["dataset_path"]
        assert old["table_version"] == new["published_dataset_version"]
        assert old["table_branch"] == new["native_dataset_branch"]
        assert old["row_count"] == new["entity_count"]
    assert by_key["node:Person"]["row_count"] == 2


def test_read_answer(full: Api) -> None:
    body = full.ok(full.post("/query", {"query": ALL}))
    assert body["query_name"] == "all"
    assert body["target"] == {"branch": "main", "snapshot": None}
    assert body["row_count"] == 2
    assert body["columns"] == ["p.name", "p.age"]
    assert body["rows"] == [
        {"p.name": "ann", "p.age": 31},
        {"p.name": "bob", "p.age": None},
    ]
    assert len(body["graph_commit_id"]) == 26


def test_the_older_read_has_no_commit_and_names_its_successor(full: Api) -> None:
    response = full.post("/read", {"query_source": ALL, "query_name": "all"})
    body = full.ok(response)
    assert "graph_commit_id" not in body
    assert body["row_count"] == 2
    assert response.headers["deprecation"] == "true"
    assert response.headers["link"] == '<query>; rel="successor-version"'


def test_reading_a_snapshot_by_commit_and_by_version(full: Api) -> None:
    now = full.ok(full.get("/snapshot"))
    for selector in (
        now["graph_commit_id"],
        f"manifest:main:v{now['manifest_version']}",
        f"manifest:main:v{now['manifest_version']}:etag:abc",
    ):
        body = full.ok(full.post("/query", {"query": ALL, "snapshot": selector}))
        assert body["target"] == {"branch": None, "snapshot": selector}
        assert body["row_count"] == 2
    before = full.ok(full.post("/query", {"query": ALL, "snapshot": "manifest:main:v1"}))
    assert before["rows"] == []


def test_change_answer(api: Api) -> None:
    body = api.add("eve")
    assert body["branch"] == "main"
    assert body["query_name"] == "add"
    assert (body["affected_nodes"], body["affected_edges"]) == (1, 0)
    assert body["actor_id"] is None
    shaped(body["commit"], COMMIT)
    twins(
        body["commit"],
        {"manifest_branch": "graph_branch", "manifest_version": "graph_manifest_version"},
    )


@pytest.mark.parametrize("path", ["/mutate", "/change"])
@pytest.mark.parametrize("names", [("query", "name"), ("query_source", "query_name")])
def test_changes_take_either_vocabulary(full: Api, path: str, names: tuple[str, str]) -> None:
    source, name = names
    key = f"{path[1:]}-{source}"
    response = full.post(path, {source: ADD, name: "add", "params": {"n": key}})
    assert full.ok(response)["affected_nodes"] == 1
    assert ("deprecation" in response.headers) == (path == "/change")


def test_a_change_that_changes_nothing_has_no_commit(full: Api) -> None:
    text = 'query none() { delete Person where name = "nobody at all" }'
    body = full.ok(full.post("/mutate", {"query": text}))
    assert body["commit"] is None
    assert body["affected_nodes"] == 0


@pytest.mark.parametrize("path", ["/load", "/ingest"])
def test_load_answer(api: Api, path: str) -> None:
    response = api.post(path, {"data": LINES, "mode": "append"})
    body = api.ok(response)
    shaped(body, {"uri": str, "branch": str, "base_branch": str, "branch_created": bool})
    assert body["mode"] == "append"
    assert body["tables"] == [
        {"table_key": "node:Person", "rows_loaded": 2},
        {"table_key": "edge:Knows", "rows_loaded": 1},
    ]
    assert body["nodes"] == [{"name": "Person", "entities_loaded": 2}]
    assert body["edges"] == [{"name": "Knows", "entities_loaded": 1}]
    assert body["total_entities"] == 3
    shaped(body["commit"], COMMIT)
    assert ("deprecation" in response.headers) == (path == "/ingest")


def test_a_load_makes_the_branch_it_is_told_to(api: Api) -> None:
    body = api.load(branch="import/a", **{"from": "main"})
    assert body["branch"] == "import/a"
    assert body["base_branch"] == "main"
    assert body["branch_created"] is True
    assert api.names("import/a") == ["ann", "bob"]
    assert api.names() == []


def test_raw_loads(api: Api) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    body = api.ok(
        api.send("POST", "/load/ndjson?mode=append", headers=headers, content=LINES.encode())
    )
    assert "uri" not in body
    assert body["total_entities"] == 3
    assert body["mode"] == "append"
    wrong = api.send("POST", "/load/ndjson", headers={"Content-Type": "text/csv"}, content=b"a")
    assert wrong.status_code == 415


def test_branches_and_merge_receipts(api: Api) -> None:
    api.load()
    made = api.ok(api.post("/branches", {"name": "work", "from": "main"}))
    assert made["from"] == "main"
    assert made["name"] == "work"
    assert made["actor_id"] is None
    assert api.ok(api.get("/branches")) == {"branches": ["main", "work"]}
    nothing = api.ok(api.post("/branches/merge", {"source": "work"}))
    assert nothing["outcome"] == "already_up_to_date"
    assert nothing["commit"] is None
    api.add("eve", "work")
    merged = api.ok(
        api.post("/branches/merge", {"source": "work", "target": "main", "delete_branch": True})
    )
    assert merged["source"] == "work"
    assert merged["target"] == "main"
    assert merged["outcome"] == "fast_forward"
    assert merged["branch_deleted"] is True
    shaped(merged["commit"], {**COMMIT, "parent_commit_id": str, "merged_parent_commit_id": str})
    assert merged["commit"]["manifest_version"] > 0
    api.ok(api.post("/branches", {"name": "a/b"}))
    gone = api.ok(api.send("DELETE", "/branches/a%2Fb"))
    assert gone["name"] == "a/b"
    assert api.ok(api.get("/branches"))["branches"] == ["main"]


def test_merge_preview_writes_nothing(api: Api) -> None:
    api.load()
    api.ok(api.post("/branches", {"name": "work"}))
    api.add("eve", "work")
    head = api.ok(api.get("/snapshot"))["graph_commit_id"]
    plan = api.ok(api.post("/branches/merge/preview", {"source": "work"}))
    assert plan["outcome"] == "fast_forward"
    assert plan["merge_conflicts"] == []
    assert [item["id"] for item in plan["changes"]] == ["eve"]
    assert api.ok(api.get("/snapshot"))["graph_commit_id"] == head


def test_commits_newest_first_and_in_pages(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.add(name)
    whole = api.ok(api.get("/commits"))["commits"]
    assert [item["manifest_version"] for item in whole] == [4, 3, 2, 1]
    assert "next_page_token" not in api.ok(api.get("/commits"))
    for item in whole:
        shaped(item, COMMIT)
    found, token = [], ""
    while True:
        page = api.ok(api.get(f"/commits?limit=3{token}"))
        found += page["commits"]
        if "next_page_token" not in page:
            break
        token = f"&page_token={page['next_page_token']}"
    assert found == whole
    one = api.ok(api.get(f"/commits/{whole[0]['graph_commit_id']}"))
    assert one == whole[0]


def test_changes_of_a_commit_in_pages(api: Api) -> None:
    commit = api.load()["commit"]["graph_commit_id"]
    whole = api.ok(api.get(f"/commits/{commit}/changes"))
    shaped(whole["cause"], {"graph_commit_id": str, "authored_branch": str, "authored_at": int})
    assert [(c["kind"], c["op"], c["id"]) for c in whole["changes"]][:2] == [
        ("node", "insert", "ann"),
        ("node", "insert", "bob"),
    ]
    edge = whole["changes"][2]
    assert edge["type"]["name"] == "Knows"
    assert edge["after"]["endpoints"] == {"from": "ann", "to": "bob"}
    assert "before" not in edge
    first = api.ok(api.get(f"/commits/{commit}/changes?limit=2"))
    rest = api.ok(
        api.get(f"/commits/{commit}/changes?limit=2&page_token={first['next_page_token']}")
    )
    assert first["changes"] + rest["changes"] == whole["changes"]
    assert "next_page_token" not in rest
    only = api.ok(api.get(f"/commits/{commit}/changes?kind=edge&op=insert&type=Knows"))
    assert only["changes"] == [edge]


def test_the_feed_goes_on_from_its_cursor(api: Api) -> None:
    start = api.ok(api.get("/changes"))
    assert start["blocks"] == []
    assert start["caught_up"] is True
    api.add("ann")
    page = api.ok(api.get("/changes", params={"cursor": start["cursor"]}))
    assert [block["changes"][0]["id"] for block in page["blocks"]] == ["ann"]
    again = api.ok(api.get("/changes", params={"cursor": page["cursor"]}))
    assert again["blocks"] == []


def test_a_baseline_ends_with_its_cursor(api: Api) -> None:
    api.load()
    response = api.post("/changes/baseline", {})
    assert response.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    lines = [og_json(line) for line in response.text.splitlines()]
    assert [line.get("type") or line.get("edge") for line in lines[:-1]] == [
        "Person",
        "Person",
        "Knows",
    ]
    cursor = lines[-1]["baseline"]["resume_cursor"]
    api.add("eve")
    page = api.ok(api.get("/changes", params={"cursor": cursor}))
    assert len(page["blocks"]) == 1


def og_json(text: str) -> Any:
    import json

    return json.loads(text)


def test_one_type_is_exported_as_a_table(full: Api) -> None:
    arrow, parquet = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
    body = {"type_names": ["Knows"]}
    found = full.post("/export", body, headers={"Accept": arrow})
    assert found.headers["content-type"] == arrow
    table = pa.ipc.open_stream(found.content).read_all()
    assert table.column_names == ["id", "from", "to", "since"]
    found = full.post("/export", body, headers={"Accept": parquet})
    assert found.headers["content-type"] == parquet
    assert pq.read_table(io.BytesIO(found.content)).equals(table)
    for several in ({}, {"type_names": ["Knows", "Person"]}):
        refused = full.post("/export", several, headers={"Accept": parquet})
        error(refused, 400, "bad_request")


def test_export_is_what_a_load_reads_back(api: Api, serve: Serve) -> None:
    api.load()
    response = api.post("/export", {"branch": "main"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    other = serve()
    other.load(response.text)
    assert other.post("/export", {}).text == response.text
    people = api.post("/export", {"type_names": ["Person"]}).text.splitlines()
    assert len(people) == 2
    assert api.post("/export", {"table_keys": ["edge:Knows"]}).text.count("\n") == 1


def test_schema_show_plan_and_apply(api: Api) -> None:
    source = api.ok(api.get("/schema"))["schema_source"]
    wider = source.replace("title: String @key", "title: String @key\n    year: I32?")
    plan = api.ok(api.post("/schema/plan", {"schema_source": wider}))
    assert (plan["supported"], plan["applied"], plan["step_count"]) == (True, False, 1)
    body = api.ok(api.post("/schema/apply", {"schema_source": wider}))
    assert body["applied"] is True
    assert body["steps"][0]["kind"] == "add_property"
    twins(body, {"manifest_version": "graph_manifest_version"})
    assert api.ok(api.get("/schema"))["schema_source"] == wider


def test_recoveries_and_tags_and_differences(api: Api) -> None:
    assert api.ok(api.get("/recoveries")) == {"recoveries": [], "pending": []}
    tag = api.ok(api.post("/tags", {"name": "v1"}))
    shaped(tag, {"name": str, "branch": str, "manifest_version": int, "created_at": int})
    api.add("ann")
    assert [t["name"] for t in api.ok(api.get("/tags"))["tags"]] == ["v1"]
    found = api.ok(api.get("/diff?from=v1&to=main"))
    assert [change["id"] for change in found["changes"]] == ["ann"]
    before = api.ok(api.post("/query", {"query": ALL, "tag": "v1"}))
    assert before["row_count"] == 0
    assert api.ok(api.send("DELETE", "/tags/v1"))["name"] == "v1"


def test_reverting_and_picking_commits(api: Api) -> None:
    commit = api.add("ann")["commit"]["graph_commit_id"]
    undone = api.ok(api.post(f"/commits/{commit}/revert", {}))
    shaped(undone["commit"], COMMIT)
    assert api.names() == []
    picked = api.ok(api.post(f"/commits/{commit}/pick", {"branch": "main"}))
    assert picked["commit"] is not None
    assert api.names() == ["ann"]


def test_large_integers_as_text_when_asked_for(api: Api) -> None:
    big = 2**60 + 1
    text = 'query add($b: I64) { insert Person { name: "a", big: $b } }'
    api.ok(api.post("/mutate", {"query": text, "params": {"b": big}}))
    read = {"query": "query q() { match { $p: Person } return { $p.big } }"}
    assert api.ok(api.post("/query", read))["rows"] == [{"p.big": big}]
    headers = {"Accept": "application/json; ints=string"}
    assert api.ok(api.post("/query", read, headers=headers))["rows"] == [{"p.big": str(big)}]


def test_explanations(full: Api) -> None:
    body = full.ok(full.post("/query", {"query": ALL, "explain": True}))
    assert body["explain"]["stages"]
    assert body["row_count"] == body["explain"]["row_count"]


def test_removed_routes_are_not_found_in_the_common_form(full: Api) -> None:
    for path in ("/runs", "/runs/x", "/runs/x/abort", "/graphs/default/runs"):
        response = full.get(path)
        assert response.status_code == 404
        assert response.json()["code"] == "not_found"


def test_flat_paths_are_the_one_graph(full: Api) -> None:
    for path in ("/snapshot", "/branches", "/commits", "/schema"):
        assert full.get(path).json() == full.get(f"/graphs/default{path}").json()

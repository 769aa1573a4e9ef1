"""Parquet files over HTTP: looked into, mapped, tried and loaded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError, DataError, NotFoundError
from omnigraph.intake import parquet_files
from omnigraph.remote import RemoteGraph
from omnigraph.remote.aio import AsyncRemoteGraph
from tests.server.helpers import Api, Serve

PARQUET = "application/vnd.apache.parquet"
PEOPLE: dict[str, list[Any]] = {
    "Full Name": ["ann", "bob", "cy"],
    "age": [1, 2, 3],
    "note": ["x", None, "<b>"],
}
MAPPED = json.dumps({"Full Name": "name", "age": "age"})


@pytest.fixture(scope="module")
def shared(serve: Serve) -> Api:
    """Return a server whose graph stays empty."""
    return serve()


def content(columns: dict[str, list[Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def send(api: Api, path: str, body: bytes, **params: object) -> httpx.Response:
    headers = {"Content-Type": PARQUET}
    return api.send("POST", path, content=body, headers=headers, params=params)


def test_a_file_is_looked_into_before_it_is_loaded(shared: Api) -> None:
    found = shared.ok(send(shared, "/load/parquet/columns", content(PEOPLE)))
    assert found == {
        "rows": 3,
        "columns": [
            {"name": "Full Name", "type": "string", "first": "ann"},
            {"name": "age", "type": "int64", "first": "1"},
            {"name": "note", "type": "string", "first": "x"},
        ],
    }
    empty = shared.ok(send(shared, "/load/parquet/columns", content({"name": []})))
    assert (empty["rows"], empty["columns"][0]["first"]) == (0, None)


def test_columns_are_mapped_and_rows_left_out(serve: Serve) -> None:
    api = serve()
    given = {"type": "Person", "columns": MAPPED, "skip": "2"}
    trial = api.ok(send(api, "/load/parquet", content(PEOPLE), dry_run="true", **given))
    assert trial["dry_run"] is True
    assert api.names() == []
    done = api.ok(send(api, "/load/parquet", content(PEOPLE), **given))
    assert (done["mode"], done["total_entities"]) == ("merge", 2)
    assert api.names() == ["ann", "cy"]


def test_problems_name_rows_as_they_stand_in_the_file(shared: Api) -> None:
    file = content({"name": ["ann", "bob", "cy"], "age": [1, 2**40, 2**41]})
    refused = send(shared, "/load/parquet", file, type="Person")
    assert refused.status_code == 400
    assert [item["line"] for item in refused.json()["data_errors"]["problems"]] == [2, 3]
    again = send(shared, "/load/parquet", file, type="Person", skip="2").json()
    (problem,) = again["data_errors"]["problems"]
    assert problem["line"] == 3
    assert again["error"] == "1 problem in the file; nothing was written"


@pytest.mark.parametrize(
    ("body", "params", "status", "message"),
    [
        (b"PAR1 nonsense", {"type": "Person"}, 400, "not a Parquet file"),
        (b"", {"type": "Person"}, 400, "not a Parquet file"),
        (content(PEOPLE)[4:], {"type": "Person"}, 400, "not a Parquet file"),
        (
            content({"name": ["x"]})[:-40] + b"\xff" * 32 + b"\x20\0\0\0PAR1",
            {"type": "Person"},
            400,
            "not a Parquet file",
        ),
        (content(PEOPLE), {"type": "Nobody"}, 404, "Nobody"),
        (content(PEOPLE), {"type": "Person"}, 400, "unknown column 'Full Name'"),
        (content(PEOPLE), {"type": "Person", "columns": '{"Full Nam": "name"}'}, 400, "no columns"),
        (content(PEOPLE), {"type": "Person", "columns": "[]"}, 400, "JSON object"),
        (content(PEOPLE), {"type": "Person", "skip": "x"}, 400, "numbers of rows"),
        (content(PEOPLE), {}, 400, "type"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_a_reason(
    shared: Api, body: bytes, params: dict[str, str], status: int, message: str
) -> None:
    refused = send(shared, "/load/parquet", body, **params)
    assert refused.status_code == status, refused.text
    assert message in refused.text
    lines = shared.send("POST", "/load/parquet?type=Person", content=body)
    assert lines.status_code == 415


def test_a_small_file_of_large_rows_is_refused() -> None:
    """One text, named by every row: the file is small, its rows are not."""
    small = content({"name": ["x" * 100_000] * 500})
    assert len(small) < 1_000_000
    with pytest.raises(og.errors.ResourceLimitError):
        parquet_files.parquet_rows(small, columns=None, skip=(), bytes_max=10_000_000)
    table, lines = parquet_files.parquet_rows(small, columns=None, skip=(), bytes_max=100_000_000)
    assert (table.schema.types, len(lines)) == ([pa.string()], 500)


def test_both_clients_and_an_open_graph_take_the_path_of_a_file(
    serve: Serve, tmp_path: Path
) -> None:
    api = serve()
    file = tmp_path / "people.parquet"
    file.write_bytes(content({"name": ["ann", "bob"], "age": [1, 2]}))
    odd = tmp_path / "odd.parquet"
    odd.write_bytes(content({"name": ["ann"], "age": [2**40]}))
    with RemoteGraph(api.url) as served:
        assert served.load_table("Person", file, mode="append", dry_run=True).dry_run
        assert served.load_table("Person", file, mode="append").nodes == {"Person": 2}
        with pytest.raises(DataError, match="line 1"):
            served.load_table("Person", odd, mode="merge")
        with pytest.raises(NotFoundError):
            served.load_table("Person", tmp_path / "none.parquet", mode="merge")

    async def same() -> None:
        async with AsyncRemoteGraph(api.url) as away:
            assert (await away.load_table("Person", str(file), mode="merge")).nodes["Person"] == 2

    asyncio.run(same())
    with og.init(tmp_path / "g", "node Person { name: String @key  age: I32? }") as graph:
        assert graph.load_table("Person", file, mode="append").nodes == {"Person": 2}
        with pytest.raises(NotFoundError):
            graph.load_table("Person", tmp_path / "none.parquet", mode="merge")
        (tmp_path / "text.parquet").write_text("no")
        with pytest.raises(BadRequestError, match="not a Parquet file"):
            graph.load_table("Person", tmp_path / "text.parquet", mode="merge")

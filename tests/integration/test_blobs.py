"""Blobs by themselves: described and read in parts at a snapshot, external ones never fetched."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BlobRangeError, ExternalBlobSourceError
from omnigraph.graph import blob_range
from omnigraph.store import find_blob
from omnigraph.store.tables.table import Table
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph, edge, node, run

SCHEMA = """\
node File { name: String @key  data: Blob?  note: String? }
edge Next: File -> File { patch: Blob? }
"""
LARGE = bytes(range(256)) * 4096


def text(data: bytes) -> str:
    return "base64:" + base64.b64encode(data).decode()


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    found.load(
        [
            node("File", name="a", data=text(b"hello world")),
            node("File", name="b", data=text(LARGE)),
            node("File", name="empty", data="base64:"),
            node("File", name="null"),
            edge("Next", "a", "b", id="e1", patch=text(b"edge bytes")),
        ],
        mode="append",
    )
    return found


def test_stat_tells_the_size_without_reading(graph: og.Graph) -> None:
    sizes = {name: graph.blobs.stat("node", "File", name, "data").size for name in ("a", "empty")}
    assert sizes == {"a": 11, "empty": 0}
    found = graph.blobs.stat("edge", "Next", "e1", "patch")
    head = graph.commits.head().graph_commit_id
    assert found.to_json() == {
        "selector": {"entity": "edge", "type": "Next", "id": "e1", "property": "patch"},
        "kind": "managed",
        "size": 10,
        "etag": found.etag,
        "target": {"branch": "main", "resolved_snapshot": head},
    }


def test_open_reads_ranges(graph: og.Graph) -> None:
    with graph.blobs.open("node", "File", "b", "data") as blob:
        blob.seek(1000)
        assert blob.read(5) == LARGE[1000:1005]
        blob.seek(0)
        assert blob.read() == LARGE
    with graph.blobs.open("node", "File", "empty", "data") as blob:
        assert blob.read() == b""


def test_blobs_belong_to_a_snapshot(graph: og.Graph) -> None:
    before = graph.commits.head().graph_commit_id
    old = graph.blobs.stat("node", "File", "a", "data")
    run(graph, 'update File set { note: "x" } where name = "b"')
    assert graph.blobs.stat("node", "File", "a", "data").etag == old.etag
    run(graph, 'update File set { data: $d } where name = "a"', d=("Blob", text(b"new")))
    new = graph.blobs.stat("node", "File", "a", "data")
    assert (new.size, new.etag != old.etag) == (3, True)
    then = graph.blobs.stat("node", "File", "a", "data", commit=before)
    assert (then.size, then.etag, then.snapshot) == (11, old.etag, before)
    with graph.blobs.open("node", "File", "a", "data", commit=before) as blob:
        assert blob.read() == b"hello world"


def test_blobs_of_a_branch(graph: og.Graph) -> None:
    graph.branches.create("b")
    run_on = 'query q($d: Blob) { update File set { data: $d } where name = "a" }'
    graph.mutate(run_on, {"d": text(b"branch")}, branch="b")
    for branch, data in (("main", b"hello world"), ("b", b"branch")):
        with graph.blobs.open("node", "File", "a", "data", branch=branch) as blob:
            assert blob.read() == data
        with graph.blobs.open("node", "File", "b", "data", branch=branch) as blob:
            assert blob.read(4) == LARGE[:4]


@pytest.mark.parametrize(
    ("selector", "kind", "message"),
    [
        (("thing", "File", "a", "data"), og.BadRequestError, "expected node or edge"),
        (("node", "Folder", "a", "data"), og.NotFoundError, "unknown node type 'Folder'"),
        (("edge", "File", "a", "data"), og.NotFoundError, "unknown edge type 'File'"),
        (("node", "File", "a", "size"), og.NotFoundError, "File has no property 'size'"),
        (("node", "File", "a", "name"), og.BadRequestError, "File.name is String, not a Blob"),
        (("node", "File", "it's", "data"), og.NotFoundError, "no File 'it's'"),
        (("node", "File", "null", "data"), og.NotFoundError, "data of File 'null' is null"),
    ],
)
def test_what_is_not_there(
    graph: og.Graph, selector: Any, kind: type[Exception], message: str
) -> None:
    for call in (graph.blobs.stat, graph.blobs.open):
        with pytest.raises(kind) as caught:
            call(*selector)
        assert message in str(caught.value)


def test_a_place_is_named_once(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="a branch or a commit"):
        graph.blobs.stat("node", "File", "a", "data", branch="main", commit="x")
    with pytest.raises(og.NotFoundError, match="branch 'b'"):
        graph.blobs.stat("node", "File", "a", "data", branch="b")
    with pytest.raises(og.NotFoundError):
        graph.blobs.stat("node", "File", "a", "data", commit="01NOTHERE")


@pytest.mark.local
def test_external_values_are_reported_not_fetched(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = (tmp_path / "missing.bin").as_uri()
    (tmp_path / "missing.bin").write_bytes(b"abc")
    pin = graph.snapshot().tables["node:File"]
    folder = str(Path(graph.uri) / pin.path)
    schema = lance.dataset(folder).schema
    values: list[Any] = [pa.array(["ext"]), lance.blob_array([place])]
    row = dict(zip(("id", "data"), values, strict=True))
    columns = [row.get(f.name, pa.nulls(1, pa.string())) for f in schema]
    columns[schema.get_field_index("name")] = pa.array(["ext"])
    dataset = lance.write_dataset(
        pa.Table.from_arrays(columns, schema=schema),
        folder,
        mode="append",
        allow_external_blob_outside_bases=True,
    )
    (tmp_path / "missing.bin").unlink()
    exists, found = find_blob(Table(pin.path, dataset), "data", "ext")
    assert exists
    assert found is not None
    assert (found.uri, found.size) == (place, None)
    monkeypatch.setattr("omnigraph.graph.blobs.find_blob", lambda *_: (True, found))
    stat = graph.blobs.stat("node", "File", "ext", "data")
    assert (stat.kind, stat.to_json()["uri"], "size" in stat.to_json()) == (
        "external",
        place,
        False,
    )
    with pytest.raises(ExternalBlobSourceError, match="not fetched"):
        graph.blobs.open("node", "File", "ext", "data")


@pytest.mark.parametrize(
    ("size", "offset", "length", "part"),
    [
        (10, None, None, (0, 10)),
        (10, 4, None, (4, 10)),
        (10, None, 4, (0, 4)),
        (10, 8, 100, (8, 10)),
        (0, None, None, (0, 0)),
        (0, 0, 5, (0, 0)),
    ],
)
def test_ranges(size: int, offset: int | None, length: int | None, part: tuple[int, int]) -> None:
    assert blob_range(size, offset=offset, length=length) == part


@pytest.mark.parametrize(("size", "offset"), [(10, 10), (10, 11), (0, 1)])
def test_a_range_starts_inside_the_value(size: int, offset: int) -> None:
    with pytest.raises(BlobRangeError):
        blob_range(size, offset=offset, length=None)


# ---- the command line ---------------------------------------------------------------------


def test_get_writes_a_file(cli: Cli, graph: og.Graph, tmp_path: Path) -> None:
    uri = graph.uri
    assert cli("blob", "get", "node", "File", "a", "data", "--store", uri).out == "hello world"
    done = cli("blob", "get", "node", "File", "b", "data", "--store", uri, "--out", "b.bin")
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "b.bin").read_bytes() == LARGE
    assert cli("blob", "get", "node", "File", "a", "data", uri, "--at", "HEAD").out == "hello world"
    part = ("--offset", "6", "--length", "3", "--out", "a.bin")
    assert cli("blob", "get", "node", "File", "a", "data", "--store", uri, *part).code == 0
    assert (tmp_path / "a.bin").read_bytes() == b"wor"


def test_a_failed_get_leaves_the_file_alone(cli: Cli, graph: og.Graph, tmp_path: Path) -> None:
    uri = graph.uri
    (tmp_path / "a.bin").write_bytes(b"old")
    for arguments in (
        ("a", "data", "--offset", "11"),
        ("a", "data", "--length", "0"),
        ("a", "data", "--offset", "-1"),
        ("null", "data"),
        ("nobody", "data"),
        ("a", "note"),
    ):
        done = cli("blob", "get", "node", "File", *arguments, "--store", uri, "--out", "a.bin")
        assert done.code != 0, arguments
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    behind = cli("blob", "get", "node", "File", "a", "data", "--offset", "99", "--store", uri)
    assert (behind.code, behind.err.count("error:")) == (1, 1)
    assert cli("blob", "get", "node", "File", "nobody", "data", "--store", uri).code == 3


def test_stat_prints(cli: Cli, graph: og.Graph) -> None:
    uri = graph.uri
    done = cli("blob", "stat", "node", "File", "a", "data", "--store", uri)
    assert done.out.splitlines()[:2] == ["kind: managed", "size: 11"]
    head = graph.commits.head().graph_commit_id
    found = cli(
        "blob",
        "stat",
        "node",
        "File",
        "a",
        "data",
        "--store",
        graph.uri,
        "--snapshot",
        head,
        "--json",
    )
    assert found.json["target"] == {"snapshot": head, "resolved_snapshot": head}

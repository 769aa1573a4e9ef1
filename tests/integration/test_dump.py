"""A whole graph in one archive: what it holds, what is refused, and what a death leaves."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from pathlib import Path

import pytest

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph
from tests.integration.merging import SCHEMA, drop, link, put, state
from tests.places import AnyPath


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    put(found, "main", a=1, b=2)
    link(found, "main", "ab", "a", "b")
    found.tags.create("first")
    found.branches.create("dev")
    put(found, "dev", c=3)
    found.branches.create("gone")
    put(found, "gone", d=4)
    found.branches.delete("gone")
    put(found, "main", a=5)
    return found


def test_a_restored_graph_is_the_same_graph(graph: og.Graph, place: AnyPath) -> None:
    report = graph.maintenance.dump(place / "dumps.tar.gz")
    assert (place / "dumps.tar.gz").exists()
    heads = {name: graph.commits.head(name).graph_commit_id for name in ("main", "dev")}
    assert report.heads == heads
    with og.restore(place / "dumps.tar.gz", place / "copy", durability="none") as copy:
        for branch in ("main", "dev"):
            assert state(copy, branch) == state(graph, branch)
            assert copy.commits.list(branch) == graph.commits.list(branch)
        assert state(copy, tag="first") == state(graph, tag="first")
        assert state(copy, version=2) == state(graph, version=2)
        # The copy stands on its own: neither sees what the other writes.
        copy.branches.merge("dev")
        drop(graph, "main", "b")
        assert ("Item", "c") in state(copy)
        assert ("Item", "c") not in state(graph)
        assert ("Item", "b") in state(copy)
        put(copy, "dev", e=1)
        copy.optimize()
        copy.cleanup(keep=1, grace=0, dry_run=False)
        assert ("Item", "e") in state(copy, "dev")


@pytest.mark.full_only
def test_a_dump_beside_writers_holds_one_state(graph: og.Graph, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            # Two tables at once: half of it must never be seen.
            graph.load(
                [
                    {"type": "Item", "data": {"slug": f"w{number}", "v": number}},
                    {"edge": "Link", "from": f"w{number}", "to": "a", "data": {"id": f"l{number}"}},
                ],
                mode="append",
            )

    with og.open(graph.uri, durability="none") as writer:
        graph, other = writer, og.open(graph.uri, durability="none")
        thread = threading.Thread(target=write)
        thread.start()
        try:
            for number in range(4):
                report = other.maintenance.dump(tmp_path / f"{number}.tar")
                target = tmp_path / f"copy{number}"
                with og.restore(report.archive, target, durability="none") as copy:
                    found = state(copy)
                    items = {name[1:] for kind, name in found if kind == "Item" and name[0] == "w"}
                    links = {name[1:] for kind, name in found if kind == "Link" and name[0] == "l"}
                    assert items == links
                    assert copy.maintenance.recovered == []
        finally:
            stop.set()
            thread.join()
            other.close()


def test_what_cannot_be_restored_leaves_nothing(graph: og.Graph, tmp_path: Path) -> None:
    whole = tmp_path / "g.tar"
    graph.maintenance.dump(whole)
    data = whole.read_bytes()
    broken = {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "text": b"not a tar file at all\n" * 100,
        "flipped": data.replace(b"slug", b"glus", 1),
    }
    for name, content in broken.items():
        path = tmp_path / f"{name}.tar"
        path.write_bytes(content)
        with pytest.raises(og.BadRequestError):
            og.restore(path, tmp_path / "new")
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as archive:
        info = tarfile.TarInfo("hello.txt")
        archive.addfile(info, io.BytesIO())
    with pytest.raises(og.BadRequestError, match="not a dump"):
        og.restore(other, tmp_path / "new")
    with pytest.raises(og.NotFoundError):
        og.restore(tmp_path / "nowhere.tar", tmp_path / "new")
    with pytest.raises(og.AlreadyExistsError):
        og.restore(whole, graph.uri)
    found = {path.name for path in tmp_path.iterdir()} | {"g"}
    assert found == {"g", "g.tar", "other.tar", *(f"{name}.tar" for name in broken)}


@pytest.mark.parametrize("name", ["../outside", "/outside", "graph/../../outside"])
def test_an_archive_writes_nothing_outside_its_place(tmp_path: Path, name: str) -> None:
    header = {"format": 1, "internal_schema_version": og.INTERNAL_SCHEMA_VERSION, "branches": {}}
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        for member, data in (("omnigraph-dump.json", json.dumps(header).encode()), (name, b"x")):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    with pytest.raises(og.BadRequestError, match="damaged"):
        og.restore(tmp_path / "evil.tar", tmp_path / "in" / "g")
    assert not list(tmp_path.rglob("outside*"))


def test_other_formats_are_refused_with_what_to_do(tmp_path: Path) -> None:
    for header, error in (
        ({"format": 2}, og.BadRequestError),
        ({"format": 1, "internal_schema_version": 3}, og.FormatVersionError),
    ):
        data = json.dumps(header).encode()
        with tarfile.open(tmp_path / "other.tar", "w") as archive:
            info = tarfile.TarInfo("omnigraph-dump.json")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        with pytest.raises(error) as refused:
            og.restore(tmp_path / "other.tar", tmp_path / "new")
        assert "the release that wrote it" in f"{refused.value.message} {refused.value.hint}"


def test_on_the_command_line(cli: Cli, graph: og.Graph, tmp_path: Path) -> None:
    shown = cli("dump", graph.uri, "--out", "g.tar", "--json")
    assert shown.code == 0
    assert sorted(shown.json["branches"]) == ["dev", "main"]
    shown = cli("restore", "g.tar", "copy")
    assert (shown.code, shown.out) == (0, f"restored {tmp_path / 'copy'}: main, dev\n")
    with og.open(tmp_path / "copy", mode="ro") as copy:
        assert state(copy, "dev") == state(graph, "dev")
    shown = cli("restore", "g.tar", "copy")
    assert shown.code == 5
    assert "exists already" in shown.err
    assert cli("restore", "nothing.tar", "new").code == 3
    assert "dumped" in cli("dump", graph.uri, "--out", "again.tar.gz").out

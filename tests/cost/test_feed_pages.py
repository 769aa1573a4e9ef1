"""Reading a large commit page by page costs what reading it at once does."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.store import measured
from omnigraph.values.words import ChangeOp

SCHEMA = "node Person {\n    name: String @key\n    age: I32?\n}\n"
ROWS = 300


def _ids(graph: og.Session, limit: int, **options: ChangeOp) -> list[tuple[str, str]]:
    """All changes, page by page, each asked for in a session of its own as a server does."""
    found: list[tuple[str, str]] = []
    token = cursor = None
    while True:
        page = graph.session().feed.poll(
            "beginning", cursor=cursor, page_token=token, limit=limit, ops=options.values()
        )
        found += [(item.op, item.id) for block in page.blocks for item in block.changes]
        token, cursor = page.next_page_token, page.cursor or cursor
        if page.caught_up:
            return found


def test_pages_of_a_commit_compare_its_tables_once(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        names = [f"p{n:05}" for n in range(ROWS)]
        graph.load([{"type": "Person", "data": {"name": name}} for name in names], mode="append")
        changed = [{"type": "Person", "data": {"name": f"p{n:05}", "age": 1}} for n in range(100)]
        changed += [{"type": "Person", "data": {"name": f"a{n:05}"}} for n in range(50)]
        graph.load(changed, mode="overwrite")
        with measured() as whole:
            at_once = _ids(graph, 8_192)
        assert at_once[:ROWS] == [("insert", name) for name in names]
        assert at_once[ROWS : ROWS + 51] == [
            *(("insert", f"a{n:05}") for n in range(50)),
            ("update", "p00000"),
        ]
        assert at_once[-1] == ("delete", "p00299")
        with measured() as paged:
            assert _ids(graph, 7) == at_once
        assert paged["table_deltas"] == whole["table_deltas"] == 2
        assert paged["data_scans"] == whole["data_scans"]
        deleted = [item for item in at_once if item[0] == "delete"]
        assert _ids(graph, 7, op="delete") == deleted


@pytest.mark.parametrize("limit", [1, 3, 300])
def test_a_page_that_is_asked_for_twice_is_the_same(tmp_path: Path, limit: int) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": f"p{n}"}} for n in range(5)], mode="append")
        first = graph.feed.poll("beginning", limit=limit)
        if limit == 300:
            assert first.caught_up
            return
        again = [graph.feed.poll(page_token=first.next_page_token, limit=limit) for _ in range(2)]
        assert again[0] == again[1]
        assert again[0].blocks[0].changes[0].id == f"p{limit}"

"""`og.connect` opens a graph or creates it, and says what it cannot do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = "node Task { slug: String @key }"


def connected(place: Path | str, schema: str = SCHEMA, **options: Any) -> og.Graph:
    return og.connect(place, schema=schema, durability="none", **options)


def test_a_cell_may_run_again(tmp_path: Path) -> None:
    for number in range(2):
        with connected(tmp_path / "plan", actor="ada") as graph:
            graph.load([{"type": "Task", "data": {"slug": f"t{number}"}}], mode="append")
            assert graph.commits.head().actor_id == "ada"
            assert len(graph.commits.list()) == number + 2


def test_a_schema_file_is_read_both_times(tmp_path: Path) -> None:
    file = tmp_path / "s.pg"
    file.write_text(SCHEMA, encoding="utf-8")
    made, found = [], []
    for _ in range(2):
        with connected(str(tmp_path / "plan"), str(file)) as graph:
            made.append(graph.commits.head().graph_commit_id)
            found.append(sorted(graph.catalog.nodes))
    assert found == [["Task"], ["Task"]]
    assert made[0] == made[1]


def test_another_schema_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    connected(tmp_path / "plan").close()
    with pytest.raises(og.ConflictError, match="another schema") as caught:
        connected(tmp_path / "plan", SCHEMA + " node Other { k: String @key }")
    assert "graph.schema.apply" in str(caught.value.hint)
    with og.open(tmp_path / "plan", mode="ro") as graph:
        assert sorted(graph.catalog.nodes) == ["Task"]
        assert len(graph.commits.list()) == 1


def test_a_schema_with_a_mistake_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(og.CompileError):
        connected(tmp_path / "plan", "node Task {")
    assert not (tmp_path / "plan").exists()


def test_several_at_once_get_the_same_graph(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        graphs = list(pool.map(lambda _n: connected(tmp_path / "plan"), range(4)))
    heads = {graph.commits.head().graph_commit_id for graph in graphs}
    for graph in graphs:
        graph.close()
    assert len(heads) == 1


def test_a_path_without_a_schema_says_how_to_open_it() -> None:
    with pytest.raises(og.BadRequestError, match="not a server address") as caught:
        og.connect("plan")
    assert "og.open('plan')" in str(caught.value.hint)


@pytest.mark.parametrize("options", [{"token": "t"}, {"graph": "g"}])
def test_what_is_for_servers_is_refused_for_a_path(options: dict[str, Any]) -> None:
    with pytest.raises(og.BadRequestError, match="for servers"):
        og.connect("plan", schema=SCHEMA, **options)


def test_a_schema_is_refused_for_a_server() -> None:
    with pytest.raises(og.BadRequestError, match="schema: a server's graph has its own"):
        og.connect("http://127.0.0.1:1", schema=SCHEMA)

"""`insert new`: an insert that refuses a key that is there already."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph

SCHEMA = """\
node Person { slug: String @key  name: String? }
node Note { text: String }
edge Knows: Person -> Person
"""
NEW = "query add($s: String, $n: String?) { insert new Person { slug: $s, name: $n } }"


def names(graph: og.Graph) -> dict[str, str | None]:
    found = graph.query("query q() { match { $p: Person } return { $p, $p.name as name } }")
    return {row["p"]: row["name"] for row in found.to_pylist()}


def test_a_new_key_is_added_and_an_existing_one_refused(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    assert graph.mutate(NEW, {"s": "a", "n": "first"}).affected_nodes == 1
    with pytest.raises(og.KeyConflictError, match="Person 'a' already exists"):
        graph.mutate(NEW, {"s": "a", "n": "second"})
    assert names(graph) == {"a": "first"}


@pytest.mark.parametrize("before", ["insert", "insert new", "upsert"])
def test_a_key_written_earlier_in_the_mutation_is_refused(new_graph: NewGraph, before: str) -> None:
    graph = new_graph(SCHEMA)
    with pytest.raises(og.KeyConflictError, match="Person 'a' already exists"):
        graph.mutate(
            f'query q() {{ {before} Person {{ slug: "a" }} insert new Person {{ slug: "a" }} }}'
        )
    assert names(graph) == {}


def test_later_statements_change_what_was_added(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.mutate(
        'query q() { insert new Person { slug: "a" } upsert Person { slug: "a", name: "x" } }'
    )
    assert names(graph) == {"a": "x"}


def test_a_deleted_key_is_new_again(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.mutate(NEW, {"s": "a"})
    graph.mutate('query q() { delete Person where slug = "a" }')
    graph.mutate(NEW, {"s": "a", "n": "again"})
    assert names(graph) == {"a": "again"}


def test_without_a_key_every_node_and_edge_is_new(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    text = 'query q() { insert new Note { text: "x" } insert new Note { text: "x" } }'
    assert graph.mutate(text).affected_nodes == 2


@pytest.mark.parametrize("together", [True, False])
def test_of_many_writers_of_one_key_one_succeeds(tmp_path: Path, together: bool) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="none", group_writes=together)
    verdicts: list[str] = []
    start = threading.Barrier(6)

    def write(number: int) -> None:
        start.wait()
        for key in ("a", "b", "c"):
            try:
                graph.mutate(NEW, {"s": key, "n": str(number)})
                verdicts.append(f"{key}{number}")
            except og.KeyConflictError:
                pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(verdicts) == sorted(f"{key}{name}" for key, name in names(graph).items())
    graph.close()

"""Many one-row commits: tails are folded by commits of their own, and no row is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

import omnigraph as og
from omnigraph.limits import TAIL_FRAGMENTS
from omnigraph.ops import compact_tail as fold_module
from omnigraph.store import Table
from omnigraph.store.tables.compaction import rewrite_small_fragments
from tests.integration.helpers import NewGraph, edge, ends, exported, ids, load, node, rows, run
from tests.places import AnyPath, copy_tree
from tests.places import dataset as open_dataset

COMMITS = TAIL_FRAGMENTS + 8
ADD = "query add($n: String, $a: I32) { insert Person { name: $n, age: $a } }"


def insert_singly(graph: og.Graph, numbers: range) -> None:
    for number in numbers:
        graph.mutate(ADD, {"n": f"p{number}", "a": number})


def folds(graph: og.Graph) -> list[int]:
    return [item.manifest_version for item in graph.commits.list() if item.kind == "optimize"]


def stored_ids(graph: og.Graph, table_key: str) -> Counter[str]:
    """Return how often each id is stored, read straight from the table."""
    pin = graph.snapshot().tables[table_key]
    dataset = open_dataset(f"{graph.uri}/{pin.path}", version=pin.version)
    assert pin.row_count == dataset.count_rows()
    return Counter(dataset.to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture(scope="module")
def folded_once(module_place: AnyPath) -> AnyPath:
    """Return where a graph lies whose people were inserted one by one."""
    root = module_place / "g"
    schema = """node Person { name: String @key  age: I32? }
    edge Knows: Person -> Person { @unique(src, dst) }"""
    with og.init(root, schema, durability="none") as graph:
        insert_singly(graph, range(COMMITS))
    return root


@pytest.fixture
def folded(folded_once: AnyPath, place: AnyPath) -> Iterator[og.Graph]:
    copy_tree(folded_once, place / "copy")
    with og.open(place / "copy", durability="none") as graph:
        yield graph


def test_one_fold_commit_appears_and_no_row_changes(folded: og.Graph) -> None:
    assert folds(folded) == [TAIL_FRAGMENTS + 2]
    (fold,) = [item for item in folded.commits.list() if item.kind == "optimize"]
    assert fold.actor_id is None
    before = rows(folded, "Person", version=fold.manifest_version - 1)
    assert rows(folded, "Person", version=fold.manifest_version) == before
    assert len(before) == TAIL_FRAGMENTS
    assert len(rows(folded, "Person")) == COMMITS
    assert set(stored_ids(folded, "node:Person").values()) == {1}


def test_the_chain_stays_linear_over_a_fold(folded: og.Graph) -> None:
    found = folded.commits.list()
    assert len(found) == COMMITS + 2
    assert [item.parent_commit_id for item in found[:-1]] == [
        item.graph_commit_id for item in found[1:]
    ]


def test_every_version_around_a_fold_reads_as_it_was(folded: og.Graph) -> None:
    fold = folds(folded)[0]
    for version in range(fold - 2, fold + 3):
        expected = version - 1 if version < fold else version - 2
        assert len(rows(folded, "Person", version=version)) == expected


def test_the_folded_tail_is_indexed_and_compacted(folded: og.Graph) -> None:
    fold = folds(folded)[0]
    pin = folded.snapshot(version=fold).tables["node:Person"]
    dataset = open_dataset(f"{folded.uri}/{pin.path}", version=pin.version)
    assert len(dataset.get_fragments()) == 1
    assert [index.name for index in dataset.describe_indices()] == ["id_idx"]
    assert dataset.has_stable_row_ids


@pytest.mark.parametrize("number", [0, TAIL_FRAGMENTS - 1, TAIL_FRAGMENTS, COMMITS - 1])
def test_probes_find_ids_in_folded_and_unfolded_fragments(folded: og.Graph, number: int) -> None:
    with pytest.raises(og.KeyConflictError, match=f"Person 'p{number}' already exists"):
        load(folded, [node("Person", name="new"), node("Person", name=f"p{number}")])
    run(folded, f'insert Knows {{ from: "p{number}", to: "p{number}" }}')
    with pytest.raises(og.DataError, match="dst 'nobody' not found"):
        run(folded, f'insert Knows {{ from: "p{number}", to: "nobody" }}')


def test_updates_and_deletes_of_folded_rows_are_right(folded: og.Graph) -> None:
    last = COMMITS - 1
    run(folded, 'update Person set { age: 100 } where name = "p3"')
    run(folded, f'update Person set {{ age: 100 }} where name = "p{last}"')
    run(folded, 'upsert Person { name: "p5", age: 100 }')
    run(folded, 'insert Person { name: "p6", age: 100 }')
    run(folded, f'delete Person where name = "p4" delete Person where name = "p{last - 1}"')
    run(folded, 'update Person set { age: 101 } where name = "p3"')
    expected = {f"p{i}": {"name": f"p{i}", "age": i} for i in range(COMMITS)}
    for number, age in ((3, 101), (last, 100), (5, 100), (6, 100)):
        expected[f"p{number}"]["age"] = age
    del expected["p4"], expected[f"p{last - 1}"]
    assert rows(folded, "Person") == expected
    assert set(stored_ids(folded, "node:Person").values()) == {1}
    with og.open(folded.uri, durability="none") as cold:
        assert rows(cold, "Person") == expected


def test_a_deleted_folded_id_can_be_inserted_again(folded: og.Graph) -> None:
    run(folded, 'delete Person where name = "p2"')
    load(folded, [node("Person", name="p2", age=7)])
    assert rows(folded, "Person")["p2"]["age"] == 7
    assert stored_ids(folded, "node:Person")["p2"] == 1
    with pytest.raises(og.KeyConflictError):
        load(folded, [node("Person", name="p2")])


def test_a_second_tail_is_folded_too_and_no_id_is_ever_doubled(folded: og.Graph) -> None:
    load(folded, [node("Person", name=f"p{i}", age=-i) for i in range(10, 20)], "merge")
    for number in range(COMMITS):
        folded.mutate(ADD, {"n": f"p{number * 2}", "a": number})
        if number % 10 == 0:
            assert set(stored_ids(folded, "node:Person").values()) == {1}
    assert len(folds(folded)) >= 2
    counts = stored_ids(folded, "node:Person")
    assert set(counts.values()) == {1}
    assert set(counts) == {f"p{i}" for i in [*range(COMMITS), *range(0, 2 * COMMITS, 2)]}
    assert rows(folded, "Person")["p4"]["age"] == 2


def test_a_strict_write_passes_over_maintenance_but_not_over_a_change(
    folded: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.open(folded.uri, durability="none") as other:
        before = other.snapshot().tables["node:Person"].version
        monkeypatch.setattr(fold_module, "TAIL_FRAGMENTS", 1)
        assert (
            fold_module.TailCompaction(folded._engine.lines.main.writer).run_if_due(
                folded._engine.schema
            )
            == 1
        )
        assert folded.snapshot().tables["node:Person"].version > before
        assert run(other, 'delete Person where name = "p1"').affected_nodes == 1
        monkeypatch.undo()
        folded.refresh()
        run(folded, 'insert Person { name: "z" }')
        with pytest.raises(og.VersionConflictError):
            run(other, 'delete Person where name = "p2"')
    assert "p1" not in rows(folded, "Person")
    assert "p2" in rows(folded, "Person")


def test_edges_are_folded_with_their_ends_indexed(new_graph: NewGraph) -> None:
    graph = new_graph("node P { k: String @key }\nedge E: P -> P { @unique(src, dst) }\n")
    load(graph, [node("P", k=f"n{i}") for i in range(COMMITS)])
    for number in range(1, COMMITS):
        run(graph, f'insert E {{ from: "n0", to: "n{number}" }}')
    assert folds(graph)
    with pytest.raises(og.DataError, match="@unique violation on E"):
        run(graph, 'insert E { from: "n0", to: "n3" }')
    run(graph, 'upsert E { from: "n0", to: "n3" }')
    load(graph, [edge("E", "n0", "n5"), edge("E", "n5", "n0")], "merge")
    assert len(ends(graph, "E")) == COMMITS
    result = run(graph, 'delete P where k = "n3"')
    assert (result.affected_nodes, result.affected_edges) == (1, 1)
    assert run(graph, 'delete P where k = "n0"').affected_edges == COMMITS - 1
    assert ids(exported(graph, "E")) == []


def test_writers_of_one_process_fold_once_each_time(place: AnyPath) -> None:
    """None of them does the work in vain, and the tail stays short."""
    compactions: list[int] = []

    def writing(writer: int) -> None:
        for number in range(30):
            io = graph.mutate(ADD, {"n": f"w{writer}-{number}", "a": number}).io
            compactions.append(io.get("data_compactions", 0))

    schema = "node Person { name: String @key  age: I32? }"
    with og.init(place / "g", schema, durability="none", group_writes=False) as graph:
        with ThreadPoolExecutor(6) as pool:
            for done in [pool.submit(writing, number) for number in range(6)]:
                done.result()
        assert sum(compactions) <= len(folds(graph))
        assert len(folds(graph)) >= 180 // (2 * TAIL_FRAGMENTS)
        pin = graph.snapshot().tables["node:Person"]
        fragments, _rows = graph._engine.id_lookup.tail(
            graph._engine.tables.open(pin.path, pin.version)
        )
        assert fragments <= TAIL_FRAGMENTS + 6
        assert len(stored_ids(graph, "node:Person")) == 180


def test_a_fold_that_others_kept_from_happening_makes_them_wait(
    place: AnyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer of another process that comes between every write and its fold."""
    rewrite = rewrite_small_fragments
    beside: list[Future[Any]] = []

    def interrupted(table: Table) -> list[Any]:
        found = rewrite(table)
        if not beside or beside[-1].done():
            beside.append(pool.submit(other.mutate, ADD, {"n": f"o{len(beside)}", "a": 0}))
        # A commit takes a moment; one that has to wait for the slot takes longer than this.
        wait([beside[-1]], timeout=0.5)
        return found

    monkeypatch.setattr(fold_module, "rewrite_small_fragments", interrupted)
    schema = "node Person { name: String @key  age: I32? }"
    with (
        og.init(place / "g", schema, durability="none") as graph,
        og.open(place / "g", durability="none") as other,
        ThreadPoolExecutor(1) as pool,
    ):
        writer = other._engine.lines.main.writer
        monkeypatch.setattr(writer, "maintain", lambda *_args: (None, None))
        for number in range(3 * TAIL_FRAGMENTS):
            graph.mutate(ADD, {"n": f"p{number}", "a": number})
        wait(beside)
        assert folds(graph), "never"
        assert len(stored_ids(graph, "node:Person")) == 3 * TAIL_FRAGMENTS + len(beside)

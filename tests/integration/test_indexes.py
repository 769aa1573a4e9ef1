"""Declared indexes: what is built, that no answer changes, and that nobody is disturbed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.limits import INDEX_SEGMENTS_MAX
from omnigraph.store import measured, stage_indexes
from tests.integration.conftest import Cli
from tests.integration.helpers import NewGraph, edge, exported, node, pins, run
from tests.places import dataset as dataset_at

SCHEMA = """\
node Doc {
    slug: String @key
    body: String? @index
    code: I64? @unique
    state: enum(open, done)? @index
    flag: Bool? @index
    day: Date? @index
    rate: F64? @index
    tags: [String]?
    vec: Vector(4)? @embed(body)
    @index(tags)
}
node Empty { slug: String @key  text: String? @index }
edge Cites: Doc -> Doc { why: String? @index  weight: F64? }
"""
BODIES = ("quick brown fox", "the slow fox", "graphs of words", None, "naïve café")
WANTED = {
    "node:Doc": {
        "id_idx": "BTree",
        "slug_idx": "BTree",
        "code_idx": "BTree",
        "body_inverted": "Inverted",
        "state_bitmap": "Bitmap",
        "flag_bitmap": "Bitmap",
        "day_idx": "BTree",
        "rate_idx": "BTree",
        "tags_label_list": "LabelList",
        "vec_ivf_flat": "IVF_FLAT",
    },
    "edge:Cites": {
        "id_idx": "BTree",
        "src_idx": "BTree",
        "dst_idx": "BTree",
        "why_inverted": "Inverted",
    },
}


def documents(start: int, stop: int) -> list[dict[str, Any]]:
    return [
        node(
            "Doc",
            slug=f"d{i}",
            body=BODIES[i % 5],
            code=i,
            state="open" if i % 2 else "done",
            flag=i % 3 == 0,
            day=f"2025-01-{i % 28 + 1:02d}",
            rate=i / 4,
            tags=["a", f"t{i % 3}"],
            vec=None if i % 4 == 0 else [i % 7, i % 5, i % 3, 1],
        )
        for i in range(start, stop)
    ]


def citations(start: int, stop: int) -> list[dict[str, Any]]:
    return [
        edge("Cites", f"d{i}", f"d{i // 2}", id=f"c{i}", why=f"reason {i % 3}")
        for i in range(start, stop)
    ]


def indexes(graph: og.Graph, key: str) -> dict[str, Any]:
    pin = graph.snapshot().tables[key]
    dataset = dataset_at(f"{graph.uri}/{pin.path}", pin.version)
    return {item.name: item for item in dataset.describe_indices()}


def covered(graph: og.Graph, key: str) -> bool:
    """Whether every index of a table covers every fragment of it."""
    pin = graph.snapshot().tables[key]
    dataset = dataset_at(f"{graph.uri}/{pin.path}", pin.version)
    fragments = {item.fragment_id for item in dataset.get_fragments()}
    return all(
        {number for segment in item.segments for number in segment.fragment_ids} >= fragments
        for item in indexes(graph, key).values()
    )


QUERIES = [
    'match { $d: Doc search($d.body, "fox") } return { $d } order { $d.slug }',
    'match { $d: Doc match_text($d.body, "slow fox") } return { $d } order { $d.slug }',
    'match { $d: Doc fuzzy($d.body, "qiuck") } return { $d } order { $d.slug }',
    'match { $d: Doc } return { $d, bm25($d.body, "fox graph") as s } '
    'order { bm25($d.body, "fox graph") } limit 20',
    "match { $d: Doc } return { $d, nearest($d.vec, [1, 2, 0, 1]) as s } "
    "order { nearest($d.vec, [1, 2, 0, 1]) } limit 20",
    'match { $d: Doc { state: "open" } $d cites $e } return { $d, $e } '
    'order { rrf(nearest($e.vec, [1, 1, 1, 1]), bm25($e.body, "fox")) } limit 15',
    'match { $d: Doc { flag: true, tags: "t0" } $d.rate > 2.0 } return { $d } order { $d.slug }',
    'match { $d: Doc $d.day >= date("2025-01-20") } return { $d.state, count(*) as n } '
    "order { $d.state }",
    'match { $d: Doc $d $w:cites $e $w.why contains "1" } return { $d, $e } order { $d.slug }',
]


def answers(graph: og.Graph) -> list[Any]:
    return [graph.query(f"query q() {{ {text} }}").to_pylist() for text in QUERIES]


def writes(graph: og.Graph) -> None:
    """Changes of every kind, after which all graphs must look alike."""
    run(graph, 'update Doc set { body: "an entirely new fox" } where code = 7')
    run(graph, 'update Doc set { rate: 99.5 } where state = "done" and code < 20')
    run(graph, 'delete Doc where slug = "d11"')
    graph.load(documents(60, 64), mode="append")
    with pytest.raises(og.DataError, match="@unique violation"):
        run(graph, 'insert Doc { slug: "z", code: 61 }')


def test_answers_do_not_depend_on_indexes(new_graph: NewGraph) -> None:
    build: dict[str, Callable[[og.Graph], object]] = {
        "none": lambda graph: None,
        "partial": lambda graph: graph.maintenance.ensure_indices(),
        "full": lambda graph: None,
    }
    found: dict[str, list[Any]] = {}
    contents: dict[str, Any] = {}
    for name, step in build.items():
        graph = new_graph(SCHEMA, name=name)
        graph.load(documents(0, 30), mode="append")
        step(graph)
        graph.load([*documents(30, 60), *citations(1, 60)], mode="append")
        if name == "full":
            assert graph.maintenance.ensure_indices()
        found[name] = answers(graph)
        writes(graph)
        if name == "full":
            graph.maintenance.ensure_indices()
            assert covered(graph, "node:Doc")
        found[name] += answers(graph)
        contents[name] = sorted(exported(graph, "Doc"), key=lambda item: item["data"]["slug"])
    assert all(found["none"])
    assert found["none"] == found["partial"] == found["full"]
    assert contents["none"] == contents["partial"] == contents["full"]


def test_every_declared_index_is_built_in_one_commit(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load([*documents(0, 40), *citations(1, 40)], mode="append")
    before, commits = pins(graph), len(graph.commits.list())
    rows = exported(graph)
    pending = graph.maintenance.ensure_indices()
    assert [(item.table_key, item.column, item.kind) for item in pending] == [
        ("node:Empty", "id", "BTREE"),
        ("node:Empty", "slug", "BTREE"),
        ("node:Empty", "text", "INVERTED"),
    ]
    assert {item.reason for item in pending} == {"there are no rows"}
    for key, wanted in WANTED.items():
        assert {name: item.index_type for name, item in indexes(graph, key).items()} == wanted
        assert pins(graph)[key] == before[key] + 1
    assert pins(graph)["node:Empty"] == before["node:Empty"]
    head = graph.commits.head()
    assert (head.kind, len(graph.commits.list())) == ("ensure_indices", commits + 1)
    assert exported(graph) == rows


def test_storage_searches_what_was_built(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 20), mode="append")
    graph.maintenance.ensure_indices()
    graph.load(documents(20, 40), mode="append")
    graph.maintenance.ensure_indices()
    pin = graph.snapshot().tables["node:Doc"]
    dataset: Any = dataset_at(f"{graph.uri}/{pin.path}", pin.version)
    words = dataset.scanner(columns=["id", "_score"], full_text_query="fox").to_table()
    assert words.num_rows == 16
    query = {"column": "vec", "q": [1.0, 1.0, 1.0, 1.0], "k": 40}
    assert dataset.scanner(columns=["id", "_distance"], nearest=query).to_table().num_rows == 30
    assert dataset.count_rows(filter="state = 'open'") == 20
    assert dataset.count_rows(filter="array_has(tags, 't1')") == 13


def test_building_again_does_nothing(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 10), mode="append")
    first = graph.maintenance.ensure_indices()
    head = graph.commits.head()
    assert graph.maintenance.ensure_indices() == first
    assert graph.commits.head() == head


def test_new_rows_extend_the_indexes(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    for step in range(INDEX_SEGMENTS_MAX + 2):
        graph.load(documents(step * 5, step * 5 + 5), mode="append")
        graph.maintenance.ensure_indices()
        assert covered(graph, "node:Doc")
    segments = [len(item.segments) for item in indexes(graph, "node:Doc").values()]
    assert max(segments) <= INDEX_SEGMENTS_MAX
    assert len(answers(graph)[0]) == 20


def test_a_column_without_vectors_stays_pending(new_graph: NewGraph) -> None:
    graph = new_graph("node Doc { slug: String @key  vec: Vector(4)? @index }")
    graph.load([node("Doc", slug="a")], mode="append")
    (pending,) = graph.maintenance.ensure_indices()
    assert (pending.column, pending.reason) == ("vec", "no row has a vector")
    graph.load([node("Doc", slug="b", vec=[1, 2, 3, 4])], mode="append")
    assert graph.maintenance.ensure_indices() == []


def test_an_empty_graph_has_nothing_to_build(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    head = graph.commits.head()
    assert len(graph.maintenance.ensure_indices()) == 17
    assert graph.commits.head() == head


def test_index_commits_are_maintenance(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 10), mode="append")
    expected = graph.commits.head().graph_commit_id
    with og.open(graph.uri, durability="none") as other:
        other.maintenance.ensure_indices()
    done = graph.mutate('query q() { delete Doc where slug = "d1" }', expected_head=expected)
    assert done.affected_nodes == 1


def test_writers_beside_it_never_fail(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 200), mode="append")
    failures: list[BaseException] = []
    stop = threading.Event()

    def write(worker: int) -> None:
        try:
            with og.open(graph.uri, durability="none") as mine:
                for step in range(12):
                    if stop.is_set():
                        return
                    start = 1000 + worker * 100 + step
                    mine.load(documents(start, start + 1), mode="append")
                    mine.load(documents(worker * 3, worker * 3 + 1), mode="merge")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    try:
        with og.open(graph.uri, durability="none") as builder:
            for _ in range(3):
                builder.maintenance.ensure_indices()
    finally:
        for thread in threads:
            thread.join()
    assert not failures
    graph.refresh()
    graph.maintenance.ensure_indices()
    assert covered(graph, "node:Doc")
    assert len(exported(graph, "Doc")) == 224
    with og.open(graph.uri, durability="none") as again:
        assert again.maintenance.recovered == []


def test_what_was_staged_is_carried_over_an_append(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 50), mode="append")
    staged: list[int] = []
    original = stage_indexes

    def stage(table: Any, *arguments: Any) -> Any:
        found = original(table, *arguments)
        staged.append(table.version)
        if len(staged) == 1:
            graph.load(documents(50, 55), mode="append")
        return found

    monkeypatch.setattr("omnigraph.commits.table_staging.stage_indexes", stage)
    with og.open(graph.uri, durability="none") as builder:
        builder.maintenance.ensure_indices()
    # The edge and the other node table are empty: one staging, used on the newer version.
    assert len(staged) == 1
    graph.refresh()
    assert len(indexes(graph, "node:Doc")["body_inverted"].segments) == 1
    assert not covered(graph, "node:Doc")
    assert len(answers(graph)[0]) == 22


def test_what_somebody_else_indexed_meanwhile_is_not_indexed_twice(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 50), mode="append")
    staged: list[int] = []
    original = stage_indexes

    def stage(table: Any, *arguments: Any) -> Any:
        found = original(table, *arguments)
        staged.append(table.version)
        if len(staged) == 1:
            # Lance panics over two text indexes of the same rows.
            graph.maintenance.ensure_indices()
        return found

    monkeypatch.setattr("omnigraph.commits.table_staging.stage_indexes", stage)
    with og.open(graph.uri, durability="none") as builder:
        builder.maintenance.ensure_indices()
        assert builder.snapshot().version == graph.snapshot().version
    assert len(staged) == 2
    assert covered(graph, "node:Doc")
    assert len(indexes(graph, "node:Doc")["body_inverted"].segments) == 1
    assert len(answers(graph)[0]) == 20


def test_a_replaced_row_makes_it_stage_again(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 50), mode="append")
    staged: list[int] = []
    original = stage_indexes

    def stage(table: Any, *arguments: Any) -> Any:
        found = original(table, *arguments)
        staged.append(table.version)
        if len(staged) == 1:
            run(graph, 'update Doc set { body: "changed" } where slug = "d1"')
        return found

    monkeypatch.setattr("omnigraph.commits.table_staging.stage_indexes", stage)
    with og.open(graph.uri, durability="none") as builder:
        builder.maintenance.ensure_indices()
    assert len(staged) == 2
    graph.refresh()
    assert covered(graph, "node:Doc")


def test_a_large_column_is_searched_through_its_index(
    new_graph: NewGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(SCHEMA)
    graph.load(documents(0, 40), mode="append")
    text = (
        "query q($v: Vector(4)) { match { $d: Doc } return { $d, nearest($d.vec, $v) as s } "
        "order { nearest($d.vec, $v) } limit 9 }"
    )
    filtered = text.replace("$d: Doc", "$d: Doc { flag: true }")
    few = text.replace("$d: Doc", '$d: Doc $d.slug in ["d3", "d4", "d17", "d9"]')

    def ask(text: str) -> tuple[list[Any], int]:
        with measured() as io:
            rows = graph.query(text, {"v": [3, 2, 1, 1]}).to_pylist()
        return rows, io.get("vector_index_searches", 0)

    def check(*, through_index: bool) -> None:
        exact = ask(text)
        some = [ask(item) for item in (filtered, few)]
        with monkeypatch.context() as patch:
            patch.setattr("omnigraph.read.neighbours.ANN_BYTES_MIN", 0)
            # One partition holds everything here, so the index misses nothing.
            assert ask(text) == (exact[0], int(through_index))
            assert [ask(item) for item in (filtered, few)] == some
            patch.setattr("omnigraph.read.neighbours.RESIDENT_BYTES_MAX", 0)
            assert ask(few) == some[1]
            with pytest.raises(og.ResourceLimitError, match="vectors of one column"):
                ask(filtered)
        assert exact[1] == 0

    check(through_index=False)
    graph.maintenance.ensure_indices()
    check(through_index=True)
    graph.load(documents(40, 60), mode="append")
    check(through_index=True)
    run(graph, "update Doc set { vec: $v } where code = 5", v=("Vector(4)", [3, 2, 1, 1]))
    run(graph, 'delete Doc where slug = "d9"')
    check(through_index=True)
    graph.maintenance.ensure_indices()
    check(through_index=True)


def test_compaction_keeps_indexes_and_answers(new_graph: NewGraph) -> None:
    plain, indexed = new_graph(SCHEMA, name="plain"), new_graph(SCHEMA, name="indexed")
    for graph in (plain, indexed):
        graph.load([*documents(0, 30), *citations(1, 30)], mode="append")
    indexed.maintenance.ensure_indices()
    for graph in (plain, indexed):
        # Enough small commits for a table's tail to be folded by itself.
        for number in range(30, 66):
            graph.load(documents(number, number + 1), mode="append")
        writes_after(graph)
    assert "optimize" in {commit.kind for commit in indexed.commits.list()}
    assert answers(indexed) == answers(plain)
    indexed.optimize()
    assert answers(indexed) == answers(plain)
    indexed.maintenance.ensure_indices()
    assert covered(indexed, "node:Doc")
    assert answers(indexed) == answers(plain)
    query = {"column": "vec", "q": [3.0, 2.0, 1.0, 1.0], "k": 99}
    pin = indexed.snapshot().tables["node:Doc"]
    dataset: Any = dataset_at(f"{indexed.uri}/{pin.path}", pin.version)
    rows = dataset.scanner(columns=["id", "_distance"], nearest=query).to_table()
    vectors = dataset.count_rows(filter="vec IS NOT NULL")
    assert rows.num_rows == len(set(rows["id"].to_pylist())) == vectors


def writes_after(graph: og.Graph) -> None:
    run(graph, 'update Doc set { body: "an entirely new fox" } where code = 7')
    run(graph, "update Doc set { vec: $v } where code = 33", v=("Vector(4)", [3, 2, 1, 1]))
    run(graph, 'delete Doc where slug = "d11"')


def test_a_branch_builds_its_own_indexes(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load([*documents(0, 30), *citations(1, 30)], mode="append")
    graph.branches.create("b")
    main = graph.snapshot().tables
    graph.load(documents(30, 40), mode="append", branch="b")
    graph.maintenance.ensure_indices("b")
    assert {key: pin.version for key, pin in graph.snapshot().tables.items()} == pins(graph)
    assert graph.snapshot().tables == main
    mine = graph.snapshot("b").tables
    assert {key for key in mine if mine[key].path != main[key].path} == {"node:Doc", "edge:Cites"}
    text = f"query q() {{ {QUERIES[0]} }}"
    assert len(graph.query(text, branch="b")) == 16
    assert len(graph.query(text)) == 12
    # With its indexes complete a new branch has nothing to build, and takes nothing over.
    graph.maintenance.ensure_indices()
    graph.branches.create("c")
    graph.maintenance.ensure_indices("c")
    assert graph.snapshot("c").tables == graph.snapshot().tables
    graph.branches.merge("b")
    assert len(graph.query(text)) == 16


def test_read_only_graphs_build_nothing(new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    with (
        og.open(graph.uri, mode="ro") as reader,
        pytest.raises(og.BadRequestError, match="open read-only"),
    ):
        reader.maintenance.ensure_indices()
    with pytest.raises(og.NotFoundError, match="branch 'b' does not exist"):
        graph.maintenance.ensure_indices("b")


def test_the_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text("node Doc { slug: String @key  vec: Vector(2)? @index }")
    (tmp_path / "d.jsonl").write_text('{"type":"Doc","data":{"slug":"a"}}\n')
    cli("init", "g", "--schema", "s.pg")
    cli("load", "g", "--data", "d.jsonl", "--mode", "append")
    done = cli("ensure-indices", "g", "--json")
    assert done.code == 0
    (pending,) = done.json["pending"]
    assert pending["reason"] == "no row has a vector"
    assert done.json["commit"]
    again = cli("ensure-indices", "g")
    assert (again.code, again.out.splitlines()) == (
        0,
        ["nothing to build", "pending node:Doc.vec (IVF_FLAT): no row has a vector"],
    )
    assert cli("ensure-indices", "missing").code == 3


def test_optimize_builds_what_is_declared_and_tells_what_cannot_be_built(
    new_graph: NewGraph,
) -> None:
    graph = new_graph(
        "node Doc { name: String @key  text: String? @index }\nnode Bare { n: I64 @index }"
    )
    graph.load([{"type": "Doc", "data": {"name": "a", "text": "some words"}}], mode="append")
    report = graph.optimize()
    assert report.commit is not None
    tables: Any = report.to_json()["tables"]
    rows = {row["table_key"]: row["pending_indexes"] for row in tables}
    assert rows["node:Doc"] == []
    assert [(item["column"], item["reason"]) for item in rows["node:Bare"]] == [
        ("id", "there are no rows"),
        ("n", "there are no rows"),
    ]
    head = graph.commits.head()
    graph.maintenance.ensure_indices()
    assert graph.commits.head() == head
    assert graph.optimize().commit is None

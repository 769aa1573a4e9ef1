"""A merge or diff on Spark says what one in one process says, for random histories."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import Failpoint, Pause, armed
from omnigraph.spark import diff, merge, optimize
from tests.spark.test_sources import _code
from tests.spark.worlds import FULL, NewGraph, full_only

SCHEMA = """\
node Item {
    slug: String @key
    v: I32?
    mail: String? @unique
    face: Vector(2)?
    photo: Blob?
    @range(v, 0..9)
}

edge Link: Item -> Item @card(0..2) {
    v: I32?
    w: F64?
}

node Other { slug: String @key }
"""
ROUNDS = 5 if FULL else 1
EVERYWHERE: dict[str, Any] = {"rows_min": 0, "group_rows": 7}
"""Also the smallest table goes through workers, in several groups."""


def _items(rng: random.Random, names: list[str]) -> list[dict[str, Any]]:
    found = []
    for name in names:
        data: dict[str, Any] = {"slug": name, "v": rng.choice([None, *range(3)])}
        if rng.random() < 0.3:
            data["mail"] = f"m{rng.randint(0, 20)}"
        if rng.random() < 0.3:
            data["face"] = [rng.choice([0.0, -0.0, 1.5]), 1.0]
        if rng.random() < 0.2:
            data["photo"] = rng.choice(["base64:aGk=", "base64:aG8="])
        found.append({"type": "Item", "data": data})
    return found


def _links(rng: random.Random, names: list[str], ends: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "edge": "Link",
            "from": rng.choice(ends),
            "to": rng.choice(ends),
            "data": {"id": name, "v": rng.randint(0, 2), "w": rng.choice([0.5, None])},
        }
        for name in names
    ]


def _try(call: Callable[[], Any]) -> None:
    """Make a change unless the branch itself refuses it."""
    try:
        call()
    except (og.DataError, og.KeyConflictError):
        return


def _live(graph: og.Graph, branch: str, kind: str) -> list[str]:
    rows = graph.export(branch=branch, types=[kind])
    assert not isinstance(rows, int)
    return sorted(str(row["data"]["id"]) for row in rows)  # type: ignore[index]


def _change(rng: random.Random, graph: og.Graph, branch: str, steps: int) -> None:
    for _ in range(steps):
        live = _live(graph, branch, "Item")
        kind = rng.random()
        if kind < 0.45:
            names = rng.sample([f"i{n}" for n in range(40)], 6)
            _try(partial(graph.load, _items(rng, names), mode="merge", branch=branch))
        elif kind < 0.75:
            rows = _links(rng, rng.sample([f"l{n}" for n in range(20)], 3), live)
            _try(partial(graph.load, rows, mode="merge", branch=branch))
        elif kind < 0.9:
            text = "query q($s: String) { delete Item where slug = $s }"
            _try(partial(graph.mutate, text, {"s": rng.choice(live)}, branch=branch))
        else:
            links = _live(graph, branch, "Link")
            if links:
                text = "query q($i: String) { delete Link where id = $i }"
                _try(partial(graph.mutate, text, {"i": rng.choice(links)}, branch=branch))


def _history(rng: random.Random, graph: og.Graph) -> None:
    names = [f"i{n}" for n in range(0, 40, 2)]
    while not graph.export(types=["Item"]) or len(_live(graph, "main", "Item")) < 10:
        _try(partial(graph.load, _items(rng, rng.sample(names, 12)), mode="merge"))
    live = _live(graph, "main", "Item")
    _try(partial(graph.load, _links(rng, [f"l{n}" for n in range(6)], live), mode="merge"))
    graph.branches.create("dev")
    _change(rng, graph, "dev", rng.randint(1, 6))
    _change(rng, graph, "main", rng.randint(0, 6))
    if rng.random() < 0.3:
        graph.optimize()


def _content(graph: og.Graph, branch: str = "main") -> list[str]:
    rows = graph.export(branch=branch)
    assert not isinstance(rows, int)
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def _outcome(run: Callable[[], Any]) -> Any:
    try:
        return run().outcome
    except og.MergeConflictError as error:
        return [dict(item) for item in error.conflicts]
    except og.OmniGraphError as error:
        return (type(error).__name__, error.message)


def _decisions(rng: random.Random) -> list[dict[str, Any]]:
    values = {f"i{n}": rng.choice(["ours", "theirs", {"v": rng.randint(0, 12)}]) for n in range(40)}
    mixed: dict[str, Any] = {f"Item/{name}": value for name, value in values.items()}
    return [
        {},
        {"property_merge": True},
        {"resolve": "theirs"},
        {"resolve": {**mixed, "Link": "ours"}, "property_merge": rng.random() < 0.5},
        {"resolve": {"Item": {"slug": "another"}, "Link": {"v": "x"}}},
    ]


def _same(spark: Any, graph: og.Graph, tmp_path: Path, options: dict[str, Any]) -> Any:
    """Merge two copies of a graph, one on each engine; return what both said."""
    found: list[Any] = []
    for engine in ("local", "spark"):
        copy = tmp_path / engine
        shutil.copytree(graph.uri, copy)
        with og.open(copy, durability="none") as other:
            run = partial(other.branches.merge, "dev", **options)
            if engine == "spark":
                run = partial(merge, other, "dev", session=spark, **EVERYWHERE, **options)
            said = _outcome(run)
            commits = [commit.kind for commit in other.commits.list()]
            found.append((said, _content(other), commits))
            assert not list((copy / "_scratch").glob("*"))
        shutil.rmtree(copy)
    assert found[1] == found[0], options
    return found[0][0]


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_merges_come_to_the_same(
    spark: Any, new_graph: NewGraph, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311
    graph = new_graph(SCHEMA)
    _history(rng, graph)
    choices = _decisions(rng)
    for options in choices if FULL else choices[:1] + choices[3:4]:
        _same(spark, graph, tmp_path, options)


def test_every_kind_of_conflict_is_found(spark: Any, new_graph: NewGraph, tmp_path: Path) -> None:
    graph = new_graph(SCHEMA)
    names = [*"abcdefgh", "hub"]
    rows = [{"type": "Item", "data": {"slug": name, "v": 1}} for name in names]
    graph.load(rows, mode="append")
    graph.branches.create("dev")

    def put(branch: str, **data: Any) -> None:
        graph.load([{"type": "Item", "data": data}], mode="merge", branch=branch)

    def link(branch: str, name: str, target: str) -> None:
        row = {"edge": "Link", "from": "hub", "to": target, "data": {"id": name}}
        graph.load([row], mode="append", branch=branch)

    def drop(branch: str, name: str) -> None:
        text = "query q($s: String) { delete Item where slug = $s }"
        graph.mutate(text, {"s": name}, branch=branch)

    put("dev", slug="a", v=2)
    put("main", slug="a", v=3)
    put("dev", slug="new", v=2)
    put("main", slug="new", v=3)
    drop("dev", "b")
    put("main", slug="b", v=5)
    found = _same(spark, graph, tmp_path, {})
    wanted = {"divergent_update", "divergent_insert", "delete_vs_update"}
    assert {item["kind"] for item in found} == wanted
    assert [item["entity_id"] for item in found] == ["a", "b", "new"]
    # What the merged state would break is looked at once no row is in the way.
    drop("main", "c")
    link("dev", "to-c", "c")
    put("dev", slug="d", mail="same")
    put("main", slug="e", mail="same")
    link("dev", "l1", "f")
    link("main", "l2", "g")
    link("main", "l3", "h")
    rules = {"resolve": {"Item/a": {"v": 77}, "Item/b": "theirs", "Item/new": "ours"}}
    found = _same(spark, graph, tmp_path, rules)
    assert Counter(item["kind"] for item in found) == {
        "orphan_edge": 1,
        "unique_violation": 1,
        "cardinality_violation": 1,
        "value_constraint_violation": 1,
    }


PAIRS = """\
node Item { slug: String @key  v: I32?  w: I32? }
edge Pair: Item -> Item { v: I32?  @unique(src, dst) }
"""


def _crossing(rng: random.Random, graph: og.Graph) -> None:
    """Let two branches merge each other crosswise, decide as comes, and go on on both."""
    names = [f"i{n}" for n in range(12)]
    rows = [{"type": "Item", "data": {"slug": name, "v": 0, "w": 0}} for name in names]
    graph.load(rows, mode="append")
    graph.branches.create("dev")
    for number in range(2):
        for branch in ("dev", "main"):
            _pairs(rng, graph, branch, names, number)
        graph.branches.create("old", from_="dev")
        for source, into in (("main", "dev"), ("old", "main")):
            graph.branches.merge(source, into, resolve=rng.choice(["ours", "theirs"]))
        graph.branches.delete("old")
    for branch in ("dev", "main"):
        _pairs(rng, graph, branch, names, 9)


def _pairs(rng: random.Random, graph: og.Graph, branch: str, names: list[str], at: int) -> None:
    for _ in range(3):
        rows: list[dict[str, Any]] = [
            {"type": "Item", "data": {"slug": name, "v": rng.randrange(2), "w": rng.randrange(2)}}
            for name in rng.sample(names, 3)
        ]
        _try(partial(graph.load, rows, mode="merge", branch=branch))
        ends = rng.sample(names[:5], 2)
        edge = {"id": f"{branch}{at}{rng.random()}", "v": rng.randrange(2)}
        pair = {"edge": "Pair", "from": ends[0], "to": ends[1], "data": edge}
        _try(partial(graph.load, [pair], mode="merge", branch=branch))
    held = _live(graph, branch, "Pair")
    text = "query q($i: String) { delete Pair where id = $i }"
    if held:
        graph.mutate(text, {"i": rng.choice(held)}, branch=branch)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_merges_that_crossed_and_edges_under_two_ids_come_to_the_same(
    spark: Any, new_graph: NewGraph, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311
    graph = new_graph(PAIRS)
    _crossing(rng, graph)
    assert len(graph.branches.merge_plan("dev").base_commit_ids) == 2
    for options in ({}, {"resolve": "theirs"}, {"resolve": "ours", "property_merge": True}):
        _same(spark, graph, tmp_path, options)


def test_the_same_edge_added_on_both_sides_is_one(
    spark: Any, new_graph: NewGraph, tmp_path: Path
) -> None:
    graph = new_graph(PAIRS)
    graph.load([{"type": "Item", "data": {"slug": f"i{n}"}} for n in range(30)], mode="append")
    graph.branches.create("dev")
    for branch in ("dev", "main"):
        rows = [
            {"edge": "Pair", "from": f"i{n}", "to": "i0", "data": {"id": f"{branch}{n}", "v": n}}
            for n in range(30)
        ]
        graph.load(rows, mode="append", branch=branch)
    assert _same(spark, graph, tmp_path, {}) == "merged"
    graph.mutate("query q() { update Pair set { v: 99 } where v = 7 }", branch="dev")
    (found,) = _same(spark, graph, tmp_path, {})
    assert (found["entity_id"], found["kind"]) == ("main7", "divergent_insert")
    assert _same(spark, graph, tmp_path, {"resolve": "theirs"}) == "merged"


@pytest.mark.parametrize("seed", range(2 if FULL else 1))
def test_a_diff_is_a_frame(spark: Any, new_graph: NewGraph, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    graph = new_graph(SCHEMA)
    _history(rng, graph)
    filters: list[dict[str, Any]] = [{}, {"ops": ["update", "delete"], "types": ["Item"]}]
    for options in filters:
        wanted = [
            (item.kind, item.type_name, item.id, item.op, _text(item.before), _text(item.after))
            for item in graph.diff("main", "dev", **options)
        ]
        frame = diff(graph, "main", "dev", session=spark, group_rows=5, **options)
        assert sorted(map(tuple, frame.collect())) == sorted(wanted)
    assert diff(graph, "main", "main", session=spark).count() == 0
    with pytest.raises(og.NotFoundError, match="unknown type 'Itm'"):
        diff(graph, "main", "dev", types=["Itm"], session=spark)


def _text(image: Any) -> str | None:
    return None if image is None else json.dumps(image, ensure_ascii=False)


@full_only
def test_a_merge_is_done_again_when_its_target_moves(spark: Any, new_graph: NewGraph) -> None:
    graph = new_graph(SCHEMA)
    graph.load([{"type": "Item", "data": {"slug": "a", "v": 1}}], mode="append")
    graph.branches.create("dev")
    graph.load([{"type": "Item", "data": {"slug": "b"}}], mode="append", branch="dev")
    pause, said = Pause(), []

    def run() -> None:
        said.append(_outcome(partial(merge, graph, "dev", session=spark, **EVERYWHERE)))

    with armed(Failpoint.WRITE_POST_STAGE, pause):
        thread = threading.Thread(target=run)
        thread.start()
        assert pause.reached.wait(120)
        with og.open(graph.uri, durability="none") as other:
            other.load([{"type": "Item", "data": {"slug": "c"}}], mode="append")
        pause.released.set()
        thread.join(120)
    assert said == ["merged"]
    assert _live(graph, "main", "Item") == ["a", "b", "c"]
    assert optimize(graph, session=spark).commit is not None
    assert _live(graph, "main", "Item") == ["a", "b", "c"]


@full_only
def test_the_command_line_merges_on_spark(
    spark: Any, new_graph: NewGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = new_graph(SCHEMA)
    graph.branches.create("dev")
    graph.load([{"type": "Item", "data": {"slug": "b"}}], mode="append", branch="dev")
    spark.range(1).collect()
    command = ["branch", "merge", "dev", graph.uri, "--engine", "spark"]
    assert _code([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "fast_forward"
    assert _code([*command, "--preview"]) == 2

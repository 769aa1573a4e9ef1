"""What a handle remembers stays below its limits, and what was forgotten is found again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.commits import contract
from omnigraph.commits import open_branches as lines
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.limits import MADE_BRANCHES_MAX, OPEN_BRANCH_COMMITS_MIN
from omnigraph.read import execute, topology
from omnigraph.read.columns import ResidentCache
from omnigraph.store.files import durability
from omnigraph.store.files.counters import measured

SCHEMA = "node P { k: String @key  v: I64? }\nedge E: P -> P"
ADD = "query add($k: String) { insert P { k: $k, v: 1 } }"
PAIRS = "query pairs() { match { $a: P  $a e $b } return { $a.k, $b.k } order { $a.k } }"
KEYS = "query keys() { match { $a: P } return { $a.k } order { $a.k } }"


def _graph(folder: Path, **options: Any) -> og.Graph:
    graph = og.init(folder / "g", SCHEMA, **{"durability": "none", "upkeep": False, **options})
    rows: list[dict[str, Any]] = [{"type": "P", "data": {"k": k}} for k in "ab"]
    graph.load([*rows, {"edge": "E", "from": "a", "to": "b"}], mode="append")
    return graph


def _keys(graph: og.Graph, branch: str) -> list[str]:
    return [row["a.k"] for row in graph.query(KEYS, branch=branch).to_pylist()]


# ---- branches -----------------------------------------------------------------------------


def test_300_branches_through_one_handle_keep_a_few_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "OPEN_BRANCHES_COMMITS_MAX", 8 * OPEN_BRANCH_COMMITS_MIN)
    names = [f"b{number}" for number in range(300)]
    with _graph(tmp_path) as graph:
        for name in names:
            graph.branches.create(name)
            graph.mutate(ADD, {"k": name}, branch=name)
            assert len(graph._engine.lines._alive) <= 8
        for name in names[::-5]:
            assert _keys(graph, name) == ["a", "b", name]
        assert len(graph._engine.lines._recent) == 8
        assert len(graph._engine.lines.warm()) == 9
        assert len(graph._engine.lines._made) <= MADE_BRANCHES_MAX


def test_a_branch_in_use_stays_the_same_however_many_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "OPEN_BRANCHES_COMMITS_MAX", 2 * OPEN_BRANCH_COMMITS_MIN)
    with _graph(tmp_path) as graph:
        for name in ("used", "x", "y", "z"):
            graph.branches.create(name)
        held: OpenBranch | None = graph._engine.lines.get("used")
        for name in ("x", "y", "z"):
            graph.mutate(ADD, {"k": name}, branch=name)
        assert "used" not in graph._engine.lines._recent
        assert graph._engine.lines.get("used") is held
        assert held in graph._engine.lines.warm()
        graph.branches.delete("used")
        with pytest.raises(og.NotFoundError):
            graph._engine.lines.get("used")
        assert held not in graph._engine.lines.warm()
        held = None
        assert len(graph._engine.lines._alive) <= 2


def test_threads_that_write_more_branches_than_are_kept_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "OPEN_BRANCHES_COMMITS_MAX", 2 * OPEN_BRANCH_COMMITS_MIN)
    names = [f"b{number}" for number in range(6)]
    with _graph(tmp_path) as graph:
        for name in names:
            graph.branches.create(name)

        def write(thread: int) -> None:
            for name in (*names[thread:], *names[:thread]):
                graph.mutate(ADD, {"k": f"{name}-{thread}"}, branch=name)
                assert f"{name}-{thread}" in _keys(graph, name)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        expected = {name: ["a", "b", *(f"{name}-{item}" for item in range(4))] for name in names}
        assert {name: _keys(graph, name) for name in names} == expected
        assert len(graph._engine.lines._recent) <= 2
    with og.open(tmp_path / "g", durability="none", upkeep=False) as other:
        assert {name: _keys(other, name) for name in names} == expected


def test_histories_of_branches_stay_below_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "PAST_BRANCHES_COMMITS_MAX", 2 * OPEN_BRANCH_COMMITS_MIN)
    monkeypatch.setattr(lines, "OPEN_BRANCHES_COMMITS_MAX", 1 * OPEN_BRANCH_COMMITS_MIN)
    with _graph(tmp_path) as graph:
        made = [graph.branches.create(f"b{number}") for number in range(5)]
        heads = {}
        for info in made:
            graph.mutate(ADD, {"k": info.name}, branch=info.name)
            heads[info.name] = graph.commits.head(info.name)
        for info in (*made, *made):
            branch = graph._engine.lines.directory.find(info.name).id
            found = graph._engine.lines.history(branch.uid)
            assert found is not None
            assert found.capture().head == heads[info.name]
            assert len(graph._engine.lines._past) <= 2
        assert graph._engine.lines.history("no such branch") is None


# ---- queries ------------------------------------------------------------------------------


def test_prepared_queries_and_counts_of_probes_stay_below_their_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "COMPILED_QUERIES_MAX", 4)
    monkeypatch.setattr(execute, "PROBED_TABLES_MAX", 3)
    with _graph(tmp_path) as graph:
        for number in (*range(10), *range(10)):
            name = f"b{number}"
            if number and not graph.branches.exists(name):
                graph.branches.create(name)
                graph.mutate(ADD, {"k": name}, branch=name)
            text = f'query q{number}() {{ match {{ $a: P {{ k: "a" }} }} return {{ $a.k }} }}'
            found = graph.query(text, branch=name if number else "main")
            assert found.to_pylist() == [{"a.k": "a"}]
        assert len(graph._engine.reader._prepared) == 4
        assert 0 < len(graph._engine.reader._probed) <= 3


def test_newest_versions_stay_below_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "NEWEST_KNOWN_MAX", 3)
    monkeypatch.setattr(execute, "ResidentCache", partial(ResidentCache, newest_max=2))
    with _graph(tmp_path) as graph:
        for number in range(6):
            name = f"b{number}"
            graph.branches.create(name)
            row = {"edge": "E", "from": "b", "to": "a" if number % 2 else "b"}
            graph.load([row], mode="append", branch=name)
        for number in (*range(6), *range(6)):
            rows = graph.query(PAIRS, branch=f"b{number}").to_pylist()
            end = "a" if number % 2 else "b"
            assert rows == [{"a.k": "a", "b.k": "b"}, {"a.k": "b", "b.k": end}]
        assert len(graph._engine.reader.topologies._newest) <= 3
        assert len(graph._engine.reader._cache.newest) <= 2
        assert len(graph._engine.reader._cache._turns) == 0


# ---- schemas and folders ------------------------------------------------------------------


def test_schemas_of_the_past_stay_below_their_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "SCHEMAS_KEPT_MAX", 2)
    with _graph(tmp_path) as graph:
        commits = []
        for number in range(5):
            added = " ".join(f"p{index}: I64?" for index in range(number + 1))
            graph.schema.apply(SCHEMA.replace("v: I64?", f"v: I64? {added}"))
            commits.append(graph.commits.head().graph_commit_id)
        for number, commit in (*enumerate(commits), *enumerate(commits)):
            text = f"query q() {{ match {{ $a: P }} return {{ $a.p{number} }} }}"
            rows = graph.query(text, commit=commit).to_pylist()
            assert rows == [{f"a.p{number}": None}] * 2
            assert len(graph._engine.contract._known) <= 2


def test_a_folder_that_was_forgotten_is_synced_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durability, "SYNCED_FOLDERS_MAX", 4)
    syncer = durability.Syncer(durability.Durability.FULL, root=str(tmp_path / "g"))
    folders = [tmp_path / "g" / f"f{number}" for number in range(8)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")

    def syncs(number: int) -> int:
        with measured() as counts:
            syncer.sync([str(folders[number] / "file")])
        return counts["syncs"]

    first = syncs(0)
    assert syncs(0) == 2 < first
    for number in range(1, 8):
        syncs(number)
        syncer.sync_tree(str(folders[number]))
    assert len(syncer._settled) <= 4
    assert len(syncer._trees) <= 4
    assert syncs(0) > 2
    syncer.close()

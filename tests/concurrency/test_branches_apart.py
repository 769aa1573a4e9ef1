"""Who works on one branch waits for nobody on another, in whatever step that one is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.failpoints import Failpoint, Pause, armed

SCHEMA = "node P { k: String @key }"
ADD = "query add($k: String) { insert P { k: $k } }"
KEYS = "query keys() { match { $p: P } return { $p.k } order { $p.k } }"
WAIT_S = 30
STEPS = [
    Failpoint.WRITE_POST_CAPTURE,
    Failpoint.WRITE_POST_VALIDATE_PRE_STAGE,
    Failpoint.WRITE_POST_STAGE,
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return a graph with two branches that nobody has opened."""
    with og.init(tmp_path / "g", SCHEMA, durability="none", upkeep=False) as graph:
        for name in ("slow", "fast"):
            graph.branches.create(name)
        return graph.uri


def only(name: str, pause: Pause) -> Callable[[], None]:
    """Return an action that stops threads of a name."""

    def hold() -> None:
        if threading.current_thread().name.startswith(name):
            pause()

    return hold


def keys(graph: og.Graph, branch: str) -> list[str]:
    return [row["p.k"] for row in graph.query(KEYS, branch=branch).to_pylist()]


def write(graph: og.Graph, branch: str, key: str) -> None:
    graph.mutate(ADD, {"k": key}, branch=branch)


def apart(graph: og.Graph, pause: Pause) -> None:
    """Write to one branch, where it is stopped, and then to another one."""
    slow = ThreadPoolExecutor(1, thread_name_prefix="slow")
    fast = ThreadPoolExecutor(1, thread_name_prefix="fast")
    with slow, fast:
        stopped = slow.submit(write, graph, "slow", "a")
        try:
            assert pause.reached.wait(WAIT_S)
            fast.submit(write, graph, "fast", "b").result(WAIT_S)
            assert not stopped.done()
            assert keys(graph, "fast") == ["b"]
        finally:
            pause.released.set()
        stopped.result(WAIT_S)
    assert keys(graph, "slow") == ["a"]


@pytest.mark.parametrize("step", STEPS)
def test_a_writer_that_is_stopped_holds_up_no_other_branch(uri: str, step: Failpoint) -> None:
    pause = Pause(WAIT_S)
    with og.open(uri, durability="none", upkeep=False) as graph, armed(step, only("slow", pause)):
        apart(graph, pause)


def test_opening_a_branch_holds_up_no_other_branch(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause, inner = Pause(WAIT_S), OpenBranches._opened

    def opened(lines: OpenBranches, name: str) -> OpenBranch:
        if name == "slow":
            pause()
        return inner(lines, name)

    monkeypatch.setattr(OpenBranches, "_opened", opened)
    with og.open(uri, durability="none", upkeep=False) as graph:
        apart(graph, pause)


def test_threads_that_open_one_branch_at_once_get_the_same_one(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause, inner = Pause(WAIT_S), OpenBranches._opened
    calls: list[str] = []

    def opened(lines: OpenBranches, name: str) -> OpenBranch:
        calls.append(name)
        pause()
        return inner(lines, name)

    monkeypatch.setattr(OpenBranches, "_opened", opened)
    with (
        og.open(uri, durability="none", upkeep=False) as graph,
        ThreadPoolExecutor(4) as pool,
    ):
        lines = graph._engine.lines
        coming = [pool.submit(lines.get, "slow") for _ in range(4)]
        assert pause.reached.wait(WAIT_S)
        pause.released.set()
        found = [item.result(WAIT_S) for item in coming]
    assert calls == ["slow"]
    assert all(item is found[0] for item in found)


def test_a_branch_that_could_not_be_opened_can_be_opened_later(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> OpenBranch:
        raise og.StorageError("no answer")

    with og.open(uri, durability="none", upkeep=False) as graph:
        with monkeypatch.context() as patch:
            patch.setattr(OpenBranches, "_open_branch", broken)
            with pytest.raises(og.StorageError, match="no answer"):
                write(graph, "slow", "a")
        write(graph, "slow", "a")
        assert keys(graph, "slow") == ["a"]

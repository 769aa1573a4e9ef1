"""Sessions: what each has looked at, what it closes, and what it leaves alone."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.ops.compact_tail import TailCompaction

pytestmark = pytest.mark.local
SCHEMA = "node C { k: String @key  n: I64 }\nnode D { k: String @key  n: I64? }"
PUT = 'query put($n: I64) { update C set { n: $n } where k = "a" }'
READ = "query q() { match { $c: C } return { $c.n as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g", SCHEMA, durability="none", upkeep=False) as graph:
        graph.load([{"type": "C", "data": {"k": "a", "n": 1}}], mode="append")
        yield graph


def value(graph: og.Session, branch: str = "main") -> int:
    return int(graph.query(READ, branch=branch).scalar())


def test_only_the_graph_that_was_opened_is_a_graph(graph: og.Graph) -> None:
    for made in (graph.session(), graph.as_actor("ann"), graph.acting_for("ann")):
        assert type(made) is og.Session
        assert made.session().uri == graph.uri


def test_closing_a_session_ends_that_one_only(graph: og.Graph) -> None:
    one, other = graph.session(), graph.as_actor("ann")
    one.close()
    one.close()
    with pytest.raises(og.BadRequestError, match="the graph is closed"):
        one.mutate(PUT, {"n": 2})
    assert value(one) == 1
    assert other.mutate(PUT, {"n": 2}).actor_id == "ann"
    graph.refresh("main")
    assert graph.mutate(PUT, {"n": 3}).affected_nodes == 1


def test_a_session_of_one_call_is_gone_without_a_search_for_cycles(graph: og.Graph) -> None:
    gc.collect()
    gc.disable()
    try:
        for make in (graph.session, lambda: graph.as_actor("a"), lambda: graph.acting_for("a")):
            made = make()
            made.mutate(PUT, {"n": value(made) + 1})
            acting = weakref.ref(made._acting)
            del made
            assert acting() is None
    finally:
        gc.enable()


def test_no_session_writes_after_the_graph_was_closed(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="none")
    sessions = [graph.session(), graph.as_actor("ann"), graph.acting_for("ann")]
    graph.close()
    graph.close()
    for session in (graph, *sessions):
        with pytest.raises(og.BadRequestError, match="the graph is closed"):
            session.mutate(PUT, {"n": 2})


def test_sessions_of_a_session_keep_its_actor_policy_and_base(graph: og.Graph) -> None:
    ann = graph.as_actor("ann")
    assert ann.session().actor == "ann"
    assert ann.as_actor("bob").actor == "bob"
    value(ann)
    later = ann.session()
    graph.mutate(PUT, {"n": 2})
    with pytest.raises(og.VersionConflictError):
        later.mutate(PUT, {"n": 3})
    assert graph.acting_for("eve").session().mutate(PUT, {"n": 4}).affected_nodes == 1


def test_a_write_shows_its_session_nothing_of_later_ones(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session commits between the commit of a write and the end of the call."""
    mine, other = graph.session(), graph.acting_for("other")

    def overtaken(_folding: object, _schema: object) -> int:
        monkeypatch.setattr(TailCompaction, "run_if_due", lambda _folding, _schema: 0)
        other.mutate(PUT, {"n": 100})
        return 0

    monkeypatch.setattr(TailCompaction, "run_if_due", overtaken)
    mine.mutate(PUT, {"n": 2})
    with pytest.raises(og.VersionConflictError):
        mine.mutate(PUT, {"n": 3})
    assert value(mine) == 100
    assert mine.mutate(PUT, {"n": 101}).affected_nodes == 1


def test_a_change_of_schema_shows_its_session_nothing_of_later_writes(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = graph.session(), graph.acting_for("other")
    contract = graph._engine.contract
    validate, calls = contract.validate, iter(range(100))

    def overtaken() -> object:
        found = validate()
        if found.catalog.nodes["D"].properties.get("m") is not None and next(calls) == 0:
            other.mutate(PUT, {"n": 100})
        return found

    monkeypatch.setattr(contract, "validate", overtaken)
    mine.schema.apply(SCHEMA.replace("n: I64?", "n: I64?  m: I64?"))
    with pytest.raises(og.VersionConflictError):
        mine.mutate(PUT, {"n": 3})


def test_a_write_takes_back_no_look_of_another_thread(graph: og.Graph) -> None:
    """The base of a session only moves forward, in whatever order its threads finish."""
    mine, other = graph.session(), graph.acting_for("other")
    done = mine.mutate(PUT, {"n": 2})
    other.mutate(PUT, {"n": 3})
    assert value(mine) == 3
    assert done.commit is not None
    mine._acting.wrote(graph._engine.lines.main, done.commit, ["node:C"])
    assert mine.mutate(PUT, {"n": 4}).affected_nodes == 1


def test_deleted_branches_are_forgotten_and_living_ones_are_not(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.graph.acting.SESSION_BRANCHES_MAX", 3)
    mine, other = graph.session(), graph.acting_for("other")
    base = mine._acting.caller.base
    assert base is not None
    for number in range(4):
        graph.branches.create(f"kept{number}")
        value(mine, f"kept{number}")
    other.mutate(PUT, {"n": 5}, branch="kept0")
    for number in range(20):
        with mine.transaction(name=f"t{number}") as view:
            view.mutate(PUT, {"n": number})
        assert len(base) <= 2 * 6
    with pytest.raises(og.VersionConflictError):
        mine.mutate(PUT, {"n": 6}, branch="kept0")


def test_sessions_are_made_while_others_look(graph: og.Graph) -> None:
    names = [f"b{number}" for number in range(12)]
    for name in names:
        graph.branches.create(name)
    stop, failed = threading.Event(), []

    def make() -> None:
        try:
            while not stop.is_set():
                graph.session().close()
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for name in names:
        value(graph, name)
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_session_borrows_its_parts(graph: og.Graph) -> None:
    made = graph.acting_for("ann")
    assert made._engine is graph._engine
    assert vars(made).keys() == vars(graph).keys()

"""What was prepared on an older state never undoes what was committed since."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.commits import publisher as publishing
from omnigraph.commits.identity import alone, mint
from omnigraph.commits.intents import encode_intent
from omnigraph.commits.plans import PlannedTable, PublishPlan
from omnigraph.commits.recovery import Verdict
from omnigraph.failpoints import Failpoint, Pause, armed
from omnigraph.store import Pin
from omnigraph.store.tables.steps import Compact
from tests.places import AnyPath

SCHEMA = "node P { k: String @key  v: I64? }"
ADD = "query add($k: String) { insert P { k: $k, v: 1 } }"
DROP = "query drop($k: String) { delete P where k = $k }"
ALL = "query all() { match { $p: P } return { $p.k as k } }"
OLD = {f"k{number}" for number in range(6)}


@pytest.fixture
def graph(place: AnyPath) -> Iterator[og.Graph]:
    with og.init(place / "g", SCHEMA, durability="none", upkeep=False) as found:
        for key in sorted(OLD):
            found.mutate(ADD, {"k": key})
        yield found


def keys(graph: og.Session) -> set[str]:
    return {row["k"] for row in graph.query(ALL)}


def another(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, durability="none", upkeep=False)


def test_an_optimize_that_waited_too_long_keeps_what_others_committed(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up waiting for a slow writer, and that one commits before it tries again."""
    pause = Pause()
    waited = threading.Event()
    take = publishing.Publisher._take_slot

    def impatient(self: publishing.Publisher, *args: object, **kwargs: object) -> object:
        try:
            return take(self, *args, **kwargs)  # type: ignore[arg-type]
        except og.ConflictError:
            # The slow writer goes on at the very moment the optimize has given up.
            pause.released.set()
            writer.join()
            waited.set()
            raise

    with another(graph) as slow:
        writer = threading.Thread(target=lambda: slow.mutate(DROP, {"k": "k0"}))
        with armed(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT, pause):
            writer.start()
            assert pause.reached.wait(30)
            monkeypatch.setattr(publishing, "SLOT_WAIT_S", 0.2)
            monkeypatch.setattr(publishing.Publisher, "_take_slot", impatient)
            graph.optimize()
        assert waited.is_set()
    with another(graph) as reader:
        assert keys(reader) == OLD - {"k0"}
        reader.mutate(ADD, {"k": "after"})
        assert keys(reader) == OLD - {"k0"} | {"after"}


def test_a_plan_on_older_versions_is_not_published(graph: og.Graph) -> None:
    publisher = graph._engine.lines.main.writer.publisher
    stale = publisher.manifest.capture().pins["node:P"]
    graph.mutate(ADD, {"k": "new"})
    plan = _plan(graph, stale)
    with pytest.raises(og.InternalError, match="rests on an older state"):
        publisher.publish(publisher.manifest.capture(), plan, _Nobody())  # type: ignore[arg-type]
    assert publisher.slots.names() == []
    assert keys(graph) == OLD | {"new"}


def test_recovery_undoes_nothing_for_an_intent_on_older_versions(graph: og.Graph) -> None:
    """Such an intent names the head, but not the versions that the head published."""
    main = graph._engine.lines.main
    publisher = main.writer.publisher
    stale = publisher.manifest.capture().pins["node:P"]
    graph.mutate(DROP, {"k": "k1"})
    capture = publisher.manifest.capture()
    slot = publisher.slots.take(capture.slot, encode_intent(_plan(graph, stale).intent(capture)))
    assert slot is not None
    with slot:
        assert main.writer.recovery._resolve(slot, forward_only=False) is Verdict.HEAD_MOVED
    assert publisher.slots.names() == []
    assert keys(graph) == OLD - {"k1"}
    with another(graph) as reader:
        assert keys(reader) == OLD - {"k1"}


class _Nobody:
    """Attends a publish that must not begin."""


def _plan(graph: og.Graph, stale: Pin) -> PublishPlan:
    writer = graph._engine.lines.main.writer
    identity = mint(writer.new_id, "optimize", actor_id=None, operation_id=writer.new_id())
    table = PlannedTable(pin=stale, step=Compact(rewrites=(), columns=()))
    return PublishPlan(chain=alone(identity), rollback_id=writer.new_id(), tables=(table,))

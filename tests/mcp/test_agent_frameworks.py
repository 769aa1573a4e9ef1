"""The adapters for agent frameworks run without them, and remember on branches."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "agents"
OURS = ("agent_graph", "demo", "langchain_adapter", "llama_index_adapter", "stand_ins")
FRAMEWORKS = ("langchain_core", "llama_index")


def _forget_modules() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples, importable, where neither framework is installed."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in FRAMEWORKS:
        monkeypatch.setitem(sys.modules, name, None)
    _forget_modules()
    yield
    _forget_modules()


@pytest.fixture
def graph(examples: None, tmp_path: Path) -> Iterator[og.Graph]:
    schema = importlib.import_module("agent_graph").SCHEMA
    with og.init(tmp_path / "g", schema, durability="none") as found:
        yield found


def memory(graph: og.Graph, conversation: str = "c1") -> Any:
    return importlib.import_module("agent_graph").BranchMemory(graph, conversation)


@pytest.mark.usefixtures("examples")
def test_both_frameworks_find_and_remember(tmp_path: Path) -> None:
    demo = importlib.import_module("demo")
    assert demo.main(str(tmp_path)) == [
        "LangChain found wal: A write-ahead log makes commits survive a crash.",
        "LlamaIndex found tea: Green tea is brewed below the boiling point.",
        "remembered 2 messages on memory-c1",
        "main had 0 messages, and has 2 now that they were merged",
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_installed_framework_takes_the_adapters(
    framework: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip(framework)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    _forget_modules()
    try:
        assert len(importlib.import_module("demo").main(str(tmp_path))) == 4
    finally:
        _forget_modules()


def test_a_conversation_is_seen_by_nobody_else_until_it_is_kept(graph: og.Graph) -> None:
    one, other = memory(graph), memory(graph, "c10")
    one.say(_said("user", "hello", "assistant", "hi"))
    other.say(_said("user", "who?"))
    assert [tuple(item) for item in one.told()] == [("user", "hello"), ("assistant", "hi")]
    assert [tuple(item) for item in other.told()] == [("user", "who?")]
    assert graph.snapshot().tables["node:Message"].row_count == 0
    one.keep()
    assert graph.snapshot().tables["node:Message"].row_count == 2
    assert [tuple(item) for item in one.told()] == [("user", "hello"), ("assistant", "hi")]
    one.say(_said("user", "and now?"))
    assert len(one.told()) == 3
    one.forget()
    assert len(one.told()) == 2
    other.forget()
    assert (other.told(), graph.branches.list()) == ([], ["main"])


def test_two_writers_cannot_take_one_place_of_a_conversation(graph: og.Graph) -> None:
    say = importlib.import_module("agent_graph").SAY
    memory(graph).say(_said("user", "first"))
    row = {"place": "c1/000000", "role": "user", "text": "also first"}
    with pytest.raises(og.KeyConflictError):
        graph.mutate(say, row, branch="memory-c1")
    assert [item.text for item in memory(graph).told()] == ["first"]


def test_a_message_that_text_cannot_hold_is_refused(graph: og.Graph) -> None:
    adapter = importlib.import_module("langchain_adapter")
    history = adapter.GraphMessageHistory(memory(graph))
    called = adapter.BaseMessage(content="{}")
    called.type = "tool"
    with pytest.raises(ValueError, match="'tool' are not kept"):
        history.add_messages([adapter.HumanMessage(content="x"), called])
    assert history.messages == []


def test_a_served_graph_does_as_well(graph: og.Graph) -> None:
    pytest.importorskip("fastapi")
    from omnigraph.server import Settings, Tokens, open_service, running

    notes = [("wal", "Logs make commits survive."), ("tea", "Tea is brewed.")]
    rows = [{"type": "Note", "data": {"slug": slug, "text": text}} for slug, text in notes]
    settings = Settings(store=graph.uri, unauthenticated=True)
    env = {"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_DURABILITY": "none"}
    service = open_service(settings, Tokens(), env)
    try:
        with running(service) as url, og.connect(url) as served:
            served.load(rows, mode="append")
            search = importlib.import_module("agent_graph").HybridSearch(served, limit=1)
            assert [hit.slug for hit in search.find("brewing tea")] == ["tea"]
            remote: Any = served
            memory(remote).say(_said("user", "hello"))
            assert [item.text for item in memory(remote).told()] == ["hello"]
    finally:
        service.close()


def _said(*words: str) -> list[Any]:
    said = importlib.import_module("agent_graph").Said
    return [said(role, text) for role, text in zip(words[::2], words[1::2], strict=True)]

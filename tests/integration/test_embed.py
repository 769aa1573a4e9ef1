"""`@embed` properties: filled on load and mutate, asked for by text, models kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from tests.integration.conftest import Cli
from tests.integration.helpers import messages, node, rows

SCHEMA = """\
node Doc {
    slug: String @key
    body: String?
    vec: Vector(4)? @embed(body, model="mock")
    note: String?
}
node Free { slug: String @key  body: String?  vec: Vector(4)? @embed(body) }
node Strict { slug: String @key  body: String?  vec: Vector(4) @embed(body) }
"""


class Counting(og.HashEmbedder):
    """Remembers what it was asked for."""

    def __init__(self, model: str = "mock") -> None:
        super().__init__(model)
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str], *, dimension: int) -> Any:
        self.calls.append(list(texts))
        return super().embed(texts, dimension=dimension)


Open = Callable[[og.Embedder | None], og.Graph]


@pytest.fixture
def open_with(tmp_path: Path) -> Iterator[Open]:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    opened: list[og.Graph] = []

    def call(embedder: og.Embedder | None) -> og.Graph:
        opened.append(og.open(tmp_path / "g", durability="none", embedder=embedder))
        return opened[-1]

    yield call
    for graph in opened:
        graph.close()


def vector(text: str) -> list[float]:
    (found,) = np.asarray(og.HashEmbedder().embed([text], dimension=4))
    return [float(value) for value in found]


def vectors(graph: og.Graph, type_name: str = "Doc") -> dict[str, list[float] | None]:
    return {key: row.get("vec") for key, row in rows(graph, type_name).items()}


def test_load_fills_what_is_absent(open_with: Open) -> None:
    embedder = Counting()
    graph = open_with(embedder)
    graph.load(
        [
            node("Doc", slug="a", body="one"),
            node("Doc", slug="b", body="two", vec=[1, 2, 3, 4]),
            node("Doc", slug="c"),
            node("Doc", slug="d", body="  "),
            node("Doc", slug="e", body="one"),
        ],
        mode="append",
    )
    found = vectors(graph)
    assert found["a"] == pytest.approx(vector("one"))
    assert found["b"] == [1, 2, 3, 4]
    assert (found["c"], found["d"]) == (None, None)
    assert found["e"] == found["a"]
    assert embedder.calls == [["one"]]


def test_merge_embeds_a_new_text(open_with: Open) -> None:
    graph = open_with(Counting())
    graph.load([node("Doc", slug="a", body="one")], mode="append")
    graph.load([node("Doc", slug="a", body="two")], mode="merge")
    assert vectors(graph)["a"] == pytest.approx(vector("two"))


def test_load_table_fills_too(open_with: Open) -> None:
    import pyarrow as pa

    graph = open_with(Counting())
    graph.load_table("Doc", pa.table({"slug": ["a"], "body": ["one"]}), mode="append")
    assert vectors(graph)["a"] == pytest.approx(vector("one"))


def test_mutations_embed_in_one_call(open_with: Open) -> None:
    embedder = Counting()
    graph = open_with(embedder)
    graph.mutate(
        """
        query q() {
            insert Doc { slug: "a", body: "one" }
            insert Doc { slug: "b", body: "two" }
            upsert Strict { slug: "s", body: "three" }
        }
        """
    )
    assert embedder.calls == [["one", "two", "three"]]
    assert vectors(graph)["b"] == pytest.approx(vector("two"))
    assert vectors(graph, "Strict")["s"] == pytest.approx(vector("three"))


def test_an_update_of_the_text_renews_the_vector(open_with: Open) -> None:
    embedder = Counting()
    graph = open_with(embedder)
    graph.mutate('query q() { insert Doc { slug: "a", body: "one" } }')
    graph.mutate('query q() { update Doc set { note: "n" } where slug = "a" }')
    assert len(embedder.calls) == 1
    graph.mutate('query q() { update Doc set { body: "two" } where slug = "a" }')
    assert vectors(graph)["a"] == pytest.approx(vector("two"))
    graph.mutate(
        'query q($v: Vector(4)) { update Doc set { body: "x", vec: $v } where slug = "a" }',
        {"v": [1, 2, 3, 4]},
    )
    assert vectors(graph)["a"] == [1, 2, 3, 4]
    graph.mutate('query q($n: String?) { update Doc set { body: $n } where slug = "a" }')
    assert vectors(graph)["a"] is None


def test_without_an_embedder_vectors_stay_as_given(open_with: Open) -> None:
    graph = open_with(None)
    graph.load([node("Doc", slug="a", body="one")], mode="append")
    assert vectors(graph)["a"] is None
    with pytest.raises(og.DataError) as caught:
        graph.load([node("Strict", slug="a", body="one")], mode="append")
    assert messages(caught.value) == ["missing required property 'vec'"]


def test_a_required_vector_needs_a_text(open_with: Open) -> None:
    graph = open_with(Counting())
    graph.load([node("Strict", slug="a", body="one")], mode="append")
    with pytest.raises(og.DataError, match="missing required property 'vec'"):
        graph.load([node("Strict", slug="b", body="")], mode="append")


def test_models_are_kept_apart(open_with: Open) -> None:
    graph = open_with(Counting("other"))
    with pytest.raises(
        og.BadRequestError, match=r"Doc\.vec is embedded with model 'mock', but the"
    ):
        graph.load([node("Doc", slug="a", body="one")], mode="append")
    with pytest.raises(og.BadRequestError, match="but the embedder is 'other'"):
        graph.mutate('query q() { insert Doc { slug: "a", body: "one" } }')
    assert graph.load([node("Doc", slug="a", vec=[1, 2, 3, 4])], mode="append").commit
    graph.load([node("Free", slug="a", body="one")], mode="append")
    assert vectors(graph, "Free")["a"] == pytest.approx(vector("one"))
    text = 'query q() { match { $d: Doc } return { $d } order { nearest($d.vec, "one") } limit 1 }'
    with pytest.raises(og.QueryError, match="embedded with model 'mock', but the embedder is"):
        graph.query(text)
    assert len(graph.query(text.replace("Doc", "Free"))) == 1


def test_nearest_embeds_a_text(open_with: Open) -> None:
    embedder = Counting()
    graph = open_with(embedder)
    graph.load([node("Doc", slug=t, body=t) for t in ("one", "two", "three")], mode="append")
    found = graph.query(
        "query q($t: String) { match { $d: Doc } return { $d, nearest($d.vec, $t) as far } "
        "order { nearest($d.vec, $t) } limit 1 }",
        {"t": "two"},
    ).to_pylist()
    assert found == [{"d": "two", "far": pytest.approx(0, abs=1e-6)}]
    ranking = 'rrf(nearest($d.vec, $t), bm25($d.body, "one"))'
    embedder.calls.clear()
    graph.query(
        f"query q($t: String) {{ match {{ $d: Doc }} return {{ nearest($d.vec, $t) as far }} "
        f"order {{ {ranking} }} limit 2 }}",
        {"t": "three"},
    )
    assert embedder.calls == [["three"]]
    with pytest.raises(og.QueryError, match="the query text of `nearest` is empty"):
        graph.query(
            'query q() { match { $d: Doc } return { $d } order { nearest($d.vec, " ") } limit 1 }'
        )


def test_a_failing_embedder_writes_nothing(open_with: Open) -> None:
    class Broken:
        model = "mock"

        def embed(self, texts: Sequence[str], *, dimension: int) -> list[list[float]]:
            return [[0.0] * (dimension - 1)] * len(texts)

    graph = open_with(Broken())
    head = graph.commits.head()
    with pytest.raises(og.EmbeddingError, match="gave 1 vectors of 3 numbers for 1 texts"):
        graph.load([node("Doc", slug="a", body="one")], mode="append")
    assert graph.commits.head() == head


def test_the_command_line_takes_its_embedder_from_the_environment(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "d.jsonl").write_text('{"type":"Doc","data":{"slug":"a","body":"one"}}\n')
    cli("init", "g", "--schema", "s.pg")
    text = 'query q() { match { $d: Doc } return { $d } order { nearest($d.vec, "one") } limit 1 }'
    missing = cli("query", "--store", "g", "-e", text, "--json")
    assert missing.code == 1
    assert missing.json["type"] == "query"
    assert "needs an embedder" in missing.json["error"]
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    assert cli("load", "g", "--data", "d.jsonl", "--mode", "append").code == 0
    assert cli("query", "--store", "g", "-e", text, "--json").json["rows"] == [{"d": "a"}]
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "other")
    other = cli("query", "--store", "g", "-e", text, "--json")
    assert (other.code, other.json["type"]) == (1, "query")
    monkeypatch.delenv("OMNIGRAPH_EMBEDDINGS_MOCK")
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "nobody")
    unknown = cli("query", "--store", "g", "-e", text, "--json")
    assert (unknown.code, unknown.json["type"]) == (1, "bad_request")

"""Search on random small collections, compared with definitions spelled out row by row."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.read import word_files
from tests.property import search_oracle as oracle
from tests.property.search_oracle import Document

SCHEMA = """\
node Doc {
    slug: String @key
    body: String? @index
    vec: Vector(3)? @index
    kind: I32
}
node Person { name: String @key }
edge Wrote: Person -> Doc
"""
WORDS = (
    *("graph", "graphs", "grape", "the", "of", "a", "to", "be", "runs", "running", "runner"),
    *("naïve", "Naive", "café", "ΣΑΣ", "ß", "ss", "x1", "x2", "straße", "日本", "語", "a" * 41),
    *("don't", "e-mail", "½", "ﬁne", "fine", "ab", "abc", "abcd"),
)
COLLECTIONS = 8
EXAMPLES = settings().max_examples


@dataclass(frozen=True, slots=True)
class Collection:
    graph: og.Graph
    documents: list[Document]
    wrote: list[tuple[str, str]]


def sentence(rng: random.Random) -> str:
    marks = (" ", " ", " ", ", ", "-", "_", "  ", "! ")
    return "".join(rng.choice(WORDS) + rng.choice(marks) for _ in range(rng.randint(0, 9)))


def make(root: Path, seed: int) -> Collection:
    rng = random.Random(seed)  # noqa: S311 - a repeatable collection
    graph = og.init(root / f"g{seed}", SCHEMA, durability="none")
    documents: dict[str, Document] = {}
    # Several commits, replaced and deleted rows: what is kept between versions must stay right.
    for _commit in range(rng.randint(1, 4)):
        rows: list[Document] = [
            {
                "id": f"d{rng.randint(0, 24)}",
                "body": None if rng.random() < 0.15 else sentence(rng),
                "vec": None if rng.random() < 0.2 else [rng.randint(-2, 2) / 2 for _ in range(3)],
                "kind": rng.randint(0, 2),
            }
            for _ in range(rng.randint(1, 12))
        ]
        fresh = {row["id"]: row for row in rows}
        documents.update(fresh)
        graph.load(
            [
                {
                    "type": "Doc",
                    "data": {"slug": row["id"], **{k: row[k] for k in row if k != "id"}},
                }
                for row in fresh.values()
            ],
            mode="merge",
        )
        ask(graph, 'match { $d: Doc search($d.body, "graph") } return { $d }')
        if rng.random() < 0.4:
            # This writes down the words, too.
            graph.maintenance.ensure_indices()
        if rng.random() < 0.5 and documents:
            gone = rng.choice(sorted(documents))
            del documents[gone]
            graph.mutate(f'query q() {{ delete Doc where slug = "{gone}" }}')
    people = ["p", "q"]
    wrote = (
        [(rng.choice(people), rng.choice(sorted(documents))) for _ in range(12)]
        if documents
        else []
    )
    graph.load(
        [{"type": "Person", "data": {"name": name}} for name in people]
        + [{"edge": "Wrote", "from": a, "to": b} for a, b in wrote],
        mode="append",
    )
    if seed % 2:
        # A new process knows only the words in files, some of which are older than the rows.
        graph.close()
        graph = og.open(root / f"g{seed}")
    return Collection(graph, sorted(documents.values(), key=lambda d: d["id"]), sorted(set(wrote)))


@pytest.fixture(scope="module")
def collections() -> Iterator[list[Collection]]:
    root = Path(tempfile.mkdtemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_files, "WORD_FILE_ROWS_MIN", 1)
        found = [make(root, seed) for seed in range(COLLECTIONS)]
        assert list(root.rglob("*.words"))
        yield found
    for item in found:
        item.graph.close()
    shutil.rmtree(root)


def ask(graph: og.Graph, body: str, signature: str = "", **params: object) -> list[tuple[Any, ...]]:
    result = graph.query(f"query q({signature}) {{ {body} }}", params)
    return list(zip(*(c.to_pylist() for c in result.to_arrow().columns), strict=True))


picks = st.integers(0, COLLECTIONS - 1)
texts = st.lists(st.sampled_from([w for w in WORDS if len(w) < 40]), min_size=1, max_size=4).map(
    " ".join
)
vectors = st.lists(st.integers(-2, 2).map(lambda n: n / 2), min_size=3, max_size=3)


@settings(max_examples=EXAMPLES, deadline=None)
@given(pick=picks, text=texts, most=st.integers(0, 3))
def test_text_predicates(collections: list[Collection], pick: int, text: str, most: int) -> None:
    item = collections[pick]
    rules: list[tuple[str, Callable[[str | None], bool]]] = [
        ("search($d.body, $q)", lambda body: oracle.search(body, text)),
        ("match_text($d.body, $q)", lambda body: oracle.phrase(body, text)),
        ("fuzzy($d.body, $q)", lambda body: oracle.fuzzy(body, text, 2)),
        ("fuzzy($d.body, $q, $n)", lambda body: oracle.fuzzy(body, text, most)),
    ]
    for predicate, rule in rules:
        pattern = f"match {{ $d: Doc {predicate} }} return {{ $d }} order {{ $d.slug }}"
        found = ask(item.graph, pattern, "$q: String, $n: I64", q=text, n=most)
        assert [row[0] for row in found] == [d["id"] for d in item.documents if rule(d["body"])]


@settings(max_examples=EXAMPLES, deadline=None)
@given(pick=picks, text=texts, kind=st.integers(0, 2))
def test_bm25(collections: list[Collection], pick: int, text: str, kind: int) -> None:
    item = collections[pick]
    scores = oracle.bm25(item.documents, text)
    allowed = {d["id"] for d in item.documents if d["kind"] == kind}
    # A filter decides who is ranked; the statistics stay those of the whole type.
    body = (
        "match { $d: Doc { kind: $k } } return { $d, bm25($d.body, $q) as s } "
        "order { bm25($d.body, $q) }"
    )
    found = ask(item.graph, body, "$q: String, $k: I32", q=text, k=kind)
    assert dict(found) == pytest.approx({k: v for k, v in scores.items() if k in allowed})
    # Equal scores may differ in their last digit here, so the order is judged by the answer's own.
    assert found == sorted(found, key=lambda row: (-row[1], row[0]))


@settings(max_examples=EXAMPLES, deadline=None)
@given(pick=picks, vector=vectors, limit=st.integers(0, 30), offset=st.integers(0, 5))
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_nearest(
    collections: list[Collection],
    metric: str,
    pick: int,
    vector: list[float],
    limit: int,
    offset: int,
) -> None:
    item = collections[pick]
    body = (
        f"match {{ $d: Doc }} return {{ $d, nearest($d.vec, $v, {metric}) as s }} "
        f"order {{ nearest($d.vec, $v, {metric}) }} limit {limit} offset {offset}"
    )
    if metric == "cosine" and not any(vector):
        with pytest.raises(og.QueryError, match="direction"):
            ask(item.graph, body, "$v: Vector(3)", v=vector)
        return
    scores = oracle.nearest(item.documents, vector, metric)
    found = ask(item.graph, body, "$v: Vector(3)", v=vector)
    # Equal angles may differ in their last digit here, so ties go by the answer's own.
    engine = ask(
        item.graph,
        f"match {{ $d: Doc }} return {{ $d, nearest($d.vec, $v, {metric}) as s }}",
        "$v: Vector(3)",
        v=vector,
    )
    known = {key: score for key, score in engine if score is not None}
    assert known == pytest.approx(scores)
    wanted = sorted(known.items(), key=lambda pair: (pair[1], pair[0]))[offset : offset + limit]
    assert [row[0] for row in found] == [key for key, _ in wanted]
    assert [row[1] for row in found] == [value for _, value in wanted]


@settings(max_examples=EXAMPLES, deadline=None)
@given(pick=picks, vector=vectors, text=texts, limit=st.integers(1, 12), k=st.integers(1, 70))
def test_rrf_behind_a_traversal(
    collections: list[Collection], pick: int, vector: list[float], text: str, limit: int, k: int
) -> None:
    item = collections[pick]
    written = {document for person, document in item.wrote if person == "p"}
    scores = {key: s for key, s in oracle.bm25(item.documents, text).items() if key in written}
    # Scores computed in another order may break a tie differently; ask the engine for them.
    body = 'match { $p: Person { name: "p" } $p wrote $d } return { $d, bm25($d.body, $q) as s }'
    engine = {key: s for key, s in ask(item.graph, body, "$q: String", q=text) if s is not None}
    assert engine == pytest.approx(scores)
    near = {k_: v for k_, v in oracle.nearest(item.documents, vector).items() if k_ in written}
    first = oracle.places(near, best_first=False)
    first = {key: place for key, place in first.items() if place < limit}
    fused = oracle.rrf(first, oracle.places(engine, best_first=True), k)
    ranking = f"rrf(nearest($d.vec, $v), bm25($d.body, $q), {k})"
    body = (
        f'match {{ $p: Person {{ name: "p" }} $p wrote $d }} return {{ $d, {ranking} as s }} '
        f"order {{ {ranking} }} limit {limit}"
    )
    found = ask(item.graph, body, "$q: String, $v: Vector(3)", q=text, v=vector)
    assert [row[0] for row in found] == [key for key, _ in fused][:limit]
    assert [row[1] for row in found] == pytest.approx([value for _, value in fused][:limit])

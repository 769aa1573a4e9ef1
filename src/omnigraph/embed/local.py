"""Vectors made on this machine by an ONNX model, through the optional package fastembed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from omnigraph.embed.protocol import Vectors
from omnigraph.errors import BadRequestError

DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"


class LocalEmbedder:
    """Runs a model in this process; the model is loaded when it is first needed.

    >>> og.LocalEmbedder().model
    'BAAI/bge-small-en-v1.5'
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        self.model = model
        self._loaded: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a name: the model is loaded there."""
        return type(self), (self.model,)

    def embed(self, texts: Sequence[str], *, dimension: int) -> Vectors:
        """Return one vector per text; their size is the model's own."""
        if self._loaded is None:
            try:
                package: Any = importlib.import_module("fastembed")
            except ImportError:
                raise BadRequestError(
                    "local embedding needs the package fastembed, which is not installed",
                    hint="pip install fastembed, or choose another provider",
                ) from None
            self._loaded = package.TextEmbedding(model_name=self.model)
        return np.array(list(self._loaded.embed(list(texts))), dtype=np.float32)

"""Vectors made from a hash of the text: the same everywhere, and without any meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from omnigraph.embed.protocol import Vectors

_MASK = 2**64 - 1
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3


class HashEmbedder:
    """For tests and examples: equal texts get equal unit vectors, others unrelated ones.

    >>> og.HashEmbedder().embed(["a tree"], dimension=4).shape
    (1, 4)

    The seed is the 64-bit FNV-1a hash of the text's UTF-8 bytes; each component is one step of
    xorshift64 (13, 7, 17), scaled to -1..1; the vector is then brought to length 1.
    """

    def __init__(self, model: str = "mock") -> None:
        self.model = model

    def embed(self, texts: Sequence[str], *, dimension: int) -> Vectors:
        """Return one vector per text."""
        return np.array([_vector(text, dimension) for text in texts], dtype=np.float32)


def _vector(text: str, dimension: int) -> npt.NDArray[np.float32]:
    state = _OFFSET
    for byte in text.encode("utf-8"):
        state = ((state ^ byte) * _PRIME) & _MASK
    values = np.empty(dimension, dtype=np.float32)
    for index in range(dimension):
        state ^= (state << 13) & _MASK
        state ^= state >> 7
        state ^= (state << 17) & _MASK
        values[index] = state / _MASK * 2 - 1
    length = float(np.linalg.norm(values))
    return values / length if length else values

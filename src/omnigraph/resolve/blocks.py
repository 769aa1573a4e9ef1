"""Candidates: the pairs of nodes that share a block, some at a time. A large block is left out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.limits import RESOLVE_PAIRS_AT_ONCE

Indexes = NDArray[np.int64]


class Blocks(Struct, frozen=True):
    """Rows that have candidates: those of one block stand together, in the order they had."""

    order: Indexes
    """Which rows they are."""
    partners: Indexes
    """How many rows after each one, in this order, are its candidates."""
    large: tuple[tuple[str, int], ...]
    """Keys of the blocks that are left out, with their rows."""

    @property
    def pair_count(self) -> int:
        """How many pairs there are."""
        return int(self.partners.sum())

    def pairs(self, at_once: int = RESOLVE_PAIRS_AT_ONCE) -> Iterator[tuple[Indexes, Indexes]]:
        """Yield all pairs, about so many at once, as places in `order`; the left one is first."""
        before = np.concatenate([[0], np.cumsum(self.partners)])
        start = 0
        while start < len(self.order):
            stop = int(np.searchsorted(before, before[start] + at_once, side="right")) - 1
            stop = min(max(stop, start + 1), len(self.order))
            counts = self.partners[start:stop]
            left = np.repeat(np.arange(start, stop), counts)
            first = np.repeat(before[start:stop] - before[start], counts)
            if len(left):
                yield left, left + 1 + np.arange(len(left)) - first
            start = stop


def find_blocks(keys: pa.ChunkedArray, nodes_max: int) -> Blocks:
    """Return the blocks of rows by their keys, a text column; null is in no block."""
    encoded = keys.combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = np.bincount(codes[codes >= 0], minlength=len(encoded.dictionary))
    large = np.flatnonzero(sizes > nodes_max)
    names = encoded.dictionary.take(pa.array(large)).to_pylist()
    # The last entry is for rows without a key.
    is_block = np.append((sizes > 1) & (sizes <= nodes_max), False)
    rows = np.flatnonzero(is_block[codes])
    order = rows[np.argsort(codes[rows], kind="stable")]
    own = sizes[codes[order]]
    starts = np.cumsum(np.where(is_block[:-1], sizes, 0)) - np.where(is_block[:-1], sizes, 0)
    place = np.arange(len(order)) - starts[codes[order]]
    return Blocks(order, own - 1 - place, tuple(zip(names, sizes[large].tolist(), strict=True)))

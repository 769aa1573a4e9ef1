"""Small parts of columns, put together until they are worth working on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa


def gathered(parts: Iterable[Sequence[pa.Array]], rows: int) -> Iterator[list[pa.ChunkedArray]]:
    """Yield columns that come in parts, at least so many rows at once but for the last."""
    held: list[Sequence[pa.Array]] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part[0])
        if size >= rows:
            yield [pa.chunked_array(column) for column in zip(*held, strict=True)]
            held, size = [], 0
    if held:
        yield [pa.chunked_array(column) for column in zip(*held, strict=True)]

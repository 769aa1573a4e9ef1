"""Ids of nodes: the canonical text of their key.

The text is made from the stored value, so `0.1` in an F32 key is the F32 rendering. Integers and
instants are decimal, dates are days since 1970-01-01, and several columns make a JSON array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import FLOATS, PropertyType, Scalar
from omnigraph.compute.types import Column
from omnigraph.ids import ALPHABET, TAIL_CHARS
from omnigraph.limits import ULID_CHUNK_ROWS

_LETTERS = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)
_PAIRS = np.stack([np.repeat(_LETTERS, 32), np.tile(_LETTERS, 32)], axis=1).view(np.uint16).ravel()
"""All pairs of letters, each as one number."""


def canonical_texts(column: Column, declared: PropertyType) -> Column:
    """Return a column of scalars as canonical text, null for null."""
    scalar = declared.scalar
    if scalar is Scalar.STRING:
        return column
    if scalar is Scalar.BOOL:
        return pc.if_else(column, pa.scalar("true"), pa.scalar("false"))
    if scalar is Scalar.DATE:
        return pc.cast(pc.cast(column, pa.int32()), pa.string())
    if scalar is Scalar.DATETIME:
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    if scalar in FLOATS:
        single = scalar is Scalar.F32
        values = [None if v is None else _float_text(v, single=single) for v in column.to_pylist()]
        return pa.array(values, pa.string())
    return pc.cast(column, pa.string())


def _float_text(value: float, *, single: bool) -> str:
    """Return the shortest decimal that reads back to the same value, never with an exponent."""
    if value == 0:
        return "0"
    shortest = str(np.float32(value)) if single else repr(value)
    text = format(Decimal(shortest), "f")
    return text[:-2] if text.endswith(".0") else text


def key_ids(columns: Sequence[Column], types: Sequence[PropertyType]) -> Column:
    """Return the id column for key columns in stable property order."""
    texts = [canonical_texts(c, t) for c, t in zip(columns, types, strict=True)]
    if len(texts) == 1:
        return texts[0]
    rows = zip(*(text.to_pylist() for text in texts), strict=True)
    encoded = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    return pa.array(encoded, pa.string())


def ulid_column(run: tuple[str, int], size: int) -> pa.ChunkedArray:
    """Return the ULIDs of a reserved run as a column, in chunks."""
    starts = range(0, size, ULID_CHUNK_ROWS)
    chunks = [_ulids(run, start, min(ULID_CHUNK_ROWS, size - start)) for start in starts]
    return pa.chunked_array(chunks, pa.string())


def _ulids(run: tuple[str, int], start: int, size: int) -> pa.Array:
    prefix, first = run
    width = len(prefix) + TAIL_CHARS
    rows = np.empty(size, [("shared", f"V{width - 4}"), ("third", np.uint16), ("last", np.uint16)])
    done = 0
    while done < size:
        # All letters but the last four are the same in a million ids.
        high, low = divmod(first + start + done, _PAIRS.size**2)
        part = rows[done : done + _PAIRS.size**2 - low]
        part["shared"] = np.void((prefix + _spelled(high)).encode())
        numbers = np.arange(low, low + len(part), dtype=np.int32)
        part["third"] = _PAIRS.take(numbers >> 10)
        part["last"] = _PAIRS.take(numbers & 1023)
        done += len(part)
    ends = np.arange(size + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(size, pa.py_buffer(ends), pa.py_buffer(rows.view(np.uint8)))


def _spelled(high: int) -> str:
    """Return the first letters of the end of a ULID, all but four of them."""
    shifts = range(5 * (TAIL_CHARS - 5), -1, -5)
    return "".join(ALPHABET[high >> shift & 31] for shift in shifts)

"""Values as words that are equal exactly where `=` finds the values equal.

Joins compare many values at once, so both sides are spelled as columns of 64-bit words. What `=`
never finds equal to anything (null, not-a-number, a fraction beside integers) is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.compute.types import Column
from omnigraph.limits import JOIN_WORD_BYTES, JOINED_TEXT_BYTES_MAX

Words = NDArray[np.uint64]
"""One part of a key for each row."""

Known = NDArray[np.bool_]
"""Which rows can be equal to another."""

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class JoinKeys(Struct, frozen=True):
    """Keys of some rows: equal where all words are and the rows are known."""

    words: tuple[Words, ...]
    known: Known

    def hashes(self) -> Words:
        """Return one word per row, equal for equal keys."""
        hashes = np.zeros(len(self.known), dtype=np.uint64)
        for words in self.words:
            hashes ^= words
            hashes *= _MIX
            hashes ^= hashes >> _HALF
        return hashes


Spell = Callable[[pa.Array], JoinKeys]


class JoinSide(Struct, frozen=True):
    """What some rows are joined by: columns, and how their values are spelled."""

    columns: tuple[pa.Array, ...]
    spells: tuple[Spell, ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def keys(self, start: int, stop: int) -> JoinKeys:
        """Return the keys of a run of the rows."""
        size = stop - start
        parts = [
            spell(column.slice(start, size))
            for spell, column in zip(self.spells, self.columns, strict=True)
        ]
        known = parts[0].known
        for part in parts[1:]:
            known = known & part.known
        return JoinKeys(tuple(words for part in parts for words in part.words), known)


def join_sides(pairs: Sequence[tuple[Column, Column]]) -> tuple[JoinSide, JoinSide]:
    """Return the sides of a join of rows for which the values of each pair are equal."""
    comparable = [_comparable(_flat(left), _flat(right)) for left, right in pairs]
    spells = tuple(spell for _left, _right, spell in comparable)
    left = JoinSide(tuple(item[0] for item in comparable), spells)
    return left, JoinSide(tuple(item[1] for item in comparable), spells)


def _flat(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array, Spell]:
    """Return two columns and how to spell their values."""
    kinds = {_kind(left.type), _kind(right.type)}
    if kinds == {"float"}:
        return left, right, _floats
    if kinds <= {"integer", "float"}:
        unsigned = pa.types.is_uint64(left.type) or pa.types.is_uint64(right.type)
        return left, right, partial(_whole, unsigned=unsigned)
    if kinds == {"text"}:
        longest = max(pc.max(pc.binary_length(side)).as_py() or 0 for side in (left, right))
        if longest <= JOINED_TEXT_BYTES_MAX:
            count = -(-longest // JOIN_WORD_BYTES)
            # Filled up with zeros, texts are still different unless they hold some themselves.
            sized = not longest or holds_zeros(left) or holds_zeros(right)
            return left, right, partial(text_words, count=count, sized=sized)
    if kinds == {"fixed"} and left.type.equals(right.type):
        return left, right, _fixed
    return (*_coded(left, right), _fixed)


def _kind(data_type: pa.DataType) -> str:
    if pa.types.is_integer(data_type):
        return "integer"
    if pa.types.is_floating(data_type):
        return "float"
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        return "text"
    fixed = (
        pa.types.is_boolean(data_type)
        or pa.types.is_date32(data_type)
        or pa.types.is_timestamp(data_type)
    )
    return "fixed" if fixed else "other"


def _coded(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the numbers of distinct values, for types that have no words."""
    if not left.type.equals(right.type):
        right = pc.cast(right, left.type)
    codes = pc.dictionary_encode(pa.concat_arrays([left, right])).indices
    return codes.slice(0, len(left)), codes.slice(len(left))


def _valid(values: pa.Array) -> Known:
    if not values.null_count:
        return np.ones(len(values), dtype=bool)
    return np.asarray(pc.is_valid(values))


def _numbers(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    plain = pc.cast(values, wanted)
    return pc.fill_null(plain, pa.scalar(0, wanted)) if plain.null_count else plain


def _floats(values: pa.Array) -> JoinKeys:
    # Adding zero makes both zeros one.
    numbers: NDArray[np.float64] = np.asarray(_numbers(values, pa.float64())) + 0.0
    return JoinKeys((numbers.view(np.uint64),), _valid(values) & ~np.isnan(numbers))


def _whole(values: pa.Array, *, unsigned: bool) -> JoinKeys:
    """Spell numbers as integers, signed unless some number beside them is not."""
    known = _valid(values)
    if pa.types.is_floating(values.type):
        numbers: NDArray[np.float64] = np.asarray(_numbers(values, pa.float64()))
        low, high = (0.0, 2.0**64) if unsigned else (-(2.0**63), 2.0**63)
        known &= (numbers >= low) & (numbers < high) & (np.floor(numbers) == numbers)
        whole = np.where(known, numbers, 0.0).astype(np.uint64 if unsigned else np.int64)
        return JoinKeys((whole.view(np.uint64),), known)
    if pa.types.is_uint64(values.type):
        return JoinKeys((np.asarray(_numbers(values, pa.uint64())),), known)
    signed: NDArray[np.int64] = np.asarray(_numbers(values, pa.int64()))
    if unsigned:
        known &= signed >= 0
    return JoinKeys((signed.view(np.uint64),), known)


def _fixed(values: pa.Array) -> JoinKeys:
    known = _valid(values)
    if pa.types.is_date32(values.type):
        values = pc.cast(values, pa.int32())
    numbers: NDArray[np.int64] = np.asarray(_numbers(values, pa.int64()))
    return JoinKeys((numbers.view(np.uint64),), known)


def holds_zeros(texts: pa.Array) -> bool:
    """Whether some byte of the texts is zero."""
    _valid, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return False
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    places = np.frombuffer(offsets, kind)
    letters = np.frombuffer(data, np.uint8)[
        places[texts.offset] : places[texts.offset + len(texts)]
    ]
    return letters.size > 0 and int(letters.min()) == 0


def text_words(texts: pa.Array, *, count: int, sized: bool) -> JoinKeys:
    """Spell texts as their bytes, filled up to as many words, and perhaps as their lengths."""
    known = _valid(texts)
    plain = pc.cast(texts, pa.large_string())
    plain = pc.fill_null(plain, "") if plain.null_count else plain
    words: list[Words] = []
    if sized:
        words.append(np.asarray(pc.binary_length(plain)).astype(np.uint64))
    if count and len(texts):
        # It works on bytes, whatever the text: a letter of several is not taken apart.
        padded = pc.ascii_rpad(plain, width=count * JOIN_WORD_BYTES, padding="\0")
        start, size = padded.offset * count, len(texts) * count
        table = np.frombuffer(padded.buffers()[2], np.uint64)[start : start + size]
        table = table.reshape(len(texts), count)
        words += [np.ascontiguousarray(table[:, index]) for index in range(count)]
    elif count:
        words += [np.empty(0, dtype=np.uint64)] * count
    return JoinKeys(tuple(words), known)


def ordered_numbers(
    left: Column, right: Column
) -> tuple[tuple[NDArray[Any], Known], tuple[NDArray[Any], Known]] | None:
    """Return two columns as numbers that are less where the values are; None if there are none.

    What compares with nothing, null and not-a-number, is not known.
    """
    one, other = _flat(left), _flat(right)
    kinds = {_kind(one.type), _kind(other.type)}
    unsigned = [pa.types.is_uint64(side.type) for side in (one, other)]
    if kinds == {"float"}:
        return _ordered(one, pa.float64()), _ordered(other, pa.float64())
    if kinds == {"integer"} and unsigned[0] == unsigned[1]:
        wanted = pa.uint64() if unsigned[0] else pa.int64()
        return _ordered(one, wanted), _ordered(other, wanted)
    if kinds == {"fixed"} and one.type.equals(other.type):
        plain = pa.int32() if pa.types.is_date32(one.type) else pa.int64()
        return _ordered(one, plain), _ordered(other, plain)
    return None


def _ordered(values: pa.Array, wanted: pa.DataType) -> tuple[NDArray[Any], Known]:
    numbers: NDArray[Any] = np.asarray(_numbers(values, wanted))
    return numbers, _valid(values) & ~np.isnan(numbers)

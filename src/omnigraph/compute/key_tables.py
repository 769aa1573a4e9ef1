"""Finds equal keys of two sets of rows with tables of hashes, many rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from omnigraph.compute.joins import JoinKeys, JoinSide, Known, Words, holds_zeros, text_words
from omnigraph.compute.types import Column
from omnigraph.limits import (
    JOIN_CHUNK_ROWS,
    JOIN_LONG_SHARE,
    JOIN_ROUNDS_MAX,
    JOIN_THREADS,
    JOIN_WORD_BYTES,
    JOINED_TEXT_BYTES_MAX,
)

A = TypeVar("A", bound=NDArray[Any])
_Ts = TypeVarTuple("_Ts")

Rows = NDArray[np.signedinteger]
"""Positions of keys, -1 for none."""

_AGAIN = np.uint64(0xD6E8FEB86659FD93)


class _Round(Struct, frozen=True):
    """A table from some bits of a hash to a row that has it, -1 for none."""

    rows: Rows
    shift: np.uint64

    def places(self, hashes: Words) -> Rows:
        return (hashes >> self.shift).astype(np.int64)


class KeyTable:
    """Keys of some rows. Each distinct one is known by one of its rows, its `first`.

    Of the keys that share a place in a table one stays; the others go into the next table, under
    other bits. All rows of one key meet at one place, so they are settled together. What still
    collides after some rounds has equal hashes, which is no accident: it is looked up as it is.
    """

    def __init__(self, side: JoinSide, pause: Callable[[], None] | None = None) -> None:
        self._pause = pause or _go_on
        parts = [side.keys(*run) for run in _runs(len(side))]
        self._words = [
            np.concatenate(words) for words in zip(*(p.words for p in parts), strict=True)
        ]
        self._rounds: list[_Round] = []
        self.first: Rows = np.full(len(side), -1, dtype=np.int32)
        """For each row the first of its key, -1 where it equals nothing."""
        pending = np.flatnonzero(np.concatenate([part.known for part in parts])).astype(np.int32)
        hashes = np.concatenate([part.hashes()[part.known] for part in parts])
        while len(pending) and len(self._rounds) < JOIN_ROUNDS_MAX:
            hashes, pending = self._settle(hashes, pending)
        self._rest: dict[tuple[int, ...], int] = {}
        for row, key in zip(pending.tolist(), _spelled(self._words, pending), strict=True):
            self.first[row] = self._rest.setdefault(key, row)

    def _settle(self, hashes: Words, pending: Rows) -> tuple[Words, Rows]:
        bits = int(2 * len(pending) - 1).bit_length()
        table = _Round(np.full(1 << bits, -1, dtype=np.int32), np.uint64(64 - bits))
        runs = _runs(len(pending))
        for low, high in runs:
            table.rows[table.places(hashes[low:high])] = pending[low:high]
        self._rounds.append(table)

        def settled(low: int, high: int) -> Known:
            rows = pending[low:high]
            winners = table.rows.take(table.places(hashes[low:high]))
            same = np.ones(len(rows), dtype=bool)
            for words in self._words:
                same &= words.take(winners) == words.take(rows)
            self.first[rows[same]] = winners[same]
            return ~same

        left = np.concatenate(_each(settled, runs, self._pause))
        return _remixed(hashes[left]), pending[left]

    def find(self, side: JoinSide) -> Rows:
        """Return for each of other rows the first row here with its key, -1 where there is none."""
        return np.concatenate(
            _each(
                lambda low, high: self.places(side.keys(low, high)), _runs(len(side)), self._pause
            )
        )

    def places(self, keys: JoinKeys) -> Rows:
        """Return for each key the first row here that has it, -1 where there is none."""
        rows = np.full(len(keys.known), -1, dtype=np.int32)
        pending = np.flatnonzero(keys.known)
        hashes = keys.hashes()[pending]
        for table in self._rounds:
            if not len(pending):
                break
            winners = table.rows.take(table.places(hashes))
            # An empty place was empty for every key that might have gone on.
            there = winners >= 0
            same = there.copy()
            for mine, theirs in zip(self._words, keys.words, strict=True):
                same &= mine.take(winners, mode="wrap") == theirs.take(pending)
            rows[pending[same]] = winners[same]
            there &= ~same
            hashes, pending = _remixed(hashes[there]), pending[there]
        if self._rest:
            rest = _spelled(keys.words, pending)
            rows[pending] = [self._rest.get(key, -1) for key in rest]
        return rows


def _runs(rows: int) -> list[tuple[int, int]]:
    """Return where the parts begin and end that are worked on at once; one at least."""
    starts = range(0, max(rows, 1), JOIN_CHUNK_ROWS)
    return [(low, min(low + JOIN_CHUNK_ROWS, rows)) for low in starts]


def _each(
    work: Callable[[*_Ts], A], runs: Sequence[tuple[*_Ts]], pause: Callable[[], None]
) -> list[A]:
    """Work on parts, several at once if they are many: NumPy leaves the interpreter meanwhile."""
    results: list[A] = []
    if len(runs) < JOIN_THREADS:
        for run in runs:
            pause()
            results.append(work(*run))
        return results
    with ThreadPoolExecutor(JOIN_THREADS) as pool:
        for item in pool.map(work, *zip(*runs, strict=True)):
            pause()
            results.append(item)
    return results


def _spelled(words: Sequence[Words], rows: Rows) -> list[tuple[int, ...]]:
    return list(zip(*(item[rows].tolist() for item in words), strict=True))


def _remixed(hashes: Words) -> Words:
    mixed = hashes * _AGAIN
    mixed ^= mixed >> np.uint64(29)
    return mixed * _AGAIN


def _go_on() -> None:
    """Do nothing between two parts of the work."""


class TextTable:
    """Texts, and where each stands. Others are looked up in it, many at once."""

    def __init__(self, texts: Column) -> None:
        known = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        longest = pc.max(pc.binary_length(known)).as_py() or 0
        self._long = known if longest > JOINED_TEXT_BYTES_MAX else None
        if self._long is not None:
            return
        self._count = -(-longest // JOIN_WORD_BYTES)
        # Filled up with zeros, texts are still different unless they hold some themselves.
        self._sized = not longest or holds_zeros(known)
        spell = partial(text_words, count=self._count, sized=self._sized)
        self._table = KeyTable(JoinSide((known,), (spell,)))

    def rows_at_once(self, threads: int = JOIN_THREADS) -> int:
        """Return how many texts should be looked up in one call, by so many threads."""
        if self._long is None:
            return JOIN_CHUNK_ROWS * threads
        return max(JOIN_CHUNK_ROWS, JOIN_LONG_SHARE * len(self._long))

    def has_duplicates(self) -> bool:
        """Whether some text stands at several places; null is none."""
        if self._long is not None:
            given = self._long.drop_null()
            return len(given.unique()) < len(given)
        first = self._table.first
        return bool(((first >= 0) & (first != np.arange(len(first)))).any())

    def find(self, texts: Column) -> Rows:
        """Return one place of each text, -1 where it has none."""
        if self._long is not None:
            # Arrow makes a table for each call.
            at = pc.index_in(texts, value_set=self._long, skip_nulls=True)
            return np.asarray(pc.fill_null(at, -1), dtype=np.int32)
        chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
        parts = [
            (chunk.slice(low, high - low),)
            for chunk in chunks
            for low, high in _runs(len(chunk))
            if high
        ]
        places = _each(self._found, parts, _go_on)
        return np.concatenate(places) if places else np.empty(0, dtype=np.int32)

    def _found(self, texts: pa.Array) -> Rows:
        unknown = pc.greater(pc.binary_length(texts), self._count * JOIN_WORD_BYTES)
        if not self._sized and holds_zeros(texts):
            unknown = pc.or_(unknown, pc.match_substring(texts, "\0"))
        if pc.any(unknown).as_py():
            texts = pc.if_else(unknown, pa.scalar(None, texts.type), texts)
        return self._table.places(text_words(texts, count=self._count, sized=self._sized))

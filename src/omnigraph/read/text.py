"""Full-text search over one column of a table version, exact and independent of any index.

A segment holds every occurrence of every word, sorted by word, row and place. Scores are BM25 with
the statistics of the whole column: every row of the type that has a text counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.limits import BM25_B, BM25_K1, BM25_SMOOTHING, U16_VALUES, WORD_BYTES
from omnigraph.read.arrays import Letters, Mask, Rows, Scores
from omnigraph.read.segments import Segment
from omnigraph.read.words import is_stop_word, split

_EMPTY = np.empty(0, dtype=np.int32)
_ROW_SHIFT = 32
_PLACE_ZERO = 1 << (_ROW_SHIFT - 1)
"""A row and a place in it are packed into 64 bits; places may be a little below zero."""


@dataclass
class TextSegment:
    """The words of some texts: those of word `i` are at `offsets[i]:offsets[i + 1]`."""

    words: dict[str, int]
    offsets: Rows
    rows: Rows
    places: Rows
    lengths: Rows
    present: Mask

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays, and about that of the vocabulary."""
        arrays = (self.offsets, self.rows, self.places, self.lengths, self.present)
        return sum(int(item.nbytes) for item in arrays) + WORD_BYTES * len(self.words)

    def occurrences(self, word: str) -> tuple[Rows, Rows]:
        """Return rows and places of a word, in order."""
        number = self.words.get(word)
        if number is None:
            return _EMPTY, _EMPTY
        at = slice(self.offsets[number], self.offsets[number + 1])
        return self.rows[at], self.places[at]

    def any_of(self, words: Sequence[str]) -> Mask:
        """Tell which rows hold one of the words."""
        mask = np.zeros(len(self.lengths), dtype=bool)
        for word in words:
            mask[self.occurrences(word)[0]] = True
        return mask

    def phrase(self, words: Sequence[tuple[int, str]]) -> Mask:
        """Tell which rows hold the words at the same distances from each other."""
        mask = np.zeros(len(self.lengths), dtype=bool)
        starts: Rows | None = None
        # Rare words first: they leave little to look for.
        for place, word in sorted(words, key=lambda item: len(self.occurrences(item[1])[0])):
            rows, places = self.occurrences(word)
            # One number says in which row, and where in it, the phrase would begin.
            keys = (rows.astype(np.int64) << _ROW_SHIFT) + (places - np.int64(place) + _PLACE_ZERO)
            starts = keys if starts is None else starts[_within(starts, keys)]
            if not len(starts):
                return mask
        if starts is not None:
            mask[(starts >> _ROW_SHIFT).astype(np.int64)] = True
        return mask

    def similar(self, word: str, *, edits: int) -> list[str]:
        """Return the words within a number of edits of a word."""
        similar: list[str] = []
        for size, (words, letters) in self._by_length.items():
            if abs(size - len(word)) > edits:
                continue
            near = _distances(word, letters) <= edits
            similar += [words[index] for index in np.nonzero(near)[0]]
        return similar

    @cached_property
    def _by_length(self) -> dict[int, tuple[list[str], Letters]]:
        """The vocabulary by length, as words and as a matrix of their letters."""
        groups: dict[int, list[str]] = {}
        for word in self.words:
            groups.setdefault(len(word), []).append(word)
        return {
            size: (words, np.array(words, dtype=f"<U{size}").view(np.uint32).reshape(-1, size))
            for size, words in groups.items()
        }


def _within(values: Rows, ordered: Rows) -> Mask:
    """Tell which values occur in an ordered array."""
    places = np.searchsorted(ordered, values)
    mask: Mask = ordered[np.where(places == len(ordered), 0, places)] == values
    return mask


def build_text_segment(texts: pa.Array, language: str) -> TextSegment:
    """Return the words of some texts in a language."""
    vocabulary: dict[str, int] = {}
    rows, places, words = split(texts, vocabulary, language)
    # Sixteen bits sort by counting, which is several times faster.
    keys = words.astype(np.uint16) if len(vocabulary) <= U16_VALUES else words
    order = np.argsort(keys, kind="stable")
    offsets = np.zeros(len(vocabulary) + 1, dtype=np.int64)
    np.cumsum(np.bincount(words, minlength=len(vocabulary)), out=offsets[1:])
    return TextSegment(
        words=vocabulary,
        offsets=offsets,
        rows=rows[order],
        places=places[order],
        lengths=np.bincount(rows, minlength=len(texts)).astype(np.int32),
        present=pc.is_valid(texts).to_numpy(zero_copy_only=False),
    )


def _distances(word: str, letters: Letters) -> Rows:
    """Return the Levenshtein distance from a word to each row of a matrix of letters."""
    count, size = letters.shape
    before = np.tile(np.arange(size + 1, dtype=np.int32), (count, 1))
    for index, letter in enumerate(word, 1):
        now = np.empty_like(before)
        now[:, 0] = index
        changed = before[:, :-1] + (letters != ord(letter))
        best = np.minimum(changed, before[:, 1:] + 1)
        for place in range(size):
            now[:, place + 1] = np.minimum(best[:, place], now[:, place] + 1)
        before = now
    return before[:, -1]


class TextColumn:
    """The texts of one column of a table version, in a language."""

    def __init__(self, segments: list[Segment[TextSegment]], language: str) -> None:
        self._segments = segments
        self._language = language
        self._size = sum(segment.rows for segment in segments)

    def search(self, words: Sequence[str]) -> Mask:
        """Tell which rows hold at least one of the words."""
        return self._gather([item.live(item.value.any_of(words)) for item in self._segments])

    def phrase(self, words: Sequence[tuple[int, str]]) -> Mask:
        """Tell which rows hold the words as a phrase."""
        return self._gather([item.live(item.value.phrase(words)) for item in self._segments])

    def fuzzy(self, words: Sequence[str], *, edits: int) -> Mask:
        """Tell which rows hold a word within a number of edits of one of the words."""
        is_stop = partial(is_stop_word, language=self._language)
        only_stop_words = all(map(is_stop, words))
        masks: list[Mask] = []
        for item in self._segments:
            near: list[str] = []
            for word in words:
                near += item.value.similar(word, edits=edits)
            if not only_stop_words:
                near = [word for word in near if not is_stop(word)]
            masks.append(item.live(item.value.any_of(near)))
        return self._gather(masks)

    def _gather(self, parts: list[Mask]) -> Mask:
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def scores(self, words: Sequence[str]) -> Scores:
        """Return the BM25 score of every row, NaN where none of the words occurs."""
        total, length = 0, 0
        for item in self._segments:
            total += int(item.live(item.value.present).sum())
            length += int(item.live(item.value.lengths).sum())
        average = length / total if total and length else 1.0
        lengths = _joined([item.live(item.value.lengths) for item in self._segments])
        scores = np.zeros(self._size)
        hit = np.zeros(self._size, dtype=bool)
        for word in words:
            counts = self._counts(word)
            rows = np.nonzero(counts)[0]
            weight = math.log(
                1 + (total - len(rows) + BM25_SMOOTHING) / (len(rows) + BM25_SMOOTHING)
            )
            times = counts[rows].astype(np.float64)
            slow = BM25_K1 * (1 - BM25_B + BM25_B * lengths[rows] / average)
            scores[rows] += weight * times * (BM25_K1 + 1) / (times + slow)
            hit[rows] = True
        scores[~hit] = np.nan
        return scores

    def _counts(self, word: str) -> Rows:
        parts: list[Rows] = [
            item.live(
                np.bincount(item.value.occurrences(word)[0], minlength=len(item.value.lengths))
            )
            for item in self._segments
        ]
        return _joined(parts)


def _joined(parts: list[Rows]) -> Rows:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

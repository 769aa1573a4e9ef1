"""What a word of a text is: the one definition that every text predicate and score uses.

Text is brought to Unicode form NFKC and split at everything that is not a letter, digit or mark.
A word is case-folded, freed of accents and reduced to its English stem. Words that are longer than
`WORD_CHARS_MAX` are not found by anything, but keep their place in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.limits import TEXT_CHUNK_ROWS, WORD_CHARS_MAX
from omnigraph.read.stemmer import stem

Array = Any

_SEPARATORS = r"[^\p{L}\p{N}\p{M}]+"
_ACCENTS = re.compile("[\u0300-\u036f]")

STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into"),
        *("is", "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then"),
        *("there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
"""Words so common that a query means nothing by them, unless it has no others."""

_STOP_STEMS = frozenset(stem(word) for word in STOP_WORDS)


def is_stop_word(word: str) -> bool:
    """Whether a word, as `normal_form` gives it, is a stop word."""
    return word in _STOP_STEMS


def normal_form(piece: str) -> str | None:
    """Return the word a piece of text stands for, None when it is too long to be one."""
    folded = unicodedata.normalize("NFD", piece.casefold())
    word = unicodedata.normalize("NFC", _ACCENTS.sub("", folded))
    if not word or len(word) > WORD_CHARS_MAX:
        return None
    return stem(word) if word.isascii() and word.isalpha() else word


def split(texts: Any, vocabulary: dict[str, int]) -> tuple[Array, Array, Array]:
    """Return row, place in the row and word number of every word of some texts.

    New words are added to the vocabulary. Words that are too long are left out.
    """
    found = [_split_chunk(chunk, start, vocabulary) for start, chunk in _chunks(texts)]
    if not found:
        empty = np.empty(0, dtype=np.int32)
        return empty, empty, empty
    rows, places, words = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, places, words


def _chunks(texts: Any) -> Iterator[tuple[int, Any]]:
    for start in range(0, len(texts), TEXT_CHUNK_ROWS):
        yield start, texts.slice(start, TEXT_CHUNK_ROWS)


def _split_chunk(texts: Any, start: int, vocabulary: dict[str, int]) -> tuple[Array, Array, Array]:
    lists = pc.split_pattern_regex(pc.utf8_normalize(texts, form="NFKC"), pattern=_SEPARATORS)
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    pieces = pc.list_flatten(lists).dictionary_encode()
    rows = np.repeat(np.arange(len(texts), dtype=np.int32), sizes)
    spelled = pieces.dictionary.to_pylist()
    codes = pieces.indices.to_numpy(zero_copy_only=False)
    # A text that starts or ends with a separator yields an empty piece there.
    solid = np.array([piece != "" for piece in spelled], dtype=bool)
    if len(codes):
        keep = solid[codes]
        rows, codes = rows[keep], codes[keep]
    counts = np.bincount(rows, minlength=len(texts))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = np.fromiter(
        (_number(piece, vocabulary) for piece in spelled), dtype=np.int32, count=len(spelled)
    )
    words = numbers[codes] if len(codes) else np.empty(0, dtype=np.int32)
    real = words >= 0
    return (
        (rows[real] + np.int32(start)).astype(np.int32),
        places[real].astype(np.int32),
        words[real],
    )


def _number(piece: str, vocabulary: dict[str, int]) -> int:
    word = normal_form(piece) if piece else None
    return -1 if word is None else vocabulary.setdefault(word, len(vocabulary))


def query_words(text: str) -> list[tuple[int, str]]:
    """Return the words of a query with their places, by the same rules as any text."""
    vocabulary: dict[str, int] = {}
    _rows, places, numbers = split(pa.array([text], pa.string()), vocabulary)
    words = list(vocabulary)
    pairs = zip(places.tolist(), numbers.tolist(), strict=True)
    return [(place, words[number]) for place, number in pairs]


def meaningful(words: list[tuple[int, str]]) -> list[str]:
    """Return the distinct words of a query that count: stop words only if there are no others."""
    distinct = list(dict.fromkeys(word for _place, word in words))
    return [word for word in distinct if not is_stop_word(word)] or distinct

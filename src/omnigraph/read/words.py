"""What a word of a text is: the one definition that every text predicate and score uses.

Text is brought to Unicode form NFKC and split at everything that is not a letter, digit or mark.
A word is case-folded, freed of accents and reduced to its stem in the language of the property.
Words that are longer than `WORD_CHARS_MAX` are not found by anything, but keep their place in the
text.
"""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.languages import ENGLISH, NO_LANGUAGE
from omnigraph.limits import TEXT_CHUNK_ROWS, WORD_CHARS_MAX
from omnigraph.read import stems
from omnigraph.read.arrays import Rows

RULES = 2
"""Goes up with every change of what a word is: words in files are those of certain rules."""

_SEPARATORS = r"[^\p{L}\p{N}\p{M}]+"
_ACCENTS = re.compile("[\u0300-\u036f]")
_WORD_BYTES = np.array([chr(byte).isalnum() and byte < 128 for byte in range(256)])
_LOWER = np.array([ord(chr(byte).lower()) if byte < 128 else byte for byte in range(256)], np.uint8)

STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into"),
        *("is", "it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then"),
        *("there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
"""Words so common that a query means nothing by them, unless it has no others."""

_STOP_STEMS = frozenset(stems.stem(word, ENGLISH) for word in STOP_WORDS)


def rules_of(language: str) -> str:
    """Return what names the rules by which words of a language are found."""
    return f"{RULES}, {language}, {stems.RULES}"


def is_stop_word(word: str, language: str) -> bool:
    """Whether a word, as `normal_form` gives it, is a stop word; only English ones are known."""
    return language == ENGLISH and word in _STOP_STEMS


def normal_form(piece: str, language: str) -> str | None:
    """Return the word a piece of text stands for, None when it is too long to be one."""
    word = piece.lower() if piece.isascii() else unicodedata.normalize("NFC", piece.casefold())
    if language == ENGLISH:
        # English has no accents of its own: those of borrowed words are not always written.
        word = _strip_accents(word)
        stemmed = word.isascii() and word.isalpha()
    else:
        stemmed = language != NO_LANGUAGE and not any(map(str.isnumeric, word))
    if not word or len(_strip_accents(word)) > WORD_CHARS_MAX:
        return None
    return _strip_accents(stems.stem(word, language)) if stemmed else _strip_accents(word)


def _strip_accents(word: str) -> str:
    """Return a word without accents."""
    if word.isascii():
        return word
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", word)))


class _Numbers(dict[str, int]):
    """The number of the word that each piece of text stands for, -1 where it is none."""

    def __init__(self, vocabulary: dict[str, int], language: str) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._language = language

    def __missing__(self, piece: str) -> int:
        word = normal_form(piece, self._language)
        words = self._vocabulary
        number = -1 if word is None else words.setdefault(word, len(words))
        self[piece] = number
        return number


def split(texts: pa.Array, vocabulary: dict[str, int], language: str) -> tuple[Rows, Rows, Rows]:
    """Return row, place in the row and word number of every word of some texts, in order.

    New words are added to the vocabulary. Words that are too long are left out.
    """
    numbers = _Numbers(vocabulary, language)
    chunks = [
        _split_chunk(texts.slice(start, TEXT_CHUNK_ROWS), start, numbers)
        for start in range(0, len(texts), TEXT_CHUNK_ROWS)
    ]
    if not chunks:
        empty = np.empty(0, dtype=np.int32)
        return empty, empty, empty
    rows, places, words = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    return rows, places, words


def _split_chunk(texts: pa.Array, start: int, numbers: _Numbers) -> tuple[Rows, Rows, Rows]:
    texts = pc.fill_null(texts, "")
    plain = pc.string_is_ascii(texts)
    if pc.all(plain).as_py():
        rows, words = _encoded(*_plain_pieces(texts), numbers)
    else:
        rows, words = _mixed(texts, plain, numbers)
    counts = np.bincount(rows, minlength=len(texts))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    real = words >= 0
    return (
        (rows[real] + start).astype(np.int32),
        places[real].astype(np.int32),
        words[real],
    )


def _mixed(texts: pa.Array, plain: pa.Array, numbers: _Numbers) -> tuple[Rows, Rows]:
    """Split ASCII texts the fast way and others the general way, and put them in order again."""
    flags = plain.to_numpy(zero_copy_only=False)
    parts: list[tuple[Rows, Rows]] = []
    for chosen, pieces_of in ((flags, _plain_pieces), (~flags, _pieces)):
        origin = np.nonzero(chosen)[0]
        rows, words = _encoded(*pieces_of(texts.filter(pa.array(chosen))), numbers)
        parts.append((origin[rows], words))
    rows, words = (np.concatenate(part) for part in zip(*parts, strict=True))
    # A chunk has few enough rows for sixteen bits, which sort by counting.
    order = np.argsort(rows.astype(np.uint16), kind="stable")
    return rows[order], words[order]


def _pieces(texts: pa.Array) -> tuple[Rows, pa.Array]:
    """Return the pieces of texts between separators, and the row of each."""
    lists = pc.split_pattern_regex(pc.utf8_normalize(texts, form="NFKC"), pattern=_SEPARATORS)
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(texts)), sizes)
    pieces = pc.list_flatten(lists)
    # A text that starts or ends with a separator yields an empty piece there.
    solid = pc.greater(pc.utf8_length(pieces), 0)
    return rows[solid.to_numpy(zero_copy_only=False)], pieces.filter(solid)


def _plain_pieces(texts: pa.Array) -> tuple[Rows, pa.Array]:
    """Return the same as `_pieces` for ASCII texts, lower-cased, without looking for patterns."""
    buffers = texts.buffers()
    ends = np.frombuffer(buffers[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if not len(texts) or ends[0] == ends[-1]:
        return np.empty(0, dtype=np.int64), pa.array([], pa.string())
    letters = np.frombuffer(buffers[2], dtype=np.uint8)[ends[0] : ends[-1]]
    inside = _WORD_BYTES[letters]
    first, last = inside.copy(), inside.copy()
    first[1:] &= ~inside[:-1]
    last[:-1] &= ~inside[1:]
    # A word does not go on in the next text.
    begins = ends[:-1][ends[:-1] < ends[-1]] - ends[0]
    first[begins] = inside[begins]
    before = begins[begins > 0] - 1
    last[before] = inside[before]
    starts = np.nonzero(first)[0]
    kept = _LOWER[letters[inside]]
    offsets = np.zeros(len(starts) + 1, dtype=np.int32)
    np.cumsum(np.nonzero(last)[0] - starts + 1, out=offsets[1:])
    pieces = pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(kept))
    return np.searchsorted(ends - ends[0], starts, side="right") - 1, pieces


def _encoded(rows: Rows, pieces: pa.Array, numbers: _Numbers) -> tuple[Rows, Rows]:
    """Return rows and the word number of each piece, -1 where it is no word."""
    encoded = pieces.dictionary_encode()
    table = np.array([numbers[piece] for piece in encoded.dictionary.to_pylist()], dtype=np.int32)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return rows, table[codes] if len(codes) else np.empty(0, dtype=np.int32)


def query_words(text: str, language: str) -> list[tuple[int, str]]:
    """Return the words of a query with their places, by the same rules as any text."""
    vocabulary: dict[str, int] = {}
    _rows, places, numbers = split(pa.array([text], pa.string()), vocabulary, language)
    words = list(vocabulary)
    pairs = zip(places.tolist(), numbers.tolist(), strict=True)
    return [(place, words[number]) for place, number in pairs]


def meaningful(words: list[tuple[int, str]], language: str) -> list[str]:
    """Return the distinct words of a query that count: stop words only if there are no others."""
    distinct = list(dict.fromkeys(word for _place, word in words))
    return [word for word in distinct if not is_stop_word(word, language)] or distinct

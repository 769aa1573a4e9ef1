"""A second opinion on search: every definition spelled out row by row, nothing shared but stems.

A document is a dictionary with `id`, `body` (text or None) and `vec` (numbers or None).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import Stemmer

Document = dict[str, Any]

stem = Stemmer.Stemmer("english").stemWord

STOP = {
    *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is"),
    *("it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there"),
    *("these", "they", "this", "to", "was", "will", "with"),
}


def pieces(text: str) -> list[str]:
    """Return the words of a text; a word that is too long leaves an empty place."""
    found: list[str] = []
    word = ""
    for letter in unicodedata.normalize("NFKC", text) + " ":
        if unicodedata.category(letter)[0] in "LNM":
            word += letter
        elif word:
            found.append(_folded(word))
            word = ""
    return found


def _folded(word: str) -> str:
    flat = unicodedata.normalize("NFD", word.casefold())
    flat = "".join(c for c in flat if not "\u0300" <= c <= "\u036f")
    flat = unicodedata.normalize("NFC", flat)
    if len(flat) > 40:
        return ""
    return stem(flat) if re.fullmatch("[a-z]+", flat) else flat


def wanted(query: str) -> list[str]:
    stops = {stem(word) for word in STOP}
    words = [word for word in dict.fromkeys(pieces(query)) if word]
    return [word for word in words if word not in stops] or words


def search(text: str | None, query: str) -> bool:
    return text is not None and bool(set(pieces(text)) & set(wanted(query)))


def phrase(text: str | None, query: str) -> bool:
    if text is None:
        return False
    have, ask = pieces(text), pieces(query)
    return any(
        all(
            not word or (0 <= start + i < len(have) and have[start + i] == word)
            for i, word in enumerate(ask)
        )
        for start in range(-len(ask), len(have))
    )


def edits(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def fuzzy(text: str | None, query: str, most: int) -> bool:
    if text is None:
        return False
    stops = {stem(word) for word in STOP}
    words = wanted(query)
    only_stops = all(word in stops for word in words)
    have = [w for w in pieces(text) if w and (only_stops or w not in stops)]
    return any(edits(a, b) <= most for a in words for b in have)


def bm25(documents: Sequence[Document], query: str) -> dict[str, float]:
    """Return the score of every document that holds a word of the query, by id."""
    texts = {
        d["id"]: [w for w in pieces(d["body"]) if w] for d in documents if d["body"] is not None
    }
    total = len(texts)
    average = sum(map(len, texts.values())) / total if total else 0.0
    found: dict[str, float] = {}
    for word in wanted(query):
        holders = [key for key, words in texts.items() if word in words]
        weight = math.log(1 + (total - len(holders) + 0.5) / (len(holders) + 0.5))
        for key in holders:
            times = texts[key].count(word)
            slow = 1.2 * (1 - 0.75 + 0.75 * len(texts[key]) / average)
            found[key] = found.get(key, 0.0) + weight * times * 2.2 / (times + slow)
    return found


def nearest(
    documents: Sequence[Document], vector: Sequence[float], metric: str = "l2"
) -> dict[str, float]:
    """Return the distance of every document that has one, by id."""
    found: dict[str, float] = {}
    for document in documents:
        have = document["vec"]
        if have is None or (metric == "cosine" and not any(have)):
            continue
        product = sum(a * b for a, b in zip(have, vector, strict=True))
        if metric == "l2":
            found[document["id"]] = math.dist(have, vector)
        elif metric == "dot":
            found[document["id"]] = 1 - product
        else:
            found[document["id"]] = 1 - product / (math.hypot(*have) * math.hypot(*vector))
    return found


def places(scores: dict[str, float], *, best_first: bool) -> dict[str, int]:
    sign = -1 if best_first else 1
    order = sorted(scores, key=lambda key: (sign * scores[key], key))
    return {key: place for place, key in enumerate(order)}


def rrf(first: dict[str, int], second: dict[str, int], k: int) -> list[tuple[str, float]]:
    """Return ids and fused scores, best first."""
    score = {
        key: sum(1 / (k + arm[key] + 1) for arm in (first, second) if key in arm)
        for key in {**first, **second}
    }
    last = len(score)
    order = sorted(
        score, key=lambda key: (-score[key], first.get(key, last), second.get(key, last), key)
    )
    return [(key, score[key]) for key in order]

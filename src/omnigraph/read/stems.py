"""Stems of words, by the Snowball rules of a language, so that forms of a word meet."""

from __future__ import annotations

import threading

import Stemmer

RULES = f"snowball {Stemmer.version()}"
"""Names the rules of all languages: another release of the library may know others."""

_kept = threading.local()


def stem(word: str, language: str) -> str:
    """Return the stem of a lower-case word."""
    # A stemmer has buffers, which no two threads may use at once.
    stemmer = _kept.__dict__.get(language)
    if stemmer is None:
        # What calls this keeps the stems of a text itself.
        stemmer = _kept.__dict__[language] = Stemmer.Stemmer(language, maxCacheSize=0)
    stemmed: str = stemmer.stemWord(word)
    return stemmed

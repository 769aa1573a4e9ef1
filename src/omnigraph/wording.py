"""Words in messages: counted nouns, and the known name a mistyped one resembles."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def with_article(noun: str) -> str:
    """Return a noun with `a` or `an` before it."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def printable(text: str) -> str:
    """Return a text in which nothing steers a terminal: a line break and a tab stay."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def resembling(word: str, names: Iterable[str]) -> str | None:
    """Return the known name closest to a mistyped one; case alone never keeps them apart."""
    import difflib

    known = list(names)
    folded = {name.casefold(): name for name in known}
    if word.casefold() in folded:
        return folded[word.casefold()]
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """Return the question whether a known name was meant, None if none resembles the word."""
    close = resembling(word, names)
    return None if close is None else f"did you mean '{close}'?"


def or_meant(word: str, names: Iterable[str]) -> str:
    """Return the same question as the end of a sentence; nothing if there is none to ask."""
    asked = did_you_mean(word, names)
    return "" if asked is None else f"; {asked}"


def names_hint(word: str, names: Iterable[str], *, listed_max: int = 8) -> str | None:
    """Return help for an unknown name: the one that was meant, or those there are."""
    known = list(names)
    asked = did_you_mean(word, known)
    if asked is not None or not known:
        return asked
    more = f" and {len(known) - listed_max} more" if len(known) > listed_max else ""
    return f"there are: {', '.join(known[:listed_max])}{more}"

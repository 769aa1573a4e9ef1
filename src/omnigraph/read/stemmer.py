"""English word stems: the Snowball English rules ("Porter 2"), so that forms of a word meet.

Works on lower-case words of plain letters. A `y` that acts as a consonant is written `Y` inside.
"""

from __future__ import annotations

from functools import lru_cache

from omnigraph.limits import STEMS_CACHED_MAX

_VOWELS = frozenset("aeiouy")
_DOUBLES = frozenset(("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"))
_BEFORE_LI = frozenset("cdeghkmnrt")
_IRREGULAR = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
_FINISHED = frozenset(
    ("inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed")
)
_PREFIXES = (*("gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter"),)
"""Beginnings that no suffix may be cut into, so that `universe` and `universal` stay apart."""

_STEP_2 = {
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "abli": "able",
    "entli": "ent",
    "izer": "ize",
    "ization": "ize",
    "ational": "ate",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "aliti": "al",
    "alli": "al",
    "fulness": "ful",
    "ousli": "ous",
    "ousness": "ous",
    "iveness": "ive",
    "iviti": "ive",
    "biliti": "ble",
    "bli": "ble",
    "ogi": "og",
    "fulli": "ful",
    "lessli": "less",
    "li": "",
}
_STEP_3 = {
    "tional": "tion",
    "ational": "ate",
    "alize": "al",
    "icate": "ic",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
    "ative": "",
}
_STEP_4 = dict.fromkeys(
    (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("ism", "ate", "iti", "ous", "ive", "ize", "ion"),
    ),
    "",
)


@lru_cache(maxsize=STEMS_CACHED_MAX)
def stem(word: str) -> str:
    """Return the stem of a lower-case word of plain letters."""
    if len(word) <= 2:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    found = _mark_consonants(word)
    first, second = _regions(found)
    found = _plural(found)
    if found in _FINISHED:
        return found
    found = _past(found, first)
    if len(found) > 2 and found[-1] in "yY" and found[-2] not in _VOWELS:
        found = found[:-1] + "i"
    found = _replace(found, _STEP_2, first, second)
    found = _replace(found, _STEP_3, first, second)
    found = _replace(found, _STEP_4, second, second)
    return _tail(found, first, second).replace("Y", "y")


def _mark_consonants(word: str) -> str:
    letters = list(word)
    for index, letter in enumerate(letters):
        if letter == "y" and (index == 0 or letters[index - 1] in _VOWELS):
            letters[index] = "Y"
    return "".join(letters)


def _after_syllable(word: str, start: int) -> int:
    """Return where the part after the first vowel-consonant pair from `start` begins."""
    for index in range(start + 1, len(word)):
        if word[index] not in _VOWELS and word[index - 1] in _VOWELS:
            return index + 1
    return len(word)


def _regions(word: str) -> tuple[int, int]:
    """Return the starts of the two regions in which suffixes may be cut."""
    first = _after_syllable(word, 0)
    if word.startswith(_PREFIXES):
        first = next(len(prefix) for prefix in _PREFIXES if word.startswith(prefix))
    return first, _after_syllable(word, first)


def _has_vowel(part: str) -> bool:
    return any(letter in _VOWELS for letter in part)


def _ends_short(word: str) -> bool:
    """Whether a word ends in a short syllable."""
    if word == "past":
        return True
    if len(word) == 2:
        return word[0] in _VOWELS and word[1] not in _VOWELS
    return (
        len(word) > 2
        and word[-1] not in _VOWELS
        and word[-1] not in "wxY"
        and word[-2] in _VOWELS
        and word[-3] not in _VOWELS
    )


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")) or not word.endswith("s"):
        return word
    return word[:-1] if _has_vowel(word[:-2]) else word


def _past(word: str, first: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            cut = len(word) - len(suffix)
            return word[:cut] + "ee" if cut >= first else word
    for suffix in ("ingly", "edly", "ing", "ed"):
        if word.endswith(suffix):
            left = word[: -len(suffix)]
            if not _has_vowel(left):
                return word
            if left.endswith(("at", "bl", "iz")):
                return left + "e"
            if left[-2:] in _DOUBLES:
                return left if len(left) == 3 and left[0] in "aeo" else left[:-1]
            return left + "e" if first >= len(left) and _ends_short(left) else left
    return word


def _replace(word: str, rules: dict[str, str], region: int, second: int) -> str:
    """Apply the rule of the longest suffix, if its suffix lies in the region."""
    for size in range(min(7, len(word)), 1, -1):
        suffix = word[-size:]
        if suffix not in rules:
            continue
        left = word[:-size]
        allowed = len(left) >= region
        if suffix == "ogi":
            allowed = allowed and left.endswith("l")
        elif suffix == "li":
            allowed = allowed and left[-1:] in _BEFORE_LI
        elif suffix == "ion":
            allowed = allowed and left.endswith(("s", "t"))
        elif suffix == "ative":
            allowed = len(left) >= second
        return left + rules[suffix] if allowed else word
    return word


def _tail(word: str, first: int, second: int) -> str:
    cut = len(word) - 1
    if word.endswith("e"):
        if cut >= second or (cut >= first and not _ends_short(word[:cut])):
            return word[:cut]
    elif word.endswith("ll") and cut >= second:
        return word[:cut]
    return word

"""Words of texts: folding, places, and that the quick way for plain text splits the same."""

from __future__ import annotations

import pyarrow as pa
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.languages import ENGLISH, LANGUAGES, NO_LANGUAGE, STEMMED
from omnigraph.read.stems import stem
from omnigraph.read.words import meaningful, query_words, rules_of, split
from tests.property.search_oracle import pieces


def words(text: str, language: str = ENGLISH) -> list[str]:
    return [word for _place, word in query_words(text, language)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("  ,;! ", []),
        ("Graphs, graphing & GRAPHED", ["graph", "graph", "graph"]),
        ("snake_case and e-mail", ["snake", "case", "and", "e", "mail"]),
        ("naïve Café ÀÉÎ", ["naiv", "cafe", "aei"]),
        ("straße STRASSE", ["strass", "strass"]),
        ("ΣΊΣΥΦΟΣ", ["σισυφοσ"]),
        ("日本 語", ["日本", "語"]),
        ("\uff46\uff55\uff4c\uff4c ﬁne ½", ["full", "fine", "1", "2"]),
        ("x2 2x 3.14", ["x2", "2x", "3", "14"]),
        ("हिन्दी", ["हिन्दी"]),
    ],
)
def test_words(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_a_word_that_is_too_long_keeps_its_place() -> None:
    assert query_words(f"one {'x' * 41} two", ENGLISH) == [(0, "one"), (2, "two")]
    assert len(words("y" * 40)) == 1


def test_stop_words_count_only_among_themselves() -> None:
    assert meaningful(query_words("the graph of the graph", ENGLISH), ENGLISH) == ["graph"]
    few = query_words("to be or not", ENGLISH)
    assert meaningful(few, ENGLISH) == ["to", "be", "or", "not"]


def test_stop_words_of_english_are_words_elsewhere() -> None:
    assert meaningful(query_words("in an Hut", "german"), "german") == ["in", "an", "hut"]


@pytest.mark.parametrize(
    ("language", "text", "found"),
    [
        ("german", "Häuser Häusern HAUS Maß Maße", ["haus", "haus", "haus", "mass", "mass"]),
        ("french", "continuait CONTINUÉ élevées eleve", ["continu", "continu", "elev", "elev"]),
        ("spanish", "canción canciones", ["cancion", "cancion"]),
        ("russian", "книга книгами", ["книг", "книг"]),
        ("finnish", "taloissa talo x2 2x", ["talo", "talo", "x2", "2x"]),
        (NO_LANGUAGE, "Running Cafés AB-12", ["running", "cafes", "ab", "12"]),
    ],
)
def test_words_of_other_languages(language: str, text: str, found: list[str]) -> None:
    assert words(text, language) == found


def test_every_language_has_stems_and_rules_of_its_own() -> None:
    assert len({rules_of(language) for language in LANGUAGES}) == len(LANGUAGES)
    assert set(STEMMED) == set(Stemmer.algorithms()) - {"porter", "dutch_porter"}
    for language in LANGUAGES:
        assert words("word", language), language


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("running", "run"),
        ("flies", "fli"),
        ("dying", "die"),
        ("agreed", "agre"),
        ("relational", "relat"),
        ("universities", "universiti"),
        ("generously", "generous"),
        ("happy", "happi"),
        ("by", "by"),
        ("say", "say"),
        ("added", "add"),
        ("hopping", "hop"),
        ("hoping", "hope"),
        ("national", "nation"),
        ("controlling", "control"),
        ("sky", "sky"),
        ("proceed", "proceed"),
    ],
)
def test_stems(word: str, root: str) -> None:
    assert stem(word, ENGLISH) == root


# Python and the splitter may know different versions of Unicode; old letters are in both.
letters = st.characters(max_codepoint=0x33FF, exclude_categories=("Cs", "Cn"))
texts = st.lists(
    st.none()
    | st.text(st.sampled_from("aBz09 _-.,'éßΣ日\u0301½"), max_size=12)
    | st.text(letters, max_size=8),
    max_size=8,
)


@given(texts)
def test_split_agrees_with_the_definition(rows: list[str | None]) -> None:
    vocabulary: dict[str, int] = {}
    numbers, places, found = split(pa.array(rows, pa.string()), vocabulary, ENGLISH)
    names = list(vocabulary)
    actual = [
        (int(row), int(place), names[word])
        for row, place, word in zip(numbers, places, found, strict=True)
    ]
    assert actual == [
        (row, place, word)
        for row, text in enumerate(rows)
        for place, word in enumerate(pieces(text or ""))
        if word
    ]


@given(st.lists(st.none() | st.text(st.characters(max_codepoint=127), max_size=20), max_size=9))
def test_plain_text_is_split_alike(rows: list[str | None]) -> None:
    plain: dict[str, int] = {}
    mixed: dict[str, int] = {}
    alone = split(pa.array(rows, pa.string()), plain, ENGLISH)
    # One text that is not plain sends all of them another way.
    beside = split(pa.array([*rows, "é"], pa.string()), mixed, ENGLISH)
    size = len(alone[0])
    assert [part[:size].tolist() for part in beside[:2]] == [part.tolist() for part in alone[:2]]
    assert [list(mixed)[n] for n in beside[2][:size]] == [list(plain)[n] for n in alone[2]]


def test_slices_are_split_by_themselves() -> None:
    whole = pa.array(["ab", "cd", None, "ef gh", "ij"], pa.string())
    vocabulary: dict[str, int] = {}
    rows, places, _words = split(whole.slice(1, 3), vocabulary, ENGLISH)
    assert list(vocabulary) == ["cd", "ef", "gh"]
    assert (rows.tolist(), places.tolist()) == ([0, 2, 2], [0, 0, 1])

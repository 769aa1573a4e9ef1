"""Rules are refused in words before anything is read."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.lang import compile_schema
from omnigraph.resolve import Comparison, Key, Rules, rules_of

CATALOG = compile_schema("""
node Person {
    mail: String @key
    name: String
    tags: [String]?
    seen: DateTime?
    photo: Blob?
    face: Vector(4)?
    bio: String?
    bio_vector: Vector(4)? @embed(bio)
}
edge Knows: Person -> Person
""").catalog
PLAIN = {
    "type": "Person",
    "blocks": [{"property": "name", "by": "prefix"}],
    "compare": [{"property": "name", "by": "edit"}],
    "threshold": 0.9,
}


def _rules(**changes: Any) -> Rules:
    return rules_of({**PLAIN, **changes}, "rules.toml")


def test_a_file_and_python_say_the_same() -> None:
    written = Rules(
        type="Person",
        blocks=[Key("name", by="prefix")],
        compare=[Comparison("name", by="edit")],
        threshold=0.9,
    )
    assert _rules().digest() == written.digest()
    assert _rules(threshold=0.8).digest() != written.digest()
    assert written.check(CATALOG).name == "Person"
    both = [[{"property": "name"}, {"property": "mail", "by": "normalised"}]]
    assert _rules(blocks=both).keys == ((Key("name"), Key("mail", by="normalised")),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": 1.5}, "'threshold' is above 0 and at most 1, not 1.5"),
        ({"threshold": 0}, "'threshold' is above 0 and at most 1, not 0"),
        ({"threshold": float("nan")}, "'threshold' is above 0 and at most 1, not nan"),
        ({"blocks": []}, "'blocks' needs a key"),
        ({"blocks": [[]]}, "'blocks' needs a key"),
        ({"compare": []}, "'compare' needs a comparison"),
        ({"colour": 1}, "Object contains unknown field `colour`"),
        ({"survivor": "best"}, "Invalid enum value 'best'"),
        ({"blocks": [{"property": "name", "length": 3}]}, "'length' is the number of letters"),
        ({"compare": [{"property": "name", "weight": 0}]}, "'weight' of 'name' is above 0"),
        (
            {"compare": [{"property": "name", "threshold": 2}]},
            "'threshold' of 'name' is above 0 and at most 1",
        ),
        (
            {"compare": [{"property": "name", "measure": "l2"}]},
            "'measure' of 'name' is for vectors",
        ),
        ({"compare": [{"property": "name"}] * 2}, "the comparison name_exact appears twice"),
        ({"survivor": "newest"}, "'newest' needs 'newest_by'"),
        ({"properties": {"bio": "newest"}}, "'newest' needs 'newest_by'"),
        ({"block_nodes_max": 1}, "are from 2 on"),
    ],
)
def test_what_no_graph_could_make_right(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        _rules(**changes)
    assert raised.value.message.startswith("rules.toml: ")
    assert message in raised.value.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "Knows"}, "Knows is an edge type: nodes are resolved"),
        ({"blocks": [{"property": "nam"}]}, "Person has no property 'nam'"),
        ({"blocks": [{"property": "tags"}]}, "needs one value, and Person.tags is [String]?"),
        (
            {"blocks": [{"property": "seen", "by": "normalised"}]},
            "the key 'normalised' needs a text, and Person.seen is DateTime?",
        ),
        (
            {"compare": [{"property": "name", "by": "vector"}]},
            "the comparison 'vector' needs a vector, and Person.name is String",
        ),
        (
            {"compare": [{"property": "face", "by": "edit"}]},
            "the comparison 'edit' needs a text, and Person.face is Vector(4)?",
        ),
        ({"newest_by": "name"}, "'newest_by' needs a time or a number"),
        ({"properties": {"mail": "longest"}}, "Person.mail is its key"),
        ({"properties": {"photo": "first"}}, "Person.photo is a blob"),
        ({"properties": {"bio_vector": "first"}}, "Person.bio_vector follows 'bio'"),
        ({"properties": {"seen": "longest"}}, "'longest' needs a text or a list"),
        ({"properties": {"*": "longest"}}, "not for '*'"),
    ],
)
def test_what_does_not_fit_the_schema(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        _rules(**changes).check(CATALOG)
    assert message in raised.value.message


def test_an_unknown_type_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(NotFoundError) as raised:
        _rules(type="Persn").check(CATALOG)
    assert raised.value.hint == "did you mean 'Person'?"


def test_a_missing_package_is_told_before_data_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(BadRequestError) as raised:
        _rules().check(CATALOG)
    assert raised.value.hint == "pip install 'omnigraph[resolve]'"
    assert _rules(compare=[{"property": "name"}]).check(CATALOG).name == "Person"


def test_a_vector_follows_its_text_and_keys_and_blobs_stay() -> None:
    found = _rules(properties={"*": "first", "bio": "longest"}).value_rules(CATALOG.nodes["Person"])
    wanted = {"bio": "longest", "face": "first", "name": "first", "seen": "first", "tags": "first"}
    assert found == wanted

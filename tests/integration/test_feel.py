"""Python feels at home: one entity, one row, rows as people have them, extras that are missing."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import omnigraph as og
from tests.integration.helpers import NewGraph

SCHEMA = """
node Task { slug: String @key  title: String  due: Date?  at: DateTime?  tags: [String]? }
edge Blocks: Task -> Task { since: Date? }
"""
ALL = "query q() { match { $t: Task } return { $t.slug as slug } order { slug } }"


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    found = new_graph(SCHEMA)
    rows = [
        {"slug": "a", "title": "Dig", "due": "2024-01-02", "tags": ["x"]},
        {"slug": "b", "title": "Plant", "at": "2024-01-02T03:04:05Z"},
    ]
    found.load([{"type": "Task", "data": row} for row in rows], mode="append")
    found.load([{"edge": "Blocks", "from": "a", "to": "b", "data": {"id": "e"}}], mode="append")
    return found


def test_an_entity_is_got_by_its_type_and_id(graph: og.Graph) -> None:
    assert graph.get("Task", "a") == {
        "id": "a",
        "slug": "a",
        "title": "Dig",
        "due": datetime.date(2024, 1, 2),
        "at": None,
        "tags": ["x"],
    }
    found = graph.get("Task", "b")
    assert found is not None
    assert found["at"] == datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert graph.get("Blocks", "e") == {"id": "e", "from": "a", "to": "b", "since": None}
    assert graph.get("Task", "nope") is None
    graph.branches.create("dev")
    graph.mutate('query d() { delete Task where slug = "a" }', branch="dev")
    assert graph.get("Task", "a", branch="dev") is None
    assert graph.get("Task", "a", commit="dev~1") is not None
    with pytest.raises(og.NotFoundError, match="Nope"):
        graph.get("Nope", "a")


def test_a_result_is_a_sequence_of_rows(graph: og.Graph) -> None:
    result = graph.query(ALL)
    assert len(result) == 2
    assert result[0] == {"slug": "a"}
    assert result[-1] == {"slug": "b"}
    assert result[:1] == [{"slug": "a"}]
    assert [row["slug"] for row in result] == ["a", "b"]
    with pytest.raises(IndexError, match="'q' returned 2 rows, there is no 2"):
        result[2]


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"slug": name, "title": name.upper()} for name in names]


def generated() -> Iterator[dict[str, Any]]:
    yield from rows("g1", "g2")


def test_rows_load_as_people_have_them(graph: og.Graph) -> None:
    polars = pytest.importorskip("polars")
    graph.load_table("Task", rows("l1"), mode="append")
    graph.load_table("Task", generated(), mode="append")
    graph.load_table("Task", polars.LazyFrame(rows("z1")), mode="append")
    uneven = [{"slug": "u1", "title": "U"}, {"slug": "u2", "title": "V", "due": "2024-05-06"}]
    graph.bulk({"Task": uneven}, mode="append", engine="local")
    more = ({"slug": f"m{n}", "title": "M"} for n in range(2))
    graph.bulk({"Task": more, "Blocks": [{"from": "m0", "to": "m1"}]}, mode="append")
    found = [row["slug"] for row in graph.query(ALL)]
    assert found == ["a", "b", "g1", "g2", "l1", "m0", "m1", "u1", "u2", "z1"]
    later = graph.get("Task", "u2")
    assert later is not None
    assert later["due"] == datetime.date(2024, 5, 6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, "cannot load an int"),
        (2.5, "cannot load a float"),
        ([1, 2], "row 1 is an int"),
        ([{"slug": "x", "title": "X"}, "y"], "row 2 is a str"),
        ([{"slug": 1}, {"slug": "x"}], "do not fit one table"),
    ],
)
def test_what_is_no_rows_is_refused_in_words(graph: og.Graph, given: Any, message: str) -> None:
    before = graph.commits.head()
    with pytest.raises(og.BadRequestError, match=message):
        graph.load_table("Task", given, mode="append")
    assert graph.commits.head() == before


def test_other_mistakes_in_python_are_told_in_words(graph: og.Graph) -> None:
    with pytest.raises(og.BadRequestError, match="a query is text, not a NoneType"):
        graph.query(None)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="rows are named by number"):
        graph.query(ALL)["slug"]  # type: ignore[call-overload]  # the mistake
    with pytest.raises(og.BadRequestError, match="cannot load a dict") as caught:
        graph.load({"Task": []}, mode="append")  # type: ignore[dict-item]  # the mistake
    assert "`graph.bulk` takes rows and frames by type" in str(caught.value.hint)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_one_sentence_with_the_command(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(og.BadRequestError, match=f"needs {package}") as caught:
        getattr(graph.query(ALL), f"to_{package}")()
    assert caught.value.hint == f"pip install 'omnigraph[{package}]'"

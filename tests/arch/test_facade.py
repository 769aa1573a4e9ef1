"""A graph stays small enough to know, and every name of it is explained."""

from __future__ import annotations

import re

import pytest

import omnigraph as og
from omnigraph.graph.reading import Reads
from omnigraph.graph.session import Session
from tests.arch.project import PACKAGE, ROOT, files_under, lines_of, place, report

NAMES_MAX = 30
PARTS = {"branches", "tags", "commits", "feed", "blobs", "entities", "schema", "maintenance"}
# The rooms that use an open graph do so by its public names and by `omnigraph.graph.seam`.
SHELLS = ("cli", "cluster", "mcp", "remote", "server", "spark", "testing")
_INSIDE = re.compile(r"(?<!\bself)\._(engine|acting)\b")


def public(part: object) -> set[str]:
    return {name for name in dir(part) if not name.startswith("_")}


@pytest.fixture
def page() -> str:
    return (ROOT / "docs" / "python-api.md").read_text(encoding="utf-8")


def test_a_graph_has_few_public_names() -> None:
    assert len(public(og.Graph)) <= NAMES_MAX
    assert public(og.Graph) == public(Session)


def test_a_graph_has_no_names_beside_these_but_its_parts() -> None:
    stored = re.findall(r"self\.([a-z]\w*) = ", _source())
    assert set(stored) == PARTS


@pytest.mark.parametrize("name", sorted(public(og.Graph) | PARTS))
def test_the_name_is_explained(page: str, name: str) -> None:
    assert re.search(rf"\bgraph\.{name}\b", page), f"graph.{name} is not in python-api.md"


@pytest.mark.parametrize("name", sorted(public(og.Graph)))
def test_the_name_has_words_of_its_own(name: str) -> None:
    assert (getattr(og.Graph, name).__doc__ or "").strip()


def test_a_graph_is_one_step_above_a_session() -> None:
    assert og.Graph.__mro__ == (og.Graph, Session, Reads, object)
    assert set(vars(og.Graph)) & public(og.Graph) == {"close"}


def test_shells_stay_out_of_an_open_graph() -> None:
    problems = [
        place(path, number)
        for room in SHELLS
        for path in files_under(PACKAGE / room, "*.py")
        for number, line in enumerate(lines_of(path), start=1)
        if _INSIDE.search(line)
    ]
    assert not problems, report("internals of a session used elsewhere", problems)


def _source() -> str:
    text = (PACKAGE / "graph" / "session.py").read_text(encoding="utf-8")
    return text.partition("def __enter__")[0]

"""A mutation, a query, a load and a merge go down through the rooms, and never call back up.

Layers forbid imports upwards; here calls are recorded as they are made. What a room was handed it
may ask: `HANDED_DOWN` lists these calls, each with its reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import omnigraph as og
from tests.arch.project import PACKAGE

LEVELS = [
    {"graph"},
    {"ops", "policy"},
    {"commits", "read"},
    {"intake"},
    {"rows"},
    {"lang", "store", "compute", "embed"},
    {"plan"},
    {"catalog"},
    {"values"},
]
HANDED_DOWN = {
    ("commits", "ops"): "the write loop asks the operation it was given to look at a base",
    ("intake", "ops"): "a reader takes the lines that a load hands it one by one",
    ("compute", "read"): "an expression asks the rows it is evaluated on for their columns",
}
# Runs functions of its callers side by side; it calls for them.
TRANSPARENT = {"store/files/parallel.py"}
ADD = "query add($k: String) { insert P { k: $k } }"


def _place(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    place = path.relative_to(PACKAGE).as_posix()
    return None if place in TRANSPARENT or "/" not in place else place


def _caller(frame: FrameType) -> str | None:
    back = frame.f_back
    while back is not None:
        if (place := _place(back.f_code)) is not None:
            return place
        back = back.f_back
    return None


@contextmanager
def recorded() -> Iterator[set[tuple[str, str]]]:
    """Hold the calls that are made in this thread, as pairs of modules."""
    found: set[tuple[str, str]] = set()

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and (place := _place(frame.f_code)) is not None:
            caller = _caller(frame)
            if caller is not None:
                found.add((caller, place))

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)


def _level(room: str) -> int | None:
    return next((number for number, rooms in enumerate(LEVELS) if room in rooms), None)


def upward(calls: set[tuple[str, str]]) -> list[str]:
    """Return the calls from a room to one above it that nothing explains."""
    found: list[str] = []
    for caller, called in sorted(calls):
        here, there = caller.split("/")[0], called.split("/")[0]
        levels = _level(here), _level(there)
        if None in levels or (here, there) in HANDED_DOWN:
            continue
        if levels[0] > levels[1]:  # type: ignore[operator]  # neither is None
            found.append(f"{caller} -> {called}")
    return found


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    schema = "node P { k: String @key  n: I64? }\nedge Knows: P -> P"
    with og.init(tmp_path / "g", schema, durability="none", upkeep=False) as found:
        for key in ("a", "b"):
            found.mutate(ADD, {"k": key})
        found.branches.create("side")
        found.mutate(ADD, {"k": "c"}, branch="side")
        found.mutate(ADD, {"k": "d"})
        yield found


JOURNEYS: dict[str, tuple[Callable[[og.Graph], object], set[str]]] = {
    "mutation": (lambda graph: graph.mutate(ADD, {"k": "e"}), {"ops", "commits", "rows", "store"}),
    "query": (
        lambda graph: graph.query("query q() { match { $p: P } return { $p.k } }"),
        {"read", "commits", "store"},
    ),
    "load": (
        lambda graph: graph.load([{"type": "P", "data": {"k": "f"}}], mode="merge"),
        {"ops", "commits", "intake", "rows", "store"},
    ),
    "merge": (lambda graph: graph.branches.merge("side"), {"ops", "commits", "rows", "store"}),
}


@pytest.mark.parametrize("name", JOURNEYS)
def test_a_journey_goes_down_only(graph: og.Graph, name: str) -> None:
    journey, rooms = JOURNEYS[name]
    with recorded() as calls:
        journey(graph)
    assert {called.split("/")[0] for _caller, called in calls} >= rooms
    assert upward(calls) == []


def test_a_call_upwards_is_noticed() -> None:
    assert upward({("store/tables/table.py", "commits/loop.py")}) != []
    assert upward({("commits/loop.py", "graph/session.py")}) != []
    assert upward({("graph/session.py", "commits/loop.py")}) == []


def test_a_read_enters_no_room_that_checks_or_writes_rows(graph: og.Graph) -> None:
    with recorded() as calls:
        JOURNEYS["query"][0](graph)
    entered = {called for _caller, called in calls}
    assert not {place for place in entered if place.startswith(("ops/", "rows/", "intake/"))}
    writing = {"commits/loop.py", "commits/publisher.py", "commits/recovery.py"}
    assert not entered & writing

"""Random inputs for two ways of loading, and how their outcomes are compared."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

import omnigraph as og

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    mail: String? @unique
    born: Date?
    seen: DateTime? @unique
    score: F32? @unique
    face: Vector(2)?
    @range(age, 0..150)
}

node Place {
    zone: I32
    name: String
    open: Bool?
    code: U64?
    @key(zone, name)
}

node Note {
    text: String
    photo: Blob?
}

edge Knows: Person -> Person {
    since: Date?
    weight: F64 @default(1.0)
    @unique(src, dst)
}

edge Wrote: Person -> Note @card(0..2) {
    role: enum(author, editor)?
}

edge At: Person -> Place
"""

Envelope = dict[str, Any]

FULL = os.environ.get("OMNIGRAPH_SPARK") == "full"
full_only = pytest.mark.skipif(not FULL, reason="slow: `make test-spark` runs it")


class NewGraph(Protocol):
    """Makes a graph in the test's folder; it is closed when the test ends."""

    def __call__(self, schema: str = SCHEMA, *, name: str = "g") -> og.Graph: ...


def jsonl(path: Path, rows: Sequence[Envelope | str]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def world(rng: random.Random, *, people: int = 12, names: str = "p") -> list[Envelope]:
    """Return a valid input: nodes and edges of all types, in random order."""
    rows: list[Envelope] = []
    persons = [f"{names}{number}" for number in range(people)]
    for number, name in enumerate(persons):
        data: Envelope = {"name": name}
        if rng.random() < 0.6:
            data["age"] = rng.randint(0, 150)
        if rng.random() < 0.6:
            data["mail"] = f"{name}@x"
        if rng.random() < 0.5:
            data["born"] = f"20{rng.randint(10, 29)}-0{rng.randint(1, 9)}-11"
        if rng.random() < 0.5:
            data["seen"] = 1_700_000_000_000 + number * 1000 + (names == "q") * 500
        if rng.random() < 0.4:
            data["score"] = number + 0.1 + (names == "q") * 100
        if rng.random() < 0.4:
            data["face"] = [rng.random(), 1.0]
        rows.append({"type": "Person", "data": data})
    for zone in range(2):
        code = 2**63 + rng.randint(0, 9)
        data = {"zone": zone, "name": f"{names}x", "open": zone == 0, "code": code}
        rows.append({"type": "Place", "data": data})
    notes = [f"{names}n{number}" for number in range(4)]
    rows += [
        {"type": "Note", "data": {"id": note, "text": note, "photo": "base64:aGk="}}
        for note in notes
    ]
    pairs = rng.sample([(a, b) for a in persons for b in persons], people)
    for source, target in pairs:
        rows.append({"edge": "knows", "from": source, "to": target})
    for number, source in enumerate(persons[:4]):
        data = {"id": f"{names}w{number}", "role": rng.choice(["author", "editor"])}
        rows.append({"edge": "Wrote", "from": source, "to": rng.choice(notes), "data": data})
    place = json.dumps([f"{names}x", "0"], separators=(",", ":"))
    rows.append({"edge": "At", "from": persons[0], "to": place, "data": {"id": f"{names}a"}})
    rng.shuffle(rows)
    return rows


Spoil = Callable[[random.Random, list[Any]], None]


def _add(*rows: Any) -> Spoil:
    def spoil(rng: random.Random, found: list[Any]) -> None:
        for row in rows:
            found.insert(rng.randrange(len(found) + 1), row)

    return spoil


def _person(**data: Any) -> Envelope:
    return {"type": "Person", "data": data}


def _edge(name: str, source: str, target: str, **data: Any) -> Envelope:
    return {"edge": name, "from": source, "to": target, "data": data}


SYNTAX = _add(
    '{"type": "Person", "data": {"name": "z"}',
    '{"type": "Person", "data": {"name": "z"}} x',
    '{"type": "Person", "data": {"name": "z", "name": "y"}}',
    {"type": "Persn", "data": {}},
    _person(name="z", size=1),
    _person(name="z", age="old"),
    _person(name="y", age=2**31),
    _person(age=3),
    _person(name="z", face=[1.0]),
    _edge("Knows", "p0", "p1", weight=None),
)
IDS = _add(
    _person(name="z", id="y"),
    _person(name="z"),
    _person(name="z"),
    {"type": "Note", "data": {"text": "t"}},
    {"type": "Note", "data": {"text": "t"}},
    {"type": "Place", "data": {"zone": 7, "name": "z"}},
    {"type": "Place", "data": {"zone": 7, "name": "z"}},
    _edge("At", "p0", "q", id="e"),
    _edge("At", "p0", "q", id="e"),
)
RULES = _add(
    _person(name="z1", age=151),
    _edge("Wrote", "p9", "pn0", role="reader"),
    _person(name="z2", mail="same"),
    _person(name="z3", mail="same"),
    _person(name="z4", seen=5),
    _person(name="z5", seen=5),
    _person(name="z6", score=0.1),
    _person(name="z7", score=0.1),
    _edge("Knows", "z1", "z1", id="a"),
    _edge("knows", "z1", "z1", id="b"),
    _edge("Knows", "nobody", "p0", id="k1"),
    _edge("Wrote", "p9", "nothing", id="k2"),
    *(_edge("Wrote", "p8", "pn0", id=f"m{number}") for number in range(3)),
)
SPOILS: dict[str, Spoil] = {"syntax": SYNTAX, "ids": IDS, "rules": RULES}


def content(graph: og.Graph) -> dict[str, Any]:
    """Return everything a graph holds; ids that were made up are left out."""
    found: dict[str, list[str]] = {}
    rows = graph.export()
    assert not isinstance(rows, int)
    for row in rows:
        data = dict(row["data"])  # type: ignore[call-overload]
        if len(str(data["id"])) == 26:
            del data["id"]
        key = str(row.get("type") or row.get("edge"))
        shown = {**row, "data": data}
        found.setdefault(key, []).append(json.dumps(shown, sort_keys=True))
    return {key: sorted(lines) for key, lines in found.items()}


ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")


def outcome(run: Callable[[], Any]) -> Any:
    """Return what a load did: its counts, or its error with all problems."""
    try:
        result = run()
    except og.DataError as error:
        shown = [json.dumps(item, sort_keys=True) for item in error.problems]
        problems = sorted(ULID.sub("ID", item) for item in shown)
        lines = sorted(ULID.sub("ID", line) for line in error.message.splitlines())
        # Only ten are shown, and two in the same line come in no order.
        return ("data", lines if len(problems) <= 10 else len(lines), problems)
    except og.OmniGraphError as error:
        return (type(error).__name__, error.message)
    return (dict(result.nodes), dict(result.edges), result.commit is not None)

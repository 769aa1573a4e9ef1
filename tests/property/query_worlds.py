"""Random graphs for queries: the same content loaded into a graph and as plain data."""

from __future__ import annotations

import datetime
import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.read import Fetch, Reader
from omnigraph.values.words import LoadWord
from tests.property.query_oracle import Entity, GraphData

SCHEMA = """\
node Person {
    slug: String @key
    name: String?
    level: I32
    small: I32?
    big: I64?
    count32: U32?
    huge: U64?
    wild: F64?
    ratio: F64?
    half: F32?
    flag: Bool?
    day: Date?
    moment: DateTime?
    team: enum(red, green, blue)?
    tags: [String]?
    nums: [I64]?
    shares: [F64]?
    days: [Date]?
}
node Thing {
    slug: String @key
    name: String?
    small: I32?
    big: I64?
    ratio: F64?
    day: Date?
    tags: [String]?
}
edge Knows: Person -> Person {
    weight: F64?
    since: Date?
    note: String?
}
edge Owns: Person -> Thing {
    small: I32?
    ratio: F64?
}
edge Near: Thing -> Thing
edge Likes: Person -> Person {
    weight: F64
    since: Date?
    note: I32?
}
edge Held: Thing -> Person {
    small: I32?
}
"""
ENDS = {
    "Knows": ("Person", "Person"),
    "Owns": ("Person", "Thing"),
    "Near": ("Thing", "Thing"),
    "Likes": ("Person", "Person"),
    "Held": ("Thing", "Person"),
}
UNIONS = {"Knows|Likes": ("Person", "Person"), "Owns|Held": ("Person", "Thing")}

# A kind of value groups the properties that compare with each other.
PROPERTIES = {
    "Person": {
        "whole": ["level", "small", "big", "count32", "huge"],
        "little": ["level", "small"],
        "float": ["wild", "ratio", "half"],
        "exact": ["level", "small", "ratio", "half"],
        "text": ["slug", "name", "team", "id"],
        "bool": ["flag"],
        "date": ["day"],
        "datetime": ["moment"],
        "texts": ["tags"],
        "wholes": ["nums"],
        "floats": ["shares"],
        "dates": ["days"],
    },
    "Thing": {
        "whole": ["small", "big"],
        "little": ["small"],
        "float": ["ratio"],
        "exact": ["small", "ratio"],
        "text": ["slug", "name", "id"],
        "date": ["day"],
        "texts": ["tags"],
    },
    "Knows": {
        "float": ["weight"],
        "exact": ["weight"],
        "text": ["note", "id", "from", "to"],
        "date": ["since"],
    },
    "Owns": {
        "whole": ["small"],
        "little": ["small"],
        "float": ["ratio"],
        "exact": ["small", "ratio"],
        "text": ["id", "from", "to"],
    },
    "Near": {"text": ["id", "from", "to"]},
    "Likes": {
        "whole": ["note"],
        "little": ["note"],
        "float": ["weight"],
        "exact": ["weight"],
        "text": ["id", "from", "to"],
        "date": ["since"],
    },
    "Held": {"whole": ["small"], "little": ["small"], "text": ["id", "from", "to"]},
    # What all of several types have.
    "Knows|Likes": {
        "float": ["weight"],
        "exact": ["weight"],
        "text": ["id", "from", "to"],
        "date": ["since"],
    },
    "Owns|Held": {"whole": ["small"], "little": ["small"], "text": ["id", "from", "to"]},
}
TEXTS = ["", "a", "ab", "abc", "Ab", "b", "é", "e\u0301", "\U0001f600", "\uffff", "100%", 'q"\\']
WHOLES = [0, 1, -1, 2, 3, 7, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 2000, -(2**53) - 1]
WILD = [
    0.0,
    -0.0,
    0.5,
    -1.25,
    0.1,
    3.0,
    2.0**53,
    2.0**53 + 2,
    1e16,
    1e300,
    -(2.0**63),
    2.0**63,
    2.7,
]
NICE = [0.0, -0.0, 0.25, -0.5, 1.0, 2.0, 2.5, -3.75, 7.0, 100.0]
HALF = [0.0, 0.5, 0.1, -2.5, 3.0, 16777216.0]
DAYS = ["1969-12-31", "1970-01-01", "2024-02-29", "2024-03-01", "0001-01-01", "9999-12-31"]
MOMENTS = ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z", "2024-02-29T12:00:00.001Z"]
TEAMS = ["red", "green", "blue"]


def single(value: float) -> float:
    """Return the 32-bit float a value is stored as."""
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


# ---- graphs -------------------------------------------------------------------------------


def _maybe(r: random.Random, values: list[Any]) -> Any:
    return None if r.random() < 0.25 else r.choice(values)


def _several(r: random.Random, values: list[Any]) -> Any:
    return None if r.random() < 0.25 else [r.choice(values) for _ in range(r.randint(0, 3))]


def _person(r: random.Random, slug: str) -> Entity:
    return {
        "slug": slug,
        "name": _maybe(r, TEXTS),
        "level": r.choice([0, 1, 2, 3, -(2**31)]),
        "small": _maybe(r, [-3, 0, 1, 2, 2, 3]),
        "big": _maybe(r, WHOLES),
        "count32": _maybe(r, [0, 1, 2, 2**32 - 1]),
        "huge": _maybe(r, [0, 1, 7, 2**63 - 1, 2**63, 2**64 - 1]),
        "wild": _maybe(r, WILD),
        "ratio": _maybe(r, NICE),
        "half": _maybe(r, HALF),
        "flag": _maybe(r, [True, False]),
        "day": _maybe(r, DAYS),
        "moment": _maybe(r, MOMENTS),
        "team": _maybe(r, TEAMS),
        "tags": _several(r, TEXTS),
        "nums": _several(r, WHOLES),
        "shares": _several(r, WILD),
        "days": _several(r, DAYS),
    }


def _thing(r: random.Random, slug: str) -> Entity:
    return {
        "slug": slug,
        "name": _maybe(r, TEXTS),
        "small": _maybe(r, [-3, 0, 1, 2]),
        "big": _maybe(r, WHOLES),
        "ratio": _maybe(r, NICE),
        "day": _maybe(r, DAYS),
        "tags": _several(r, TEXTS),
    }


def _edge(r: random.Random, type_name: str) -> Entity:
    if type_name == "Knows":
        return {
            "weight": _maybe(r, NICE),
            "since": _maybe(r, DAYS),
            "note": _maybe(r, TEXTS),
        }
    if type_name == "Owns":
        return {"small": _maybe(r, [0, 1, 2]), "ratio": _maybe(r, NICE)}
    if type_name == "Likes":
        return {
            "weight": r.choice(NICE),
            "since": _maybe(r, DAYS),
            "note": _maybe(r, [0, 1, 2]),
        }
    if type_name == "Held":
        return {"small": _maybe(r, [0, 1, 2])}
    return {}


def _typed(values: Entity) -> Entity:
    """Return loaded values as the values queries see."""
    found = dict(values)
    for name in ("day", "since"):
        if found.get(name) is not None:
            found[name] = datetime.date.fromisoformat(found[name])
    if found.get("moment") is not None:
        found["moment"] = datetime.datetime.fromisoformat(found["moment"])
    if found.get("days") is not None:
        found["days"] = [datetime.date.fromisoformat(item) for item in found["days"]]
    if found.get("half") is not None:
        found["half"] = single(found["half"])
    return found


@dataclass(slots=True)
class World:
    """A loaded graph and the same content as plain data."""

    graph: og.Graph
    data: GraphData
    readers: list[Reader]


def _size(r: random.Random, seed: int, usual: int) -> int:
    """The first graph is empty, the second tiny, and so on with all."""
    return (0, 1)[seed] if seed < 2 else r.randint(usual - 1, usual + 1)


def make_world(seed: int, place: Path) -> World:
    """Make a graph in several commits, some of which replace and delete rows."""
    r = random.Random(seed)  # noqa: S311
    graph = og.init(place, SCHEMA, durability="none")
    people = {f"p{n}": _person(r, f"p{n}") for n in range(_size(r, seed, 6))}
    things = {f"t{n}": _thing(r, f"t{n}") for n in range(_size(r, seed, 4))}
    edges: dict[tuple[str, str], Entity] = {}
    ends = {"Person": list(people), "Thing": list(things)}
    for type_name, (source, target) in ENDS.items():
        if not ends[source] or not ends[target]:
            continue
        for n in range(r.randint(len(ends[source]), 2 * len(ends[source]) + 2)):
            one, two = r.choice(ends[source]), r.choice(ends[target])
            if source == target and r.random() < 0.2:
                two = one
            # An id is unique within its type only.
            id = f"e{n}"
            edges[type_name, id] = {"src": one, "dst": two, **_edge(r, type_name)}
    _store(graph, people, things, edges)
    if people and r.random() < 0.7:
        changed = {slug: _person(r, slug) for slug in r.sample(list(people), len(people) // 2)}
        people |= changed
        _store(graph, changed, {}, {}, mode="merge")
    if len(people) > 3 and r.random() < 0.7:
        gone = r.choice(list(people))
        graph.mutate("query d($s: String) { delete Person where slug = $s }", {"s": gone})
        del people[gone]
        edges = {i: e for i, e in edges.items() if gone not in (e["src"], e["dst"])}
    data = GraphData(
        nodes={
            "Person": [{"id": slug, **_typed(values)} for slug, values in people.items()],
            "Thing": [{"id": slug, **_typed(values)} for slug, values in things.items()],
        },
        edges={
            name: [{"id": i, **_typed(v)} for (kind, i), v in edges.items() if kind == name]
            for name in ENDS
        },
        ends=ENDS,
    )
    tables = graph._engine.tables
    readers = [Reader(tables, factorise=False), Reader(tables, fetch=Fetch.PROBE)]
    return World(graph, data, readers)


def _store(
    graph: og.Graph,
    people: dict[str, Entity],
    things: dict[str, Entity],
    edges: dict[tuple[str, str], Entity],
    mode: LoadWord = "append",
) -> None:
    rows: list[dict[str, Any]] = [{"type": "Person", "data": item} for item in people.values()]
    rows += [{"type": "Thing", "data": item} for item in things.values()]
    for (type_name, id), values in edges.items():
        data = {"id": id, **{k: v for k, v in values.items() if k not in ("src", "dst")}}
        rows.append({"edge": type_name, "from": values["src"], "to": values["dst"], "data": data})
    if rows:
        graph.load(rows, mode=mode)

"""Random histories of change data capture, and a model of what a graph holds after each batch."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

import omnigraph as og

SCHEMA = """\
node Person {
    name: String @key
    age: I32?
    bio: String?
    rank: I32 @default(1)
}

node Note { text: String }

edge Knows: Person -> Person {
    since: I32?
    @unique(src, dst)
}

edge Wrote: Person -> Note
"""


def frame(*rows: dict[str, Any]) -> Any:
    """Return rows as a table; types that are all null here would be lost between batches."""
    table = pa.Table.from_pylist(list(rows))
    nulls = [n for n in table.column_names if pa.types.is_null(table.schema.field(n).type)]
    for name in nulls:
        kind = pa.int32() if name in ("age", "since", "seq") else pa.string()
        at = table.column_names.index(name)
        table = table.set_column(at, name, table[name].cast(kind))
    return table


def people_of(graph: og.Graph) -> dict[str, tuple[Any, ...]]:
    text = "query q() { match { $p: Person } return { $p.name, $p.age, $p.bio, $p.rank } }"
    return {row["p.name"]: (row["p.age"], row["p.bio"], row["p.rank"]) for row in graph.query(text)}


def knows_of(graph: og.Graph) -> dict[tuple[str, str], Any]:
    lines: Any = graph.export()
    found = (line for line in lines if line.get("edge") == "Knows")
    return {(line["from"], line["to"]): line["data"]["since"] for line in found}


class History:
    """Makes batches of events, and knows what each of them leads to."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)  # noqa: S311
        self._sequence = 0
        self.people: dict[str, dict[str, Any]] = {}
        self.knows: dict[tuple[str, str], Any] = {}

    def batch(self) -> dict[str, Any]:
        """Return the sources of the next batch; the model is as it leaves the graph."""
        rng = self._rng
        columns = rng.sample(["age", "bio", "rank"], rng.randint(1, 3))
        events = [self._event(columns) for _ in range(rng.randint(1, 12))]
        last = {event["name"]: event for event in events}
        for name, event in last.items():
            if event["op"] == "d":
                self.people.pop(name, None)
                self.knows = {pair: n for pair, n in self.knows.items() if name not in pair}
            else:
                # What went before the last event, a delete too, does not matter.
                known = self.people.setdefault(name, {"age": None, "bio": None, "rank": 1})
                known.update({key: event[key] for key in columns})
        shuffled = rng.sample(events, len(events))
        sources: dict[str, Any] = {"Person": og.Rows(data=frame(*shuffled), seq_col="seq")}
        links = self._links()
        if links:
            sources["Knows"] = frame(*links)
        return sources

    def _event(self, columns: list[str]) -> dict[str, Any]:
        rng = self._rng
        self._sequence += 1
        values = {"age": rng.randint(0, 9), "bio": rng.choice(["x", None]), "rank": 2}
        values = {key: values[key] for key in columns}
        op, name = rng.choice("cuud"), rng.choice("abcdef")
        return {"op": op, "name": name, "seq": self._sequence, **values}

    def _links(self) -> list[dict[str, Any]]:
        rng, found = self._rng, []
        names = sorted(self.people)
        for _ in range(rng.randint(0, 5) if names else 0):
            pair = (rng.choice(names), rng.choice(names))
            op, since = rng.choice("cd"), rng.randint(0, 3)
            found.append({"op": op, "from": pair[0], "to": pair[1], "since": since})
            self.knows.pop(pair, None)
            if op == "c":
                self.knows[pair] = since
        return found

    def check(self, graph: og.Graph) -> None:
        """Compare a graph with the model."""
        assert people_of(graph) == {
            name: (row["age"], row["bio"], row["rank"]) for name, row in self.people.items()
        }
        assert knows_of(graph) == self.knows

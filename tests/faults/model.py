"""A dict that behaves like the graph of `rig.SCHEMA`, and writes that both understand.

A write is plain data, so that it can travel between processes and be replayed in the order the
lineage gives. `Refused` means that the graph must refuse it too, and stay as it was.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from tests.faults.rig import State

Op = Mapping[str, Any]
Row = dict[str, Any]

WORKS_MAX = 2
NODES = {"Person": ("slug", "name", "level"), "Firm": ("slug", "name")}
EDGES = {"Knows": ("weight",), "Works": ("role",)}
ENDS = {"Knows": ("Person", "Person"), "Works": ("Person", "Firm")}

QUERIES = {
    "insert_person": "query q($slug: String, $name: String?, $level: I64?) "
    "{ insert Person { slug: $slug, name: $name, level: $level } }",
    "upsert_person": "query q($slug: String, $level: I64?) "
    "{ upsert Person { slug: $slug, level: $level } }",
    "update_below": "query q($below: I64, $name: String?) "
    "{ update Person set { name: $name } where level < $below }",
    "update_one": "query q($slug: String, $level: I64?) "
    "{ update Person set { level: $level } where slug = $slug }",
    "delete_person": "query q($slug: String) { delete Person where slug = $slug }",
    "delete_below": "query q($below: I64) { delete Person where level < $below }",
    "insert_firm": "query q($slug: String) { insert Firm { slug: $slug } }",
    "delete_firm": "query q($slug: String) { delete Firm where slug = $slug }",
    "knows": "query q($id: String, $a: String, $b: String) "
    "{ insert Knows { id: $id, from: $a, to: $b } }",
    "works": "query q($id: String, $a: String, $b: String) "
    "{ insert Works { id: $id, from: $a, to: $b } }",
    "person_and_edge": "query q($slug: String, $id: String, $b: String) "
    "{ insert Person { slug: $slug } insert Knows { id: $id, from: $slug, to: $b } }",
    "delete_knows": "query q($a: String) { delete Knows where from = $a }",
}


class Refused(Exception):
    """The write breaks a rule: the graph must refuse it."""


def perform(graph: og.Graph, op: Op, **options: Any) -> og.MutationResult | og.LoadResult:
    """Run a write on a graph."""
    if op["op"] == "load":
        return graph.load(op["rows"], mode=op["mode"], **options)
    params = {name: value for name, value in op.items() if name != "op"}
    return graph.mutate(QUERIES[op["op"]], params, **options)


@dataclass(slots=True)
class Model:
    """The rows of every type, by id."""

    rows: dict[str, dict[str, Row]] = field(
        default_factory=lambda: {name: {} for name in (*NODES, *EDGES)}
    )

    def state(self) -> State:
        """Return what an export of the graph must hold."""
        found: State = {}
        for name, rows in self.rows.items():
            for entity_id, row in rows.items():
                if name in NODES:
                    envelope: Row = {"type": name, "data": {"id": entity_id, **row}}
                else:
                    data = {key: row[key] for key in EDGES[name]}
                    envelope = {
                        "edge": name,
                        "from": row["src"],
                        "to": row["dst"],
                        "data": {"id": entity_id, **data},
                    }
                found[(name, entity_id)] = json.dumps(envelope, sort_keys=True)
        return found

    def apply(self, op: Op) -> bool:
        """Do a write; return whether it touched anything. Raises `Refused`, changing nothing."""
        draft = Model(copy.deepcopy(self.rows))
        touched = draft._apply(op)
        draft._check()
        self.rows = draft.rows
        return touched

    def _apply(self, op: Op) -> bool:
        people, firms = self.rows["Person"], self.rows["Firm"]
        match op["op"]:
            case "insert_person":
                people[op["slug"]] = {key: op.get(key) for key in NODES["Person"]}
            case "upsert_person":
                known = people.get(op["slug"], {"slug": op["slug"], "name": None})
                people[op["slug"]] = {**known, "level": op["level"]}
            case "update_below":
                hit = self._below(op["below"])
                for slug in hit:
                    people[slug]["name"] = op["name"]
                return bool(hit)
            case "update_one":
                if op["slug"] not in people:
                    return False
                people[op["slug"]]["level"] = op["level"]
            case "delete_person":
                return self._remove("Person", [op["slug"]])
            case "delete_below":
                return self._remove("Person", self._below(op["below"]))
            case "insert_firm":
                firms[op["slug"]] = {"slug": op["slug"], "name": None}
            case "delete_firm":
                return self._remove("Firm", [op["slug"]])
            case "knows":
                self._add_edge("Knows", op["id"], {"src": op["a"], "dst": op["b"], "weight": None})
            case "works":
                self._add_edge("Works", op["id"], {"src": op["a"], "dst": op["b"], "role": None})
            case "person_and_edge":
                people[op["slug"]] = {"slug": op["slug"], "name": None, "level": None}
                edge = {"src": op["slug"], "dst": op["b"], "weight": None}
                self._add_edge("Knows", op["id"], edge)
            case "delete_knows":
                gone = [k for k, row in self.rows["Knows"].items() if row["src"] == op["a"]]
                for key in gone:
                    del self.rows["Knows"][key]
                return bool(gone)
            case "load":
                return self._load(op["mode"], op["rows"])
        return True

    def _add_edge(self, name: str, edge_id: str, row: Row) -> None:
        """Add an edge under a chosen id, which must be new."""
        if edge_id in self.rows[name]:
            raise Refused(f"{name} {edge_id} exists")
        self.rows[name][edge_id] = row

    def _below(self, limit: int) -> list[str]:
        people = self.rows["Person"].items()
        return [k for k, row in people if row["level"] is not None and row["level"] < limit]

    def _remove(self, name: str, ids: list[str]) -> bool:
        gone = {item for item in ids if item in self.rows[name]}
        for item in gone:
            del self.rows[name][item]
        for edge, (source, target) in ENDS.items():
            rows = self.rows[edge]
            for key, row in list(rows.items()):
                if (source == name and row["src"] in gone) or (
                    target == name and row["dst"] in gone
                ):
                    del rows[key]
        return bool(gone)

    def _load(self, mode: str, envelopes: list[Row]) -> bool:
        if mode == "overwrite":
            for name in {str(item.get("type") or item.get("edge")) for item in envelopes}:
                self.rows[name] = {}
        seen: set[tuple[str, str]] = set()
        for item in envelopes:
            name, data = str(item.get("type") or item.get("edge")), item["data"]
            entity_id = data["slug"] if name in NODES else data["id"]
            if (name, entity_id) in seen or (mode == "append" and entity_id in self.rows[name]):
                raise Refused(f"{name} {entity_id}")
            seen.add((name, entity_id))
            if name in NODES:
                row = {key: data.get(key) for key in NODES[name]}
            else:
                row = {"src": item["from"], "dst": item["to"]}
                row |= {key: data.get(key) for key in EDGES[name]}
            self.rows[name][entity_id] = row
        return bool(envelopes)

    def _check(self) -> None:
        for edge, (source, target) in ENDS.items():
            for key, row in self.rows[edge].items():
                if row["src"] not in self.rows[source] or row["dst"] not in self.rows[target]:
                    raise Refused(f"{edge} {key} has no endpoint")
        works = self.rows["Works"].values()
        if len({(row["src"], row["dst"]) for row in works}) < len(works):
            raise Refused("Works(src, dst) is not unique")
        if any(n > WORKS_MAX for n in Counter(row["src"] for row in works).values()):
            raise Refused("too many Works")

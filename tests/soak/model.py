"""The graph of a soak as plain dictionaries, and the writes both understand.

A write is plain data, so that a journal can hold it and the checker replay it in the order the
lineage gives. States share their rows and never change: each write makes a new one. `Refused`
means that the graph must refuse the write too, so that no commit of it may exist.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.faults.model import Row
from tests.property.merge_model import Tree, merge_type, starts

Op = Mapping[str, Any]
Rows = Mapping[str, Mapping[str, Row]]
Entity = tuple[str, str]

WORKS_MAX = 2
NODES = {
    "Person": ("slug", "name", "level", "email"),
    "Firm": ("slug", "name"),
    "Badge": ("code", "text"),
}
KEYS = {"Person": "slug", "Firm": "slug", "Badge": "code"}
EDGES = {"Knows": ("weight",), "Works": ("role",)}
ENDS = {"Knows": ("Person", "Person"), "Works": ("Person", "Firm")}
EXTRAS_MAX = 3
"""Properties that schema changes may have added to `Firm` at one time."""

_SCHEMA = """
node Person {{ slug: String @key  name: String? @index  level: I64?  email: String? @unique }}
node Firm {{ slug: String @key  name: String?{extras} }}
node Badge {{ code: String @key  text: String? @index }}
edge Knows: Person -> Person {{ weight: F64? }}
edge Works: Person -> Firm @card(0..2) {{ role: String?  @unique(src, dst) }}
"""

QUERIES = {
    "insert_person": "query q($slug: String, $name: String?, $level: I64?, $email: String?) "
    "{ insert Person { slug: $slug, name: $name, level: $level, email: $email } }",
    "upsert_person": "query q($slug: String, $level: I64?) "
    "{ upsert Person { slug: $slug, level: $level } }",
    "update_below": "query q($below: I64, $name: String?) "
    "{ update Person set { name: $name } where level < $below }",
    "update_one": "query q($slug: String, $level: I64?) "
    "{ update Person set { level: $level } where slug = $slug }",
    "delete_person": "query q($slug: String) { delete Person where slug = $slug }",
    "delete_below": "query q($below: I64) { delete Person where level < $below }",
    "insert_firm": "query q($slug: String, $name: String?) "
    "{ insert Firm { slug: $slug, name: $name } }",
    "delete_firm": "query q($slug: String) { delete Firm where slug = $slug }",
    "knows": "query q($id: String, $a: String, $b: String) "
    "{ insert Knows { id: $id, from: $a, to: $b } }",
    "works": "query q($id: String, $a: String, $b: String) "
    "{ insert Works { id: $id, from: $a, to: $b } }",
    "person_and_edge": "query q($slug: String, $id: String, $b: String) "
    "{ insert Person { slug: $slug } insert Knows { id: $id, from: $slug, to: $b } }",
    "delete_knows": "query q($a: String) { delete Knows where from = $a }",
    "set_extra": "query q($slug: String, $value: I64?) "
    "{{ update Firm set {{ {prop}: $value }} where slug = $slug }}",
}


class Refused(Exception):
    """The write breaks a rule: the graph must refuse it."""


def schema_text(extras: Iterable[str], renames: Mapping[str, str] | None = None) -> str:
    """Return the schema with some properties added to `Firm`; `renames` is new name to old."""
    known = renames or {}
    parts = [
        f"  {name}: I64?" + (f' @rename_from("{known[name]}")' if name in known else "")
        for name in extras
    ]
    return _SCHEMA.format(extras="".join(parts))


def query_of(op: Op) -> str:
    """Return the mutation of a write."""
    text = QUERIES[op["op"]]
    return text.format(prop=op["prop"]) if op["op"] == "set_extra" else text


# ---- states -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """Every row by type and id, and the properties that schema changes added to `Firm`."""

    rows: Rows = field(default_factory=lambda: {name: {} for name in (*NODES, *EDGES)})
    extras: tuple[str, ...] = ()

    def properties(self, name: str) -> tuple[str, ...]:
        """Return the properties of a type."""
        if name in EDGES:
            return EDGES[name]
        return (*NODES[name], *self.extras) if name == "Firm" else NODES[name]

    def envelopes(self) -> dict[Entity, dict[str, Any]]:
        """Return what an export must hold."""
        found: dict[Entity, dict[str, Any]] = {}
        for name, rows in self.rows.items():
            names = self.properties(name)
            for entity_id, row in rows.items():
                data = {"id": entity_id, **{key: row[key] for key in names}}
                if name in NODES:
                    found[name, entity_id] = {"type": name, "data": data}
                else:
                    ends = {"from": row["src"], "to": row["dst"]}
                    found[name, entity_id] = {"edge": name, **ends, "data": data}
        return found


def by_entity(rows: Iterable[Mapping[str, Any]]) -> dict[Entity, dict[str, Any]]:
    """Return exported entities by type and id; two of one id are an error."""
    found: dict[Entity, dict[str, Any]] = {}
    for row in rows:
        key = (str(row.get("type") or row.get("edge")), str(row["data"]["id"]))
        if key in found:
            raise AssertionError(f"{key} is defined twice")
        found[key] = dict(row)
    return found


def digest(entities: Mapping[Entity, Mapping[str, Any]]) -> str:
    """Return a short text that is the same for the same entities."""
    lines = sorted(json.dumps(row, sort_keys=True) for row in entities.values())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:20]


def broken_rules(entities: Mapping[Entity, Mapping[str, Any]]) -> list[str]:
    """Return which rules of the schema a whole export breaks."""
    found: list[str] = []
    for (name, entity_id), row in entities.items():
        if name in NODES and row["data"][KEYS[name]] != entity_id:
            found.append(f"{name} {entity_id} has another key")
        if name in ENDS:
            for end, target in zip((row["from"], row["to"]), ENDS[name], strict=True):
                if (target, end) not in entities:
                    found.append(f"{name} {entity_id} leads to {target} {end}, which is not there")
    works = [(row["from"], row["to"]) for (name, _), row in entities.items() if name == "Works"]
    if len(set(works)) < len(works):
        found.append("two edges Works join the same two nodes")
    if any(n > WORKS_MAX for n in Counter(source for source, _ in works).values()):
        found.append("a Person has too many Works")
    people = [row["data"] for (name, _), row in entities.items() if name == "Person"]
    emails = [person["email"] for person in people if person["email"] is not None]
    if len(set(emails)) < len(emails):
        found.append("two people share an email")
    return found


# ---- writes -------------------------------------------------------------------------------


def apply(state: State, op: Op) -> tuple[State, bool]:
    """Return the state after a write, and whether it touched anything. Raises `Refused`."""
    if op["op"] == "schema":
        return _migrated(state, op), True
    draft = _Draft(state)
    touched = draft.run(op)
    made = replace(state, rows=draft.rows)
    check(made)
    return made, touched


def check(state: State) -> None:
    """Raise `Refused` for a state the schema does not allow."""
    problems = broken_rules(state.envelopes())
    if problems:
        raise Refused(problems[0])


def _migrated(state: State, op: Op) -> State:
    """Return the state under another schema: what stays, what is renamed, added and dropped."""
    wanted, renames = op["extras"], op["renames"]
    origins: dict[str, str | None] = {}
    for name in wanted:
        old = renames.get(name)
        if name in state.extras:
            origins[name] = name
        elif old is None:
            origins[name] = None
        elif old in state.extras and old not in wanted:
            origins[name] = old
        else:
            raise Refused(f"there is no property {old} to rename")
    firms = {
        slug: {
            **{key: row[key] for key in NODES["Firm"]},
            **{name: None if old is None else row[old] for name, old in origins.items()},
        }
        for slug, row in state.rows["Firm"].items()
    }
    return State({**state.rows, "Firm": firms}, tuple(wanted))


class _Draft:
    """A state that is being changed. Rows are replaced, never changed in place."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.rows: dict[str, dict[str, Row]] = {n: dict(rows) for n, rows in state.rows.items()}

    def run(self, op: Op) -> bool:
        handler: Callable[[Op], bool] = getattr(self, f"_{op['op']}")
        return handler(op)

    def _put(self, name: str, entity_id: str, values: Mapping[str, Any]) -> None:
        names = self._state.properties(name)
        row: dict[str, Any] = {key: values.get(key) for key in names}
        if name in ENDS:
            row |= {"src": values["src"], "dst": values["dst"]}
        self.rows[name][entity_id] = row

    def _insert_person(self, op: Op) -> bool:
        self._put("Person", op["slug"], op)
        return True

    def _upsert_person(self, op: Op) -> bool:
        known = self.rows["Person"].get(op["slug"], {"slug": op["slug"]})
        self._put("Person", op["slug"], {**known, "level": op["level"]})
        return True

    def _update_below(self, op: Op) -> bool:
        hit = self._below(op["below"])
        for slug in hit:
            self._put("Person", slug, {**self.rows["Person"][slug], "name": op["name"]})
        return bool(hit)

    def _update_one(self, op: Op) -> bool:
        known = self.rows["Person"].get(op["slug"])
        if known is None:
            return False
        self._put("Person", op["slug"], {**known, "level": op["level"]})
        return True

    def _delete_person(self, op: Op) -> bool:
        return self._remove("Person", [op["slug"]])

    def _delete_below(self, op: Op) -> bool:
        return self._remove("Person", self._below(op["below"]))

    def _insert_firm(self, op: Op) -> bool:
        self._put("Firm", op["slug"], {"slug": op["slug"], "name": op["name"]})
        return True

    def _delete_firm(self, op: Op) -> bool:
        return self._remove("Firm", [op["slug"]])

    def _set_extra(self, op: Op) -> bool:
        if op["prop"] not in self._state.extras:
            raise Refused(f"Firm has no property {op['prop']}")
        known = self.rows["Firm"].get(op["slug"])
        if known is None:
            return False
        self._put("Firm", op["slug"], {**known, op["prop"]: op["value"]})
        return True

    def _knows(self, op: Op) -> bool:
        return self._add_edge("Knows", op["id"], op["a"], op["b"])

    def _works(self, op: Op) -> bool:
        return self._add_edge("Works", op["id"], op["a"], op["b"])

    def _person_and_edge(self, op: Op) -> bool:
        self._put("Person", op["slug"], {"slug": op["slug"]})
        return self._add_edge("Knows", op["id"], op["slug"], op["b"])

    def _delete_knows(self, op: Op) -> bool:
        gone = [key for key, row in self.rows["Knows"].items() if row["src"] == op["a"]]
        for key in gone:
            del self.rows["Knows"][key]
        return bool(gone)

    def _load(self, op: Op) -> bool:
        names = [str(item.get("type") or item.get("edge")) for item in op["rows"]]
        if op["mode"] == "overwrite":
            for name in set(names):
                self.rows[name] = {}
        seen: set[Entity] = set()
        for name, item in zip(names, op["rows"], strict=True):
            data = item["data"]
            entity_id = data[KEYS[name]] if name in NODES else data["id"]
            exists = op["mode"] == "append" and entity_id in self.rows[name]
            if (name, entity_id) in seen or exists:
                raise Refused(f"{name} {entity_id} is there already")
            seen.add((name, entity_id))
            ends = {"src": item["from"], "dst": item["to"]} if name in EDGES else {}
            self._put(name, entity_id, {**data, **ends})
        return bool(op["rows"])

    def _add_edge(self, name: str, edge_id: str, source: str, target: str) -> bool:
        if edge_id in self.rows[name]:
            raise Refused(f"{name} {edge_id} is there already")
        self._put(name, edge_id, {"src": source, "dst": target})
        return True

    def _below(self, limit: int) -> list[str]:
        people = self.rows["Person"].items()
        return [key for key, row in people if row["level"] is not None and row["level"] < limit]

    def _remove(self, name: str, ids: list[str]) -> bool:
        gone = {item for item in ids if item in self.rows[name]}
        for item in gone:
            del self.rows[name][item]
        for edge, ends in ENDS.items():
            for key, row in list(self.rows[edge].items()):
                joined = zip((row["src"], row["dst"]), ends, strict=True)
                if any(end in gone and kind == name for end, kind in joined):
                    del self.rows[edge][key]
        return bool(gone)


@dataclass(frozen=True, slots=True)
class Origin:
    """What a merge starts from: one commit, or several, and the states after all of them."""

    tree: Tree
    states: Mapping[str, State]


def from_one(base: State) -> Origin:
    """Return the origin of a merge that starts from one state."""
    return Origin("base", {"base": base})


def merge(
    origin: Origin, theirs: State, ours: State, *, resolve: str | None, by_property: bool
) -> State:
    """Merge three ways. Raises `Refused` for a conflict that nothing decides."""
    if {state.extras for state in (*origin.states.values(), theirs)} != {ours.extras}:
        raise Refused("the states have different schemas")
    rows: dict[str, dict[str, Row]] = {}
    for name in (*NODES, *EDGES):
        states = {commit: state.rows[name] for commit, state in origin.states.items()}
        rows[name], conflicts = merge_type(
            name,
            starts(origin.tree, states),
            theirs.rows[name],
            ours.rows[name],
            resolve=resolve,
            by_property=by_property,
        )
        for key, kind in conflicts.items():
            raise Refused(f"{kind} of {name} {key}")
    made = State(rows, ours.extras)
    check(made)
    return made


# ---- chance -------------------------------------------------------------------------------


def random_write(dice: random.Random, name: str, extras: tuple[str, ...]) -> Op:
    """Make up a write of rows; `name` makes its new ids unique."""
    slug, other = (f"{dice.choice('ppppq')}{dice.randrange(12)}" for _ in range(2))
    firm, level = f"f{dice.randrange(4)}", dice.randrange(10)
    email = dice.choice([None, None, f"e{dice.randrange(30)}"])
    person = {"slug": slug, "name": f"{name} {dice.choice('abc')}", "level": level}
    kinds: dict[str, tuple[float, Op]] = {
        "insert_person": (5, {**person, "email": email}),
        "upsert_person": (2, {"slug": slug, "level": level}),
        "update_below": (1, {"below": level, "name": name}),
        "update_one": (3, {"slug": slug, "level": level}),
        "delete_person": (2, {"slug": slug}),
        "delete_below": (0.3, {"below": dice.randrange(3)}),
        "insert_firm": (1, {"slug": firm, "name": name}),
        "delete_firm": (0.7, {"slug": firm}),
        "knows": (3, {"id": f"k{name}", "a": slug, "b": other}),
        "works": (3, {"id": f"w{name}", "a": slug, "b": firm}),
        "person_and_edge": (2, {"slug": slug, "id": f"k{name}", "b": other}),
        "delete_knows": (1, {"a": slug}),
        "load": (3, _random_load(dice, name, slug, other)),
    }
    if extras:
        values = {"slug": firm, "prop": dice.choice(extras), "value": dice.randrange(99)}
        kinds["set_extra"] = (2, values)
    kind = dice.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
    return {"op": kind, **kinds[kind][1]}


def _random_load(dice: random.Random, name: str, slug: str, other: str) -> Op:
    mode = dice.choice(["append", "merge", "merge", "overwrite"])
    edge = {"edge": "Knows", "from": slug, "to": other, "data": {"id": f"l{name}"}}
    codes = dice.sample([f"c{number}" for number in range(6)], 3)
    badges = [{"type": "Badge", "data": {"code": code, "text": f"{name} x"}} for code in codes]
    if mode == "overwrite":
        return {"mode": mode, "rows": dice.choice([[edge], badges, badges])}
    slugs = dict.fromkeys((slug, f"q{dice.randrange(12)}"))
    people = [{"type": "Person", "data": {"slug": s, "name": name}} for s in slugs]
    choice = dice.choice([[*people, edge], [*people, edge], badges])
    return {"mode": mode, "rows": choice}


def random_schema(dice: random.Random, name: str, extras: tuple[str, ...]) -> Op:
    """Make up a change of the schema: a property added, renamed or dropped."""
    kinds = ["add"] * (len(extras) < EXTRAS_MAX) + ["rename", "drop"] * bool(extras)
    kind, new = dice.choice(kinds), f"x_{name}"
    wanted, renames = list(extras), dict[str, str]()
    if kind == "add":
        wanted.append(new)
    else:
        position = dice.randrange(len(wanted))
        old = wanted.pop(position)
        if kind == "rename":
            wanted.insert(position, new)
            renames[new] = old
    return {"op": "schema", "extras": wanted, "renames": renames}

"""Random changes of the schema on a graph with rows, step by step beside a model of plain dicts.

The model decides what a change must do to the rows, or that they forbid it; every older state must
stay readable under the names it had.
"""

from __future__ import annotations

import copy
import secrets
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from tests.places import AnyPath, remove_tree
from tests.property.schema_strategies import Coins

Row = dict[str, object]
Rows = dict[str, dict[str, Row]]
WIDER = {"I32": "I64", "F32": "F64"}
VALUES: dict[str, tuple[object, ...]] = {
    "I32": (0, 5, 9),
    "I64": (0, 5, 9),
    "F32": (0.5, 2.0),
    "F64": (0.5, 2.0),
    "String": ("x", "y"),
}


@dataclass
class Prop:
    """A property of the model; `origin` is the stored name it continues."""

    kind: str
    nullable: bool = True
    default: object = None
    unique: bool = False
    low: int | None = None
    origin: str | None = None
    flipped: bool = False
    """Whether its nullability changed already: there and back within one change fills nothing."""

    def text(self, name: str) -> str:
        found = f"{name}: {self.kind}{'?' if self.nullable else ''}"
        if self.default is not None:
            shown = f'"{self.default}"' if isinstance(self.default, str) else self.default
            found += f" @default({shown})"
        if self.unique:
            found += " @unique"
        if self.origin not in (None, name):
            found += f' @rename_from("{self.origin}")'
        if self.low is not None:
            found += f"  @range({name}, {self.low}..)"
        return found


@dataclass
class Model:
    """Types with their properties, and rows by type and id."""

    types: dict[str, dict[str, Prop]]
    rows: Rows
    origins: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def new_name(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def text(self) -> str:
        lines = []
        for name, props in self.types.items():
            origin = self.origins.get(name, name)
            hint = f' @rename_from("{origin}")' if origin not in ("", name) else ""
            body = "\n  ".join(prop.text(key) for key, prop in props.items())
            lines.append(f"node {name}{hint} {{\n  {body}\n}}")
        return "\n".join(lines)

    def settle(self) -> None:
        """Forget where things came from, once a change was applied."""
        self.origins = {name: name for name in self.types}
        for props in self.types.values():
            for name, prop in props.items():
                prop.origin, prop.flipped = name, False

    def forbids(self) -> bool:
        """Whether some row breaks a rule."""
        for name, props in self.types.items():
            for key, prop in props.items():
                values = [row.get(key) for row in self.rows[name].values()]
                known = [value for value in values if value is not None]
                if not prop.nullable and len(known) < len(values):
                    return True
                if prop.unique and len(set(known)) < len(known):
                    return True
                numbers = [v for v in known if isinstance(v, int | float)]
                if prop.low is not None and any(number < prop.low for number in numbers):
                    return True
        return False


def migrate(model: Model, coins: Coins) -> Model:
    """Return the model after one random change of its schema, whether rows allow it or not."""
    new = copy.deepcopy(model)
    for _ in range(coins.pick((1, 1, 2, 3))):
        _one_change(new, coins)
    return new


def _one_change(new: Model, coins: Coins) -> None:
    name = coins.pick(sorted(new.types))
    props, rows = new.types[name], new.rows[name]
    key = coins.pick(sorted(props))
    prop = props[key]
    match coins.pick(range(10)):
        case 0:
            other = new.new_name("T")
            new.types = {other if n == name else n: p for n, p in new.types.items()}
            new.rows[other] = new.rows.pop(name)
            new.origins[other] = new.origins.pop(name, name)
        case 1:
            other = new.new_name("T")
            new.types[other] = {"a": Prop("I32")}
            new.rows[other] = {}
            new.origins[other] = ""
        case 2 if len(new.types) > 1:
            del new.types[name], new.rows[name]
            new.origins.pop(name, None)
        case 3:
            added = new.new_name("p")
            kind = coins.pick(sorted(VALUES))
            default = coins.pick((None, *VALUES[kind]))
            props[added] = Prop(kind, nullable=default is None or coins.flip(), default=default)
            for row in rows.values():
                row[added] = None if props[added].nullable else default
        case 4 if len(props) > 1:
            del props[key]
            for row in rows.values():
                row.pop(key, None)
        case 5:
            renamed = new.new_name("p")
            new.types[name] = {renamed if n == key else n: p for n, p in props.items()}
            for row in rows.values():
                row[renamed] = row.pop(key, None)
        case 6 if prop.kind in WIDER:
            prop.kind = WIDER[prop.kind]
        case 7 if prop.origin is not None and not prop.flipped:
            prop.nullable, prop.flipped = not prop.nullable, True
            if not prop.nullable and coins.flip():
                prop.default = coins.pick(VALUES[prop.kind])
            if not prop.nullable and prop.default is not None:
                for row in rows.values():
                    if row.get(key) is None:
                        row[key] = prop.default
        case 8:
            prop.unique = not prop.unique
        case 9 if prop.kind != "String":
            prop.low = coins.pick((None, 0, 5)) if prop.low is None else None
        case _:
            pass


def write(graph: og.Graph, model: Model, coins: Coins) -> None:
    """Insert or delete a few rows, in the graph and in the model."""
    for _ in range(3):
        name = coins.pick(sorted(model.types))
        if model.rows[name] and coins.pick(range(4)) == 0:
            gone = coins.pick(sorted(model.rows[name]))
            graph.mutate(f'query q() {{ delete {name} where id = "{gone}" }}')
            del model.rows[name][gone]
            continue
        made = new_row(model, coins, name)
        trial = copy.deepcopy(model)
        entity_id = model.new_name("id")
        trial.rows[name][entity_id] = made
        envelope = {"type": name, "data": {"id": entity_id, **made}}
        if trial.forbids():
            try:
                graph.load([envelope], mode="append")
            except og.DataError:
                continue
            raise AssertionError(f"{envelope} was let in:\n{model.text()}")
        graph.load([envelope], mode="append")
        model.rows[name][entity_id] = made


def new_row(model: Model, coins: Coins, name: str) -> Row:
    found: Row = {}
    for key, prop in model.types[name].items():
        value = coins.pick((None, *VALUES[prop.kind]))
        if value is None and not prop.nullable:
            value = VALUES[prop.kind][0]
        found[key] = value
    return found


def seen(graph: og.Graph, **at: int) -> Rows:
    found: Rows = {}
    exported = graph.export(version=at.get("version"))
    assert not isinstance(exported, int)
    for item in exported:
        data = item["data"]
        assert isinstance(data, dict)
        found.setdefault(str(item["type"]), {})[str(data.pop("id"))] = data
    return found


def expected(model: Model) -> Rows:
    return {name: copy.deepcopy(rows) for name, rows in model.rows.items() if rows}


@pytest.mark.full_only
@settings(
    max_examples=12,
    deadline=None,
    # Every example has a folder of its own in the one place.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.binary(min_size=160, max_size=160), rounds=st.integers(2, 6))
def test_rows_follow_the_schema_and_the_past_keeps_its_own(
    place: AnyPath, data: bytes, rounds: int
) -> None:
    coins = Coins(data)
    root = place / secrets.token_hex(4)
    model = Model(types={"A": {"a": Prop("I32"), "b": Prop("String")}}, rows={"A": {}})
    past: list[tuple[int, Rows]] = []
    try:
        with og.init(root, model.text(), durability="none") as graph:
            for _ in range(rounds):
                write(graph, model, coins)
                past.append((graph.snapshot().version, expected(model)))
                model.settle()
                wanted = migrate(model, coins)
                planned = graph.schema.plan(wanted.text())
                assert planned.supported, planned.render()
                assert bool(planned.problems) == wanted.forbids(), wanted.text()
                if wanted.forbids():
                    before = graph.commits.head()
                    try:
                        graph.schema.apply(wanted.text())
                    except og.DataError:
                        assert graph.commits.head() == before
                        continue
                    raise AssertionError(f"applied against the rows:\n{wanted.text()}")
                graph.schema.apply(wanted.text())
                model = wanted
                assert seen(graph) == expected(model), model.text()
            write(graph, model, coins)
            for version, rows in past:
                assert seen(graph, version=version) == rows
        with og.open(root, durability="none") as again:
            assert again.maintenance.recovered == []
            assert seen(again) == expected(model)
    finally:
        remove_tree(root)

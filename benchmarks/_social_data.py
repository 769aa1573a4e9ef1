"""The social network of the public embedded-graph benchmark, made from a seed.

Persons follow each other, live in cities and have interests; cities lie in states, states in
countries. A few persons are followed by many. Nobody follows themselves or anybody twice, so every
engine counts the same edges.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = """
node Person {
    key: String @key
    name: String
    gender: String
    age: I32
    married: Bool
}
node City {
    key: String @key
    name: String
    state: String
    country: String
    population: I64
}
node State {
    key: String @key
    name: String
    country: String
}
node Country {
    key: String @key
    name: String
}
node Interest {
    key: String @key
    name: String
}
edge Follows: Person -> Person
edge LivesIn: Person -> City
edge HasInterest: Person -> Interest
edge CityIn: City -> State
edge StateIn: State -> Country
"""
ENDS = {
    "Follows": ("Person", "Person"),
    "LivesIn": ("Person", "City"),
    "HasInterest": ("Person", "Interest"),
    "CityIn": ("City", "State"),
    "StateIn": ("State", "Country"),
}
NODES = ("Person", "City", "State", "Country", "Interest")

FOLLOWS_PER_PERSON = 24
HUB_SHARES = (0.05, 0.04, 0.03, 0.02, 0.01)
"""Share of all persons who follow each hub."""
CITIES_PER_PERSON = 0.07
STATES = 270
COUNTRIES = ("United States", "United Kingdom", "Canada")
COUNTRY_SHARES = (0.7, 0.15, 0.15)
INTERESTS = (
    "Fine Dining",
    "Tennis",
    "Photography",
    *(f"Interest {number}" for number in range(38)),
)
INTERESTS_PER_PERSON = 2.5

_FIRST = ["An", "Bo", "Cla", "Da", "El", "Fe", "Gus", "Hi", "Ia", "Jo", "Ka", "Lu", "Mi", "No"]
_LAST = ["ra", "ris", "ton", "vik", "mer", "den", "lo", "shi", "wen", "zak", "by", "quist"]


def make_tables(persons: int, *, seed: int = 11) -> dict[str, pa.Table]:
    """Return all nodes and edges by type; edges have `from` and `to`."""
    draw = np.random.default_rng(seed)
    cities = max(int(persons * CITIES_PER_PERSON), 300)
    country_of_state = draw.choice(len(COUNTRIES), STATES, p=COUNTRY_SHARES)
    country_of_state[: len(COUNTRIES)] = np.arange(len(COUNTRIES))
    state_of_city = draw.integers(0, STATES, cities)
    # The second state is the first of its country, and its first city is the known one.
    state_of_city[0] = 1
    # Large cities hold most persons.
    weights = 1.0 / (np.arange(cities) + 5.0)
    city_of_person = draw.choice(cities, persons, p=weights / weights.sum())
    person_keys = _keys("person", persons)
    city_keys, state_keys = _keys("city", cities), _keys("state", STATES)
    country_keys, interest_keys = _keys("country", len(COUNTRIES)), _keys("topic", len(INTERESTS))
    countries = pa.array(COUNTRIES)
    state_names = _texts("State ", STATES)
    source, target = _follows(persons, draw)
    fan, topic = _distinct_pairs(
        draw.integers(0, persons, int(persons * INTERESTS_PER_PERSON)),
        draw.integers(0, len(INTERESTS), int(persons * INTERESTS_PER_PERSON)),
        len(INTERESTS),
    )
    return {
        "Person": pa.table(
            {
                "key": person_keys,
                "name": _names(persons, draw),
                "gender": pa.array(["male", "female"]).take(pa.array(draw.integers(0, 2, persons))),
                "age": pa.array(draw.integers(18, 70, persons), pa.int32()),
                "married": pa.array(draw.integers(0, 2, persons).astype(bool)),
            }
        ),
        "City": pa.table(
            {
                "key": city_keys,
                "name": pa.concat_arrays([pa.array(["London"]), _texts("City ", cities)[1:]]),
                "state": state_names.take(pa.array(state_of_city)),
                "country": countries.take(pa.array(country_of_state[state_of_city])),
                "population": pa.array(draw.integers(1_000, 9_000_000, cities), pa.int64()),
            }
        ),
        "State": pa.table(
            {
                "key": state_keys,
                "name": state_names,
                "country": countries.take(pa.array(country_of_state)),
            }
        ),
        "Country": pa.table({"key": country_keys, "name": countries}),
        "Interest": pa.table({"key": interest_keys, "name": pa.array(INTERESTS)}),
        "Follows": _edges(person_keys, source, person_keys, target),
        "LivesIn": _edges(person_keys, np.arange(persons), city_keys, city_of_person),
        "HasInterest": _edges(person_keys, fan, interest_keys, topic),
        "CityIn": _edges(city_keys, np.arange(cities), state_keys, state_of_city),
        "StateIn": _edges(state_keys, np.arange(STATES), country_keys, country_of_state),
    }


def _follows(persons: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    ordinary = draw.integers(0, persons, (2, int(persons * FOLLOWS_PER_PERSON)))
    sources, targets = [ordinary[0]], [ordinary[1]]
    for hub, share in enumerate(HUB_SHARES):
        fans = draw.choice(persons, int(persons * share), replace=False)
        sources.append(fans)
        # Hubs lie all over the table.
        targets.append(np.full(len(fans), (hub * 7919 + 17) % persons))
    source, target = np.concatenate(sources), np.concatenate(targets)
    other = source != target
    return _distinct_pairs(source[other], target[other], persons, draw)


def _distinct_pairs(
    left: np.ndarray, right: np.ndarray, width: int, draw: np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.unique(left.astype(np.int64) * width + right)
    if draw is not None:
        # Edges come in no order, as they do in life.
        draw.shuffle(pairs)
    first, second = np.divmod(pairs, width)
    return first, second


def _edges(left: pa.Array, source: np.ndarray, right: pa.Array, target: np.ndarray) -> pa.Table:
    return pa.table({"from": left.take(pa.array(source)), "to": right.take(pa.array(target))})


def _keys(word: str, size: int) -> pa.Array:
    return pa.array([f"{word}-{number}" for number in range(size)])


def _texts(word: str, size: int) -> pa.Array:
    return pa.array([f"{word}{number}" for number in range(size)])


def _names(size: int, draw: np.random.Generator) -> pa.Array:
    first, last = draw.integers(0, len(_FIRST), size), draw.integers(0, len(_LAST), size)
    return pa.array(
        [f"{_FIRST[a]}{_LAST[b]} {n}" for n, (a, b) in enumerate(zip(first, last, strict=True))]
    )


def write_parquet(tables: dict[str, pa.Table], folder: Path) -> dict[str, str]:
    """Write every table as a Parquet file; return their paths by type."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, str] = {}
    for name, table in tables.items():
        paths[name] = str(folder / f"{name}.parquet")
        pq.write_table(table, paths[name])
    return paths

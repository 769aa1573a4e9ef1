"""The engines of the social benchmark: each loads the same tables and answers the same queries.

Queries exist in three languages; parameters have the same names everywhere. Every engine returns
plain tuples, so that answers can be compared and nobody is measured without fetching.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from _social_data import ENDS, NODES, SCHEMA

import omnigraph as og

Rows = list[tuple[Any, ...]]

NINE = (
    "most followed",
    "city of the most followed",
    "youngest cities",
    "people per country in an age bracket",
    "interest by city",
    "city by interest",
    "state by age and interest",
    "2-hop paths",
    "2-hop paths with ages",
)
BY_KEY = ("one row", "1-hop names", "distinct 2-hop", "distinct 3-hop")

PARAMETERS: dict[str, dict[str, object]] = {
    "youngest cities": {"country": "United States"},
    "people per country in an age bracket": {"low": 30, "high": 40},
    "interest by city": {
        "gender": "male",
        "city": "London",
        "country": "United Kingdom",
        "interest": "Fine Dining",
    },
    "city by interest": {"gender": "female", "interest": "Tennis"},
    "state by age and interest": {
        "country": "United States",
        "low": 23,
        "high": 30,
        "interest": "Photography",
    },
    "2-hop paths with ages": {"below": 50, "above": 25},
}

GQ = {
    "most followed": """query q() {
        match { $f: Person  $p: Person  $f follows $p }
        return { $p.id as key, $p.name as name, count($f) as followers }
        order { followers desc, key } limit 3 }""",
    "city of the most followed": """query q() {
        match { $f: Person  $p: Person  $f follows $p  $p livesIn $c }
        return { $p.id as key, $p.name as name, count($f) as followers,
                 $c.name as city, $c.state as state, $c.country as country }
        order { followers desc, key } limit 1 }""",
    "youngest cities": """query q($country: String) {
        match { $p: Person  $p livesIn $c  $c cityIn $s  $s stateIn $o  $o.name = $country }
        return { $c.name as city, avg($p.age) as age }
        order { age, city } limit 5 }""",
    "people per country in an age bracket": """query q($low: I64, $high: I64) {
        match { $p: Person  $p livesIn $c  $c cityIn $s  $s stateIn $o
                $p.age >= $low  $p.age <= $high }
        return { $o.name as country, count($p) as people }
        order { people desc, country } limit 3 }""",
    "interest by city": """query q(
            $gender: String, $city: String, $country: String, $interest: String) {
        match { $p: Person { gender: $gender }  $p hasInterest $i  $i.name = $interest
                $p livesIn $c  $c.name = $city  $c.country = $country }
        return { count($p) as people } }""",
    "city by interest": """query q($gender: String, $interest: String) {
        match { $p: Person { gender: $gender }  $p hasInterest $i  $i.name = $interest
                $p livesIn $c }
        return { count($p) as people, $c.name as city, $c.country as country }
        order { people desc, city } limit 5 }""",
    "state by age and interest": """query q(
            $country: String, $low: I64, $high: I64, $interest: String) {
        match { $p: Person  $p livesIn $c  $c cityIn $s  $s.country = $country
                $p.age >= $low  $p.age <= $high  $p hasInterest $i  $i.name = $interest }
        return { count($p) as people, $s.name as state, $s.country as country }
        order { people desc, state } limit 1 }""",
    "2-hop paths": """query q() {
        match { $a: Person  $a follows $b  $b follows $c } return { count(*) as paths } }""",
    "2-hop paths with ages": """query q($below: I64, $above: I64) {
        match { $a: Person  $a follows $b  $b follows $c  $b.age < $below  $c.age > $above }
        return { count(*) as paths } }""",
    "one row": """query q($key: String) {
        match { $a: Person { key: $key } } return { $a.name, $a.age, $a.gender } }""",
    "1-hop names": """query q($key: String) {
        match { $a: Person { key: $key }  $a follows $b } return { $b.name } }""",
    "distinct 2-hop": """query q($key: String) {
        match { $a: Person { key: $key }  $a follows $b  $b follows $c }
        return { count(distinct $c) as found } }""",
    "distinct 3-hop": """query q($key: String) {
        match { $a: Person { key: $key }  $a follows $b  $b follows $c  $c follows $d }
        return { count(distinct $d) as found } }""",
}

CYPHER = {
    "most followed": """MATCH (f:Person)-[:Follows]->(p:Person)
        RETURN p.key AS key, p.name, count(f) AS followers
        ORDER BY followers DESC, key LIMIT 3""",
    "city of the most followed": """MATCH (f:Person)-[:Follows]->(p:Person)
        WITH p, count(f) AS followers ORDER BY followers DESC, p.key LIMIT 1
        MATCH (p)-[:LivesIn]->(c:City)
        RETURN p.key, p.name, followers, c.name, c.state, c.country""",
    "youngest cities": """MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)
            -[:StateIn]->(o:Country) WHERE o.name = $country
        RETURN c.name AS city, avg(p.age) AS age ORDER BY age, city LIMIT 5""",
    "people per country in an age bracket": """MATCH (p:Person)-[:LivesIn]->(c:City)
            -[:CityIn]->(s:State)-[:StateIn]->(o:Country)
        WHERE p.age >= $low AND p.age <= $high
        RETURN o.name AS country, count(*) AS people ORDER BY people DESC, country LIMIT 3""",
    "interest by city": """MATCH (p:Person)-[:HasInterest]->(i:Interest),
            (p)-[:LivesIn]->(c:City)
        WHERE i.name = $interest AND p.gender = $gender
            AND c.name = $city AND c.country = $country
        RETURN count(*) AS people""",
    "city by interest": """MATCH (p:Person)-[:HasInterest]->(i:Interest),
            (p)-[:LivesIn]->(c:City)
        WHERE i.name = $interest AND p.gender = $gender
        RETURN count(*) AS people, c.name AS city, c.country
        ORDER BY people DESC, city LIMIT 5""",
    "state by age and interest": """MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State),
            (p)-[:HasInterest]->(i:Interest)
        WHERE s.country = $country AND p.age >= $low AND p.age <= $high AND i.name = $interest
        RETURN count(*) AS people, s.name AS state, s.country
        ORDER BY people DESC, state LIMIT 1""",
    "2-hop paths": """MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
        RETURN count(*)""",
    "2-hop paths with ages": """MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
        WHERE b.age < $below AND c.age > $above RETURN count(*)""",
    "one row": "MATCH (a:Person) WHERE a.key = $key RETURN a.name, a.age, a.gender",
    "1-hop names": "MATCH (a:Person)-[:Follows]->(b:Person) WHERE a.key = $key RETURN b.name",
    "distinct 2-hop": """MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
        WHERE a.key = $key RETURN count(DISTINCT c.key)""",
    "distinct 3-hop": """MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)
            -[:Follows]->(d:Person) WHERE a.key = $key RETURN count(DISTINCT d.key)""",
}

_PEOPLE = "Person p JOIN LivesIn l ON l.src = p.key JOIN City c ON c.key = l.dst"
_STATES = f"{_PEOPLE} JOIN CityIn ci ON ci.src = c.key JOIN State s ON s.key = ci.dst"
_COUNTRIES = f"{_STATES} JOIN StateIn si ON si.src = s.key JOIN Country o ON o.key = si.dst"
_FANS = "JOIN HasInterest h ON h.src = p.key JOIN Interest i ON i.key = h.dst"

SQL = {
    "most followed": """SELECT p.key, p.name, n FROM (
            SELECT dst, count(*) AS n FROM Follows GROUP BY dst ORDER BY n DESC, dst LIMIT 3
        ) JOIN Person p ON p.key = dst ORDER BY n DESC, p.key""",
    "city of the most followed": """SELECT p.key, p.name, n, c.name, c.state, c.country FROM (
            SELECT dst AS top, count(*) AS n FROM Follows GROUP BY dst ORDER BY n DESC, dst LIMIT 1
        ) JOIN Person p ON p.key = top JOIN LivesIn l ON l.src = top
        JOIN City c ON c.key = l.dst""",
    "youngest cities": f"""SELECT c.name AS city, avg(p.age) AS age FROM {_COUNTRIES}
        WHERE o.name = $country GROUP BY c.name ORDER BY age, city LIMIT 5""",
    "people per country in an age bracket": f"""SELECT o.name AS country, count(*) AS people
        FROM {_COUNTRIES} WHERE p.age >= $low AND p.age <= $high
        GROUP BY o.name ORDER BY people DESC, country LIMIT 3""",
    "interest by city": f"""SELECT count(*) FROM {_PEOPLE} {_FANS} WHERE i.name = $interest
        AND p.gender = $gender AND c.name = $city AND c.country = $country""",
    "city by interest": f"""SELECT count(*) AS people, c.name AS city, c.country FROM {_PEOPLE}
        {_FANS} WHERE i.name = $interest AND p.gender = $gender
        GROUP BY c.name, c.country ORDER BY people DESC, city LIMIT 5""",
    "state by age and interest": f"""SELECT count(*) AS people, s.name AS state, s.country
        FROM {_STATES} {_FANS} WHERE s.country = $country AND p.age >= $low AND p.age <= $high
        AND i.name = $interest GROUP BY s.name, s.country ORDER BY people DESC, state LIMIT 1""",
    "2-hop paths": "SELECT count(*) FROM Follows f JOIN Follows g ON g.src = f.dst",
    "2-hop paths with ages": """SELECT count(*) FROM Follows f JOIN Follows g ON g.src = f.dst
        JOIN Person b ON b.key = f.dst JOIN Person c ON c.key = g.dst
        WHERE b.age < $below AND c.age > $above""",
    "one row": "SELECT name, age, gender FROM Person WHERE key = $key",
    "1-hop names": """SELECT b.name FROM Follows f JOIN Person b ON b.key = f.dst
        WHERE f.src = $key""",
    "distinct 2-hop": """SELECT count(DISTINCT g.dst) FROM Follows f
        JOIN Follows g ON g.src = f.dst WHERE f.src = $key""",
    "distinct 3-hop": """SELECT count(DISTINCT h.dst) FROM Follows f
        JOIN Follows g ON g.src = f.dst JOIN Follows h ON h.src = g.dst WHERE f.src = $key""",
}


class Engine(Protocol):
    """A database that holds the network."""

    def run(self, name: str, parameters: Mapping[str, object]) -> Rows:
        """Answer one of the queries."""

    def close(self) -> None:
        """Release it."""


class OmniGraph:
    """This project, through `graph.query`."""

    def __init__(self, place: Path, tables: Mapping[str, pa.Table] | None = None) -> None:
        if tables is None:
            self.graph = og.open(place, durability="none")
            return
        self.graph = og.init(place, SCHEMA, durability="none")
        for name in (*NODES, *ENDS):
            self.graph.load_table(name, tables[name], mode="append")

    @classmethod
    def loaded(cls, place: Path, paths: Mapping[str, str]) -> OmniGraph:
        """Return a graph of some files."""
        og.init(place, SCHEMA, durability="none").close()
        found = cls(place)
        files = {name: paths[name] for name in (*NODES, *ENDS)}
        found.graph.bulk(files, mode="append", engine="local")
        return found

    def run(self, name: str, parameters: Mapping[str, object]) -> Rows:
        """Answer one of the queries."""
        table = self.graph.query(GQ[name], parameters).to_arrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def close(self) -> None:
        """Release it."""
        self.graph.close()


class OnSpark(OmniGraph):
    """A graph that this project has stored, with its queries on Spark."""

    def run(self, name: str, parameters: Mapping[str, object]) -> Rows:
        """Answer one of the queries."""
        table = self.graph.query(GQ[name], parameters, engine="spark").to_arrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Cypher:
    """Kuzu or one of its kin. Raises `ImportError` when it is not installed."""

    def __init__(self, module: str, place: Path, paths: Mapping[str, str] | None = None) -> None:
        found = importlib.import_module(module)
        place.parent.mkdir(parents=True, exist_ok=True)
        self._database = found.Database(str(place))
        self.connection = found.Connection(self._database)
        self._prepared: dict[str, Any] = {}
        if paths is not None:
            self.create_tables()
            for name in (*NODES, *ENDS):
                self.copy(name, paths[name])

    def create_tables(self) -> None:
        """Create every table, empty."""
        for statement in (
            "NODE TABLE Person(key STRING, name STRING, gender STRING, age INT32, married BOOL, "
            "PRIMARY KEY(key))",
            "NODE TABLE City(key STRING, name STRING, state STRING, country STRING, "
            "population INT64, PRIMARY KEY(key))",
            "NODE TABLE State(key STRING, name STRING, country STRING, PRIMARY KEY(key))",
            "NODE TABLE Country(key STRING, name STRING, PRIMARY KEY(key))",
            "NODE TABLE Interest(key STRING, name STRING, PRIMARY KEY(key))",
            *(f"REL TABLE {name}(FROM {one} TO {two})" for name, (one, two) in ENDS.items()),
        ):
            self.connection.execute(f"CREATE {statement}")

    def copy(self, name: str, path: str) -> None:
        """Load one table from a Parquet file."""
        self.connection.execute(f"COPY {name} FROM '{path}'")

    def run(self, name: str, parameters: Mapping[str, object]) -> Rows:
        """Answer one of the queries, from a prepared statement."""
        statement = self._prepared.get(name)
        if statement is None:
            statement = self._prepared[name] = self.connection.prepare(CYPHER[name])
        return [tuple(row) for row in self.connection.execute(statement, dict(parameters))]

    def close(self) -> None:
        """Release it."""
        self.connection.close()
        self._database.close()


class DuckDb:
    """DuckDB with a primary key per node table and an index on the start of every edge."""

    def __init__(self, place: Path, paths: Mapping[str, str] | None = None) -> None:
        import duckdb

        place.parent.mkdir(parents=True, exist_ok=True)
        self._connection = duckdb.connect(str(place))
        for name, path in (paths or {}).items():
            if name in ENDS:
                self._connection.execute(
                    f'CREATE TABLE {name} AS SELECT "from" AS src, "to" AS dst FROM \'{path}\''
                )
                self._connection.execute(f"CREATE INDEX {name}_src ON {name}(src)")
            else:
                self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM '{path}'")
                self._connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (key)")

    def run(self, name: str, parameters: Mapping[str, object]) -> Rows:
        """Answer one of the queries."""
        return list(self._connection.execute(SQL[name], dict(parameters)).fetchall())

    def close(self) -> None:
        """Release it."""
        self._connection.close()

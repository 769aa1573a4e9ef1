"""Random queries on random graphs, compared with the oracle.

A graph is made once per seed and serves many queries, which are generated as text. A failure prints
the seed of the graph, the query and its parameters; Hypothesis shrinks the query.
"""

from __future__ import annotations

import datetime
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.compute.types import arrow_type
from omnigraph.lang import bind_parameters, compile_query, gq_read
from omnigraph.lang.gq_clauses import Clause
from omnigraph.lang.gq_lower import lower
from omnigraph.plan import ReadPlan
from omnigraph.plan.read import Step
from tests.property.clause_oracle import evaluate_clauses
from tests.property.query_oracle import OracleOverflow, Values, evaluate, frozen
from tests.property.query_worlds import ENDS, PROPERTIES, World, make_world
from tests.property.query_writer import Writer

GRAPHS = 12
QUERIES = 8 * settings().max_examples


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[[int], World]]:
    root = Path(tempfile.mkdtemp(prefix="omnigraph-oracle-"))
    made: dict[int, World] = {}

    def get(seed: int) -> World:
        if seed not in made:
            made[seed] = make_world(seed, root / str(seed))
        return made[seed]

    yield get
    for world in made.values():
        world.graph.close()
    shutil.rmtree(root)


# ---- comparison ---------------------------------------------------------------------------


def answer_of(result: og.Result) -> list[Values]:
    columns = [column.to_pylist() for column in result.to_arrow().columns]
    return list(zip(*columns, strict=True))


def check(world: World, text: str, values: dict[str, Any]) -> int:
    """Run a query on both sides; return how many rows it has."""
    plan = compile_query(text, world.graph.catalog).plan
    assert isinstance(plan, ReadPlan)
    bound = bind_parameters(plan.parameters, values)
    now = datetime.datetime.now(datetime.UTC)
    try:
        expected = evaluate(plan, world.data, bound, now)
    except OracleOverflow:
        with pytest.raises(og.QueryError, match="overflow"):
            world.graph.query(text, values)
        return 0
    result = world.graph.query(text, values)
    shown = [column for column in plan.columns if not column.hidden]
    assert result.columns == [column.name for column in shown]
    for field_, column in zip(result.schema, shown, strict=True):
        assert field_.type == arrow_type(column.type), column.name
    actual = answer_of(result)
    problem = expected.problem(actual)
    assert problem is None, f"{problem}\nexpected {expected.rows}\nactual   {actual}"
    # Rows listed one by one, and rows fetched by index, must come to the same.
    pins = world.graph.snapshot().tables
    for reader in world.readers:
        table = reader.execute(plan, world.graph.catalog, pins, bound, now=now)
        other = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        problem = expected.problem(other)
        assert problem is None, f"{problem}\nexpected {expected.rows}\nactual   {other}"
    return len(actual)


@settings(max_examples=QUERIES)
@given(seed=st.integers(0, GRAPHS - 1), r=st.randoms(use_true_random=False))
def test_random_queries_agree_with_the_oracle(
    worlds: Callable[[int], World], seed: int, r: random.Random
) -> None:
    writer = Writer(r)
    text = writer.query()
    note(f"graph seed {seed}\nquery {text}\nparameters {writer.values}")
    check(worlds(seed), text, writer.values)


@settings(max_examples=QUERIES // 4)
@given(seed=st.integers(0, GRAPHS - 1), r=st.randoms(use_true_random=False))
def test_the_order_of_clauses_does_not_matter(
    worlds: Callable[[int], World], seed: int, r: random.Random
) -> None:
    writer = Writer(r)
    first = writer.query()
    second = writer.shuffled()
    note(f"graph seed {seed}\nquery {first}\nquery {second}\nparameters {writer.values}")
    check_shuffled(worlds(seed), first, second, writer.values)


def check_shuffled(world: World, first: str, second: str, values: dict[str, Any]) -> bool:
    """Compare the second query with the clauses of the first, if it compiles."""
    clauses: list[tuple[Clause, ...]] = []

    def watched(found: tuple[Clause, ...]) -> tuple[Step, ...]:
        clauses.append(found)
        return lower(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gq_read, "lower", watched)
        plan = compile_query(first, world.graph.catalog).plan
    assert isinstance(plan, ReadPlan)
    bound = bind_parameters(plan.parameters, values)
    now = datetime.datetime.now(datetime.UTC)
    try:
        compile_query(second, world.graph.catalog)
        expected = evaluate_clauses(plan, clauses[0], world.data, bound, now)
        actual = answer_of(world.graph.query(second, values))
    except (og.CompileError, OracleOverflow):
        return False
    except og.QueryError as error:
        # Which of two calculations is made on a row that the other excludes, is not defined.
        if "overflow" not in str(error):
            raise
        return False
    problem = expected.problem(actual)
    assert problem is None, f"{problem}\nexpected {expected.rows}\nactual   {actual}"
    return True


# ---- DuckDB -------------------------------------------------------------------------------

# Shortest distances, and whether it is the start, which has an edge to itself.
REACHED = (
    "WITH RECURSIVE walk AS (SELECT id AS s, id AS e, 0 AS d FROM Person UNION"
    " SELECT s, dst, d + 1 FROM walk JOIN Knows ON src = e WHERE d < 9),"
    " near AS (SELECT s, e, min(d) AS d,"
    " s = e AND e IN (SELECT src FROM Knows WHERE src = dst) AS loops"
    " FROM walk GROUP BY s, e)"
)
SHAPES = [
    (
        "match { $a knows $b } return { $a, $b }",
        "SELECT DISTINCT src, dst FROM Knows",
    ),
    (
        "match { $a $w:knows $b $b owns $t } return { $w.id, $t }",
        "SELECT DISTINCT k.id, o.dst FROM Knows k JOIN Owns o ON k.dst = o.src",
    ),
    (
        "match { $p: Person $p.small > 0 or $p.flag = false } return { $p }",
        "SELECT id FROM Person WHERE small > 0 OR flag = false",
    ),
    (
        "match { $p: Person not { $p owns $t } } return { $p.name }",
        "SELECT name FROM Person p WHERE NOT EXISTS (FROM Owns o WHERE o.src = p.id)",
    ),
    (
        "match { $p: Person optional { $p $w:owns $t } } return { $p, $w.id, $t.name }",
        "SELECT p.id, o.id, t.name FROM Person p LEFT JOIN Owns o ON o.src = p.id"
        " LEFT JOIN Thing t ON t.id = o.dst",
    ),
    (
        "match { $p: Person } return { $p.team, count(*) as n, count($p.small) as m,"
        " sum($p.small) as s, avg($p.ratio) as a, min($p.name) as l, max($p.day) as d }",
        "SELECT team, count(*), count(small), sum(small)::BIGINT, avg(ratio), min(name), max(day)"
        " FROM Person GROUP BY team",
    ),
    (
        "match { $p: Person } return { $p.name, $p.big } order { $p.name desc, $p.big }",
        "SELECT name, big FROM Person ORDER BY name DESC NULLS LAST, big NULLS FIRST, id",
    ),
    (
        "match { $a knows $b $b knows $c $c knows $a } return { count(*) }",
        "WITH k AS (SELECT DISTINCT src, dst FROM Knows) SELECT count(*) FROM k a, k b, k c"
        " WHERE a.dst = b.src AND b.dst = c.src AND c.dst = a.src",
    ),
    (
        "match { $p: Person $t: Thing $p.big < $t.big } return distinct { $p.flag, $t.small }",
        "SELECT DISTINCT p.flag, t.small FROM Person p, Thing t WHERE p.big < t.big",
    ),
    (
        "match { $p: Person } return { $p.small % 2 as r, $p.small / 2 as h, $p.level - 1 as m }",
        "SELECT (small % 2)::BIGINT, small / 2, level::BIGINT - 1 FROM Person",
    ),
    (
        "match { $a <knows> $b } return { $a, $b }",
        "SELECT DISTINCT src, dst FROM Knows UNION SELECT dst, src FROM Knows",
    ),
    (
        "match { $a $w:<knows> $b } return { $a, $w.id, $b }",
        "SELECT src, id, dst FROM Knows UNION ALL SELECT dst, id, src FROM Knows WHERE src != dst",
    ),
    (
        "match { $a knows{2,3} $b } return { $a, $b }",
        REACHED + " SELECT s, e FROM near WHERE d BETWEEN 2 AND 3",
    ),
    (
        "match { $b: Person $a knows{1,2} $b } return { $a, $b }",
        REACHED + " SELECT s, e FROM near WHERE d BETWEEN 1 AND 2 OR loops",
    ),
    (
        "match { $a: Person not { $a knows{2,4} $b $b owns $t $t.small > 0 } } return { $a }",
        REACHED + " SELECT id FROM Person WHERE id NOT IN (SELECT s FROM near"
        " JOIN Owns ON src = e JOIN Thing t ON t.id = dst"
        " WHERE d BETWEEN 2 AND 4 AND t.small > 0)",
    ),
    (
        "match { $p: Person $p.level > 99 } return { count(*) as n, count(distinct $p.name) as d,"
        " sum($p.big) as s, avg($p.ratio) as a, min($p.day) as l, max($p.name) as m }",
        "SELECT 0, 0, NULL, NULL, NULL, NULL",
    ),
    (
        "match { $p: Person $p.level > 99 } return { $p.team, count(*) as n }",
        "SELECT team, 1 FROM Person WHERE false",
    ),
    (
        "match { $p: Person } return { $p.flag, count(distinct $p.small) as s,"
        " count(distinct $p.ratio) as r, count(distinct $p.moment) as m }",
        "SELECT flag, count(DISTINCT small), count(DISTINCT ratio + 0.0), count(DISTINCT moment)"
        " FROM Person GROUP BY flag",
    ),
    (
        'match { $p: Person $p.day >= date("1970-01-01") or $p.moment < datetime("1970-01-01") }'
        " return { $p }",
        "SELECT id FROM Person WHERE day >= DATE '1970-01-01'"
        " OR moment < TIMESTAMPTZ '1970-01-01 00:00:00+00'",
    ),
    (
        "match { $p: Person not ($p.name in $p.tags and $p.small in [1, 2]) } return { $p }",
        "SELECT id FROM Person WHERE NOT (list_contains(tags, name) AND small IN (1, 2))",
    ),
    (
        "match { $p: Person } return { $p, $p.flag, $p.small } order { $p.flag desc, $p.small,"
        " $p.day desc } limit 3 offset 1",
        "SELECT id, flag, small FROM Person ORDER BY flag DESC NULLS LAST, small NULLS FIRST,"
        " day DESC NULLS LAST, id LIMIT 3 OFFSET 1",
    ),
    (
        "match { $p: Person optional { $p knows $f $f.level > 0 optional { $f owns $t } } }"
        " return { $p, $f, $t } order { $t.name, $f.name desc }",
        "WITH k AS (SELECT DISTINCT src, dst FROM Knows), o AS (SELECT DISTINCT src, dst FROM Owns)"
        " SELECT p.id, f.id, t.id FROM Person p LEFT JOIN (k JOIN Person f ON f.id = k.dst"
        " AND f.level > 0 LEFT JOIN o ON o.src = f.id LEFT JOIN Thing t ON t.id = o.dst)"
        " ON k.src = p.id ORDER BY t.name NULLS FIRST, f.name DESC NULLS LAST, f.id NULLS FIRST,"
        " p.id, t.id NULLS FIRST",
    ),
]


@pytest.mark.parametrize(("text", "sql"), SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 5, 9])
def test_fixed_queries_agree_with_duckdb(
    worlds: Callable[[int], World], text: str, sql: str, seed: int
) -> None:
    world = worlds(seed)
    with duckdb.connect() as database:
        for type_name in [*world.data.nodes, *ENDS]:
            found = world.graph.query(wrapped(_everything(type_name))).to_arrow()
            database.register(type_name, pa.table(found))
        expected = [tuple(map(frozen, row)) for row in database.execute(sql).fetchall()]
    actual = [tuple(map(frozen, row)) for row in answer_of(world.graph.query(wrapped(text)))]
    if " order " in text:
        assert actual == expected
    else:
        assert Counter(actual) == Counter(expected)
    check(world, wrapped(text), {})


def wrapped(text: str) -> str:
    return f"query q() {{ {text} }}"


def _everything(type_name: str) -> str:
    """Return the query of all columns of a type, under the names they are stored by."""
    names = {name for names in PROPERTIES[type_name].values() for name in names}
    names -= {"slug"}
    columns = [f"$x.{name} as {_STORED.get(name, name)}" for name in sorted(names)]
    pattern = f"$x: {type_name}" if type_name not in ENDS else f"$_ $x:{type_name.lower()} $_"
    return f"match {{ {pattern} }} return {{ {', '.join(columns)} }}"


_STORED = {"from": "src", "to": "dst"}

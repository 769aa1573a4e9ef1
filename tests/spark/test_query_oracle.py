"""Random queries on random graphs: Spark agrees with the oracle, and so with the local engine.

The generator and the oracle are those of `tests/property`, which runs many more of them locally.
Every other query sorts and merges instead of broadcasting. A failure names the number to repeat.
"""

from __future__ import annotations

import datetime
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
import omnigraph.spark as ogs
from omnigraph.compute.types import arrow_type
from omnigraph.lang import bind_parameters, compile_query
from omnigraph.limits import SPARK_BROADCAST_ROWS
from omnigraph.plan import ReadPlan
from omnigraph.plan.expression import ObjectOf
from omnigraph.read.reads import all_steps
from omnigraph.spark.queries.search import has_path
from tests.property.query_oracle import OracleOverflow, evaluate
from tests.property.query_worlds import World, make_world
from tests.property.query_writer import Writer
from tests.spark.worlds import FULL

GRAPHS = 9
QUERIES = 240 if FULL else 6


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[[int], World]]:
    made: dict[int, World] = {}
    with tempfile.TemporaryDirectory(prefix="omnigraph-oracle-") as root:

        def get(seed: int) -> World:
            if seed not in made:
                made[seed] = make_world(seed, Path(root, str(seed)))
            return made[seed]

        yield get
        for world in made.values():
            world.graph.close()


@pytest.mark.parametrize("number", range(QUERIES))
def test_random_queries_agree_with_the_oracle(
    spark: Any, worlds: Callable[[int], World], number: int
) -> None:
    r = random.Random(number)  # noqa: S311
    world = worlds(r.randint(0, GRAPHS - 1))
    writer = Writer(r)
    text = writer.query()
    plan = compile_query(text, world.graph.catalog).plan
    assert isinstance(plan, ReadPlan)
    bound = bind_parameters(plan.parameters, writer.values)
    if any(isinstance(column.expression, ObjectOf) for column in plan.columns):
        with pytest.raises(og.BadRequestError, match="as a whole"):
            ogs.query(spark, world.graph, text, writer.values)
        return
    if any(has_path(step) for step in all_steps(plan.steps)):
        with pytest.raises(og.BadRequestError, match="names a path"):
            ogs.query(spark, world.graph, text, writer.values)
        return
    result = ogs.query(
        spark,
        world.graph,
        text,
        writer.values,
        broadcast_rows=SPARK_BROADCAST_ROWS if number % 2 else 0,
    )
    try:
        expected = evaluate(plan, world.data, bound, datetime.datetime.now(datetime.UTC))
    except OracleOverflow:
        with pytest.raises(og.QueryError, match="overflow"):
            result.to_arrow()
        return
    shown = [column for column in plan.columns if not column.hidden]
    table = result.to_arrow()
    assert [field.type for field in table.schema] == [arrow_type(c.type) for c in shown]
    actual = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    problem = expected.problem(actual)
    assert problem is None, f"{problem}\n{text}\n{writer.values}\nexpected {expected.rows}"

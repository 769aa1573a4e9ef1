"""Random queries on random graphs: Spark, the local engine and the oracle agree.

The generator and the oracle are those of `tests/property`, which runs many more of them locally.
Every other query sorts and merges instead of broadcasting. A failure names the number to repeat.
"""

from __future__ import annotations

import datetime
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
import omnigraph.spark as ogs
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import constant_value
from omnigraph.compute.types import arrow_type
from omnigraph.lang import bind_parameters, compile_query
from omnigraph.limits import SPARK_BROADCAST_ROWS
from omnigraph.plan import ReadPlan
from omnigraph.plan.expression import ObjectOf
from omnigraph.plan.read import Apply, Expand, ExpandInto, Filter, Join, NodeScan
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
    whole = any(isinstance(column.expression, ObjectOf) for column in plan.columns)
    path = any(has_path(step) for step in all_steps(plan.steps))
    if whole or path:
        wanted = "|".join(["as a whole"] * whole + ["names a path"] * path)
        with pytest.raises(og.BadRequestError, match=wanted):
            ogs.query(spark, world.graph, text, writer.values)
        return
    result = ogs.query(
        spark,
        world.graph,
        text,
        writer.values,
        broadcast_rows=SPARK_BROADCAST_ROWS if number % 2 else 0,
    )
    engines: dict[str, Callable[[], og.Result]] = {
        "spark": lambda: result,
        "local": lambda: world.graph.query(text, writer.values),
    }
    try:
        expected = evaluate(plan, world.data, bound, datetime.datetime.now(datetime.UTC))
    except OracleOverflow:
        for name, run in engines.items():
            # Spark computes nothing of which no row is wanted.
            if name == "spark" and _limit(plan, bound) == 0:
                assert not run().to_arrow().num_rows
                continue
            with pytest.raises(og.QueryError, match="overflow"):
                run().to_arrow()
        return
    shown = [column for column in plan.columns if not column.hidden]
    for name, run in engines.items():
        table = run().to_arrow()
        assert [field.type for field in table.schema] == [arrow_type(c.type) for c in shown]
        actual = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        problem = expected.problem(actual)
        assert problem is None, (
            f"{name}: {problem}\n{text}\n{writer.values}\nexpected {expected.rows}"
        )


def _limit(plan: ReadPlan, bound: Mapping[str, LiteralValue]) -> LiteralValue:
    now = datetime.datetime.now(datetime.UTC)
    return None if plan.limit is None else constant_value(plan.limit, bound, now)


def test_random_queries_hold_every_kind_of_step(worlds: Callable[[int], World]) -> None:
    catalog = worlds(0).graph.catalog
    seen: Counter[str] = Counter()
    for number in range(240):
        r = random.Random(number)  # noqa: S311
        r.randint(0, GRAPHS - 1)
        plan = compile_query(Writer(r).query(), catalog).plan
        assert isinstance(plan, ReadPlan)
        steps = list(all_steps(plan.steps))
        # What Spark refuses is not compared.
        if not any(has_path(step) for step in steps):
            kinds = {type(step).__name__ for step in steps}
            followed = [step for step in steps if isinstance(step, Expand | ExpandInto)]
            kinds |= {"several types" for step in followed if len(step.edges) > 1}
            kinds |= {"several hops" for step in followed if step.max_hops > 1}
            kinds |= {"an edge" for step in followed if step.edge_variable is not None}
            applied = [step for step in steps if isinstance(step, Apply)]
            kinds |= {"exists" if step.aggregate is None else "aggregate" for step in applied}
            seen.update(kinds)
    wanted = [step.__name__ for step in (NodeScan, Expand, ExpandInto, Filter, Join)]
    wanted += ["AntiJoin", "OptionalJoin", "several types", "several hops", "an edge"]
    missing = [kind for kind in (*wanted, "exists", "aggregate") if seen[kind] < 5]
    assert not missing, seen

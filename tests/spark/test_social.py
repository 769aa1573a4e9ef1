"""The queries of the social benchmark: both engines give the same answers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.spark.two_engines import both
from tests.spark.worlds import full_only

pytestmark = [pytest.mark.usefixtures("interpreted"), full_only]

PERSONS = 2_000
QUERIES = 13


@pytest.fixture(scope="module")
def engines() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        # Benchmarks are scripts: they import each other by name.
        patch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
        yield importlib.import_module("_social_engines")


@pytest.fixture(scope="module")
def graph(engines: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    tables = importlib.import_module("_social_data").make_tables(PERSONS)
    made = engines.OmniGraph(tmp_path_factory.mktemp("social") / "g", tables)
    yield made.graph
    made.close()


@pytest.mark.parametrize("number", range(QUERIES))
def test_both_engines_answer_alike(spark: Any, engines: Any, graph: og.Graph, number: int) -> None:
    name = (*engines.NINE, *engines.BY_KEY)[number]
    params = {"key": "person-17"} if name in engines.BY_KEY else engines.PARAMETERS.get(name)
    assert both(spark, graph, engines.GQ[name], params, broadcast_rows=1_000 * (number % 2))


def test_all_of_them_are_compared(engines: Any) -> None:
    assert len(engines.NINE) + len(engines.BY_KEY) == QUERIES

"""One Spark session for all tests of this folder: two workers, four attempts, a small heap."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.spark.worlds import SCHEMA, NewGraph


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("PySpark is not installed: pip install 'omnigraph[spark]'")
    from omnigraph.spark import start_session

    scratch = tmp_path_factory.mktemp("spark")
    (scratch / "events").mkdir()
    session = start_session(
        "local[2,4]",
        spark__driver__memory="1g",
        spark__sql__shuffle__partitions="2",
        spark__local__dir=str(scratch),
        spark__sql__warehouse__dir=str(scratch / "warehouse"),
        spark__eventLog__enabled="true",
        spark__eventLog__dir=str(scratch / "events"),
        spark__driver__extraJavaOptions="-XX:TieredStopAtLevel=1",
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def interpreted(spark: Any) -> Iterator[None]:
    """Make tiny queries take half the time: without code generation, in one partition."""
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def new_graph(tmp_path: Path) -> Iterator[NewGraph]:
    opened: list[og.Graph] = []

    def make(schema: str = SCHEMA, *, name: str = "g") -> og.Graph:
        graph = og.init(tmp_path / name, schema, durability="none")
        opened.append(graph)
        return graph

    yield make
    for graph in opened:
        graph.close()

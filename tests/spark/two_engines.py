"""Runs a query on both engines and compares the answers."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

import omnigraph as og
import omnigraph.spark as ogs

Values = tuple[Any, ...]


def wrapped(text: str) -> str:
    return text if text.startswith("query") else f"query q() {{ {text} }}"


def rows_of(result: og.Result) -> list[Values]:
    columns = [column.to_pylist() for column in result.to_arrow().columns]
    return [tuple(map(comparable, row)) for row in zip(*columns, strict=True)]


def comparable(value: Any) -> Any:
    """Return a value that can be counted; not-a-number equals itself here, floats are rounded."""
    if isinstance(value, list):
        return tuple(map(comparable, value))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12e}")
    return value


def both(
    spark: Any,
    graph: og.Graph,
    text: str,
    params: dict[str, Any] | None = None,
    **options: Any,
) -> list[Values]:
    """Return the rows of a query, which are the same on both engines, in order where it has one."""
    source = wrapped(text)
    here = graph.query(source, params)
    there = ogs.query(spark, graph, source, params, **options)
    assert there.columns == here.columns
    assert there.to_arrow().schema.equals(here.to_arrow().schema), there.schema
    expected, actual = rows_of(here), rows_of(there)
    if " order {" in source:
        assert actual == expected
    else:
        assert Counter(actual) == Counter(expected)
    return expected


def both_refuse(spark: Any, graph: og.Graph, text: str) -> str:
    """Return why a query is refused, which is the same on both engines."""
    source = wrapped(text)
    with pytest.raises(og.QueryError) as here:
        graph.query(source)
    with pytest.raises(og.QueryError) as there:
        ogs.query(spark, graph, source).to_arrow()
    assert str(there.value) == str(here.value)
    return str(here.value)

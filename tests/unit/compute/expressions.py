"""Rows, expressions over them, and a plain Python reading of what they mean."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph.catalog import PropertyType, Scalar
from omnigraph.catalog.model import LiteralValue
from omnigraph.compute import evaluate_condition, evaluate_value
from omnigraph.compute.types import arrow_type
from omnigraph.plan.expression import (
    ROW,
    Compare,
    CompareOp,
    Constant,
    Expression,
    Parameter,
    PropertyOf,
)

NOW = datetime.datetime(2025, 3, 1, 10, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns by name, as an evaluator reads them."""

    table: Any

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def column(self, variable: str, name: str) -> Any:
        assert variable == ROW
        return self.table[name].combine_chunks()


def kind(scalar: Scalar, **options: Any) -> PropertyType:
    return PropertyType(scalar=scalar, nullable=options.pop("nullable", True), **options)


def prop(name: str, scalar: Scalar, **options: Any) -> PropertyOf:
    return PropertyOf(variable=ROW, property=name, type=kind(scalar, **options))


def value(literal: LiteralValue, scalar: Scalar, **options: Any) -> Constant:
    return Constant(value=literal, type=kind(scalar, nullable=False, **options))


def param(name: str, scalar: Scalar, **options: Any) -> Parameter:
    return Parameter(name=name, type=kind(scalar, **options))


def compare(left: Expression, op: str, right: Expression) -> Compare:
    return Compare(op=CompareOp(op), left=left, right=right)


def table(**columns: tuple[Scalar, Sequence[object]]) -> Rows:
    return Rows(
        pa.table({name: pa.array(list(v), arrow_type(kind(s))) for name, (s, v) in columns.items()})
    )


def lists(name: str, scalar: Scalar, values: Sequence[object]) -> Rows:
    return Rows(pa.table({name: pa.array(list(values), arrow_type(kind(scalar, is_list=True)))}))


def kept(
    condition: Expression, rows: Rows, parameters: Mapping[str, LiteralValue] | None = None
) -> list[bool]:
    """Return, for each row, whether the condition is true."""
    found = evaluate_condition(condition, rows, parameters or {}, NOW)
    return list(found.to_pylist())


def computed(expression: Expression, rows: Rows) -> list[object]:
    return list(evaluate_value(expression, rows, {}, NOW).to_pylist())

"""Evaluates plan expressions: on Arrow columns, on single values, and as storage filters."""

from __future__ import annotations

from omnigraph.compute.evaluate import (
    Columns,
    constant_value,
    evaluate_condition,
    evaluate_value,
)
from omnigraph.compute.filters import storage_filter
from omnigraph.compute.keys import group_key
from omnigraph.compute.values import python_values

__all__ = [
    "Columns",
    "constant_value",
    "evaluate_condition",
    "evaluate_value",
    "group_key",
    "python_values",
    "storage_filter",
]

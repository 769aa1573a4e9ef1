"""Evaluates plan expressions: on Arrow columns, on single values, and as storage filters."""

from __future__ import annotations

from omnigraph.compute.constants import constant_value
from omnigraph.compute.evaluate import Columns, evaluate_condition, evaluate_value
from omnigraph.compute.filters import storage_filter

__all__ = [
    "Columns",
    "constant_value",
    "evaluate_condition",
    "evaluate_value",
    "storage_filter",
]

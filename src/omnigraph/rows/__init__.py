"""Rows of one type as Arrow tables: their form, conversion, checks and three-way merge."""

from __future__ import annotations

from omnigraph.rows.changes import (
    RowFile,
    RowsElsewhere,
    TableChange,
    TableChanges,
    counts_of_kind,
)
from omnigraph.rows.keys import canonical_texts, key_ids
from omnigraph.rows.problems import Problem, Problems
from omnigraph.rows.table_schema import (
    has_blobs,
    rows_from_values,
    rows_schema,
    stored_rows,
    table_folder,
    table_schema,
)
from omnigraph.rows.validate import validate

__all__ = [
    "Problem",
    "Problems",
    "RowFile",
    "RowsElsewhere",
    "TableChange",
    "TableChanges",
    "canonical_texts",
    "counts_of_kind",
    "has_blobs",
    "key_ids",
    "rows_from_values",
    "rows_schema",
    "stored_rows",
    "table_folder",
    "table_schema",
    "validate",
]

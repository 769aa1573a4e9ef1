"""The one write protocol, change sets, and the validation of constraints."""

from __future__ import annotations

from omnigraph.write.attempt import Writer
from omnigraph.write.base import Base
from omnigraph.write.changes import BuildIndexes, ChangeSet, TableStep
from omnigraph.write.keys import canonical_texts, key_ids
from omnigraph.write.operation import (
    LeftoversFound,
    Operation,
    Persistence,
    PlainOperation,
    Request,
    Reserve,
    SchemaMovedError,
)
from omnigraph.write.problems import Problem, Problems
from omnigraph.write.row_changes import RowFile, RowsElsewhere, TableChange, TableChanges
from omnigraph.write.table_schema import (
    has_blobs,
    rows_from_values,
    rows_schema,
    stored_rows,
    table_folder,
    table_schema,
)
from omnigraph.write.validate import validate

__all__ = [
    "Base",
    "BuildIndexes",
    "ChangeSet",
    "LeftoversFound",
    "Operation",
    "Persistence",
    "PlainOperation",
    "Problem",
    "Problems",
    "Request",
    "Reserve",
    "RowFile",
    "RowsElsewhere",
    "SchemaMovedError",
    "TableChange",
    "TableChanges",
    "TableStep",
    "Writer",
    "canonical_texts",
    "has_blobs",
    "key_ids",
    "rows_from_values",
    "rows_schema",
    "stored_rows",
    "table_folder",
    "table_schema",
    "validate",
]

"""Rows of Arrow streams as the embedded engine returns them."""

from __future__ import annotations

import json

import pyarrow as pa

from omnigraph.graph import Result
from omnigraph.values.headers import ARROW_METADATA


def table_from(data: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()


def result_from(data: bytes) -> Result:
    """Return the rows of an Arrow stream."""
    table = table_from(data)
    metadata = dict(table.schema.metadata or {})
    about = json.loads(metadata.pop(ARROW_METADATA))
    return Result(
        table.replace_schema_metadata(metadata or None),
        query_name=about["query_name"],
        commit_id=about["graph_commit_id"],
        branch=about["target"]["branch"],
        snapshot=about["target"]["snapshot"],
        column_types=about.get("column_types", ()),
    )

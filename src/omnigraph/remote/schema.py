"""The schema of a served graph."""

from __future__ import annotations

import os

from omnigraph.remote.connection import Connection, Json
from omnigraph.values.schema_changes import SchemaChange


class RemoteSchema:
    """The schema of a served graph: plan a change, apply it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def plan(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
    ) -> SchemaChange:
        """Return the steps that lead to a schema, and what stored rows say to them."""
        body = _schema_body(schema, allow_data_loss, name)
        return SchemaChange.from_json(self._connection.post("/schema/plan", body).json())

    def apply(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
    ) -> SchemaChange:
        """Make a schema the graph's, with its tables, as one commit."""
        body = _schema_body(schema, allow_data_loss, name)
        found = self._connection.write(
            "/schema/apply",
            body,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        return SchemaChange.from_json(found)


def _schema_body(schema: str | os.PathLike[str], allow_data_loss: bool, name: str | None) -> Json:
    from omnigraph.graph.schema_ops import schema_text
    from omnigraph.lang import compile_schema

    text, found = schema_text(schema)
    compile_schema(text, name=name or found)  # problems are told with the names people know
    return {"schema_source": text, "allow_data_loss": allow_data_loss}

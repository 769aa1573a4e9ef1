"""The schema of a served graph."""

# Made from src/omnigraph/remote/schema.py by `make client`: change that, not this.
from __future__ import annotations

import os

from omnigraph.drawing import Drawing, draw_schema
from omnigraph.errors import BadRequestError
from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.connection import Json, state_fields
from omnigraph.remote.schema import _schema_body
from omnigraph.values.inspection import LintReport, SchemaDescription
from omnigraph.values.schema_changes import SchemaChange
from omnigraph.values.words import Language


class AsyncRemoteSchema:
    """The schema of a served graph: plan a change, apply it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def plan(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
    ) -> SchemaChange:
        """Return the steps that lead to a schema, and what stored rows say to them."""
        body = _schema_body(schema, allow_data_loss, name)
        return SchemaChange.from_json((await self._connection.post("/schema/plan", body)).json())

    async def apply(
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
        answer = await self._connection.write(
            "/schema/apply",
            body,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        return SchemaChange.from_json(answer)

    async def describe(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> SchemaDescription:
        """Return the types of a state as data: of the newest one, or of one in the past."""
        params: Json = {"branch": branch, "commit": commit, "version": version, "tag": tag}
        return SchemaDescription.from_json(await self._connection.get("/schema/types", params))

    async def draw(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Drawing:
        """Draw the types of a state and what connects them, as SVG and as Mermaid text."""
        description = await self.describe(branch=branch, commit=commit, version=version, tag=tag)
        return draw_schema(description)

    async def lint(
        self,
        source: str,
        *,
        language: Language = "gq",
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> LintReport:
        """Check a text and run nothing: queries (`gq`) against a state's types, or a schema."""
        if language not in ("gq", "pg"):
            raise BadRequestError(f"language must be gq or pg, not {language!r}")
        body = state_fields(branch, commit, version, tag, None)
        body |= {"source": source, "language": language}
        return LintReport.from_json((await self._connection.post("/lint", body)).json())

"""Rows of a query as JSON, for who shows them: no Arrow is needed to print a few lines."""

from __future__ import annotations

import json
from typing import Any, Literal

from omnigraph.http_client import Answer
from omnigraph.remote.connection import Json
from omnigraph.values.headers import NDJSON


class JsonRows:
    """The answer of a read query, as lines of JSON bring it."""

    def __init__(self, about: Json, rows: list[dict[str, Any]]) -> None:
        self.query_name = str(about["query_name"])
        self.target: dict[str, str | None] = about["target"]
        self.commit_id = str(about["graph_commit_id"])
        self.columns = [str(name) for name in about["columns"]]
        self._rows = rows

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def rows_json(self, *, ints: Literal["number"] = "number") -> list[dict[str, Any]]:
        """Return rows of plain JSON values, as `Result.rows_json` does."""
        return self._rows

    def to_json(self, *, ints: Literal["number"] = "number") -> dict[str, object]:
        """Return the wire form, as `Result.to_json` does."""
        body: dict[str, object] = {
            "query_name": self.query_name,
            "target": dict(self.target),
            "row_count": self.num_rows,
        }
        if self.columns:
            body["columns"] = self.columns
        body["rows"] = self._rows
        body["graph_commit_id"] = self.commit_id
        return body


def rows_from(answer: Answer) -> JsonRows | None:
    """Return the rows of an answer; None where its lines of JSON cannot hold them.

    That is where two columns have one name, or a server of an earlier release does not name them.
    """
    if not (answer.headers.get("content-type") or "").startswith(NDJSON):
        return None
    first, *rest = answer.content.splitlines()
    about = json.loads(first)
    columns = about.get("columns")
    if columns is None or len(set(columns)) != len(columns):
        return None
    return JsonRows(about, [json.loads(line) for line in rest])

"""A graph as notebooks show it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from omnigraph.graph.results import Snapshot
from omnigraph.values.notebook import html_table


def state_html(
    uri: str, snapshot: Snapshot | None, branches: Sequence[str], problem: str = ""
) -> str:
    """Return where a graph is, the rows of its tables, and its branches."""
    if snapshot is None:
        return f"<p>graph {escape(uri)}: {escape(problem)}</p>"
    rows = [(item.table_key, item.row_count) for item in snapshot.tables.values()]
    told = f"{uri}, {snapshot.branch} at version {snapshot.version}"
    named = ", ".join(branches)
    return html_table(("table", "rows"), rows, caption=told) + f"<p>branches: {escape(named)}</p>"

"""What writes and snapshots return, under the names they are imported by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from omnigraph.values import commits
from omnigraph.values.results import LoadResult, MutationResult

if TYPE_CHECKING:
    from omnigraph.graph.result import Result

__all__ = ["LoadResult", "MutationResult", "Snapshot"]


class Snapshot(commits.Snapshot, frozen=True, kw_only=True):
    """The graph at one version. Never moves; `query` reads it while the graph is open.

    >>> state = graph.snapshot("dev")
    >>> state.branch, state.tables["node:Task"].row_count, len(state.query(TASKS))
    ('dev', 2, 2)
    """

    def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        **options: object,
    ) -> Result:
        """Run a read query on this snapshot, whatever was committed since; options of `query`."""
        return cast("Result", self.ask(source, params, name, options))

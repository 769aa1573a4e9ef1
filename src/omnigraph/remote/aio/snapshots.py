"""A snapshot of a served graph."""

# Made from src/omnigraph/remote/snapshots.py by `make client`: change that, not this.
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from omnigraph.values.commits import Snapshot

if TYPE_CHECKING:
    from omnigraph.graph import Result


class AsyncRemoteSnapshot(Snapshot, frozen=True, kw_only=True):
    """A served graph at one version. Never moves."""

    async def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        **options: object,
    ) -> Result:
        """Run a read query on this snapshot, whatever was committed since; options of `query`."""
        return cast("Result", await self.ask(source, params, name, options))

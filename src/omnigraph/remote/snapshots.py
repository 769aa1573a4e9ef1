"""A snapshot of a served graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from omnigraph.values.commits import Snapshot

if TYPE_CHECKING:
    from omnigraph.graph import Result


class RemoteSnapshot(Snapshot, frozen=True, kw_only=True):
    """A served graph at one version. Never moves."""

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

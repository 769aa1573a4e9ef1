"""What a resolution found, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omnigraph.values.value import Value


class ResolveReport(Value, frozen=True, kw_only=True):
    """What rules found in a state of a branch, and what was written where.

    `compared` counts a pair in each block it shares. `merged` nodes go; `edges` says, by type, how
    many were redirected, and how many went because they became equal or led to their own node.
    Blocks and clusters that were left out because they are too large are counted, and the largest
    named.
    """

    optional: ClassVar[frozenset[str]] = frozenset({"proposed_on", "commit"})

    type: str
    branch: str
    state: str
    nodes: int
    compared: int
    pairs: int
    clusters: int
    merged: int
    edges: Mapping[str, Mapping[str, int]] = {}
    blocks_skipped: int = 0
    largest_skipped: tuple[Mapping[str, Any], ...] = ()
    clusters_too_large: int = 0
    largest_clusters: tuple[Mapping[str, Any], ...] = ()
    dry_run: bool = False
    repeated: bool = False
    proposed_on: str | None = None
    commit: str | None = None

"""Draws a commit graph as text, newest commit first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.commits import GraphCommit


def draw(commits: Mapping[str, GraphCommit]) -> Iterator[tuple[str, GraphCommit]]:
    r"""Yield each commit with the columns that stand before it.

    A column is a line of history waiting for its next older commit: `*` is where this commit
    is, `|` passes by, `\` shows a merge opening a line and `/` a line joining another.
    """
    lanes: list[str] = []
    order = sorted(
        commits.values(), key=lambda c: (c.created_at_us, c.graph_commit_id), reverse=True
    )
    for commit in order:
        own = commit.graph_commit_id
        if own not in lanes:
            lanes.append(own)
        at = lanes.index(own)
        joined = [n for n, lane in enumerate(lanes) if lane == own and n != at]
        cells = ["*" if n == at else "/" if n in joined else "|" for n in range(len(lanes))]
        lanes = [lane for n, lane in enumerate(lanes) if n not in joined]
        parents = (commit.parent_commit_id, commit.merged_parent_commit_id)
        kept = [p for p in parents if p is not None and p in commits]
        lanes[at : at + 1] = kept[:1]
        for parent in kept[1:]:
            if parent not in lanes:
                lanes.insert(at + 1, parent)
                cells.insert(at + 1, "\\")
        yield " ".join(cells), commit

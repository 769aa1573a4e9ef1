"""Files of edges as numbers of nodes, beside the tables: where they lie, and when they go."""

from __future__ import annotations

from collections.abc import Container

from omnigraph.clock import now_s
from omnigraph.store.tables.branches import split_branch
from omnigraph.store.tables.pins import Pin
from omnigraph.store.tables.table import Tables
from omnigraph.store.upkeep.orphans import EDGE_FILE, Leftover

EDGES = "_edges"
"""Folder, beside the tables, of edges as numbers of nodes."""


def edge_file(tables: Tables, pin: Pin) -> str:
    """Return the path of the file about a table."""
    return f"{tables.folder(EDGES)}/{split_branch(pin.path)[0]}{EDGE_FILE}"


def stale_edges(tables: Tables, roots: Container[str], *, older_than_s: float) -> list[Leftover]:
    """Return old files about tables that are not among these, and those left half-written."""
    folder = tables.folder(EDGES)
    leftovers: list[Leftover] = []
    for entry in list(tables.files.entries(folder)):
        name, mark, _rest = entry.path.removeprefix(f"{folder}/").partition(EDGE_FILE)
        # What has no mark is a folder.
        if mark and name not in roots and now_s() - entry.changed_at_s > older_than_s:
            leftovers.append(Leftover(entry.path, entry.size_bytes, entry.changed_at_s))
    return leftovers

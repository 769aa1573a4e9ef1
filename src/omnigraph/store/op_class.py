"""Tells maintenance from change by what Lance recorded about a version."""

from __future__ import annotations

from typing import Any

from omnigraph.store.counters import count
from omnigraph.store.lance_errors import calm
from omnigraph.store.tables import Table, Tables

_MAINTENANCE = {"Rewrite", "CreateIndex"}
_AUTO_CLEANUP = "lance.auto_cleanup."


def only_maintenance(tables: Tables, path: str, *, after: int, up_to: int) -> bool:
    """Whether every version above `after` up to `up_to` left the rows as they were."""
    return all(_is_maintenance(tables, path, version) for version in range(after + 1, up_to + 1))


def describe_version(tables: Tables, path: str, version: int) -> tuple[str, bool | None]:
    """Return what a version did, and whether it left the rows as they were; None if untold."""
    table = tables.open(path, version)
    maintenance = _is_maintenance(tables, path, version)
    try:
        with calm():
            transaction: Any = table.dataset.read_transaction(version)
    except TypeError:
        return "Rewrite", maintenance
    except (OSError, ValueError):
        return "unreadable", None
    if transaction is None:
        return "unreadable", None
    return type(transaction.operation).__name__, maintenance


def only_ours(tables: Tables, path: str, *, after: int, up_to: int) -> bool:
    """Whether every version in the interval was made by this engine or changed no row."""
    return all(
        tables.open(path, version).made_by_engine() or _is_maintenance(tables, path, version)
        for version in range(after + 1, up_to + 1)
    )


def _is_maintenance(tables: Tables, path: str, version: int) -> bool:
    count("transaction_reads")
    table = tables.open(path, version)
    try:
        with calm():
            transaction: Any = table.dataset.read_transaction(version)
    except TypeError as error:
        # The library cannot describe a compaction that rewrote an index; it is one all the same.
        return "RewrittenIndex" in str(error)
    except (OSError, ValueError):
        return False
    if transaction is None:
        return False
    name = type(transaction.operation).__name__
    if name == "BaseOperation":
        return _fragments(table) == _fragments(tables.open(path, version - 1))
    if name == "UpdateConfig":
        changed = getattr(transaction.operation, "config_updates", None) or {}
        keys = list(getattr(changed, "updates", changed))
        return bool(keys) and all(str(key).startswith(_AUTO_CLEANUP) for key in keys)
    return name in _MAINTENANCE


def _fragments(table: Table) -> list[Any]:
    return [fragment.metadata.to_json() for fragment in table.fragments()]

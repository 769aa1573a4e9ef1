"""Stored queries: texts that are called by their name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from omnigraph.catalog import Catalog
from omnigraph.errors import BadRequestError
from omnigraph.lang import CompiledQuery, compile_queries
from omnigraph.lang.lint import describe_type


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """One stored query: the text it is in, and what it compiled to when it was stored."""

    name: str
    source: str
    compiled: CompiledQuery
    tool_name: str | None = None

    @property
    def is_mutation(self) -> bool:
        """Whether calling it writes."""
        return self.compiled.is_mutation

    def to_json(self) -> dict[str, object]:
        """Return its entry in the catalog of stored queries."""
        found: dict[str, object] = {
            "name": self.name,
            "tool_name": self.tool_name,
            "mutation": self.is_mutation,
        }
        for name in ("description", "instruction"):
            if (text := getattr(self.compiled, name)) is not None:
                found[name] = text
        found["params"] = [
            {"name": item.name, **describe_type(item.type)}
            for item in self.compiled.plan.parameters
        ]
        return found


class QueryRegistry(Protocol):
    """Finds stored queries. Immutable, so that threads may share it."""

    def find(self, name: str) -> StoredQuery | None:
        """Return the query of a name, None when there is none."""

    def all(self) -> tuple[StoredQuery, ...]:
        """Return every query, by name."""


class StoredQueries:
    """Stored queries held in memory."""

    def __init__(self, queries: Iterable[StoredQuery] = ()) -> None:
        self._queries: dict[str, StoredQuery] = {}
        for item in queries:
            if item.name in self._queries:
                raise BadRequestError(f"two stored queries are named '{item.name}'")
            self._queries[item.name] = item

    def find(self, name: str) -> StoredQuery | None:
        """Return the query of a name, None when there is none."""
        return self._queries.get(name)

    def all(self) -> tuple[StoredQuery, ...]:
        """Return every query, by name."""
        return tuple(self._queries[name] for name in sorted(self._queries))


def compile_stored(texts: Mapping[str, str], catalog: Catalog) -> StoredQueries:
    """Return the queries of named texts, checked against a schema. Raises `CompileError`."""
    return StoredQueries(
        StoredQuery(name=item.name, source=text, compiled=item)
        for label, text in texts.items()
        for item in compile_queries(text, catalog, name=label)
    )


def stored_in(folder: str, catalog: Catalog) -> StoredQueries:
    """Return the queries of every `.gq` file in a folder."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".gq"))
        texts = {}
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as handle:
                texts[name] = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"cannot read the stored queries in {folder}: {error}") from error
    return compile_stored(texts, catalog)

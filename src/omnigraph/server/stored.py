"""Stored queries of a graph that is served without a cluster: the `.gq` files of a folder."""

from __future__ import annotations

import os

from omnigraph.catalog import Catalog
from omnigraph.cluster import StoredQuery, stored_queries
from omnigraph.errors import BadRequestError
from omnigraph.lang import compile_queries


def stored_in(folder: str, catalog: Catalog) -> dict[str, StoredQuery]:
    """Return the queries of every file, checked against a schema. Raises `CompileError`."""
    queries: dict[str, StoredQuery] = {}
    for label, text in _texts(folder).items():
        compile_queries(text, catalog, name=label)
        for query in stored_queries(text, name=label):
            if query.name in queries:
                raise BadRequestError(f"two stored queries are named '{query.name}'")
            queries[query.name] = query
    return queries


def _texts(folder: str) -> dict[str, str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".gq"))
        texts = {}
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as handle:
                texts[name] = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestError(f"cannot read the stored queries in {folder}: {error}") from error
    return texts

"""Creates and opens graphs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from omnigraph import INTERNAL_SCHEMA_VERSION
from omnigraph.catalog import accept_initial
from omnigraph.embed import Embedder
from omnigraph.graph.graph import Graph
from omnigraph.graph.handle import Mode
from omnigraph.graph.schema_ops import schema_text
from omnigraph.ids import UlidSource
from omnigraph.lang import compile_schema
from omnigraph.ops.initialize import initialize
from omnigraph.store import Durability, locate, new_syncer


def init(
    uri: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    force: bool = False,
    durability: Durability | str = Durability.FULL,
    storage_options: Mapping[str, str] | None = None,
) -> Graph:
    """Create a graph and open it.

    Args:
        uri: Where it shall live, a folder or `s3://bucket/prefix`; no graph may be there yet.
        schema: Schema text, or the path of a `.pg` file.
        force: Replace schema files left there without a graph.
        durability: `full` survives power loss; `none` is for scratch graphs.
        storage_options: How to reach an object store, beside what the environment says.
    """
    location = locate(uri, storage_options)
    text, name = schema_text(schema)
    compiled = compile_schema(text, name=name)
    ids = UlidSource()
    syncer = new_syncer(location, durability)
    initialize(
        location,
        syncer,
        schema_source=text,
        accepted=accept_initial(compiled.catalog, domain=ids.next()),
        ids=ids,
        stamp=INTERNAL_SCHEMA_VERSION,
        force=force,
    )
    syncer.close()
    return Graph(uri, durability=durability, storage_options=storage_options)


def open_graph(
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    actor: str | None = None,
    durability: Durability | str = Durability.FULL,
    embedder: Embedder | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Graph:
    """Open a graph.

    Args:
        uri: Where it lives.
        mode: `rw` resolves interrupted writes first; `ro` writes nothing at all.
        actor: Who the commits of this handle are by.
        durability: `full` survives power loss; `none` is for scratch graphs.
        embedder: Turns texts into vectors, for `@embed` properties and `nearest` with a text.
        storage_options: How to reach an object store, beside what the environment says.
    """
    return Graph(
        uri,
        mode=mode,
        actor=actor,
        durability=durability,
        embedder=embedder,
        storage_options=storage_options,
    )

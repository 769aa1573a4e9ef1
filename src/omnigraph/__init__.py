"""OmniGraph: a typed, versioned property-graph database on open Lance tables.

The examples of all calls go on from here:

>>> import omnigraph as og
>>> graph = og.init(
...     "tasks.omni",
...     '''
...     node Person { name: String @key  age: I32? }
...     node Task { slug: String @key  title: String  plan: Blob? }
...     edge Owns: Person -> Task { since: Date? }
...     ''',
... )
>>> loaded = graph.load(
...     [
...         {"type": "Person", "data": {"name": "ann", "age": 41}},
...         {"type": "Person", "data": {"name": "bob"}},
...         {"type": "Task", "data": {"slug": "t1", "title": "Dig", "plan": b"dig deep"}},
...         {"type": "Task", "data": {"slug": "t2", "title": "Plant"}},
...         {"edge": "Owns", "from": "ann", "to": "t1"},
...     ],
...     mode="append",
... )
>>> TASKS = '''
... query tasks() {
...     match { $t: Task } return { $t.slug as slug, $t.title as title } order { slug }
... }
... '''
>>> graph.query(TASKS).to_pylist()
[{'slug': 't1', 'title': 'Dig'}, {'slug': 't2', 'title': 'Plant'}]
>>> RENAME = '''
... query rename($slug: String, $title: String) {
...     update Task set { title: $title } where slug = $slug
... }
... '''
>>> tag = graph.tags.create("v1")
>>> done = graph.branch("dev").mutate(RENAME, {"slug": "t2", "title": "Water"})

What fails on purpose raises an `og.OmniGraphError`:

>>> try:
...     graph.load([{"type": "Persn"}], mode="append")
... except og.OmniGraphError as error:
...     error.message.splitlines()[-1]
"line 1: unknown node type 'Persn'; did you mean 'Person'?"
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from omnigraph import environment, extras
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__

if TYPE_CHECKING:
    from omnigraph.commits import GraphCommit
    from omnigraph.embed import (
        Embedder,
        HashEmbedder,
        HttpEmbedder,
        LocalEmbedder,
        embedder_from,
    )
    from omnigraph.errors import (
        AlreadyExistsError,
        AlreadyInitializedError,
        BadRequestError,
        ChangeFeedGapError,
        CheckFailedError,
        CompileError,
        ConflictError,
        CursorRejectedError,
        DataError,
        DiffRefusedError,
        DriftError,
        EmbeddingError,
        FormatVersionError,
        InternalError,
        KeyConflictError,
        MergeConflictError,
        NotFoundError,
        OmniGraphError,
        OutcomeUnknownError,
        PolicyDeniedError,
        PreconditionFailedError,
        QueryError,
        ReadSetConflictError,
        RecoveryRequiredError,
        ResourceLimitError,
        StorageError,
        TooManyRequestsError,
        UnauthorizedError,
        VersionConflictError,
        VersionReclaimedError,
    )
    from omnigraph.graph import (
        BranchView,
        Diff,
        DumpReport,
        Graph,
        GraphApi,
        GroupWrites,
        LoadResult,
        MergePlan,
        MergeResult,
        MutationResult,
        PendingIndex,
        Result,
        Rows,
        Session,
        Snapshot,
        Upkeep,
        init,
        read_mapping,
        restore,
    )
    from omnigraph.graph import open_graph as open
    from omnigraph.policy import Policy, load_policy
    from omnigraph.remote import RemoteGraph, connect
    from omnigraph.remote.aio import AsyncRemoteGraph
    from omnigraph.remote.aio.api import AsyncGraphApi
    from omnigraph.remote.aio.view import AsyncBranchView


_GRAPH = (
    "BranchView",
    "Diff",
    "DumpReport",
    "Graph",
    "GraphApi",
    "GroupWrites",
    "LoadResult",
    "MergePlan",
    "MergeResult",
    "MutationResult",
    "PendingIndex",
    "Result",
    "Rows",
    "Session",
    "Snapshot",
    "Upkeep",
    "init",
    "read_mapping",
    "restore",
)
_EMBED = ("Embedder", "HashEmbedder", "HttpEmbedder", "LocalEmbedder", "embedder_from")
_ERRORS = (
    "UnauthorizedError",
    "TooManyRequestsError",
    "PolicyDeniedError",
    "AlreadyExistsError",
    "AlreadyInitializedError",
    "BadRequestError",
    "ChangeFeedGapError",
    "CheckFailedError",
    "CompileError",
    "ConflictError",
    "CursorRejectedError",
    "DataError",
    "DiffRefusedError",
    "DriftError",
    "EmbeddingError",
    "FormatVersionError",
    "InternalError",
    "KeyConflictError",
    "MergeConflictError",
    "NotFoundError",
    "OmniGraphError",
    "OutcomeUnknownError",
    "PreconditionFailedError",
    "QueryError",
    "ReadSetConflictError",
    "RecoveryRequiredError",
    "ResourceLimitError",
    "StorageError",
    "VersionConflictError",
    "VersionReclaimedError",
)
# Where each public name lives; imported when it is first used, so that `import omnigraph` and
# the command line stay fast.
_HOMES = {
    **{name: ("omnigraph.graph", name) for name in _GRAPH},
    **{name: ("omnigraph.embed", name) for name in _EMBED},
    **{name: ("omnigraph.errors", name) for name in _ERRORS},
    **{name: ("omnigraph.policy", name) for name in ("Policy", "load_policy")},
    "open": ("omnigraph.graph", "open_graph"),
    "GraphCommit": ("omnigraph.commits", "GraphCommit"),
    "AsyncBranchView": ("omnigraph.remote.aio.view", "AsyncBranchView"),
    "AsyncGraphApi": ("omnigraph.remote.aio.api", "AsyncGraphApi"),
    "AsyncRemoteGraph": ("omnigraph.remote.aio", "AsyncRemoteGraph"),
    "RemoteGraph": ("omnigraph.remote", "RemoteGraph"),
    "connect": ("omnigraph.remote", "connect"),
}

__all__ = [
    "INTERNAL_SCHEMA_VERSION",
    "AlreadyExistsError",
    "AlreadyInitializedError",
    "AsyncBranchView",
    "AsyncGraphApi",
    "AsyncRemoteGraph",
    "BadRequestError",
    "BranchView",
    "ChangeFeedGapError",
    "CheckFailedError",
    "CompileError",
    "ConflictError",
    "CursorRejectedError",
    "DataError",
    "Diff",
    "DiffRefusedError",
    "DriftError",
    "DumpReport",
    "Embedder",
    "EmbeddingError",
    "FormatVersionError",
    "Graph",
    "GraphApi",
    "GraphCommit",
    "GroupWrites",
    "HashEmbedder",
    "HttpEmbedder",
    "InternalError",
    "KeyConflictError",
    "LoadResult",
    "LocalEmbedder",
    "MergeConflictError",
    "MergePlan",
    "MergeResult",
    "MutationResult",
    "NotFoundError",
    "OmniGraphError",
    "OutcomeUnknownError",
    "PendingIndex",
    "Policy",
    "PolicyDeniedError",
    "PreconditionFailedError",
    "QueryError",
    "ReadSetConflictError",
    "RecoveryRequiredError",
    "RemoteGraph",
    "ResourceLimitError",
    "Result",
    "Rows",
    "Session",
    "Snapshot",
    "StorageError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "Upkeep",
    "VersionConflictError",
    "VersionReclaimedError",
    "__version__",
    "connect",
    "embedder_from",
    "init",
    "load_policy",
    "open",
    "read_mapping",
    "restore",
]


environment.tell_libraries(os.environ)
environment.use(os.environ)


def _spark() -> ModuleType:
    import omnigraph.spark as room

    return room


def _resolving_on_spark() -> ModuleType:
    import omnigraph.spark.resolving as room

    return room


extras.offer("spark", _spark)
extras.offer("spark.resolving", _resolving_on_spark)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute can be anything
    """Import a public name on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'omnigraph' has no attribute {name!r}")
    return getattr(importlib.import_module(home[0]), home[1])


def __dir__() -> list[str]:
    """List the public names, whether or not they were used before, and nothing else of ours."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__")), "errors"})

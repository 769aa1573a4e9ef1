"""Creates and opens graphs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from omnigraph import clock
from omnigraph.catalog import accept_initial
from omnigraph.commits.grouping import GroupWrites
from omnigraph.embed import Embedder
from omnigraph.errors import (
    AlreadyInitializedError,
    BadRequestError,
    ConflictError,
    FormatVersionError,
    OmniGraphError,
    StorageError,
)
from omnigraph.graph.engine import Mode
from omnigraph.graph.graph import Graph
from omnigraph.graph.schema_ops import schema_text
from omnigraph.graph.upkeep import Upkeep
from omnigraph.ids import UlidSource
from omnigraph.lang import compile_schema
from omnigraph.limits import SLOT_WAIT_S
from omnigraph.ops.dump import DUMP_FORMAT
from omnigraph.ops.initialize import MANIFEST, initialize
from omnigraph.policy import Policy, load_policy, text_problem
from omnigraph.store import Durability, Journal, locate, new_syncer
from omnigraph.values.words import DurabilityWord
from omnigraph.version import INTERNAL_SCHEMA_VERSION


def init(
    uri: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    force: bool = False,
    durability: Durability | DurabilityWord = Durability.FULL,
    storage_options: Mapping[str, str] | None = None,
    upkeep: Upkeep | bool = True,
    group_writes: GroupWrites | bool = True,
    operation_id: str | None = None,
) -> Graph:
    """Create a graph and open it.

    >>> with og.init("notes.omni", "node Note { text: String }") as notes:
    ...     notes.commits.head().kind
    'init'

    Args:
        uri: Where to make it: a folder or `s3://bucket/prefix`; no graph may be there yet.
        schema: Schema text, or the path of a `.pg` file.
        force: Replace schema files left there without a graph.
        durability: `full` survives power loss; `none` is for scratch graphs.
        storage_options: How to reach an object store, beside what the environment says.
        upkeep: As for `open`.
        group_writes: As for `open`.
        operation_id: Your own id for this: repeating it opens the graph it made the first time.
    """
    if operation_id is not None and (problem := _unusable_id(operation_id)):
        raise BadRequestError(problem)
    location = locate(uri, storage_options)
    text, name = schema_text(schema)
    compiled = compile_schema(text, name=name)
    ids = UlidSource()
    syncer = new_syncer(location, durability)
    refusal = None
    try:
        initialize(
            location,
            syncer,
            schema_source=text,
            accepted=accept_initial(compiled.catalog, domain=ids.next()),
            ids=ids,
            stamp=INTERNAL_SCHEMA_VERSION,
            operation_id=operation_id or ids.next(),
            force=force,
        )
    except AlreadyInitializedError as error:
        if operation_id is None or not Journal(location, MANIFEST).exists():
            raise
        refusal = error
    finally:
        syncer.close()
    graph = Graph(
        uri,
        durability=durability,
        storage_options=storage_options,
        upkeep=upkeep,
        group_writes=group_writes,
    )
    if refusal is not None and graph.commits.list()[-1].operation_id != operation_id:
        graph.close()
        raise refusal
    return graph


def _unusable_id(operation_id: str) -> str | None:
    if not operation_id.strip():
        return "operation_id must not be blank"
    return text_problem(operation_id, "operation_id")


def open_graph(
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    actor: str | None = None,
    durability: Durability | DurabilityWord = Durability.FULL,
    embedder: Embedder | None = None,
    policy: Policy | str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    upkeep: Upkeep | bool = True,
    group_writes: GroupWrites | bool = True,
) -> Graph:
    """Open a graph.

    >>> with og.open("tasks.omni", mode="ro") as tasks:
    ...     tasks.get("Task", "t1")["title"]
    'Dig'

    Args:
        uri: Where it lives.
        mode: `rw` resolves interrupted writes first; `ro` writes nothing at all.
        actor: Who the commits of this handle are by.
        durability: `full` survives power loss; `none` is for scratch graphs.
        embedder: Turns texts into vectors, for `@embed` properties and `nearest` with a text.
        policy: Who may do what: a policy, or the path of a bundle. With one, an actor is needed.
        storage_options: How to reach an object store, beside what the environment says.
        upkeep: Whether, when and how a handle that writes for long keeps the graph small and fast
            by itself: `False` for never, an `Upkeep` for other settings.
        group_writes: Whether small writes of this handle that wait for the same branch are
            published together, each as a commit of its own: `False` for never, a `GroupWrites`
            to leave out some actors.
    """
    rules = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    return Graph(
        uri,
        mode=mode,
        actor=actor,
        durability=durability,
        embedder=embedder,
        policy=rules,
        storage_options=storage_options,
        upkeep=upkeep,
        group_writes=group_writes,
    )


def open_or_create(
    uri: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    actor: str | None = None,
    durability: Durability | DurabilityWord = Durability.FULL,
    embedder: Embedder | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Graph:
    """Open a graph that has a schema, or create it: a cell of a notebook may run again."""
    options: dict[str, Any] = {"durability": durability, "storage_options": storage_options}
    manifest = Journal(locate(uri, storage_options), MANIFEST)
    give_up = clock.elapsed_s() + SLOT_WAIT_S
    while not manifest.exists():
        try:
            init(uri, schema, **options).close()
        except AlreadyInitializedError:
            # Another process is creating it at this moment: that graph is opened.
            if clock.elapsed_s() > give_up:
                raise
            clock.sleep(0.05)
    graph = open_graph(uri, actor=actor, embedder=embedder, **options)
    try:
        change = graph.schema.plan(schema)
    except OmniGraphError:
        graph.close()
        raise
    if change.steps:
        graph.close()
        raise ConflictError(
            f"{graph.uri} has another schema than the one given",
            hint="og.open(path) opens it as it is; graph.schema.apply(schema) changes it",
        )
    return graph


def restore(
    archive: str | os.PathLike[str],
    uri: str | os.PathLike[str],
    *,
    durability: Durability | DurabilityWord = Durability.FULL,
    progress: Callable[[str], None] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Graph:
    """Make a graph out of an archive that `dump` wrote, and open it.

    >>> report = graph.maintenance.dump("tasks.tar")
    >>> with og.restore("tasks.tar", "again.omni") as again:
    ...     again.branches.list()
    ['main', 'dev']

    The place must be free. Either the whole graph is there afterwards, or nothing. An archive in a
    bucket is reached by the same options as the graph.
    """
    from omnigraph.store.files.archive import local_archive, read_header, unpack_archive

    path = os.fspath(archive)
    location = locate(uri, storage_options)
    with local_archive(path, location) as local:
        header = read_header(local)
        _check_header(header, path)
        syncer = new_syncer(location, durability)
        try:
            unpack_archive(local, location, syncer, progress or (lambda _name: None))
        finally:
            syncer.close()
    graph = Graph(uri, durability=durability, storage_options=storage_options)
    heads = {name: graph.commits.head(name).graph_commit_id for name in graph.branches.list()}
    if heads != header["branches"]:
        graph.close()
        raise StorageError(
            f"the graph restored from {path} is not the one that was dumped",
            hint=f"do not use {location.uri}",
        )
    return graph


def _check_header(header: Mapping[str, Any], path: str) -> None:
    """Refuse an archive that another release has to restore."""
    dump_format, stamp = header.get("format"), header.get("internal_schema_version")
    if dump_format != DUMP_FORMAT:
        raise BadRequestError(
            f"{path} has dump format {dump_format}, this release reads {DUMP_FORMAT}",
            hint="restore it with the release that wrote it",
        )
    if stamp != INTERNAL_SCHEMA_VERSION:
        raise FormatVersionError(
            found=stamp,
            supported=INTERNAL_SCHEMA_VERSION,
            remedy="restore it with the release that wrote it, then export, init and load",
        )

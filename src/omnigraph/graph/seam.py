"""What the rooms above need of an open graph beside its public methods: Spark, tools, servers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.commits import GraphCommit
from omnigraph.commits.branch_ids import check_branch_name
from omnigraph.commits.branches import check_tag_name
from omnigraph.embed import Embedder
from omnigraph.graph.acting import Acting
from omnigraph.graph.changes import Changes
from omnigraph.graph.commit_steps import CommitSteps
from omnigraph.graph.engine import ReadQuery
from omnigraph.graph.results import LoadResult, Snapshot
from omnigraph.graph.session import Session
from omnigraph.graph.writing import MakeLoad, Terms
from omnigraph.graph.writing import load_staged as _load_staged
from omnigraph.intake.declared import Sources
from omnigraph.intake.explain import explain_inputs
from omnigraph.intake.inputs import find_inputs
from omnigraph.ops.diff import ChangeFilter
from omnigraph.policy import Action, with_roles
from omnigraph.read.ranking import Embed
from omnigraph.store import GivenOptions, RequestKeys, Table, is_object, reaching
from omnigraph.store.upkeep.orphans import SCRATCH
from omnigraph.values.commits import MAIN


def _acting(session: Session) -> Acting:
    return session._acting


def check_writable(session: Session) -> None:
    """Refuse to go on when a session is closed, or open read-only."""
    _acting(session).check_writable()


def check_names(*, branch: str, tag: str | None) -> None:
    """Refuse names that a branch, or a tag, cannot have. Raises `BadRequestError`."""
    if branch != MAIN:
        check_branch_name(branch)
    if tag is not None:
        check_tag_name(tag)


def permit(session: Session, action: Action, *, branch: str | None = None) -> None:
    """Return if the policy allows a session's actor something. Raises `PolicyDeniedError`."""
    _acting(session).permit(action, branch=branch)


def reach(session: Session) -> GivenOptions | None:
    """Return how to reach the object store, as far as a caller said; for processes that help."""
    return _acting(session).engine.location.given


def session_of(session: Session, actor: str, roles: tuple[str, ...] = ()) -> Session:
    """Return a session of another actor under the same policy, which knows that one's roles."""
    policy = _acting(session).caller.policy
    if policy is None or not roles:
        return session.as_actor(actor)
    return session.acting_for(actor, with_roles(policy, roles))


def request_keys(session: Session, *, kept_s: float) -> RequestKeys:
    """Return the keys that requests of callers were given on a graph, each kept so long."""
    engine = _acting(session).engine
    return RequestKeys(engine.location, engine.syncer, kept_s=kept_s)


def limit_cache(session: Session, bytes_max: int) -> None:
    """Let a graph keep so many bytes at most of what was read."""
    _acting(session).engine.reader.limit_cache(bytes_max)


def limit_queries(session: Session, bytes_max: int) -> None:
    """Refuse queries of a graph that would make a larger table on their way."""
    _acting(session).engine.query_bytes_max = bytes_max


def embedder_of(session: Session) -> Embedder | None:
    """Return what turns texts into vectors for a graph, to do the same in another process."""
    return _acting(session).engine.embedder


def note_commits(session: Session, branch: str, commits: int) -> None:
    """Count commits that another process made, for the upkeep of this one."""
    upkeep = _acting(session).engine.upkeep
    if upkeep is not None:
        upkeep.note_commit(branch, commits)


def check_schema(session: Session) -> None:
    """Make sure that the schema a session knows is the one that is stored."""
    _acting(session).engine.accepted_schema()


def domain(session: Session) -> str:
    """Return what tells a graph from every other one."""
    return _acting(session).engine.accepted_schema().domain


def catalog_at(session: Session, snapshot: Snapshot) -> Catalog:
    """Return the types of a snapshot, under the schema of its time."""
    acting = _acting(session)
    acting.permit(Action.READ, branch=snapshot.branch)
    return acting.engine.schema_of(snapshot.commit.schema_hash).catalog


def table_at(session: Session, snapshot: Snapshot, table_key: str) -> Table:
    """Return the table of a type as a snapshot names it, to read it by other means."""
    acting = _acting(session)
    acting.permit(Action.READ, branch=snapshot.branch)
    pin = snapshot.tables[table_key]
    return acting.engine.tables.open(pin.path, pin.version)


def read_query(
    session: Session,
    snapshot: Snapshot,
    source: str,
    params: Mapping[str, object] | None,
    name: str | None,
) -> ReadQuery:
    """Return a read query compiled under the schema of a snapshot, to run it by other means."""
    acting = _acting(session)
    acting.permit(Action.READ, branch=snapshot.branch)
    return acting.engine.prepare(source, params, name, snapshot.commit.schema_hash)


def embed_query(session: Session) -> Embed:
    """Return what turns the text of a `nearest` into a vector, as queries of a session do it."""
    return _acting(session).engine.reader.embed_query


def differing_tables(
    session: Session, a: str | int, b: str | int, wanted: ChangeFilter
) -> list[tuple[NodeType | EdgeType, int, Table | None, Table | None]]:
    """Return the types whose tables may differ, their ids, and both tables."""
    acting = _acting(session)
    changes = Changes(acting.readable, acting.engine.tables, acting.engine.contract)
    return list(changes.tables(a, b, wanted))


def commit_steps(session: Session, branch: str) -> CommitSteps:
    """Return the commits of a branch, to be read in parts by other processes."""
    acting = _acting(session)
    return CommitSteps(acting.readable, acting.engine.tables, acting.engine.contract, branch)


def commit_of_operation(session: Session, branch: str, operation_id: str) -> GraphCommit | None:
    """Return the commit of a branch that an operation made, if it made one."""
    acting = _acting(session)
    acting.permit(Action.READ, branch=branch)
    manifest = acting.engine.lines.get(branch).manifest
    manifest.capture()
    return manifest.commit_of(operation_id)


def explain_sources(session: Session, sources: Sources, branch: str) -> list[dict[str, Any]]:
    """Return what a load would do with its inputs; of files only headers are read."""
    acting = _acting(session)
    acting.permit(Action.READ, branch=branch)
    catalog = acting.engine.accepted_schema().catalog
    with reaching(acting.engine.location.given):
        return explain_inputs(find_inputs(sources, catalog))


def load_staged(session: Session, make: MakeLoad, mode: str, terms: Terms) -> LoadResult:
    """Commit a load whose rows are parsed and staged elsewhere, such as by workers on Spark."""
    return _load_staged(_acting(session), make, mode, terms)


def scratch_folder(
    session: Session, place: str | os.PathLike[str] | None = None, *, shared: bool = False
) -> str:
    """Make a folder for the rows of one load, in a place all its workers can reach.

    Unless named it lies beside the tables, or on this machine if that is faster and no other
    machine needs it (`shared`).
    """
    engine = _acting(session).engine
    parent = engine.location.path(SCRATCH) if place is None else os.fspath(place)
    if place is None and is_object(parent) and not shared:
        return tempfile.mkdtemp(prefix="omnigraph-scratch-")
    if is_object(parent):
        return f"{parent.rstrip('/')}/{engine.ids.next()}"
    folder = os.path.join(os.path.abspath(parent), engine.ids.next())
    os.makedirs(folder)
    return folder


def new_scratch(session: Session) -> str:
    """Return where a folder for the rows of one load may be made; workers reach it as the graph."""
    engine = _acting(session).engine
    parent = engine.location.path(SCRATCH)
    return f"{parent if is_object(parent) else os.path.abspath(parent)}/{engine.ids.next()}"

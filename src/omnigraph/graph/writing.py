"""Mutations and loads of one caller, each as one commit."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema
from omnigraph.commits import (
    MAIN,
    Base,
    ChangeSet,
    GraphCommit,
    Operation,
    Request,
    SchemaMovedError,
)
from omnigraph.commits.open_branches import OpenBranch
from omnigraph.embed import Embedder
from omnigraph.errors import NotFoundError, OmniGraphError
from omnigraph.graph.acting import Acting
from omnigraph.graph.api import Loadable, Params
from omnigraph.graph.branches import Branches
from omnigraph.graph.engine import Engine
from omnigraph.graph.results import LoadResult, MutationResult
from omnigraph.graph.targets import check_head
from omnigraph.intake.declared import Given
from omnigraph.intake.envelopes import BytesRead
from omnigraph.lang import bind_parameters
from omnigraph.ops.load import Load, LoadMode
from omnigraph.ops.mutate import Mutation
from omnigraph.policy import Action
from omnigraph.rows.embeddings import Embeddings
from omnigraph.store import measured, reaching
from omnigraph.values.words import LoadWord


class LoadOperation(Operation, Protocol):
    """A load that has read its input."""

    @property
    def mode(self) -> str:
        """What happens to rows that exist."""

    def counts(self, kind: str) -> dict[str, int]:
        """Return rows per type name, nodes or edges."""


class StagedLoad(LoadOperation, Protocol):
    """A load whose rows do not pass through this process."""

    def stage_ahead(self, base: Base) -> None:
        """Do the long part of staging; repeating it on the same base costs nothing."""


MakeLoad = Callable[[AcceptedSchema, Embedder | None], StagedLoad]


class Terms(Struct, frozen=True, kw_only=True):
    """What a caller says about a write beside the data: where to, as whom, and on what conditions.

    `create_from` makes the branch if it is not there. Without `index` a later write brings the
    indexes up to date.
    """

    branch: str = MAIN
    create_from: str | None = None
    expected_head: str | None = None
    operation_id: str | None = None
    message: str | None = None
    actor: str | None = None
    dry_run: bool = False
    index: bool = True


class Writing:
    """One write of a caller: the branch it goes to, and what was said about it."""

    def __init__(self, acting: Acting, terms: Terms) -> None:
        acting.check_writable()
        acting.permit(Action.CHANGE, branch=terms.branch, actor=terms.actor)
        if terms.dry_run:
            # A try leaves no trace: it would be a way to ask what is there.
            acting.permit(Action.READ, branch=terms.branch, actor=terms.actor)
        self.acting = acting
        self.terms = terms

    def telling(self) -> AbstractContextManager[None]:
        """Let failures tell only what the caller may read."""
        return self.acting.telling(self.terms.branch, self.terms.actor)

    def line(self) -> OpenBranch:
        """Return the branch to write to. Raises `NotFoundError`."""
        return self.acting.line(self.terms.branch)

    def line_or_new(self) -> tuple[OpenBranch, bool]:
        """Return the branch to load into, and whether it was made for it."""
        terms = self.terms
        try:
            return self.line(), False
        except NotFoundError:
            if terms.create_from is None:
                raise
        source, name, actor = terms.create_from, terms.branch, terms.actor
        if terms.dry_run:
            self.acting.permit(Action.BRANCH_CREATE, branch=source, target_branch=name, actor=actor)
            self.acting.permit(Action.READ, branch=source, actor=actor)
            return self.acting.engine.lines.get(source), False
        Branches(self.acting).create(name, from_=source, actor=actor)
        return self.line(), True

    def told(self, result: LoadResult, *, created: bool) -> LoadResult:
        """Return a result that says which branch was made for it."""
        if not created:
            return result
        branch, source = self.terms.branch, self.terms.create_from
        return replace(result, branch=branch, base_branch=source, branch_created=True)

    def request(self, line: OpenBranch, *, warm_schema: bool = False) -> Request:
        """Return what was said about the write."""
        terms = self.terms
        return self.acting.request(
            line,
            actor=terms.actor,
            expected_head=terms.expected_head,
            operation_id=terms.operation_id,
            message=terms.message,
            warm_schema=warm_schema,
        )

    def done_before(self, line: OpenBranch, request: Request, mode: str) -> LoadResult | None:
        """Return the outcome of a load that an earlier call made; nothing is read for that.

        Raises if the branch is not where the caller expects it.
        """
        if self.terms.dry_run or (request.new_id and request.expected_head is None):
            return None
        with self.telling():
            state = line.manifest.capture()
            done = line.manifest.commit_of(request.operation_id, past=not request.new_id)
            if done is None:
                check_head(line, state, request.expected_head)
                return None
        return LoadResult(
            mode=str(mode),
            nodes={},
            edges={},
            commit=done,
            branch=line.branch.name,
            repeated=True,
            actor_id=request.actor_id,
        )

    def new_load(self, schema: AcceptedSchema, mode: LoadMode | LoadWord) -> Load:
        """Return a load that has read nothing yet."""
        engine = self.acting.engine
        embeddings = Embeddings(engine.embedder)
        return Load(schema, LoadMode.parse(mode), new_ids=engine.ids.run, embeddings=embeddings)

    def finish(
        self,
        load: LoadOperation,
        line: OpenBranch,
        schema: AcceptedSchema,
        request: Request,
        io: Mapping[str, int],
    ) -> LoadResult:
        """Commit a load that has read its input, or only check it."""
        commit, repeated = None, False
        if self.terms.dry_run:
            line.writer.prepare_only(load, request, schema)
        else:
            with self.telling():
                commit, changes = line.writer.run(load, request, schema)
            self.acting.after_commit(line, commit, changes, compact_tails=self.terms.index)
            repeated = commit is not None and changes is None
        return LoadResult(
            mode=str(load.mode),
            nodes=load.counts("node"),
            edges=load.counts("edge"),
            commit=commit,
            branch=line.branch.name,
            repeated=repeated,
            actor_id=request.actor_id,
            dry_run=self.terms.dry_run,
            io=dict(io),
        )


def mutate(
    acting: Acting,
    source: str,
    params: Params,
    name: str | None,
    terms: Terms,
) -> MutationResult:
    """Run a mutation query as one commit."""
    work = Writing(acting, terms)
    with measured() as io, work.telling():
        line = work.line()
        request = work.request(line, warm_schema=not terms.dry_run)
        asked = (source, name, params, request, terms.dry_run)
        schema = acting.engine.schema
        try:
            mutation, commit, changes = _mutate(acting, line, schema, *asked)
        except SchemaMovedError:
            # Nothing was written; the text may well mean something in the new schema.
            schema = acting.engine.accepted_schema()
            mutation, commit, changes = _mutate(acting, line, schema, *asked)
        acting.after_commit(line, commit, changes)
    repeated = commit is not None and changes is None
    return MutationResult(
        affected_nodes=None if repeated else mutation.affected_nodes,
        affected_edges=None if repeated else mutation.affected_edges,
        commit=commit,
        branch=line.branch.name,
        repeated=repeated,
        query_name=mutation.plan.name,
        actor_id=request.actor_id,
        dry_run=terms.dry_run,
        io=dict(io),
    )


def _mutate(
    acting: Acting,
    line: OpenBranch,
    schema: AcceptedSchema,
    source: str,
    name: str | None,
    params: Params,
    request: Request,
    dry_run: bool,
) -> tuple[Mutation, GraphCommit | None, ChangeSet | None]:
    engine = acting.engine
    if dry_run:
        schema = engine.accepted_schema()
    try:
        mutation = _compiled(engine, schema, source, name, params)
    except OmniGraphError:
        # What is not in the schema as this handle knows it may be in the one that is stored.
        schema = engine.accepted_schema()
        mutation = _compiled(engine, schema, source, name, params)
    if dry_run:
        return mutation, None, line.writer.prepare_only(mutation, request, schema)
    return mutation, *line.writer.run(mutation, request, schema)


def _compiled(
    engine: Engine, schema: AcceptedSchema, source: str, name: str | None, params: Params
) -> Mutation:
    plan = engine.compile_mutation(source, name, schema)
    mutation = Mutation(
        plan,
        bind_parameters(plan.parameters, params),
        now=datetime.datetime.now(datetime.UTC),
        new_id=engine.ids.next,
        embeddings=Embeddings(engine.embedder),
    )
    if engine.embedder is not None:
        # Before the queue: others would wait for the model, too.
        mutation.embed_ahead(schema)
    return mutation


def load(
    acting: Acting,
    data: Loadable,
    mode: LoadMode | LoadWord,
    terms: Terms,
    progress: BytesRead | None,
) -> LoadResult:
    """Load envelopes as one commit."""
    work = Writing(acting, terms)
    with measured() as io, reaching(acting.engine.location.given):
        line, created = work.line_or_new()
        schema = acting.engine.accepted_schema()
        operation = work.new_load(schema, mode)
        operation.read(data, progress)
        result = work.finish(operation, line, schema, work.request(line), io)
    return work.told(result, created=created)


def load_table(
    acting: Acting,
    type_name: str,
    table: Given,
    mode: LoadMode | LoadWord,
    terms: Terms,
    ends: tuple[str, str],
) -> LoadResult:
    """Load a frame of one type as one commit; `ends` name the columns with an edge's ends."""
    work = Writing(acting, terms)
    with measured() as io:
        line = work.line()
        schema = acting.engine.accepted_schema()
        operation = work.new_load(schema, mode)
        operation.read_table(type_name, table, from_col=ends[0], to_col=ends[1])
        return work.finish(operation, line, schema, work.request(line), io)


def load_staged(acting: Acting, make: MakeLoad, mode: str, terms: Terms) -> LoadResult:
    """Commit a load whose rows are parsed and staged elsewhere, such as by workers on Spark.

    Validation and staging are done before the load takes its turn among the writers of this
    process; they are repeated only if a table they rest on has moved by then.
    """
    work = Writing(acting, terms)
    with measured() as io:
        line = work.line()
        request = work.request(line)
        before = work.done_before(line, request, mode)
        if before is not None:
            return before
        schema = acting.engine.contract.validate()
        operation = make(schema, acting.engine.embedder)
        line.manifest.capture()
        done = line.manifest.commit_of(request.operation_id, past=not request.new_id)
        if done is None and not terms.dry_run:
            line.writer.prepare_only(operation, request, schema)
            operation.stage_ahead(line.writer.base(schema))
        return work.finish(operation, line, schema, request, io)

"""Writing to an open graph."""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema
from omnigraph.embed import Embedder
from omnigraph.errors import NotFoundError
from omnigraph.graph.handle import Handle
from omnigraph.graph.lines import Line
from omnigraph.graph.results import LoadResult, MutationResult
from omnigraph.lang import bind_parameters
from omnigraph.manifest import (
    MAIN,
    GraphCommit,
)
from omnigraph.ops.load import Load, LoadMode
from omnigraph.ops.mutate import Mutation
from omnigraph.policy import Action
from omnigraph.store import (
    is_object,
    measured,
    reaching,
)
from omnigraph.store.orphans import SCRATCH
from omnigraph.write import Base, ChangeSet, Operation, Request, SchemaMovedError, Writer
from omnigraph.write.embeddings import Embeddings


class LoadOperation(Operation, Protocol):
    """A load that has read its input."""

    mode: LoadMode

    def counts(self, kind: str) -> dict[str, int]:
        """Return rows per type name, nodes or edges."""


class StagedLoad(LoadOperation, Protocol):
    """A load whose rows do not pass through this process."""

    def stage_ahead(self, writer: Writer, base: Base) -> None:
        """Do the long part of staging; repeating it on the same base costs nothing."""


class WritingHandle(Handle):
    """An open graph that can be written to."""

    def mutate(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        expected_head: str | None = None,
        operation_id: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> MutationResult:
        """Run a mutation query as one atomic commit.

        Args:
            source: Text of a `.gq` file.
            params: Parameter values.
            name: Which query of the text to run, if it holds several.
            branch: Branch to write to.
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: Your own id for this write: repeating it returns the first outcome
                instead of writing twice.
            actor: Overrides the handle's actor.
            dry_run: Validate everything, count what would change, and write nothing.
        """
        self.check_writable()
        self.permit(Action.CHANGE, branch=branch, actor=actor)
        with measured() as io:
            line = self._lines.get(branch)
            request = self.request(line, actor, expected_head, operation_id)
            asked = (source, name, params)
            try:
                mutation, commit, changes = self._mutate(line, *asked, request, dry_run)
            except SchemaMovedError:
                # Nothing was written; the text may well mean something in the new schema.
                mutation, commit, changes = self._mutate(line, *asked, request, dry_run)
            self.settle(line, commit, changes)
        repeated = commit is not None and changes is None
        return MutationResult(
            affected_nodes=None if repeated else mutation.affected_nodes,
            affected_edges=None if repeated else mutation.affected_edges,
            commit=commit,
            branch=line.branch.name,
            repeated=repeated,
            query_name=mutation.plan.name,
            actor_id=request.actor_id,
            dry_run=dry_run,
            io=dict(io),
        )

    def _mutate(
        self,
        line: Line,
        source: str,
        name: str | None,
        params: Mapping[str, object] | None,
        request: Request,
        dry_run: bool,
    ) -> tuple[Mutation, GraphCommit | None, ChangeSet | None]:
        schema = self.accepted_schema()
        plan = self._compile_mutation(source, name, schema)
        mutation = Mutation(
            plan,
            bind_parameters(plan.parameters, params),
            now=datetime.datetime.now(datetime.UTC),
            new_id=self._ids.next,
            embeddings=Embeddings(self._embedder),
        )
        if dry_run:
            return mutation, None, line.writer.rehearse(mutation, request, schema)
        return mutation, *line.writer.run(mutation, request, lambda: schema)

    def load(
        self,
        data: str | os.PathLike[str] | bytes | Iterable[Mapping[str, object]],
        *,
        mode: LoadMode | str,
        branch: str = MAIN,
        create_from: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        progress: Any = None,
    ) -> LoadResult:
        """Load nodes and edges as one atomic commit; nothing is written if anything is wrong.

        Args:
            data: Path or address of a JSONL file, its bytes, or an iterable of envelopes.
            mode: `append` (ids must be new), `merge` (replace by id) or `overwrite` (replace
                the content of every type present).
            branch: Branch to write to.
            create_from: Make the branch from this one if it does not exist.
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: As for `mutate`.
            actor: Overrides the handle's actor.
            dry_run: Validate everything and write nothing.
            progress: Called with the number of bytes read so far.
        """
        self.check_writable()
        self.permit(Action.CHANGE, branch=branch, actor=actor)
        with measured() as io, reaching(self.reach):
            line, created = self._line_or_new(branch, create_from, dry_run, actor)
            schema = self.accepted_schema()
            load = self._new_load(schema, mode)
            load.read(data, progress)
            request = self.request(line, actor, expected_head, operation_id)
            found = self._finish_load(load, line, schema, request, dry_run, io)
        if not created:
            return found
        return replace(found, branch=branch, base_branch=create_from, branch_created=True)

    def _line_or_new(
        self, branch: str, create_from: str | None, dry_run: bool, actor: str | None
    ) -> tuple[Line, bool]:
        """Return the branch to load into, made from another one if it is not there."""
        try:
            return self._lines.get(branch), False
        except NotFoundError:
            if create_from is None:
                raise
        if dry_run:
            self.permit(Action.BRANCH_CREATE, branch=create_from, target_branch=branch, actor=actor)
            return self._lines.get(create_from), False
        self.branches.create(branch, from_=create_from, actor=actor)
        return self._lines.get(branch), True

    def load_table(
        self,
        type_name: str,
        table: Any,
        *,
        mode: LoadMode | str,
        branch: str = MAIN,
        from_col: str = "from",
        to_col: str = "to",
        expected_head: str | None = None,
        operation_id: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> LoadResult:
        """Load rows of one type from an Arrow table, pandas or polars frame, as one commit.

        Columns are properties (and `id`); for an edge type `from_col` and `to_col` name the
        columns with the endpoint ids.
        """
        self.check_writable()
        self.permit(Action.CHANGE, branch=branch, actor=actor)
        with measured() as io:
            line = self._lines.get(branch)
            schema = self.accepted_schema()
            load = self._new_load(schema, mode)
            load.read_table(type_name, table, from_col=from_col, to_col=to_col)
            request = self.request(line, actor, expected_head, operation_id)
            return self._finish_load(load, line, schema, request, dry_run, io)

    def load_staged(
        self,
        make: Callable[[AcceptedSchema, Embedder | None], StagedLoad],
        *,
        branch: str = MAIN,
        expected_head: str | None = None,
        operation_id: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        index: bool = True,
    ) -> LoadResult:
        """Commit a load whose rows somebody else parses and stages, such as workers on Spark.

        Validation and staging are done before the load takes its turn among the writers of this
        process; they are repeated only if a table they rest on has moved by then.
        """
        self.check_writable()
        self.permit(Action.CHANGE, branch=branch, actor=actor)
        with measured() as io:
            line = self._lines.get(branch)
            schema = self._contract.validate()
            load = make(schema, self._embedder)
            request = self.request(line, actor, expected_head, operation_id)
            line.coordinator.capture()
            done = line.coordinator.commit_of(request.operation_id)
            if done is None and not dry_run:
                line.writer.rehearse(load, request, schema)
                load.stage_ahead(line.writer, line.writer.base(schema))
            return self._finish_load(load, line, schema, request, dry_run, io, index=index)

    def scratch_folder(
        self, place: str | os.PathLike[str] | None = None, *, shared: bool = False
    ) -> str:
        """Make a folder for the rows of one load, in a place all its workers can reach.

        Unless named it lies beside the tables, or on this machine if that is faster and nobody
        else needs it (`shared`).
        """
        parent = self._location.path(SCRATCH) if place is None else os.fspath(place)
        if place is None and is_object(parent) and not shared:
            return tempfile.mkdtemp(prefix="omnigraph-scratch-")
        if is_object(parent):
            return f"{parent.rstrip('/')}/{self._ids.next()}"
        folder = os.path.join(os.path.abspath(parent), self._ids.next())
        os.makedirs(folder)
        return folder

    def _new_load(self, schema: AcceptedSchema, mode: LoadMode | str) -> Load:
        embeddings = Embeddings(self._embedder)
        return Load(schema, LoadMode.parse(mode), new_ids=self._ids.run, embeddings=embeddings)

    def _finish_load(
        self,
        load: LoadOperation,
        line: Line,
        schema: AcceptedSchema,
        request: Request,
        dry_run: bool,
        io: Mapping[str, int],
        *,
        index: bool = True,
    ) -> LoadResult:
        commit, repeated = None, False
        if dry_run:
            line.writer.rehearse(load, request, schema)
        else:
            commit, changes = line.writer.run(load, request, lambda: schema)
            self.settle(line, commit, changes, fold=index)
            repeated = commit is not None and changes is None
        return LoadResult(
            mode=str(load.mode),
            nodes=load.counts("node"),
            edges=load.counts("edge"),
            commit=commit,
            branch=line.branch.name,
            repeated=repeated,
            actor_id=request.actor_id,
            dry_run=dry_run,
            io=dict(io),
        )

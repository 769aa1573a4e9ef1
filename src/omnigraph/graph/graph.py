"""The handle people hold: one open graph."""

from __future__ import annotations

import contextlib
import copy
import datetime
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

from omnigraph import INTERNAL_SCHEMA_VERSION
from omnigraph.catalog import AcceptedSchema, Catalog
from omnigraph.embed import Embedder
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.changes import ChangeFeed, Changes, Diff
from omnigraph.graph.history import Commits
from omnigraph.graph.lines import Line, Lines
from omnigraph.graph.maintenance import (
    CleanupReport,
    Maintenance,
    OptimizeReport,
    RepairReport,
)
from omnigraph.graph.merging import Merging
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult, Snapshot
from omnigraph.graph.schema_ops import SchemaOps
from omnigraph.graph.targets import resolve
from omnigraph.graph.view import BranchView
from omnigraph.ids import UlidSource
from omnigraph.lang import CompiledQuery, bind_parameters, compile_query, compile_schema
from omnigraph.limits import CLEANUP_GRACE_S, COMPILED_QUERIES_MAX
from omnigraph.manifest import (
    AUDIT,
    MAIN,
    Capture,
    GraphCommit,
    PendingWrite,
    RecoveryAudit,
    RecoveryRecord,
    Verdict,
)
from omnigraph.ops.cleanup import Retention
from omnigraph.ops.diff import ChangeFilter
from omnigraph.ops.export import export_envelopes, export_lines, export_rows
from omnigraph.ops.indexing import PendingIndex
from omnigraph.ops.load import Load, LoadMode
from omnigraph.ops.mutate import Mutation
from omnigraph.plan import MutationPlan, ReadPlan
from omnigraph.read import Reader
from omnigraph.store import (
    ControlFiles,
    Durability,
    Journal,
    KeyProbe,
    Syncer,
    Tables,
    locate,
    measured,
    parse_durability,
)
from omnigraph.write import ChangeSet, Request, SchemaMovedError
from omnigraph.write.contract import SchemaContract
from omnigraph.write.embeddings import Embeddings

Mode = Literal["rw", "ro"]


def _compile(text: str) -> Catalog:
    return compile_schema(text, name="_schema.pg").catalog


class Graph:
    """One open graph. Threads may share it; close it when done, or use it in a `with` block."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        mode: Mode = "rw",
        actor: str | None = None,
        durability: Durability | str = Durability.FULL,
        embedder: Embedder | None = None,
    ) -> None:
        if mode not in ("rw", "ro"):
            raise BadRequestError(f"mode must be 'rw' or 'ro', not {mode!r}")
        _check_actor(actor)
        self._location = locate(uri)
        self._mode = mode
        self.actor = actor
        self._syncer = Syncer(parse_durability(durability), root=self._location.root)
        self._control = ControlFiles(self._location, self._syncer)
        self._tables = Tables(self._location)
        self._probe = KeyProbe()
        self._ids = UlidSource()
        self._audit = RecoveryAudit(Journal(self._location.path(AUDIT)), self._syncer)
        self._lines = Lines(
            self._location,
            tables=self._tables,
            syncer=self._syncer,
            probe=self._probe,
            ids=self._ids,
            audit=self._audit,
            stamp=INTERNAL_SCHEMA_VERSION,
            writable=mode == "rw",
        )
        self._embedder = embedder
        self._reader = Reader(self._tables, embedder=embedder)
        self._contract = SchemaContract(
            self._control,
            _compile,
            self._lines.main.coordinator,
            self._lines.directory.control if mode == "rw" else None,
        )
        self._schema: AcceptedSchema = self._contract.validate()
        self._compiled: dict[tuple[str, str | None, str], CompiledQuery] = {}
        self._compiled_lock = threading.Lock()
        self.commits = Commits(self._lines, self._tables, self._contract)
        self.blobs = Blobs(self._tables, self._resolve, self.schema_at)
        merging = Merging(self._lines, self._tables)
        self.branches = Branches(self, self._lines, merging)
        self.tags = Tags(self, self._lines)
        self._maintenance = Maintenance(
            self._location.uri, self._lines, self._tables, self._ids, merging
        )
        self.feed = ChangeFeed(self._lines, self._tables, self._contract)
        self.schema = SchemaOps(self, self._lines, self._contract, self._ids)
        self.recovered: list[Verdict] = []
        if mode == "rw":
            self.recovered = self._lines.sweep()
        main = self._lines.main
        main.observe(main.coordinator.capture(fresh=False))

    # ---- handle ---------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self._mode!r})"

    def close(self) -> None:
        """Release threads and handles. Closing twice is fine."""
        self._lines.close()
        self._syncer.close()

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._location.uri

    @property
    def schema_source(self) -> str:
        """Text of the accepted schema."""
        return self._contract.source

    @property
    def catalog(self) -> Catalog:
        """The accepted schema as data."""
        return self._schema.catalog

    def refresh(self) -> None:
        """Look at the newest state: strict writes from now on are judged against it.

        A write whose owner died after its last table commit is finished; nothing is undone.
        """
        self.accepted_schema()
        for line in self._lines.warm():
            self._refresh(line)

    def sync(self, branch: str = MAIN) -> None:
        """Look at the newest head of one branch, as `refresh` does for all in use."""
        self.accepted_schema()
        self._refresh(self._lines.get(branch))

    def _refresh(self, line: Line) -> None:
        capture = line.coordinator.capture()
        if self._mode == "rw" and line.publisher.slots.exists(capture.slot):
            line.recovery.resolve(capture.slot, forward_only=True)
            capture = line.coordinator.capture()
        line.observe(capture)

    def as_actor(self, actor: str) -> Graph:
        """Return a handle on the same open graph whose commits are by somebody else."""
        _check_actor(actor)
        other = copy.copy(self)
        other.actor = actor
        other.branches = Branches(other, self._lines, Merging(self._lines, self._tables))
        other.schema = SchemaOps(other, self._lines, self._contract, self._ids)
        return other

    def recover(self) -> list[Verdict]:
        """Resolve every interrupted write now, as opening does; return what became of each."""
        self.check_writable()
        return self._lines.sweep()

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""
        return self._audit.records()

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""
        return self._lines.main.recovery.pending()

    # ---- writing --------------------------------------------------------------------------

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
        """
        self.check_writable()
        with measured() as io:
            line = self._lines.get(branch)
            request = self.request(line, actor, expected_head, operation_id)
            try:
                mutation, commit, changes = self._mutate(line, source, name, params, request)
            except SchemaMovedError:
                mutation, commit, changes = self._mutate(line, source, name, params, request)
            self.settle(line, commit, changes)
        repeated = commit is not None and changes is None
        return MutationResult(
            affected_nodes=None if repeated else mutation.affected_nodes,
            affected_edges=None if repeated else mutation.affected_edges,
            commit=commit,
            branch=branch,
            repeated=repeated,
            query_name=mutation.plan.name,
            actor_id=request.actor_id,
            io=dict(io),
        )

    def _mutate(
        self,
        line: Line,
        source: str,
        name: str | None,
        params: Mapping[str, object] | None,
        request: Request,
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
            data: Path of a JSONL file, its bytes, or an iterable of envelopes.
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
        with measured() as io:
            line, created = self._line_or_new(branch, create_from, dry_run)
            schema = self.accepted_schema()
            load = self._new_load(schema, mode)
            load.read(data, progress)
            request = self.request(line, actor, expected_head, operation_id)
            found = self._finish_load(load, line, schema, request, dry_run, io)
        if not created:
            return found
        return replace(found, branch=branch, base_branch=create_from, branch_created=True)

    def _line_or_new(
        self, branch: str, create_from: str | None, dry_run: bool
    ) -> tuple[Line, bool]:
        """Return the branch to load into, made from another one if it is not there."""
        try:
            return self._lines.get(branch), False
        except NotFoundError:
            if create_from is None:
                raise
        if dry_run:
            return self._lines.get(create_from), False
        self.branches.create(branch, from_=create_from)
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
        with measured() as io:
            line = self._lines.get(branch)
            schema = self.accepted_schema()
            load = self._new_load(schema, mode)
            load.read_table(type_name, table, from_col=from_col, to_col=to_col)
            request = self.request(line, actor, expected_head, operation_id)
            return self._finish_load(load, line, schema, request, dry_run, io)

    def _new_load(self, schema: AcceptedSchema, mode: LoadMode | str) -> Load:
        embeddings = Embeddings(self._embedder)
        return Load(schema, LoadMode.parse(mode), new_ids=self._ids.run, embeddings=embeddings)

    def _finish_load(
        self,
        load: Load,
        line: Line,
        schema: AcceptedSchema,
        request: Request,
        dry_run: bool,
        io: Mapping[str, int],
    ) -> LoadResult:
        commit, repeated = None, False
        if dry_run:
            line.writer.rehearse(load, request, schema)
        else:
            commit, changes = line.writer.run(load, request, lambda: schema)
            self.settle(line, commit, changes)
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

    def request(
        self, line: Line, actor: str | None, expected_head: str | None, operation_id: str | None
    ) -> Request:
        """Return what a caller says about a write."""
        _check_actor(actor)
        if operation_id is not None and not operation_id.strip():
            raise BadRequestError("operation_id must not be blank")
        return Request(
            actor_id=actor if actor is not None else self.actor,
            operation_id=operation_id or self._ids.next(),
            expected_head=expected_head,
            observed=line.observed,
        )

    def settle(self, line: Line, commit: GraphCommit | None, changes: ChangeSet | None) -> None:
        """After a write: this handle has seen the tables it wrote; long tails are folded away."""
        if commit is None or changes is None:
            return
        line.folding.run_if_due(self._schema)
        pins = line.coordinator.capture(fresh=False).pins
        for change in changes.effective():
            key = change.entity.table_key
            line.observed[key] = pins[key].version

    def _compile_mutation(
        self, source: str, name: str | None, schema: AcceptedSchema
    ) -> MutationPlan:
        compiled = self._compile_cached(source, name, schema)
        if not isinstance(compiled.plan, MutationPlan):
            raise BadRequestError(f"query '{compiled.name}' reads; use it as a query")
        return compiled.plan

    def _compile_cached(
        self, source: str, name: str | None, schema: AcceptedSchema
    ) -> CompiledQuery:
        key = (source, name, schema.shape_hash)
        with self._compiled_lock:
            found = self._compiled.get(key)
        if found is None:
            found = compile_query(source, schema.catalog, select=name)
            with self._compiled_lock:
                if len(self._compiled) >= COMPILED_QUERIES_MAX:
                    self._compiled.clear()
                self._compiled[key] = found
        return found

    def accepted_schema(self) -> AcceptedSchema:
        """Return the accepted schema, checked against what is stored."""
        self._schema = self._contract.validate()
        return self._schema

    def schema_at(self, capture: Capture) -> AcceptedSchema:
        """Return the schema of a captured state: the accepted one, or that of its commit."""
        schema, wanted = self.accepted_schema(), capture.head.schema_hash
        return schema if schema.ir_hash() == wanted else self._contract.at(wanted)

    def check_writable(self) -> None:
        """Refuse to go on when the graph is open read-only."""
        if self._mode != "rw":
            raise BadRequestError("the graph is open read-only", hint="open it with mode='rw'")

    # ---- maintenance ----------------------------------------------------------------------

    def ensure_indices(self, branch: str = MAIN) -> list[PendingIndex]:
        """Build what the schema's indexes lack, as one commit that changes no entity.

        Returns the declared indexes that could not be built yet, for want of anything to index.
        """
        self.check_writable()
        return self._maintenance.ensure_indices(self.accepted_schema(), branch, self.actor)

    def optimize(
        self, branch: str = MAIN, *, progress: Callable[[str], None] | None = None
    ) -> OptimizeReport:
        """Compact small fragments and index every row, as one commit that changes no entity."""
        self.check_writable()
        return self._maintenance.optimize(self.accepted_schema(), branch, progress)

    def repair(
        self, branch: str = MAIN, *, confirm: bool = False, force: bool = False
    ) -> RepairReport:
        """Find tables somebody moved past this engine; publish them only when told to."""
        self.check_writable()
        return self._maintenance.repair(branch, confirm=confirm, force=force)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: datetime.timedelta | float | None = None,
        dry_run: bool = True,
        grace: datetime.timedelta | float = CLEANUP_GRACE_S,
        progress: Callable[[str], None] | None = None,
    ) -> CleanupReport:
        """Remove old versions and the files only they used.

        Args:
            keep: Graph versions of each branch that stay.
            older_than: Only versions older than this go (seconds or a timedelta).
            dry_run: Only tell what would go; the default.
            grace: What was current less than this ago stays: somebody may be reading it.
            progress: Called with each table's key.
        """
        self.check_writable()
        seconds = (
            older_than.total_seconds()
            if isinstance(older_than, datetime.timedelta)
            else (older_than)
        )
        grace_s = grace.total_seconds() if isinstance(grace, datetime.timedelta) else grace
        retention = Retention(keep=keep, older_than_s=seconds, grace_s=grace_s)
        return self._maintenance.cleanup(retention, dry_run=dry_run, progress=progress)

    # ---- reading --------------------------------------------------------------------------

    def query(
        self,
        source: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Result:
        """Run a read query on one snapshot.

        Args:
            source: Text of a `.gq` file.
            params: Parameter values.
            name: Which query of the text to run, if it holds several.
            branch: Branch to read.
            snapshot: Commit id to read at, instead of the newest state.
            version: Graph version of the branch to read at.
            tag: Tag to read at.
            timestamp: Read the branch as it was at this moment.
        """
        capture = self._resolve(branch, snapshot, version, tag, timestamp)
        schema = self.schema_at(capture)
        compiled = self._compile_cached(source, name, schema)
        if not isinstance(compiled.plan, ReadPlan):
            raise BadRequestError(f"query '{compiled.name}' writes; use it as a mutation")
        values = bind_parameters(compiled.plan.parameters, params)
        table = self._reader.execute(
            compiled.plan,
            schema.catalog,
            capture.pins,
            values,
            now=datetime.datetime.now(datetime.UTC),
        )
        return Result(
            table,
            query_name=compiled.name,
            commit_id=capture.head.graph_commit_id,
            branch=None if snapshot else capture.branch.name,
            snapshot=snapshot,
        )

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Snapshot:
        """Return the newest snapshot, or the one at a commit id, graph version, tag or moment."""
        capture = self._resolve(branch, commit, version, tag, timestamp)
        return Snapshot(
            version=capture.version,
            commit=capture.head,
            tables=capture.pins,
            internal_schema_version=INTERNAL_SCHEMA_VERSION,
            branch=capture.branch.name,
        )

    def _resolve(
        self,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Capture:
        line, capture = resolve(
            self._lines, branch, commit=commit, version=version, tag=tag, timestamp=timestamp
        )
        if commit is None and version is None and tag is None and timestamp is None:
            line.observe(capture)
        return capture

    def branch(self, name: str, *, from_: str | int = MAIN) -> BranchView:
        """Return a view of one branch; it is made from another one if it does not exist."""
        if not self.branches.exists(name):
            self.branches.create(name, from_)
        return BranchView(self, name)

    @contextlib.contextmanager
    def transaction(self, *, base: str = MAIN, name: str | None = None) -> Iterator[BranchView]:
        """Work on a branch of its own: merged at the end of the block, dropped on an error.

        When merging meets conflicts the branch stays, so that they can be decided.
        """
        branch = name or f"tx-{self._ids.next().lower()}"
        self.branches.create(branch, base)
        view = BranchView(self, branch)
        try:
            yield view
        except BaseException:
            self.branches.delete(branch)
            raise
        view.merge(base, delete_source=True)

    def diff(
        self,
        a: str | int,
        b: str | int,
        *,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
    ) -> Diff:
        """Return what turns one state into another.

        States are branches, commit ids, graph versions, tags, or `branch@version`. `kinds`
        (`node`, `edge`), `types` and `ops` (`insert`, `update`, `delete`) narrow the answer.
        """
        wanted = ChangeFilter.of(kinds, types, ops)
        return Changes(self._lines, self._tables, self._contract).diff(a, b, wanted)

    def entity_at(
        self, table_key: str, id: str, *, version: int, branch: str = MAIN
    ) -> dict[str, object] | None:
        """Return one entity as it was at a graph version, None when it did not exist."""
        capture = self._resolve(branch, version=version)
        if table_key not in capture.pins:
            raise NotFoundError(f"no table {table_key} at graph version {version}")
        pin = capture.pins[table_key]
        table = self._tables.open(pin.path, pin.version)
        catalog = self.schema_at(capture).catalog
        return next(export_rows(catalog, table_key, table, only_id=id), None)

    def export(
        self,
        dest: str | os.PathLike[str] | None = None,
        *,
        branch: str | None = None,
        types: Iterable[str] = (),
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Iterator[dict[str, object]] | int:
        """Yield every entity as an envelope, nodes before edges; with `dest` write them as JSONL.

        The output of one call is one snapshot. Loading it into an empty graph of the same
        schema reproduces all entities, ids and values. Returns the number of lines with `dest`.
        """
        capture = self._resolve(branch, commit, version, tag, timestamp)
        tables = {
            key: self._tables.open(pin.path, pin.version) for key, pin in capture.pins.items()
        }
        catalog = self.schema_at(capture).catalog
        if dest is None:
            return export_envelopes(catalog, tables, tuple(types))
        return export_lines(catalog, tables, tuple(types), dest)


def _check_actor(actor: str | None) -> None:
    if actor is not None and not actor.strip():
        raise BadRequestError("the actor must not be blank")

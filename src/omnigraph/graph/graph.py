"""The handle people hold: one open graph."""

from __future__ import annotations

import copy
import datetime
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self

from omnigraph import INTERNAL_SCHEMA_VERSION
from omnigraph.catalog import AcceptedSchema, Catalog, accept_initial
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.history import Commits
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult, Snapshot
from omnigraph.ids import UlidSource
from omnigraph.lang import CompiledQuery, bind_parameters, compile_query, compile_schema
from omnigraph.limits import COMPILED_QUERIES_MAX
from omnigraph.manifest import (
    AUDIT,
    MAIN,
    Capture,
    Coordinator,
    GraphCommit,
    PendingWrite,
    Publisher,
    Recovery,
    RecoveryAudit,
    RecoveryRecord,
    Verdict,
    slot_name,
)
from omnigraph.ops.export import export_envelopes, export_lines, export_rows
from omnigraph.ops.fold import Folding
from omnigraph.ops.initialize import MANIFEST, initialize
from omnigraph.ops.load import Load, LoadMode
from omnigraph.ops.mutate import Mutation
from omnigraph.plan import MutationPlan, ReadPlan
from omnigraph.read import Reader
from omnigraph.store import (
    ControlFiles,
    Durability,
    Journal,
    KeyProbe,
    Slots,
    Syncer,
    Tables,
    locate,
    measured,
    parse_durability,
)
from omnigraph.write import ChangeSet, Request, Writer
from omnigraph.write.base import Base
from omnigraph.write.contract import SchemaContract

Mode = Literal["rw", "ro"]


def _compile(text: str) -> Catalog:
    return compile_schema(text, name="_schema.pg").catalog


def init(
    uri: str | os.PathLike[str],
    schema: str | os.PathLike[str],
    *,
    force: bool = False,
    durability: Durability | str = Durability.FULL,
) -> Graph:
    """Create a graph and open it.

    Args:
        uri: Where it shall live; the folder must not hold a graph yet.
        schema: Schema text, or the path of a `.pg` file.
        force: Replace schema files left there without a graph.
        durability: `full` survives power loss; `none` is for scratch graphs.
    """
    location = locate(uri)
    text, name = _schema_text(schema)
    compiled = compile_schema(text, name=name)
    ids = UlidSource()
    syncer = Syncer(parse_durability(durability), root=location.root)
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
    return Graph(uri, durability=durability)


def _schema_text(schema: str | os.PathLike[str]) -> tuple[str, str]:
    is_path = not isinstance(schema, str) or ("\n" not in schema and schema.endswith(".pg"))
    if not is_path:
        return str(schema), "<schema>"
    path = os.fspath(schema)
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read(), path
    except FileNotFoundError:
        raise NotFoundError(f"schema file not found: {path}") from None
    except UnicodeDecodeError as error:
        raise BadRequestError(f"{path} is not valid UTF-8: {error.reason}") from error


def open_graph(
    uri: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    actor: str | None = None,
    durability: Durability | str = Durability.FULL,
) -> Graph:
    """Open a graph.

    Args:
        uri: Where it lives.
        mode: `rw` resolves interrupted writes first; `ro` writes nothing at all.
        actor: Who the commits of this handle are by.
        durability: `full` survives power loss; `none` is for scratch graphs.
    """
    return Graph(uri, mode=mode, actor=actor, durability=durability)


class Graph:
    """One open graph. Threads may share it; close it when done, or use it in a `with` block."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        mode: Mode = "rw",
        actor: str | None = None,
        durability: Durability | str = Durability.FULL,
    ) -> None:
        if mode not in ("rw", "ro"):
            raise BadRequestError(f"mode must be 'rw' or 'ro', not {mode!r}")
        _check_actor(actor)
        self._location = locate(uri)
        self._mode = mode
        self.actor = actor
        self._syncer = Syncer(parse_durability(durability), root=self._location.root)
        self._control = ControlFiles(self._location, self._syncer)
        self._contract = SchemaContract(self._control, _compile)
        journal = Journal(self._location.path(MANIFEST))
        if mode == "rw":
            journal.set_aside_torn()
        self._coordinator = Coordinator(journal, stamp=INTERNAL_SCHEMA_VERSION)
        self._tables = Tables(self._location)
        self._probe = KeyProbe()
        self._ids = UlidSource()
        self._publisher = Publisher(
            self._coordinator, self._tables, Slots(self._location, self._syncer), self._syncer
        )
        self._audit = RecoveryAudit(Journal(self._location.path(AUDIT)), self._syncer)
        self._recovery = Recovery(self._publisher, self._audit)
        self._writer = Writer(self._publisher, self._recovery, self._probe, self._ids)
        self._reader = Reader(self._tables)
        self._folding = Folding(self._publisher, self._probe, self._ids)
        self._schema: AcceptedSchema = self._contract.validate()
        self._compiled: dict[tuple[str, str | None, str], CompiledQuery] = {}
        self._compiled_lock = threading.Lock()
        self.commits = Commits(self._coordinator)
        self.recovered: list[Verdict] = []
        if mode == "rw":
            self.recovered = self._recovery.sweep(self._ids.next)
        self._observed = self._pins(self._coordinator.capture(fresh=False))

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
        self._publisher.close()
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
        self._schema = self._contract.validate()
        capture = self._coordinator.capture()
        name = slot_name(capture.branch, capture.head.graph_commit_id)
        if self._mode == "rw" and self._publisher.slots.exists(name):
            self._recovery.resolve(name, forward_only=True)
            capture = self._coordinator.capture()
        self._observed = self._pins(capture)

    def sync(self, branch: str = MAIN) -> None:
        """Bind the handle to the newest head of a branch."""
        _check_branch(branch)
        self.refresh()

    def as_actor(self, actor: str) -> Graph:
        """Return a handle on the same open graph whose commits are by somebody else."""
        _check_actor(actor)
        other = copy.copy(self)
        other.actor = actor
        other._observed = dict(self._observed)
        return other

    def recover(self) -> list[Verdict]:
        """Resolve every interrupted write now, as opening does; return what became of each."""
        self._check_writable()
        return self._recovery.sweep(self._ids.next)

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""
        return self._audit.records()

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""
        return self._recovery.pending()

    @staticmethod
    def _pins(capture: Capture) -> dict[str, int]:
        return {key: pin.version for key, pin in capture.pins.items()}

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
        _check_branch(branch)
        self._check_writable()
        with measured() as io:
            schema = self._contract.validate()
            plan = self._compile_mutation(source, name, schema)
            mutation = Mutation(
                plan,
                bind_parameters(plan.parameters, params),
                now=datetime.datetime.now(datetime.UTC),
                new_id=self._ids.next,
            )
            request = self._request(actor, expected_head, operation_id)
            commit, changes = self._writer.run(mutation, request, lambda: schema)
            self._settle(commit, changes)
        repeated = commit is not None and changes is None
        return MutationResult(
            affected_nodes=None if repeated else mutation.affected_nodes,
            affected_edges=None if repeated else mutation.affected_edges,
            commit=commit,
            repeated=repeated,
            query_name=plan.name,
            actor_id=request.actor_id,
            io=dict(io),
        )

    def load(
        self,
        data: str | os.PathLike[str] | bytes | Iterable[Mapping[str, object]],
        *,
        mode: LoadMode | str,
        branch: str = MAIN,
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
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: As for `mutate`.
            actor: Overrides the handle's actor.
            dry_run: Validate everything and write nothing.
            progress: Called with the number of bytes read so far.
        """
        _check_branch(branch)
        self._check_writable()
        with measured() as io:
            schema = self._contract.validate()
            load = Load(schema, LoadMode.parse(mode), new_ids=self._ids.run)
            load.read(data, progress)
            return self._finish_load(load, schema, expected_head, operation_id, actor, dry_run, io)

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
        _check_branch(branch)
        self._check_writable()
        with measured() as io:
            schema = self._contract.validate()
            load = Load(schema, LoadMode.parse(mode), new_ids=self._ids.run)
            load.read_table(type_name, table, from_col=from_col, to_col=to_col)
            return self._finish_load(load, schema, expected_head, operation_id, actor, dry_run, io)

    def _finish_load(
        self,
        load: Load,
        schema: AcceptedSchema,
        expected_head: str | None,
        operation_id: str | None,
        actor: str | None,
        dry_run: bool,
        io: Mapping[str, int],
    ) -> LoadResult:
        request = self._request(actor, expected_head, operation_id)
        commit, repeated = None, False
        if dry_run:
            capture = self._coordinator.capture()
            load.prepare(Base(schema, capture, self._tables, self._probe))
        else:
            commit, changes = self._writer.run(load, request, lambda: schema)
            self._settle(commit, changes)
            repeated = commit is not None and changes is None
        return LoadResult(
            mode=str(load.mode),
            nodes=load.counts("node"),
            edges=load.counts("edge"),
            commit=commit,
            repeated=repeated,
            actor_id=request.actor_id,
            dry_run=dry_run,
            io=dict(io),
        )

    def _request(
        self, actor: str | None, expected_head: str | None, operation_id: str | None
    ) -> Request:
        _check_actor(actor)
        if operation_id is not None and not operation_id.strip():
            raise BadRequestError("operation_id must not be blank")
        return Request(
            actor_id=actor if actor is not None else self.actor,
            operation_id=operation_id or self._ids.next(),
            expected_head=expected_head,
            observed=self._observed,
        )

    def _settle(self, commit: GraphCommit | None, changes: ChangeSet | None) -> None:
        """After a write: this handle has seen the tables it wrote; long tails are folded away."""
        if commit is None or changes is None:
            return
        self._folding.run_if_due(self._schema)
        pins = self._coordinator.capture(fresh=False).pins
        for change in changes.effective():
            key = change.entity.table_key
            self._observed[key] = pins[key].version

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

    def _check_writable(self) -> None:
        if self._mode != "rw":
            raise BadRequestError("the graph is open read-only", hint="open it with mode='rw'")

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
    ) -> Result:
        """Run a read query on one snapshot.

        Args:
            source: Text of a `.gq` file.
            params: Parameter values.
            name: Which query of the text to run, if it holds several.
            branch: Branch to read.
            snapshot: Commit id to read at, instead of the newest state.
            version: Graph version to read at.
        """
        _check_branch(branch or MAIN)
        schema = self._contract.validate()
        compiled = self._compile_cached(source, name, schema)
        if not isinstance(compiled.plan, ReadPlan):
            raise BadRequestError(f"query '{compiled.name}' writes; use it as a mutation")
        values = bind_parameters(compiled.plan.parameters, params)
        capture = self._resolve(commit=snapshot, version=version)
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
            branch=None if snapshot else branch or MAIN,
            snapshot=snapshot,
        )

    def snapshot(
        self, branch: str = MAIN, *, commit: str | None = None, version: int | None = None
    ) -> Snapshot:
        """Return the newest snapshot, or the one at a commit id or graph version."""
        _check_branch(branch)
        capture = self._resolve(commit=commit, version=version)
        return Snapshot(
            version=capture.version,
            commit=capture.head,
            tables=capture.pins,
            internal_schema_version=INTERNAL_SCHEMA_VERSION,
        )

    def _resolve(self, *, commit: str | None = None, version: int | None = None) -> Capture:
        if commit is not None and version is not None:
            raise BadRequestError("give a commit or a version, not both")
        newest = self._coordinator.capture()
        if commit is not None:
            version = self.commits.get(commit).manifest_version
        if version is not None:
            return self._coordinator.at_version(version)
        self._observed = self._pins(newest)
        return newest

    def entity_at(self, table_key: str, id: str, *, version: int) -> dict[str, object] | None:
        """Return one entity as it was at a graph version, None when it did not exist."""
        capture = self._resolve(version=version)
        if table_key not in capture.pins:
            raise NotFoundError(f"no table {table_key} at graph version {version}")
        pin = capture.pins[table_key]
        table = self._tables.open(pin.path, pin.version)
        return next(export_rows(self._schema.catalog, table_key, table, only_id=id), None)

    def export(
        self,
        dest: str | os.PathLike[str] | None = None,
        *,
        branch: str = MAIN,
        types: Iterable[str] = (),
        commit: str | None = None,
        version: int | None = None,
    ) -> Iterator[dict[str, object]] | int:
        """Yield every entity as an envelope, nodes before edges; with `dest` write them as JSONL.

        The output of one call is one snapshot. Loading it into an empty graph of the same
        schema reproduces all entities, ids and values. Returns the number of lines with `dest`.
        """
        _check_branch(branch)
        capture = self._resolve(commit=commit, version=version)
        tables = {
            key: self._tables.open(pin.path, pin.version) for key, pin in capture.pins.items()
        }
        if dest is None:
            return export_envelopes(self._schema.catalog, tables, tuple(types))
        return export_lines(self._schema.catalog, tables, tuple(types), dest)


def _check_branch(branch: str) -> None:
    if branch != MAIN:
        raise NotFoundError(f"branch '{branch}' does not exist")


def _check_actor(actor: str | None) -> None:
    if actor is not None and not actor.strip():
        raise BadRequestError("the actor must not be blank")

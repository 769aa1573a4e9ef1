"""What every operation on an open graph needs: its parts, its schema, its compiled queries."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Literal, Self

from omnigraph import INTERNAL_SCHEMA_VERSION
from omnigraph.catalog import AcceptedSchema, Catalog
from omnigraph.embed import Embedder
from omnigraph.errors import BadRequestError
from omnigraph.graph.branches import Branches
from omnigraph.graph.changes import ChangeFeed
from omnigraph.graph.history import Commits
from omnigraph.graph.lines import Line, Lines
from omnigraph.graph.maintenance import (
    Maintenance,
)
from omnigraph.graph.merging import Merging
from omnigraph.graph.upkeep import Caretaker, Upkeep
from omnigraph.ids import UlidSource
from omnigraph.lang import CompiledQuery, compile_query, compile_schema
from omnigraph.limits import COMPILED_QUERIES_MAX
from omnigraph.manifest import (
    AUDIT,
    MAIN,
    Capture,
    GraphCommit,
    PendingWrite,
    Place,
    RecoveryAudit,
    RecoveryRecord,
    Verdict,
)
from omnigraph.ops.fold import Folding
from omnigraph.plan import MutationPlan
from omnigraph.policy import Access, Action, Policy, check, check_actor, text_problem
from omnigraph.read import CacheStats, Reader
from omnigraph.store import (
    ControlFiles,
    Durability,
    GivenOptions,
    Journal,
    KeyProbe,
    Tables,
    check_conditional_put,
    locate,
    new_syncer,
)
from omnigraph.write import ChangeSet, Request
from omnigraph.write.contract import SchemaContract

Mode = Literal["rw", "ro"]


def _compile(text: str) -> Catalog:
    return compile_schema(text, name="_schema.pg", stored=True).catalog


class Handle:
    """The parts of one open graph."""

    branches: Branches
    commits: Commits
    feed: ChangeFeed

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        mode: Mode = "rw",
        actor: str | None = None,
        durability: Durability | str = Durability.FULL,
        embedder: Embedder | None = None,
        policy: Policy | None = None,
        storage_options: Mapping[str, str] | None = None,
        upkeep: Upkeep | bool = True,
    ) -> None:
        if mode not in ("rw", "ro"):
            raise BadRequestError(f"mode must be 'rw' or 'ro', not {mode!r}")
        check_actor(actor)
        self._location = locate(uri, storage_options)
        self._mode = mode
        self._closed = False
        self._owner = True
        self.actor = actor
        self._policy = policy
        self._syncer = new_syncer(self._location, durability)
        self._control = ControlFiles(self._location, self._syncer)
        self._tables = Tables(self._location)
        self._probe = KeyProbe()
        self._ids = UlidSource()
        self._audit = RecoveryAudit(Journal(self._location, AUDIT), self._syncer)
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
        if mode == "rw":
            check_conditional_put(self._location)
        self._embedder = embedder
        self._reader = Reader(self._tables, embedder=embedder)
        self._contract = SchemaContract(
            self._control,
            _compile,
            self._lines.main.coordinator,
            self._lines.directory.control if mode == "rw" else None,
        )
        self._schema: AcceptedSchema = self._contract.validate()
        self._lines.directory.check_graph = self._contract.check_graph
        self._compiled: dict[tuple[str, str | None, str], CompiledQuery] = {}
        self._compiled_lock = threading.Lock()
        self._merging = Merging(self._lines, self._tables)
        self._maintenance = Maintenance(
            self._location.uri, self._lines, self._tables, self._merging
        )
        settings = Upkeep.of(upkeep) if mode == "rw" else None
        self._upkeep: Caretaker | None = None
        if settings is not None:
            self._upkeep = Caretaker(settings, partial(self._keep_up, settings))
        self.recovered: list[Verdict] = []
        if mode == "rw":
            self.recovered = self._lines.sweep()
        self._seen: dict[str, dict[str, Place]] = {}
        self._remembers = True
        main = self._lines.main
        self.observe(main, main.coordinator.capture(fresh=False))

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
        """Release threads and handles; nothing is written from here on. Twice is fine.

        A session ends alone: what it borrowed stays open for the handle it was made from.
        """
        if not self._owner:
            self._closed = True
            return
        if self._upkeep is not None:
            self._upkeep.close()
        self._closed = True
        self._lines.close()
        self._syncer.close()

    @property
    def upkeep(self) -> Caretaker | None:
        """What looks after the graph in the background of this handle, None when nothing does."""
        return self._upkeep

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._location.uri

    @property
    def reach(self) -> GivenOptions | None:
        """How to reach the object store, as far as a caller said; for processes that help."""
        return self._location.given

    @property
    def schema_source(self) -> str:
        """Text of the accepted schema."""
        self._permit_schema()
        return self._contract.source

    @property
    def catalog(self) -> Catalog:
        """The accepted schema as data."""
        self._permit_schema()
        return self._schema.catalog

    def permit(
        self,
        action: Action,
        *,
        branch: str | None = None,
        target_branch: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Return if the policy allows something; without a policy everything is allowed.

        Raises `PolicyDeniedError`. Every operation asks here before it does anything.
        """
        check_actor(actor)
        if self._policy is not None:
            who = actor if actor is not None else self.actor
            access = Access(action=action, actor=who, branch=branch, target_branch=target_branch)
            check(self._policy, access)

    def _permit_schema(self) -> None:
        """Ask for the schema: all branches have the same, so reading any of them is enough."""
        if self._policy is not None:
            self.branches.details()

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
        self.observe(line, capture)

    def observe(self, line: Line, capture: Capture) -> None:
        """Remember what this handle looked at: its strict writes are judged against it."""
        if not self._remembers:
            return
        pins = {key: pin.place for key, pin in capture.pins.items()}
        self._seen[line.branch.incarnation] = pins

    def _observed(self, line: Line) -> dict[str, Place]:
        """Return what was last looked at; at first, what a branch is when it is first used."""
        if line.branch.incarnation not in self._seen:
            self.observe(line, line.coordinator.capture(fresh=False))
        return self._seen[line.branch.incarnation]

    def recover(self) -> list[Verdict]:
        """Resolve every interrupted write now, as opening does; return what became of each."""
        self.check_writable()
        self.permit(Action.ADMIN)
        return self._lines.sweep()

    def recoveries(self) -> list[RecoveryRecord]:
        """Return every recovery this graph has seen, oldest first."""
        self.permit(Action.READ)
        return self._audit.records()

    def pending_writes(self) -> list[PendingWrite]:
        """Return the writes that are under way or wait for recovery."""
        self.permit(Action.READ)
        return self._lines.main.recovery.pending()

    def cache_stats(self) -> CacheStats:
        """Return how much of what queries read is kept in memory, and how often it helped."""
        return self._reader.cache_stats()

    def request(
        self, line: Line, actor: str | None, expected_head: str | None, operation_id: str | None
    ) -> Request:
        """Return what a caller says about a write."""
        check_actor(actor)
        _check_operation_id(operation_id)
        return Request(
            actor_id=actor if actor is not None else self.actor,
            operation_id=operation_id or self._ids.next(),
            expected_head=expected_head,
            observed=self._observed(line) if self._remembers else None,
        )

    def settle(
        self,
        line: Line,
        commit: GraphCommit | None,
        changes: ChangeSet | None,
        *,
        fold: bool = True,
    ) -> None:
        """After a write: this handle has seen the tables it wrote; long tails are folded away."""
        if commit is None or changes is None:
            return
        if fold:
            Folding(line.writer).run_if_due(self._schema)
        if self._upkeep is not None:
            self._upkeep.note_commit(line.branch.name)
        if not self._remembers:
            return
        pins = line.coordinator.capture(fresh=False).pins
        for change in changes.effective():
            key = change.entity.table_key
            self._observed(line)[key] = pins[key].place

    def _keep_up(self, settings: Upkeep, branches: frozenset[str]) -> None:
        self._maintenance.keep_up(self._contract.validate(), branches, settings)

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
        """Refuse to go on when the graph is closed, or open read-only."""
        if self._closed:
            raise BadRequestError("the graph is closed", hint="open it again")
        if self._mode != "rw":
            raise BadRequestError("the graph is open read-only", hint="open it with mode='rw'")


def _check_operation_id(operation_id: str | None) -> None:
    if operation_id is None:
        return
    if not operation_id.strip():
        raise BadRequestError("operation_id must not be blank")
    if problem := text_problem(operation_id, "operation_id"):
        raise BadRequestError(problem)

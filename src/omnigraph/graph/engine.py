"""The parts of one open graph: made together, shared by every session, closed together."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import AcceptedSchema, Catalog
from omnigraph.catalog.model import LiteralValue
from omnigraph.commits import AUDIT, MAIN, BranchState, RecoveryAudit, Verdict
from omnigraph.commits.contract import SOURCE, SchemaContract
from omnigraph.commits.grouping import GroupWrites, shared
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.embed import Embedder
from omnigraph.errors import BadRequestError
from omnigraph.graph.changes import held_changes
from omnigraph.graph.maintenance import Maintenance
from omnigraph.graph.prepared import check_reads
from omnigraph.graph.upkeep import Caretaker, Upkeep
from omnigraph.ids import UlidSource
from omnigraph.lang import CompiledQuery, bind_parameters, compile_query
from omnigraph.lang.result_columns import column_types
from omnigraph.lang.schema_reader import SchemaReader
from omnigraph.limits import COMPILED_QUERIES_MAX, LARGE_WRITE_ROWS
from omnigraph.ops.compact_tail import TailCompaction
from omnigraph.ops.indexing import keep_edge_numbers
from omnigraph.ops.merge.merging import Merging
from omnigraph.plan import MutationPlan, ReadPlan
from omnigraph.read import QueryControl, Reader, watched
from omnigraph.read.memory import return_memory
from omnigraph.store import (
    ControlFiles,
    Durability,
    IdLookup,
    Journal,
    Table,
    Tables,
    check_conditional_put,
    locate,
    new_syncer,
)
from omnigraph.values.words import DurabilityWord
from omnigraph.version import INTERNAL_SCHEMA_VERSION
from omnigraph.wording import with_article

if TYPE_CHECKING:
    import pyarrow as pa

Mode = Literal["rw", "ro"]


class ReadQuery(Struct, frozen=True):
    """A read query ready to run: its plan, the types it speaks of, and its parameters."""

    compiled: CompiledQuery
    plan: ReadPlan
    catalog: Catalog
    values: Mapping[str, LiteralValue]


class Engine:
    """One open graph. It knows no actor and no policy: a session brings these."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        mode: Mode = "rw",
        durability: Durability | DurabilityWord = Durability.FULL,
        embedder: Embedder | None = None,
        storage_options: Mapping[str, str] | None = None,
        upkeep: Upkeep | bool = True,
        group_writes: GroupWrites | bool = True,
    ) -> None:
        if mode not in ("rw", "ro"):
            raise BadRequestError(f"mode must be 'rw' or 'ro', not {mode!r}")
        self.mode = mode
        self.closed = False
        self.embedder = embedder
        self.location = locate(uri, storage_options)
        if not self.location.files.can_be_folder(self.location.root):
            raise BadRequestError(
                f"{self.location.uri} is a file; a graph is a folder",
                hint="`omnigraph init` makes one",
            )
        self.ids = UlidSource()
        self.tables = Tables(self.location)
        self.id_lookup = IdLookup()
        self.reader = Reader(self.tables, embedder=embedder)
        self.query_bytes_max: int | None = None
        """The most memory of one table of a query; None for a share of the machine."""
        self.syncer = new_syncer(self.location, durability)
        self.audit = RecoveryAudit(Journal(self.location, AUDIT), self.syncer)
        self.lines = OpenBranches(
            self.location,
            tables=self.tables,
            syncer=self.syncer,
            id_lookup=self.id_lookup,
            ids=self.ids,
            audit=self.audit,
            stamp=INTERNAL_SCHEMA_VERSION,
            writable=self.is_writable,
            shares=shared(group_writes),
        )
        if self.is_writable:
            check_conditional_put(self.location)
        self.schemas = SchemaReader()
        self.contract = SchemaContract(
            ControlFiles(self.location, self.syncer),
            partial(self.schemas.catalog, name=SOURCE, stored=True),
            self.lines.main.manifest,
            self.lines.directory.control if self.is_writable else None,
        )
        self.lines.schema_at = self.contract.at
        self.lines.check_stored_schema = self.contract.validate
        self.schema = self.contract.validate()
        self.lines.directory.check_graph = self.contract.check_graph
        self._columns = BoundedCache[int, tuple[ReadPlan, tuple[dict[str, object], ...]]](
            COMPILED_QUERIES_MAX
        )
        self._compiled = BoundedCache[tuple[str, str | None, str], CompiledQuery](
            COMPILED_QUERIES_MAX
        )
        self.held_changes = held_changes()
        self.merging = Merging(self.lines, self.tables)
        self.maintenance = Maintenance(self.uri, self.lines, self.tables, self.merging)
        self.upkeep = self._caretaker(upkeep) if self.is_writable else None
        self.recovered: list[Verdict] = self.lines.sweep() if self.is_writable else []

    @property
    def uri(self) -> str:
        """Location of the graph."""
        return self.location.uri

    @property
    def is_writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.mode == "rw"

    def check_writable(self) -> None:
        """Refuse to go on when the graph is closed, or open read-only."""
        if self.closed:
            raise BadRequestError("the graph is closed", hint="open it again")
        if not self.is_writable:
            raise BadRequestError("the graph is open read-only", hint="open it with mode='rw'")

    def close(self) -> None:
        """Release threads and handles; nothing is written from here on. Twice is fine."""
        if self.upkeep is not None:
            self.upkeep.close()
        self.closed = True
        self.lines.close()
        self.syncer.close()

    def _caretaker(self, wanted: Upkeep | bool) -> Caretaker | None:
        settings = Upkeep.of(wanted)
        return None if settings is None else Caretaker(settings, partial(self._keep_up, settings))

    def _keep_up(self, settings: Upkeep, branches: frozenset[str]) -> None:
        self.maintenance.keep_up(self.contract.validate(), branches, settings)

    # ---- schema and compiled queries ------------------------------------------------------

    def accepted_schema(self) -> AcceptedSchema:
        """Return the accepted schema, checked against what is stored."""
        self.schema = self.contract.validate()
        return self.schema

    def schema_of(self, schema_hash: str) -> AcceptedSchema:
        """Return the schema a commit was made with: the accepted one, or an earlier one.

        A commit names its schema, so the files that say it to people are looked at only when it
        is another one than before. Opening, refreshing and writing look at them every time.
        """
        schema = self.schema
        if schema.ir_hash() != schema_hash:
            schema = self.accepted_schema()
        return schema if schema.ir_hash() == schema_hash else self.contract.at(schema_hash)

    def compile(self, source: str, name: str | None, schema: AcceptedSchema) -> CompiledQuery:
        """Return a query ready to run; one that was compiled before is not compiled again."""
        key = (source, name, schema.shape_hash)
        query = self._compiled.get(key)
        if query is None:
            if not isinstance(source, str):
                raise BadRequestError(f"a query is text, not {with_article(type(source).__name__)}")
            query = compile_query(source, schema.catalog, select=name)
            self._compiled.put(key, query)
        return query

    def compile_mutation(
        self, source: str, name: str | None, schema: AcceptedSchema
    ) -> MutationPlan:
        """Return the plan of a query that writes. Raises `BadRequestError` for one that reads."""
        compiled = self.compile(source, name, schema)
        if not isinstance(compiled.plan, MutationPlan):
            raise BadRequestError(
                f"query '{compiled.name}' reads; use it as a query",
                hint="graph.query in Python, `omnigraph query` on the command line",
            )
        return compiled.plan

    def compile_read(
        self, source: str, name: str | None, schema: AcceptedSchema
    ) -> tuple[CompiledQuery, ReadPlan]:
        """Return a query that reads, and its plan. Raises `BadRequestError` for one that writes."""
        compiled = self.compile(source, name, schema)
        return compiled, check_reads(compiled)

    # ---- states ---------------------------------------------------------------------------

    def run(
        self,
        source: str,
        params: Mapping[str, object] | None,
        name: str | None,
        state: BranchState,
        running: QueryControl,
    ) -> tuple[CompiledQuery, pa.Table]:
        """Run a read query on a state; return it compiled, and its answer as an Arrow table."""
        asked = self.prepare(source, params, name, state.head.schema_hash)
        with watched(running):
            table = self.reader.execute(
                asked.plan,
                asked.catalog,
                state.pins,
                asked.values,
                now=datetime.datetime.now(datetime.UTC),
            )
        # The last step may have been a long one.
        running.check()
        return asked.compiled, table

    def prepare(
        self, source: str, params: Mapping[str, object] | None, name: str | None, schema_hash: str
    ) -> ReadQuery:
        """Return a read query compiled under a schema, with its parameters."""
        schema = self.schema_of(schema_hash)
        compiled, plan = self.compile_read(source, name, schema)
        values = bind_parameters(plan.parameters, params)
        return ReadQuery(compiled, plan, schema.catalog, values)

    def column_types(self, compiled: CompiledQuery) -> tuple[dict[str, object], ...]:
        """Describe the columns a read query returns."""
        plan = compiled.plan
        if not isinstance(plan, ReadPlan):
            return ()
        known = self._columns.get(id(plan))
        if known is None or known[0] is not plan:
            known = (plan, column_types(plan))
            self._columns.put(id(plan), known)
        return known[1]

    def opened(self, state: BranchState) -> dict[str, Table]:
        """Return every table of a state, by its key."""
        pins = state.pins.items()
        return {key: self.tables.open(pin.path, pin.version) for key, pin in pins}

    def newest(self, line: OpenBranch) -> BranchState:
        """Return the newest state of a branch.

        A write whose owner died after its last table commit is finished; nothing is undone.
        """
        state = line.manifest.capture()
        if self.is_writable and line.publisher.slots.exists(state.slot):
            line.recovery.resolve(state.slot, forward_only=True)
            state = line.manifest.capture()
        return state

    def after_commit(self, line: OpenBranch, *, rows: int, compact_tails: bool = True) -> None:
        """Do what follows every write: long tails are compacted, upkeep counts the commit.

        After a large one that takes as long as the write did: it is done in the background, where
        something works there.
        """
        if compact_tails:
            compact = partial(TailCompaction(line.writer).run_if_due, self.schema)
            large = partial(self._after_large, line, rows)
            if rows < LARGE_WRITE_ROWS or self.upkeep is None or not self.upkeep.begin(large):
                compact()
        if self.upkeep is not None:
            self.upkeep.note_commit(line.branch.name)

    def _after_large(self, line: OpenBranch, rows: int) -> None:
        # What the write needed would lie unused beside what comes now.
        return_memory()
        TailCompaction(line.writer).run_if_due(self.schema)
        return_memory()
        if line.branch.name == MAIN:
            base = line.writer.base(self.schema)
            keep_edge_numbers(base, added=rows, shared=self.reader.topologies)

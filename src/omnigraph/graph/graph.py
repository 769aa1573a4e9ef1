"""The handle people hold: one open graph."""

from __future__ import annotations

import contextlib
import copy
import datetime
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from omnigraph import INTERNAL_SCHEMA_VERSION
from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.embed import Embedder
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.bulk import BulkHandle
from omnigraph.graph.changes import ChangeFeed, Changes, Diff
from omnigraph.graph.dumping import DumpReport, dump
from omnigraph.graph.explanation import Explanation
from omnigraph.graph.handle import Mode
from omnigraph.graph.history import Commits
from omnigraph.graph.maintenance import (
    CleanupReport,
    OptimizeReport,
    RepairReport,
)
from omnigraph.graph.permits import PermittedLines
from omnigraph.graph.result import Result
from omnigraph.graph.results import Snapshot
from omnigraph.graph.schema_ops import SchemaOps
from omnigraph.graph.targets import has_branch, resolve
from omnigraph.graph.upkeep import Upkeep
from omnigraph.graph.view import BranchView
from omnigraph.lang import CompiledQuery, bind_parameters
from omnigraph.limits import CLEANUP_GRACE_S
from omnigraph.manifest import MAIN, BranchName, Capture
from omnigraph.ops.cleanup import Retention
from omnigraph.ops.diff import ChangeFilter
from omnigraph.ops.export import (
    export_envelopes,
    export_lines,
    export_rows,
    export_table,
    select_tables,
)
from omnigraph.ops.indexing import PendingIndex
from omnigraph.plan import ReadPlan, explain
from omnigraph.policy import Action, Policy, check_actor
from omnigraph.read import Running, watched
from omnigraph.store import Durability, Table, measured
from omnigraph.store.workers import Workers


class Graph(BulkHandle):
    """One open graph. Threads may share it; close it when done, or use it in a `with` block."""

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
        super().__init__(
            uri,
            mode=mode,
            actor=actor,
            durability=durability,
            embedder=embedder,
            policy=policy,
            storage_options=storage_options,
            upkeep=upkeep,
        )
        self._bind()

    def _bind(self) -> None:
        """Make the parts that act for this handle's actor."""
        self._readable = PermittedLines(self._lines, self.permit)
        self.branches = Branches(self, self._lines, self._merging, self._ask)
        self.tags = Tags(self, self._lines)
        self.blobs = Blobs(self._tables, self._resolve, self.schema_at)
        self.commits = Commits(self._readable, self._tables, self._contract)
        self.feed = ChangeFeed(self._lines, self._tables, self._contract, self.permit)
        self.schema = SchemaOps(self, self._lines, self._contract, self._ids)

    def as_actor(self, actor: str) -> Self:
        """Return a session on the same open graph whose commits are by somebody else.

        It has a base of its own, which begins as this handle's: see `session`. Closing it leaves
        this handle open.
        """
        check_actor(actor)
        other = copy.copy(self)
        other.actor = actor
        other._owner = False
        other._seen = {branch: dict(pins) for branch, pins in self._seen.items()}
        other._bind()
        return other

    def session(self) -> Self:
        """Return a session on the same open graph with a base of its own.

        A strict write is refused when its rows have changed since its session last looked. A
        handle is a session: threads that share one share its base, so that a query of one thread
        counts as having looked for all. Give each thread a session if that matters to it; it costs
        nothing, and closing it leaves this handle open.
        """
        other = copy.copy(self)
        other._owner = False
        other._seen = {branch: dict(pins) for branch, pins in self._seen.items()}
        other._bind()
        return other

    def acting_for(self, actor: str | None, policy: Policy | None = None) -> Self:
        """Return a session for one call of somebody else, under a policy.

        The caller never looked through this handle, so a write is judged only by what it reads
        itself. This is how a server lets many people use one open graph.
        """
        check_actor(actor)
        other = copy.copy(self)
        other.actor = actor
        other._owner = False
        other._policy = policy
        other._remembers = False
        other._seen = {}
        other._bind()
        return other

    # ---- maintenance ----------------------------------------------------------------------

    def ensure_indices(self, branch: str = MAIN) -> list[PendingIndex]:
        """Build what the schema's indexes lack, as one commit that changes no entity.

        Returns the declared indexes that could not be built yet, for want of anything to index.
        """
        self.check_writable()
        self.permit(Action.ADMIN)
        return self._maintenance.ensure_indices(self.accepted_schema(), branch, self.actor)

    def optimize(
        self,
        branch: str = MAIN,
        *,
        progress: Callable[[str], None] | None = None,
        workers: Workers | None = None,
    ) -> OptimizeReport:
        """Compact small fragments and index every row; no entity changes.

        On main, indexes that the schema declares and nobody has built yet are built as well.
        `workers` do the long part, as those of `omnigraph.spark.optimize` do.
        """
        self.check_writable()
        self.permit(Action.ADMIN)
        return self._maintenance.optimize(self.accepted_schema(), branch, progress, workers)

    def repair(
        self,
        branch: str = MAIN,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
    ) -> RepairReport:
        """Find tables that another program changed; keep or drop the changes only when told to.

        Args:
            branch: Branch to look at.
            confirm: Publish changes that left every row as it was.
            force: Publish changes of rows, too.
            discard: Go back to the published versions instead.
        """
        self.check_writable()
        self.permit(Action.ADMIN)
        return self._maintenance.repair(branch, confirm=confirm, force=force, discard=discard)

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

        Without `keep` and `older_than` the newest 100 versions of each branch stay, and all that
        are younger than seven days. Tagged states, and those that branches and merges rest on,
        always stay.

        Args:
            keep: Graph versions of each branch that stay.
            older_than: Only versions older than this go (seconds or a timedelta).
            dry_run: Only tell what would go; the default.
            grace: What was current less than this ago stays: somebody may be reading it.
            progress: Called with each table's key.
        """
        self.check_writable()
        self.permit(Action.ADMIN)
        seconds = (
            older_than.total_seconds()
            if isinstance(older_than, datetime.timedelta)
            else (older_than)
        )
        grace_s = grace.total_seconds() if isinstance(grace, datetime.timedelta) else grace
        retention = Retention.of(keep, seconds, grace_s)
        return self._maintenance.cleanup(retention, dry_run=dry_run, progress=progress)

    def dump(
        self, archive: str | os.PathLike[str], *, progress: Callable[[str], None] | None = None
    ) -> DumpReport:
        """Write the whole graph, with branches, tags and history, into one archive.

        `archive` is a tar file, on a disk or in a bucket, compressed if its name ends in `.gz`.
        Others may go on writing: the archive holds the state of one moment. `og.restore` makes a
        graph of it again.
        """
        self.check_writable()
        # All branches at once: an export of some of them only does not cover it.
        self.permit(Action.EXPORT)
        return dump(self._location, self._lines, os.fspath(archive), progress)

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
        timeout: float | None = None,
        cancel: threading.Event | None = None,
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
            timeout: Give up after so many seconds, with `ResourceLimitError`.
            cancel: Give up when this event is set, with `QueryError`.
        """
        capture = self._resolve(branch, snapshot, version, tag, timestamp)
        running = Running(timeout_s=timeout, cancel=cancel)
        compiled, table = self._run(source, params, name, capture, running)
        return Result(
            table,
            query_name=compiled.name,
            commit_id=capture.head.graph_commit_id,
            branch=None if snapshot else capture.branch.name,
            snapshot=snapshot,
        )

    def _ask(self, source: str, capture: Capture) -> Result:
        """Run a read query of the engine's own on a state; who may see the answer asked before."""
        compiled, table = self._run(source, None, None, capture, Running())
        return Result(table, query_name=compiled.name, commit_id=capture.head.graph_commit_id)

    def explain(
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
    ) -> Explanation:
        """Run a read query and return how: its plan, and rows, time and storage calls by step."""
        running = Running(trace=True)
        with measured() as io:
            capture = self._resolve(branch, snapshot, version, tag, timestamp)
            begun = time.perf_counter()
            compiled, table = self._run(source, params, name, capture, running)
            seconds = time.perf_counter() - begun
        return Explanation(
            plan=explain(compiled.plan),
            stages=tuple(running.stages),
            rows=table.num_rows,
            seconds=seconds,
            io=dict(io),
        )

    def _run(
        self,
        source: str,
        params: Mapping[str, object] | None,
        name: str | None,
        capture: Capture,
        running: Running,
    ) -> tuple[CompiledQuery, Any]:
        schema = self.schema_at(capture)
        compiled = self._compile_cached(source, name, schema)
        if not isinstance(compiled.plan, ReadPlan):
            raise BadRequestError(f"query '{compiled.name}' writes; use it as a mutation")
        values = bind_parameters(compiled.plan.parameters, params)
        with watched(running):
            table = self._reader.execute(
                compiled.plan,
                schema.catalog,
                capture.pins,
                values,
                now=datetime.datetime.now(datetime.UTC),
            )
        return compiled, table

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

    def catalog_at(self, snapshot: Snapshot) -> Catalog:
        """Return the types of a snapshot, under the schema of its time."""
        self.permit(Action.READ, branch=snapshot.branch)
        schema, wanted = self.accepted_schema(), snapshot.commit.schema_hash
        found = schema if schema.ir_hash() == wanted else self._contract.at(wanted)
        return found.catalog

    def table_at(self, snapshot: Snapshot, table_key: str) -> Table:
        """Return the table of a type as a snapshot names it, to read it by other means."""
        self.permit(Action.READ, branch=snapshot.branch)
        pin = snapshot.tables[table_key]
        return self._tables.open(pin.path, pin.version)

    def _resolve(
        self,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime.datetime | str | None = None,
        lines: PermittedLines | None = None,
    ) -> Capture:
        line, capture = resolve(
            lines or self._readable,
            branch,
            commit=commit,
            version=version,
            tag=tag,
            timestamp=timestamp,
        )
        if commit is None and version is None and tag is None and timestamp is None:
            self.observe(line, capture)
        return capture

    def branch(self, name: str, *, from_: str | int = MAIN) -> BranchView:
        """Return a view of one branch; it is made from another one if it does not exist."""
        if not has_branch(self._lines, name):
            self.branches.create(name, from_)
        return self._view(name)

    def _view(self, name: str) -> BranchView:
        """Return a view of a branch as it is now: a namesake made later is another."""
        return BranchView(self, BranchName(self._lines.directory.find(name).id))

    @contextlib.contextmanager
    def transaction(self, *, base: str = MAIN, name: str | None = None) -> Iterator[BranchView]:
        """Work on a branch of its own: merged at the end of the block, dropped on an error.

        When merging meets conflicts the branch stays, so that they can be decided.
        """
        branch = name or f"tx-{self._ids.next().lower()}"
        self.permit(Action.BRANCH_MERGE, branch=branch, target_branch=base)
        self.permit(Action.BRANCH_DELETE, target_branch=branch)
        self.branches.create(branch, base)
        view = self._view(branch)
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
        return Changes(self._readable, self._tables, self._contract).diff(a, b, wanted)

    def differing_tables(
        self, a: str | int, b: str | int, wanted: ChangeFilter
    ) -> list[tuple[NodeType | EdgeType, int, Table | None, Table | None]]:
        """Return the types whose tables may differ, their ids, and both tables."""
        return list(Changes(self._readable, self._tables, self._contract).tables(a, b, wanted))

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
        catalog, tables = self._exported(branch, commit, version, tag, timestamp)
        if dest is None:
            return export_envelopes(catalog, tables, tuple(types))
        return export_lines(catalog, tables, tuple(types), dest)

    def export_table(
        self,
        type_name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: datetime.datetime | str | None = None,
    ) -> Any:
        """Return the rows of one type as an Arrow table, by id; `load_table` takes it as it is."""
        catalog, tables = self._exported(branch, commit, version, tag, timestamp)
        (key,) = select_tables(catalog, tables, (type_name,))
        return export_table(catalog, key, tables[key])

    def _exported(
        self,
        branch: str | None,
        commit: str | None,
        version: int | None,
        tag: str | None,
        timestamp: datetime.datetime | str | None,
    ) -> tuple[Catalog, dict[str, Table]]:
        """Return types and tables of a state, if the policy lets them be exported."""
        exported = PermittedLines(self._lines, self.permit, Action.EXPORT)
        capture = self._resolve(branch, commit, version, tag, timestamp, exported)
        pins = capture.pins.items()
        tables = {key: self._tables.open(pin.path, pin.version) for key, pin in pins}
        return self.schema_at(capture).catalog, tables

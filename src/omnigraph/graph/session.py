"""A session: an open graph as one caller uses it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from omnigraph.commits import MAIN, BranchName
from omnigraph.drawing import (
    Drawing,
    draw_subgraph,
    drawn_first,
    drawn_state,
    with_neighbours,
)
from omnigraph.errors import OmniGraphError
from omnigraph.graph.acting import Caller
from omnigraph.graph.api import Loadable, Params, Path
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.bulk import bulk
from omnigraph.graph.changes import ChangeFeed
from omnigraph.graph.engine import Engine
from omnigraph.graph.entities import Entities
from omnigraph.graph.history import Commits
from omnigraph.graph.maintaining import MaintenanceOps
from omnigraph.graph.maintenance import CleanupReport, OptimizeReport, RepairReport
from omnigraph.graph.notebook import state_html
from omnigraph.graph.reading import Reads
from omnigraph.graph.result import Result
from omnigraph.graph.results import LoadResult, MutationResult
from omnigraph.graph.revisions import has_branch
from omnigraph.graph.schema_ops import SchemaOps
from omnigraph.graph.view import BranchView, transaction
from omnigraph.graph.writing import Terms, load, load_table, mutate
from omnigraph.intake.declared import Given, Sources
from omnigraph.limits import CLEANUP_GRACE_S
from omnigraph.ops.cleanup import Retention
from omnigraph.ops.load import LoadMode
from omnigraph.policy import Action, Policy
from omnigraph.store.tables.workers import Workers
from omnigraph.values.inspection import Subgraph
from omnigraph.values.words import BulkWord, EngineWord, LoadWord


class Session(Reads):
    """An open graph on behalf of one caller: an actor, a policy, and what it last looked at.

    >>> with graph.session() as mine:
    ...     mine.refresh()

    It borrows the graph and never closes it; making one costs next to nothing. Threads may share
    it, and then share what it last looked at.
    """

    def __init__(self, engine: Engine, caller: Caller) -> None:
        super().__init__(engine, caller)
        acting = self._acting
        self.branches = Branches(acting)
        self.tags = Tags(acting)
        self.blobs = Blobs(acting)
        self.commits = Commits(acting.readable, engine.tables, engine.contract)
        self.feed = ChangeFeed(
            engine.lines, engine.tables, engine.contract, acting.permit, engine.held_changes
        )
        self.entities = Entities(acting)
        self.schema = SchemaOps(acting)
        self.maintenance = MaintenanceOps(acting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r}, mode={self._engine.mode!r})"

    def close(self) -> None:
        """End the session: it writes nothing from here on. The graph stays open. Twice is fine.

        >>> with graph.session() as mine:
        ...     mine.close()
        """
        self._acting.closed = True

    def session(self) -> Session:
        """Return a session on the same open graph with a base of its own.

        >>> with graph.session() as mine:
        ...     len(mine.query(TASKS))
        2

        A strict write is refused when its rows have changed since its session last looked. Threads
        that share a session share its base, so that a query of one thread counts as having looked
        for all. Give each thread a session if that matters to it.
        """
        return self._session(self._acting.caller.actor, self._acting.caller.policy)

    def as_actor(self, actor: str) -> Session:
        """Return a session whose commits are by another actor, under the same policy.

        >>> done = graph.as_actor("bob").mutate(RENAME, {"slug": "t1", "title": "Mow"})
        >>> done.commit.actor_id
        'bob'

        It has a base of its own, which begins as this one's: see `session`.
        """
        return self._session(actor, self._acting.caller.policy)

    def _session(self, actor: str | None, policy: Policy | None) -> Session:
        base = self._acting.caller.base
        copied = None if base is None else base.copy()
        return Session(self._engine, Caller(actor=actor, policy=policy, base=copied))

    def acting_for(self, actor: str | None, policy: Policy | None = None) -> Session:
        """Return a session for one call of another actor, under a policy of its own.

        >>> graph.acting_for("bob").actor
        'bob'

        That actor never looked through this session, so a write is judged only by what it reads
        itself. This is how a server lets many people use one open graph.
        """
        return Session(self._engine, Caller(actor=actor, policy=policy))

    # ---- writing --------------------------------------------------------------------------

    def mutate(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> MutationResult:
        """Run a mutation query as one atomic commit.

        >>> graph.mutate(RENAME, {"slug": "t1", "title": "Mow"}, message="spring").affected_nodes
        1

        Args:
            source: Text of a `.gq` file.
            params: Parameter values.
            name: Which query of the text to run, if it holds several.
            branch: Branch to write to.
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: Your own id for this write: repeating it returns the first outcome
                instead of writing twice.
            message: Message of the commit; history, feed and blame show it.
            actor: Overrides the session's actor.
            dry_run: Validate everything, count what would change, and write nothing.
        """
        terms = Terms(
            branch=branch,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            actor=actor,
            dry_run=dry_run,
        )
        return mutate(self._acting, source, params, name, terms)

    def load(
        self,
        data: Loadable,
        *,
        mode: LoadMode | LoadWord,
        branch: str = MAIN,
        create_from: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> LoadResult:
        """Load nodes and edges as one atomic commit; nothing is written if anything is wrong.

        >>> graph.load([{"type": "Person", "data": {"name": "cy"}}], mode="append").total_entities
        1

        Args:
            data: Path or address of a JSONL file, its bytes, or an iterable of envelopes.
            mode: `append` (ids must be new), `merge` (replace by id) or `overwrite` (replace
                the content of every type present).
            branch: Branch to write to.
            create_from: Make the branch from this one if it does not exist.
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: As for `mutate`.
            message: As for `mutate`.
            actor: Overrides the session's actor.
            dry_run: Validate everything and write nothing.
            progress: Called with the number of bytes read so far.
        """
        terms = Terms(
            branch=branch,
            create_from=create_from,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            actor=actor,
            dry_run=dry_run,
        )
        return load(self._acting, data, mode, terms, progress)

    def load_table(
        self,
        type_name: str,
        table: Given,
        *,
        mode: LoadMode | LoadWord,
        branch: str = MAIN,
        from_col: str = "from",
        to_col: str = "to",
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> LoadResult:
        """Load rows of one type, a frame or the path of a Parquet file, as one commit.

        >>> graph.load_table("Person", [{"name": "cy", "age": 7}], mode="append").nodes
        {'Person': 1}

        Frames are of Arrow, pandas or polars. Columns are properties (and `id`); for an edge type
        `from_col` and `to_col` name the columns with the endpoint ids.
        """
        terms = Terms(
            branch=branch,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            actor=actor,
            dry_run=dry_run,
        )
        ends = (from_col, to_col)
        return load_table(self._acting, type_name, table, mode, terms, ends)

    def bulk(
        self,
        sources: Sources,
        *,
        mode: LoadMode | BulkWord,
        engine: EngineWord = "auto",
        branch: str = MAIN,
        create_from: str | None = None,
        allow_rejects: int = 0,
        rejects: Path | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        index: bool = True,
        progress: Callable[[Any], None] | None = None,
        **spark: object,
    ) -> LoadResult:
        """Load files and frames as one atomic commit; nothing is written if anything is wrong.

        >>> graph.bulk({"Task": [{"slug": "t3", "title": "Rest"}]}, mode="append").nodes
        {'Task': 1}

        Args:
            sources: JSONL files (paths, folders, globs, also in a bucket), or a mapping of type
                names to `Rows`, to CSV or Parquet files, or to Arrow, pandas, polars or Spark
                frames.
            mode: As for `load`; or `apply` for events of change data capture, `delete` for rows
                that only name entities: frames and Parquet files by type.
            engine: `local` works in this process, `spark` on Spark; `auto` takes Spark if there
                is a session, a `session` or `master` is given, or the files are large.
            branch: Branch to write to.
            create_from: Make the branch from this one if it does not exist.
            allow_rejects: Rows that may be left out because something is wrong with them.
            rejects: A file for the reasons, as lines of JSON; written even if nothing is loaded.
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: As for `mutate`.
            message: As for `mutate`.
            actor: Overrides the session's actor.
            dry_run: Validate everything and write nothing.
            index: Bring the indexes up to date before returning. Off, a later write or
                `optimize` does it: for the first of several loads.
            progress: Called with the number of bytes read so far; on Spark, with each stage.
            spark: `session`, `master`, `scratch`, `tuning` as for `omnigraph.spark.load`.
        """
        terms = Terms(
            branch=branch,
            create_from=create_from,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            actor=actor,
            dry_run=dry_run,
            index=index,
        )
        return bulk(
            self,
            self._acting,
            sources,
            mode,
            terms,
            engine=engine,
            allow_rejects=allow_rejects,
            rejects=rejects,
            progress=progress,
            spark=spark,
        )

    def branch(self, name: str, *, from_: str | int = MAIN) -> BranchView:
        """Return a view of one branch; it is made from another one if it does not exist.

        >>> graph.branch("dev").query(TASKS)[1]["title"]
        'Water'
        """
        if not has_branch(self._engine.lines, name):
            self.branches.create(name, from_)
        return self._view(name)

    def _view(self, name: str) -> BranchView:
        """Return a view of a branch as it is now: a namesake made later is another."""
        return BranchView(self, BranchName(self._engine.lines.directory.find(name).id))

    def transaction(
        self, *, base: str = MAIN, name: str | None = None
    ) -> AbstractContextManager[BranchView]:
        """Work on a branch of its own: merged at the end of the block, dropped on an error.

        >>> with graph.transaction() as work:
        ...     done = work.mutate(RENAME, {"slug": "t1", "title": "Mow"})
        >>> graph.get("Task", "t1")["title"]
        'Mow'

        When merging meets conflicts the branch stays, so that they can be decided.
        """
        branch = name or f"tx-{self._engine.ids.next().lower()}"
        self._acting.permit(Action.BRANCH_MERGE, branch=branch, target_branch=base)
        self._acting.permit(Action.BRANCH_DELETE, target_branch=branch)
        return transaction(self, branch, base, self._view)

    # ---- pictures -------------------------------------------------------------------------

    def draw(
        self,
        what: Result | Subgraph | Iterable[Sequence[str]],
        *,
        neighbours: int = 0,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Drawing:
        """Draw nodes and the edges between them; a notebook shows the picture.

        >>> graph.draw([("Person", "ann")], neighbours=10).summary
        '2 nodes and 1 edge'

        Args:
            what: Nodes, each as type and id, the answer of a query, or a subgraph.
            neighbours: How many neighbours of each of them are drawn as well.
            branch: Branch to look at; the answer of a query is drawn at the state it is of.
            commit: Commit id to look at, instead of the newest state.
            version: Graph version of the branch to look at.
            tag: Tag to look at.
        """
        at = drawn_state(what, branch, commit, version, tag)
        picture = what if isinstance(what, Subgraph) else self.entities.subgraph(what, **at)
        if neighbours > 0:
            at = {"commit": picture.graph_commit_id}
            pages = [
                self.entities.neighbours(item.type, item.id, limit=neighbours, **at)
                for item in drawn_first(picture)
            ]
            picture = self.entities.subgraph(with_neighbours(picture, pages), **at)
        return draw_subgraph(picture)

    def _repr_html_(self) -> str:
        try:
            return state_html(self.uri, self.snapshot(), self.branches.list())
        except OmniGraphError as error:
            # A notebook shows what it can of a graph that is closed, or may not be read.
            return state_html(self.uri, None, [], error.message)

    # ---- maintenance ----------------------------------------------------------------------

    def optimize(
        self,
        branch: str = MAIN,
        *,
        dry_run: bool = False,
        progress: Callable[[str], None] | None = None,
        workers: Workers | None = None,
    ) -> OptimizeReport:
        """Compact small fragments and index every row; no entity changes.

        >>> graph.optimize().branch
        'main'

        On main, indexes that the schema declares and that are not built yet are built as well.
        With `dry_run` it is only told what would be done. `workers` do the long part, as those of
        `omnigraph.spark.optimize` do.
        """
        self._acting.check_maintainable()
        schema = self._engine.accepted_schema()
        if dry_run:
            return self._engine.maintenance.optimize_plan(schema, branch)
        return self._engine.maintenance.optimize(schema, branch, progress, workers)

    def repair(
        self,
        branch: str = MAIN,
        *,
        confirm: bool = False,
        force: bool = False,
        discard: bool = False,
    ) -> RepairReport:
        """Find tables that another program changed; keep or drop the changes only when told to.

        >>> graph.repair().commit is None
        True

        Args:
            branch: Branch to look at.
            confirm: Publish changes that left every row as it was.
            force: Publish changes of rows, too.
            discard: Go back to the published versions instead.
        """
        self._acting.check_maintainable()
        return self._engine.maintenance.repair(
            branch, confirm=confirm, force=force, discard=discard
        )

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

        >>> graph.cleanup(keep=10).dry_run
        True

        Without `keep` and `older_than` the newest 100 versions of each branch stay, and all that
        are younger than seven days. Tagged states, and those that branches and merges rest on,
        always stay.

        Args:
            keep: Graph versions of each branch that stay.
            older_than: Only versions older than this go (seconds or a timedelta).
            dry_run: Only tell what would go; the default.
            grace: What was current less than this ago stays: a reader may still use it.
            progress: Called with each table's key.
        """
        self._acting.check_maintainable()
        age = None if older_than is None else _seconds(older_than)
        retention = Retention.of(keep, age, _seconds(grace))
        return self._engine.maintenance.cleanup(retention, dry_run=dry_run, progress=progress)


def _seconds(time_span: datetime.timedelta | float) -> float:
    return time_span.total_seconds() if isinstance(time_span, datetime.timedelta) else time_span

"""Runs a pipeline: each step is done once for a run id, however often the run is started.

A step with an effect is either one commit with an operation id made of the run id, or it finds out
by itself that it was done. So a run that was killed anywhere is continued by running it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from omnigraph.errors import (
    BadRequestError,
    CheckFailedError,
    ConflictError,
    NotFoundError,
    OmniGraphError,
)
from omnigraph.extras import offered
from omnigraph.graph import Session
from omnigraph.graph.seam import (
    check_names,
    check_writable,
    commit_of_operation,
    explain_sources,
    reach,
)
from omnigraph.lang.queries import parse_file
from omnigraph.limits import PIPELINE_DIFF_ROWS_MAX
from omnigraph.pipeline.given import Given, mark_in
from omnigraph.pipeline.resolving import run_resolve
from omnigraph.pipeline.spec import Pipeline, check_run_id
from omnigraph.store import reaching
from omnigraph.values.commits import GraphCommit
from omnigraph.values.pipelines import PipelineReport, PipelineStep, StepOutcome
from omnigraph.wording import counted

Listener = Callable[[str, bool], None]
"""Called with the name of a step before it begins (False) and after it ended (True)."""


class Options(Struct, frozen=True, kw_only=True):
    """What a caller says about a run beside the pipeline."""

    engine: str | None = None
    master: str | None = None
    session: object = None
    actor: str | None = None
    dry_run: bool = False


def run_pipeline(
    graph: Session,
    pipeline: Pipeline,
    *,
    run_id: str | None = None,
    engine: str | None = None,
    master: str | None = None,
    session: object = None,
    actor: str | None = None,
    dry_run: bool = False,
    on_report: Callable[[PipelineReport], None] | None = None,
    progress: Listener | None = None,
) -> PipelineReport:
    """Run a pipeline, or continue a run of it.

    Args:
        graph: The graph it writes to.
        pipeline: What `read_pipeline` returned.
        run_id: Names the run: what was done under this id is not done again. Without one it is
            made of the pipeline and the names, sizes and times of its files.
        engine: `auto`, `local` or `spark`, instead of what the pipeline says.
        master: Where Spark runs, as for `Graph.bulk`.
        session: The Spark session to use.
        actor: Who the commits are by.
        dry_run: Check everything the load checks, and do nothing.
        on_report: Called with the report, also when the run failed.
        progress: Called with the name of each step, and whether it has ended.
    """
    if (engine or pipeline.engine) == "local" and (master is not None or session is not None):
        raise BadRequestError("the engine 'local' takes no Spark", hint="use engine 'spark'")
    _check_steps(graph, pipeline.of_run("run"))
    check_writable(graph)
    chosen = _input_id(graph, pipeline) if run_id is None else run_id
    check_run_id(chosen)
    options = Options(engine=engine, master=master, session=session, actor=actor, dry_run=dry_run)
    named = pipeline.of_run(chosen)
    _check_names(named)
    run = _Run(graph, named, chosen, options, progress)
    if not run.is_loaded:
        explain_sources(graph, pipeline.sources, pipeline.create_from)
    try:
        run.run()
    finally:
        if on_report is not None:
            on_report(run.report())
    return run.report()


def check_pipeline(graph: Session, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Check a pipeline against a graph and return the plan of its inputs. No data is read."""
    plans = explain_sources(graph, pipeline.sources, pipeline.create_from)
    _check_steps(graph, pipeline.of_run("run"))
    return plans


def _check_steps(graph: Session, named: Pipeline) -> None:
    """Check what a run does beside its load."""
    for name in named.checks:
        check_text(graph, named, name)
    _check_names(named)
    if named.resolve is not None:
        named.resolve.rules.check(graph.catalog)
    if named.merge is not None:
        graph.commits.head(named.merge)


def _check_names(named: Pipeline) -> None:
    check_names(branch=named.branch, tag=named.tag)
    if named.resolve is not None:
        check_names(branch=named.resolve.branch or named.branch, tag=None)


def _input_id(graph: Session, pipeline: Pipeline) -> str:
    """Return the run id that the input makes."""
    try:
        with reaching(reach(graph)):
            return pipeline.input_id()
    except NotFoundError as error:
        hint = "a run that has loaded its input is continued without it: give its run id"
        raise NotFoundError(error.message, hint=hint) from error


def check_text(graph: Session, pipeline: Pipeline, name: str) -> str:
    """Return the text of one check. Raises if the graph cannot run it without parameters."""
    text = pipeline.queries or ""
    graph.prepare(text, name=name)
    source, queries = parse_file(text, name="the checks")
    check = next(query for query in queries if query.name == name)
    if check.parameters:
        raise BadRequestError(f"the check '{name}' has parameters", hint="a check takes none")
    return source.text[check.span.start : check.span.end]


def planned_steps(pipeline: Pipeline) -> list[str]:
    """Return what a run would do, step by step, in words."""
    steps = [f"load into branch {pipeline.branch}, mode {pipeline.mode}"]
    if pipeline.branch != pipeline.create_from:
        steps[0] += f", made from {pipeline.create_from} if missing"
    if pipeline.resolve is not None:
        target = pipeline.resolve.branch or pipeline.branch
        steps.append(f"merge {pipeline.resolve.rules.type} nodes that are the same on {target}")
    if pipeline.checks:
        steps.append(f"check that these find nothing: {', '.join(pipeline.checks)}")
    if pipeline.merge is not None:
        steps.append(f"merge into {pipeline.merge}")
    if pipeline.tag is not None:
        steps.append(f"tag as {pipeline.tag}")
    if pipeline.optimize:
        steps.append(f"optimize {pipeline.merge or pipeline.branch}")
    if pipeline.delete_branch:
        steps.append(f"delete branch {pipeline.branch}")
    return steps


def _reason(error: BaseException) -> str:
    if isinstance(error, OmniGraphError):
        return error.message
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Run:
    def __init__(
        self,
        graph: Session,
        pipeline: Pipeline,
        run_id: str,
        options: Options,
        progress: Listener | None,
    ) -> None:
        self._graph = graph
        self._pipeline = pipeline
        self._run_id = run_id
        self._options = options
        self._progress = progress or (lambda _name, _ended: None)
        self._engine = options.engine or pipeline.engine
        self._steps: list[PipelineStep] = []
        self._message: str | None = None
        self._started = time.monotonic()
        self._parts: list[dict[str, object]] = []
        self._merged: GraphCommit | None = None
        if pipeline.merge is not None:
            self._merged = commit_of_operation(graph, pipeline.merge, self._operation("merge"))
        self._before = self._merged or self._load_commit()
        """What an earlier call made of the input."""
        self._loaded: GraphCommit | None = None
        self._resolved: GraphCommit | None = None
        """What the step `resolve` made on the branch that was loaded."""
        self._rows_in = self._rows_read = self._rejected = 0
        self._tag: str | None = None
        self._error: str | None = None
        self._rows: dict[str, dict[str, int]] = {}
        self._changed: dict[str, dict[str, int]] | None = None

    def run(self) -> None:
        """Do the steps that are not done yet."""
        pipeline = self._pipeline
        try:
            self._step("load", self._load)
            if self._options.dry_run:
                return
            if pipeline.resolve is not None:
                self._step("resolve", self._resolve)
            if pipeline.checks:
                self._step("check", self._check)
            if pipeline.merge is not None:
                self._step("merge", self._merge)
            self._measure()
            if pipeline.tag is not None:
                self._step("tag", self._name_state)
            if pipeline.optimize:
                self._step("optimize", self._optimize)
            if pipeline.delete_branch:
                self._step("delete_branch", self._delete_branch)
        except BaseException as error:
            self._error = _reason(error)
            raise

    def _step(self, name: str, work: Callable[[], tuple[StepOutcome, str | None]]) -> None:
        self._progress(name, False)
        start = time.monotonic()
        self._parts = []
        try:
            outcome, detail = work()
        except BaseException as error:
            self._add(name, StepOutcome.FAILED, time.monotonic() - start, error=_reason(error))
            raise
        self._add(name, outcome, time.monotonic() - start, detail=detail)
        self._progress(name, True)

    def _add(self, name: str, outcome: StepOutcome, seconds: float, **more: Any) -> None:
        rows = self._rows_in if name == "load" and outcome is StepOutcome.DONE else None
        if rows is not None:
            more |= {"rows": rows, "rows_per_s": round(rows / max(seconds, 1e-3), 1)}
        step = PipelineStep(
            name=name,
            outcome=outcome,
            seconds=round(seconds, 3),
            parts=tuple(self._parts),
            **more,
        )
        self._steps.append(step)

    def _operation(self, step: str) -> str:
        return f"pipeline:{self._pipeline.name}:{self._run_id}:{step}"

    # ---- steps ----------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether an earlier call has loaded the input."""
        return self._before is not None

    def _input(self) -> Given | None:
        """Return the input, None if it was loaded and is gone. Raises if another one was loaded."""
        try:
            with reaching(reach(self._graph)):
                given = self._pipeline.given()
        except NotFoundError:
            if self.is_loaded:
                return None
            raise
        if self._before is not None and mark_in(self._before.message) not in (None, given.mark):
            raise ConflictError(
                f"run {self._run_id} has loaded other input: files have changed since",
                hint="give another run id",
            )
        return given

    def _told(self) -> str | None:
        """Return what the commits of the load and of its merge say."""
        pipeline, given = self._pipeline, self._input()
        if given is None:
            return None if self._before is None else self._before.message
        return given.told(pipeline.message or f"pipeline {pipeline.name}, run {self._run_id}")

    def _load_commit(self) -> GraphCommit | None:
        """Return the commit of the load, if an earlier call made it."""
        try:
            return commit_of_operation(self._graph, self._pipeline.branch, self._operation("load"))
        except NotFoundError:
            # The branch is made by the load.
            return None

    def _load(self) -> tuple[StepOutcome, str | None]:
        pipeline, options = self._pipeline, self._options
        self._message = self._told()
        if self._merged is not None:
            return StepOutcome.DONE_BEFORE, None
        more: dict[str, Any] = {}
        if self._engine == "spark" or options.master or options.session is not None:
            more = {"master": options.master, "session": options.session, "progress": self._stage}
        result = self._graph.bulk(
            pipeline.sources,
            mode=pipeline.mode,  # type: ignore[arg-type]  # checked when the file was read
            engine=self._engine,  # type: ignore[arg-type]  # checked when the file was read
            branch=pipeline.branch,
            create_from=None if pipeline.branch == pipeline.create_from else pipeline.create_from,
            allow_rejects=pipeline.allow_rejects,
            rejects=pipeline.rejects,
            operation_id=self._operation("load"),
            message=self._message,
            actor=options.actor,
            dry_run=options.dry_run,
            **more,
        )
        self._loaded = result.commit
        if result.repeated:
            return StepOutcome.DONE_BEFORE, f"on branch {pipeline.branch}"
        self._rejected = result.rejected
        self._rows_in = self._rows_read = result.total_entities + result.rejected
        rows = counted(result.total_entities, "row")
        also = "" if result.warning is None else f"; {result.warning}"
        if options.dry_run:
            return StepOutcome.DONE, f"{rows} checked, nothing written{also}"
        if result.commit is None:
            return StepOutcome.NOTHING, f"{rows} change nothing on branch {pipeline.branch}{also}"
        return StepOutcome.DONE, f"{rows} on branch {pipeline.branch}{also}"

    def _stage(self, stage: Any) -> None:
        if stage.finished:
            part = {"name": stage.name, "seconds": round(stage.seconds, 3), "rows": stage.rows}
            self._parts.append(part)

    def _resolve(self) -> tuple[StepOutcome, str | None]:
        pipeline, options, step = self._pipeline, self._options, self._pipeline.resolve
        if step is None or self._merged is not None:
            return StepOutcome.DONE_BEFORE, None
        engine: dict[str, Any] = {"engine": self._engine}
        if self._engine != "local":
            engine |= {"session": options.session, "master": options.master}
        outcome, detail, commit = run_resolve(
            self._graph,
            step,
            loaded=pipeline.branch,
            operation=self._operation("resolve"),
            engine=engine,
            terms={"message": pipeline.message, "actor": options.actor},
        )
        if commit is not None and step.branch in (None, pipeline.branch):
            self._resolved = self._graph.commits.get(commit)
        return outcome, detail

    def _check(self) -> tuple[StepOutcome, str | None]:
        pipeline = self._pipeline
        if self._merged is not None:
            return StepOutcome.DONE_BEFORE, None
        for name in pipeline.checks:
            rows = self._graph.query(pipeline.queries or "", name=name, branch=pipeline.branch)
            if len(rows):
                where = f"on branch {pipeline.branch}"
                raise CheckFailedError(name, rows.to_pylist()[:10], len(rows), where=where)
        asked = counted(len(pipeline.checks), "query", "queries")
        return StepOutcome.DONE, f"{asked} found nothing"

    def _merge(self) -> tuple[StepOutcome, str | None]:
        pipeline, into = self._pipeline, str(self._pipeline.merge)
        if self._merged is not None:
            return StepOutcome.DONE_BEFORE, f"{pipeline.branch} into {into}"
        terms: dict[str, Any] = {
            "checks": [check_text(self._graph, pipeline, name) for name in pipeline.checks],
            "operation_id": self._operation("merge"),
            "message": self._message,
            "actor": self._options.actor,
        }
        if self._engine == "spark":
            merge = offered("spark").merge
            session, master = self._options.session, self._options.master
            result = merge(
                self._graph, pipeline.branch, into, session=session, master=master, **terms
            )
        else:
            result = self._graph.branches.merge(pipeline.branch, into, **terms)
        self._merged = result.commit
        if result.commit is None:
            return StepOutcome.NOTHING, f"{into} has everything of {pipeline.branch}"
        return StepOutcome.DONE, f"{pipeline.branch} into {into}: {result.outcome}"

    def _name_state(self) -> tuple[StepOutcome, str | None]:
        name = self._tag = str(self._pipeline.tag)
        branch = self._pipeline.merge or self._pipeline.branch
        made = self._resolved or self._loaded
        commit = self._merged if self._pipeline.merge is not None else made
        wanted = self._graph.commits.head(branch) if commit is None else commit
        if any(item.name == name for item in self._graph.tags.list()):
            known = self._graph.snapshot(tag=name).commit.graph_commit_id
            if commit is None or known == wanted.graph_commit_id:
                return StepOutcome.DONE_BEFORE, f"{name} names commit {known}"
        self._graph.tags.create(name, commit=wanted.graph_commit_id)
        return StepOutcome.DONE, f"{name} names commit {wanted.graph_commit_id}"

    def _optimize(self) -> tuple[StepOutcome, str | None]:
        branch = self._pipeline.merge or self._pipeline.branch
        report = self._graph.optimize(branch)
        done = StepOutcome.NOTHING if report.commit is None else StepOutcome.DONE
        return done, f"branch {branch}"

    def _delete_branch(self) -> tuple[StepOutcome, str | None]:
        """Delete the branch as it was merged; what came to it since is kept."""
        branch = self._pipeline.branch
        try:
            head = self._graph.commits.head(branch)
        except NotFoundError:
            return StepOutcome.DONE_BEFORE, branch
        merged = None if self._merged is None else self._merged.merged_parent_commit_id
        # A deletion that was interrupted has left its own commit on the branch.
        begun = head.kind == "branch_delete" and head.parent_commit_id == merged
        if merged is not None and head.graph_commit_id != merged and not begun:
            return StepOutcome.NOTHING, f"{branch} was written to after its merge, and stays"
        expected = head.graph_commit_id
        self._graph.branches.delete(branch, expected_head=expected, actor=self._options.actor)
        return StepOutcome.DONE, branch

    # ---- the report -----------------------------------------------------------------------

    def _measure(self) -> None:
        """Find out what the run changed: from its commit, so also when that was made before."""
        commit = self._merged or self._loaded
        if commit is None or commit.parent_commit_id is None:
            return
        states = (commit.parent_commit_id, commit.graph_commit_id)
        before, after = (self._graph.snapshot(commit=state).tables for state in states)
        for key in sorted({*before, *after}):
            counts = [0 if key not in side else side[key].row_count for side in (before, after)]
            if before.get(key) != after.get(key):
                name = key.partition(":")[2]
                self._rows[name] = {"before": counts[0], "after": counts[1]}
        if self._rows_read <= PIPELINE_DIFF_ROWS_MAX:
            self._changed = self._graph.diff(*states).counts()

    def report(self) -> PipelineReport:
        """Return what was done so far."""
        pipeline = self._pipeline
        loaded = None if self._loaded is None else self._loaded.graph_commit_id
        if loaded is None and self._merged is not None:
            loaded = self._merged.merged_parent_commit_id
        return PipelineReport(
            pipeline=pipeline.name,
            run_id=self._run_id,
            uri=str(self._graph.uri),
            branch=pipeline.branch,
            ok=self._error is None,
            dry_run=self._options.dry_run,
            rows_in=self._rows_in,
            rejected=self._rejected,
            rows=self._rows,
            changed=self._changed,
            commit=loaded,
            merge_commit=None if self._merged is None else self._merged.graph_commit_id,
            merged_into=pipeline.merge,
            tag=self._tag,
            seconds=round(time.monotonic() - self._started, 3),
            steps=tuple(self._steps),
            error=self._error,
        )

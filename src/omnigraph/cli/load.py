"""The command that loads files into a graph."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.files import STDIN
from omnigraph.cli.places import is_served
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    branch_option,
    confirm_elsewhere,
    echo_target,
    graph_argument,
    json_option,
    open_graph,
    open_stored,
    print_json,
    write_options,
)
from omnigraph.errors import BadRequestError
from omnigraph.wording import counted

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from omnigraph.graph import Graph, LoadResult
    from omnigraph.intake.declared import Path, Rows, Sources
    from omnigraph.spark.progress import Stage


@click.command()
@graph_argument
@click.option(
    "--data",
    multiple=True,
    metavar="[TYPE=]FILE",
    help="JSONL or GraphML file, or rows of a type: Person=people.csv. Folders and globs too.",
)
@click.option("--mapping", metavar="FILE", help="TOML file: types, their files and columns.")
@click.option(
    "--mode",
    required=True,
    type=click.Choice(["append", "merge", "overwrite", "apply", "delete"]),
    help="append: ids must be new; merge: replace by id; overwrite: replace types present; "
    "apply: events with an operation each; delete: rows that name entities.",
)
@branch_option
@click.option("--from", "base", metavar="BRANCH", help="Make the branch from this one if missing.")
@click.option("--dry-run", is_flag=True, help="Check everything, write nothing.")
@click.option("--explain", is_flag=True, help="Say where each property comes from; load nothing.")
@click.option("--no-index", is_flag=True, help="Leave the indexes to a later write or optimize.")
@click.option("--rejects", metavar="FILE", help="File for rejected rows and their errors.")
@click.option(
    "--allow-rejects",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Reject up to N invalid rows and load the others.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="auto: Spark if a master is named or the input is above 2 GiB.",
)
@click.option("--scratch", metavar="FOLDER", help="Where Spark's workers keep parsed rows.")
@click.option("--master", metavar="URL", help="Spark master, such as local[4,4].")
@click.option("--yes", is_flag=True, help="Do not ask before an overwrite on a server.")
@actor_option
@write_options
@json_option
def load(
    place_given: GivenPlace,
    data: tuple[str, ...],
    mapping: str | None,
    mode: str,
    branch: str,
    base: str | None,
    dry_run: bool,
    explain: bool,
    no_index: bool,
    rejects: str | None,
    allow_rejects: int,
    engine: str,
    scratch: str | None,
    master: str | None,
    yes: bool,
    actor: str | None,
    if_commit: str | None,
    operation_id: str | None,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Load nodes and edges as one commit; nothing is written if anything is wrong."""
    place = place_given.resolve()
    if engine == "local" and master is not None:
        raise click.UsageError("--master needs --engine spark")
    sources = _sources(data, mapping)
    if explain:
        _explain(place, sources, branch, actor, as_json=as_json)
        return
    if mode == "overwrite" and not dry_run:
        confirm_elsewhere("overwriting data", place, yes=yes, as_json=as_json)
    request: dict[str, Any] = {
        "mode": mode,
        "branch": branch,
        "create_from": base,
        "expected_head": if_commit,
        "operation_id": operation_id,
        "message": message,
        "dry_run": dry_run,
    }
    extra: dict[str, Any] = {"rejects": rejects, "allow_rejects": allow_rejects}
    extra["index"] = not no_index
    here = is_served(place) or _is_local(engine, sources, master)
    plain = None
    events = mode in ("apply", "delete")
    if here and isinstance(sources, str) and not (rejects or allow_rejects or no_index or events):
        plain = sources if _one_file(sources) else None
    if is_served(place) and (plain is None or master is not None or engine == "spark"):
        raise BadRequestError(
            "a server takes one JSONL file", hint="load other files where the graph is stored"
        )
    echo_target("load", place, quiet=quiet or dry_run)
    if plain is not None:
        with open_graph(place, actor=actor) as graph, _Progress(plain) as progress:
            rows = sys.stdin.buffer.read() if plain == STDIN else plain
            result = graph.load(rows, progress=progress.update, **request)
            if not is_served(place):
                progress.finish(graph)
    else:
        with open_stored(place, actor=actor) as stored:
            result = _bulk(stored, sources, here, master, scratch, {**extra, **request})
    _show(result, place, as_json=as_json)


def _bulk(
    graph: Graph,
    sources: Sources,
    here: bool,
    master: str | None,
    scratch: str | None,
    request: dict[str, Any],
) -> LoadResult:
    if here:
        with _Progress(sources) as progress:
            result = graph.bulk(sources, engine="local", progress=progress.update, **request)
            progress.finish(graph)
            return result
    named = master or os.environ.get("OMNIGRAPH_SPARK_MASTER")
    with _Stages() as stages:
        return graph.bulk(
            sources,
            engine="spark",
            master=named,
            scratch=scratch,
            progress=stages.update,
            **request,
        )


def _explain(
    place: str, sources: Sources, branch: str, actor: str | None, *, as_json: bool
) -> None:
    from omnigraph.graph.seam import explain_sources
    from omnigraph.intake.explain import plan_text

    with open_stored(place, actor=actor) as graph:
        plans = explain_sources(graph, sources, branch)
    if as_json:
        print_json({"uri": place, "inputs": plans})
    else:
        click.echo(plan_text(plans))


def _show(result: LoadResult, place: str, *, as_json: bool) -> None:
    if result.warning is not None:
        click.echo(f"warning: {result.warning}", err=True)
    if as_json:
        print_json({"uri": place, **result.to_json()})
        return
    if result.repeated and not result.total_entities:
        click.echo(f"already loaded {place} branch {result.branch} ({result.mode})")
        click.echo(f"commit {result.commit.graph_commit_id}" if result.commit else "no commit")
        return
    verb = "checked" if result.dry_run else "already loaded" if result.repeated else "loaded"
    nodes, edges = sum(result.nodes.values()), sum(result.edges.values())
    counts = f"{counted(nodes, 'node')}, {counted(edges, 'edge')}"
    click.echo(f"{verb} {place} branch {result.branch} ({result.mode}): {counts}")
    for kind, by_type in (("node", result.nodes), ("edge", result.edges)):
        for name, rows in by_type.items():
            click.echo(f"  {kind}:{name:<24} {rows:>10}")
    if result.rejected:
        click.echo(f"left out {counted(result.rejected, 'rejected row')}")
    if not result.total_entities:
        click.echo("warning: the input holds no entities; nothing was committed", err=True)
    if result.branch_created:
        click.echo(f"branch {result.branch} created from {result.base_branch}")
    if result.commit is not None:
        click.echo(f"commit {result.commit.graph_commit_id}")


# ---- sources ------------------------------------------------------------------------------


def _sources(data: Sequence[str], mapping: str | None) -> Sources:
    """Return what to load: one path, or several, with types or without."""
    sources: list[Path | Rows] = []
    if mapping is not None:
        from omnigraph.intake.mapping import read_mapping

        sources += read_mapping(mapping)
    if not data and mapping is None:
        raise click.UsageError("Missing option '--data' or '--mapping'.")
    for item in data:
        name, separator, path = item.partition("=")
        if separator and name.isidentifier() and not os.path.exists(item):
            from omnigraph.intake.declared import Rows

            if not path:
                raise click.UsageError(f"--data {item}: the file's name is missing after '='")
            if path == STDIN:
                raise click.UsageError(
                    f"--data {item}: standard input is read as JSONL; save the rows of {name} "
                    "to a CSV or Parquet file"
                )
            # A shell replaces `~` only where a word begins.
            sources.append(Rows(type=name, data=os.path.expanduser(path)))
        else:
            path = item
            sources.append(item)
        if path.startswith(("http://", "https://")):
            raise BadRequestError(
                f"{path} is not a file or an object", hint="download it first, and name the file"
            )
    return sources[0] if len(sources) == 1 and isinstance(sources[0], str) else sources


def _one_file(path: str) -> bool:
    """Tell one JSONL file from folders, patterns and files of other kinds."""
    if "://" in path:
        # What lies in a bucket is looked at once, by what reads it.
        return False
    return not os.path.isdir(path) and _is_jsonl(path)


def _is_jsonl(path: str) -> bool:
    """Whatever is no other known form is read as JSONL, with or without a suffix."""
    others = (".csv", ".parquet", ".graphml", ".toml", ".gz")
    is_pattern = not os.path.exists(path) and any(mark in path for mark in "*?[")
    return os.path.splitext(path)[1].lower() not in others and not is_pattern


def _is_local(engine: str, sources: Sources, master: str | None) -> bool:
    """Whether a load stays in this process: small work never starts Java."""
    if engine != "auto":
        return engine == "local"
    if master is not None or os.environ.get("OMNIGRAPH_SPARK_MASTER"):
        return False
    if isinstance(sources, str) and _one_file(sources):
        size = os.path.getsize(sources) if os.path.isfile(sources) else 0
    else:
        from omnigraph.intake.inputs import sources_bytes

        size = sources_bytes(sources)
    from omnigraph.limits import SPARK_INPUT_BYTES_MIN

    return size < SPARK_INPUT_BYTES_MIN


# ---- progress -----------------------------------------------------------------------------


class _Progress:
    """A progress bar on stderr, only at a terminal."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self.update: Callable[[int], None] | None = None

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty() and (size := self._size()):
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            bar.start()
            task = bar.add_task("reading", total=size)
            self._bar, self._task = bar, task
            self.update = lambda done: bar.update(task, completed=done)
        return self

    def _size(self) -> int:
        if isinstance(self._sources, str) and _one_file(self._sources):
            return os.path.getsize(self._sources) if os.path.isfile(self._sources) else 0
        from omnigraph.intake.inputs import sources_bytes

        return sources_bytes(self._sources)

    def finish(self, graph: object) -> None:
        """Wait for the indexes of a large load, which are built in the background."""
        maintenance = getattr(graph, "maintenance", None)
        upkeep = getattr(maintenance, "upkeep", None)
        if self._bar is not None and self._task is not None and upkeep is not None:
            self._bar.update(self._task, description="indexing", completed=None, total=None)
            upkeep.wait()

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class _Stages:
    """What a load on Spark is doing, on stderr, only at a terminal: one line per stage."""

    def __init__(self) -> None:
        self._status: Any = None
        self.update: Callable[[Stage], None] | None = None

    def __enter__(self) -> _Stages:
        if sys.stderr.isatty():
            from rich.console import Console

            console = Console(stderr=True)
            self._status = console.status("starting Spark")
            self._status.start()

            def update(stage: Stage) -> None:
                if stage.finished:
                    rated = stage.rows and stage.name != "publish"
                    rate = f"{stage.rows_per_s:>12,.0f} rows/s" if rated else ""
                    line = f"{stage.name:<10} {stage.rows:>12,} rows {stage.seconds:>8.1f} s {rate}"
                    console.print(line.rstrip(), highlight=False)
                else:
                    tasks = f" {stage.tasks_done}/{stage.tasks} tasks" if stage.tasks else ""
                    self._status.update(f"{stage.name}{tasks}, {stage.seconds:.0f} s")

            self.update = update
        return self

    def __exit__(self, *_error: object) -> None:
        if self._status is not None:
            self._status.stop()

"""`omnigraph pipeline ...`: pipelines that one file declares."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from omnigraph.cli.scope import (
    actor_option,
    json_option,
    open_stored,
    print_json,
    resolve_uri,
    store_options,
)
from omnigraph.errors import BadRequestError

if TYPE_CHECKING:
    from omnigraph.pipeline import Pipeline, PipelineReport


@click.group()
def pipeline() -> None:
    """Load, check and merge as one file declares it."""


@pipeline.command("run")
@click.argument("file", metavar="FILE")
@store_options
@click.option("--run-id", metavar="ID", help="Name of the run; what it did is not done again.")
@click.option("--dry-run", is_flag=True, help="Check the input as the load does, write nothing.")
@click.option("--report", multiple=True, metavar="FILE", help="Write a report: .html or .json.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    help="Where the load is done, instead of what the file says.",
)
@click.option("--master", metavar="URL", help="Spark master, such as local[4,4].")
@actor_option
@json_option
def run(
    file: str,
    store: str | None,
    run_id: str | None,
    dry_run: bool,
    report: tuple[str, ...],
    engine: str | None,
    master: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Run a pipeline, or go on with a run that was interrupted."""
    from omnigraph.pipeline import read_pipeline, run_pipeline

    for name in report:
        _check_report(name)
    declared = read_pipeline(file)
    if (engine or declared.engine) == "local" and master is not None:
        raise click.UsageError("--master needs --engine spark")

    def show(run_report: PipelineReport) -> None:
        for name in report:
            _write_report(name, run_report)
        _show(run_report, as_json=as_json)

    with open_stored(_place(declared, store), actor=actor) as graph:
        run_pipeline(
            graph,
            declared,
            run_id=run_id,
            engine=engine,
            master=master,
            actor=actor,
            dry_run=dry_run,
            on_report=show,
        )


@pipeline.command("check")
@click.argument("file", metavar="FILE")
@store_options
@json_option
def check(file: str, store: str | None, as_json: bool) -> None:
    """Check a pipeline against its graph; no data is read."""
    from omnigraph.pipeline import check_pipeline, read_pipeline

    declared = read_pipeline(file)
    place = _place(declared, store)
    with open_stored(place, mode="ro") as graph:
        plans = check_pipeline(graph, declared)
    problems = [
        f"{plan['files'][0]}: {word} {', '.join(plan[key])}"
        for plan in plans
        for key, word in (("missing", "lacks"), ("unknown", f"{plan['type']} has no property for"))
        if plan.get(key)
    ]
    if problems:
        raise BadRequestError("; ".join(problems))
    if as_json:
        print_json({"pipeline": declared.name, "uri": place, "ok": True})
    else:
        click.echo(f"{declared.name} fits {place}")


@pipeline.command("explain")
@click.argument("file", metavar="FILE")
@store_options
@json_option
def explain(file: str, store: str | None, as_json: bool) -> None:
    """Say what a pipeline would do, step by step; no data is read."""
    from omnigraph.intake.explain import plan_text
    from omnigraph.pipeline import check_pipeline, planned_steps, read_pipeline

    declared = read_pipeline(file)
    place = _place(declared, store)
    with open_stored(place, mode="ro") as graph:
        plans = check_pipeline(graph, declared)
    run_id = declared.input_id()
    steps = planned_steps(declared.of_run(run_id))
    if as_json:
        print_json(
            {
                "pipeline": declared.name,
                "uri": place,
                "run_id": run_id,
                "inputs": plans,
                "steps": steps,
            }
        )
        return
    click.echo(f"{declared.name} run {run_id} on {place}")
    for number, step in enumerate(steps, 1):
        click.echo(f"{number}. {step}")
    click.echo(plan_text(plans))


def _place(declared: Pipeline, store: str | None) -> str:
    if store is None and declared.graph is not None:
        return declared.graph
    return resolve_uri(None, store, None)


def _show(report: PipelineReport, *, as_json: bool) -> None:
    from omnigraph.pipeline import text

    if as_json:
        print_json(report.to_json())
    else:
        click.echo(text(report))


def _check_report(name: str) -> None:
    if os.path.splitext(name)[1].lower() not in (".html", ".json"):
        raise click.UsageError(f"--report {name}: a report ends with .html or .json")
    try:
        with open(name, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise BadRequestError(f"cannot write {name}: {error.strerror or error}") from error


def _write_report(name: str, report: PipelineReport) -> None:
    from omnigraph.pipeline import page

    shown = (
        page(report) if name.lower().endswith(".html") else json.dumps(report.to_json(), indent=2)
    )
    try:
        with open(name, "w", encoding="utf-8") as out:
            out.write(shown)
    except OSError as error:
        # The run is over; neither its commits nor its error may be hidden by this.
        click.echo(f"warning: cannot write {name}: {error.strerror or error}", err=True)

"""`omnigraph schema ...`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from omnigraph.cli.exit_codes import NOT_FOUND, OK
from omnigraph.cli.files import STDIN, display_name, read_text, refuse_two_stdins
from omnigraph.cli.fmt import fmt
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    echo_target,
    graph_argument,
    json_option,
    open_graph,
    print_json,
    refuse_managed,
    resolve_uri,
    store_options,
    write_options,
)
from omnigraph.cli.waiting import Waiting

if TYPE_CHECKING:
    from omnigraph.graph.api import SchemaChangeApi


@click.group()
def schema() -> None:
    """Show, compare and change schemas."""


schema.add_command(
    click.Command("fmt", params=fmt.params, callback=fmt.callback, help=fmt.help, hidden=True)
)


@schema.command("show")
@graph_argument
@json_option
def show(place_given: GivenPlace, as_json: bool) -> None:
    """Print the schema of a graph."""
    with open_graph(place_given.resolve(), mode="ro") as graph:
        if as_json:
            print_json({"schema_source": graph.schema_source})
        else:
            click.echo(graph.schema_source, nl=not graph.schema_source.endswith("\n"))


schema.add_command(
    click.Command("get", params=show.params, callback=show.callback, help=show.help, hidden=True)
)


@schema.command("plan")
@click.argument("accepted", required=False, metavar="[URI | OLD.pg]")
@store_options
@click.option("--schema", "desired", required=True, metavar="NEW.pg", help="Desired schema.")
@click.option("--allow-data-loss", is_flag=True, help="Plan drops as hard drops.")
@click.option(
    "--check",
    is_flag=True,
    help="Exit 3 when a change is not supported, or existing rows violate it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(
    accepted: str | None,
    store: str | None,
    desired: str,
    allow_data_loss: bool,
    check: bool,
    as_json: bool,
) -> int:
    """Show the steps to another schema. Changes nothing.

    For a graph, each step says how many stored rows it changes or removes, and rows that stand
    against it are named; for a schema file, only the two texts are compared.
    """
    if store is None and accepted is not None and not _is_graph(accepted):
        return _plan_files(accepted, desired, allow_data_loss, check, as_json)
    text = _desired_text(desired, quiet=as_json)
    with open_graph(resolve_uri(accepted, store, None), mode="ro") as graph:
        planned = graph.schema.plan(
            text, name=display_name(desired), allow_data_loss=allow_data_loss
        )
    if as_json:
        print_json(planned.to_json())
    else:
        click.echo(planned.render())
    return NOT_FOUND if check and (planned.problems or not planned.supported) else OK


def _is_graph(place: str) -> bool:
    return "://" in place or os.path.isdir(os.path.join(place, "__manifest"))


def _desired_text(path: str, *, quiet: bool) -> str:
    """Read a schema, and show its warnings at a terminal."""
    from omnigraph.lang import compile_schema

    text = read_text(path)
    compiled = compile_schema(text, name=display_name(path))
    for warning in () if quiet else compiled.warnings:
        click.echo(warning.render(), err=True)
    return text


def _plan_files(
    accepted: str, desired: str, allow_data_loss: bool, check: bool, as_json: bool
) -> int:
    from omnigraph.catalog import accept_initial
    from omnigraph.ids import UlidSource
    from omnigraph.lang import compile_schema
    from omnigraph.lang.schema_plan import plan_schema

    refuse_two_stdins(accepted, desired)
    before = compile_schema(read_text(accepted), name=display_name(accepted), stored=True)
    after = compile_schema(read_text(desired), name=display_name(desired))
    planned = plan_schema(
        accept_initial(before.catalog, domain=UlidSource().next()),
        after.catalog,
        allow_data_loss=allow_data_loss,
    )
    if as_json:
        body: dict[str, object] = {"uri": accepted, "step_count": len(planned.steps)}
        body.update(planned.to_json())
        if after.warnings:
            body["schema_warnings"] = [item.to_json() for item in after.warnings]
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        for warning in after.warnings:
            click.echo(warning.render(), err=True)
        click.echo(planned.render())
    return NOT_FOUND if check and not planned.supported else OK


@schema.command("apply")
@graph_argument
@click.option("--schema", "desired", required=True, metavar="NEW.pg", help="Desired schema.")
@click.option(
    "--allow-data-loss", is_flag=True, help="Remove what is dropped from history too, for good."
)
@click.option("--yes", is_flag=True, help="Do not ask before dropping types or properties.")
@actor_option
@write_options
@json_option
def apply(
    place_given: GivenPlace,
    desired: str,
    allow_data_loss: bool,
    yes: bool,
    actor: str | None,
    if_commit: str | None,
    operation_id: str | None,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Change the schema of a graph, with its tables, as one atomic commit.

    If rows violate the new schema, they are listed and nothing is changed. Branches other than
    main must be merged or deleted first.
    """
    text = _desired_text(desired, quiet=as_json)
    place = place_given.resolve()
    refuse_managed(place)
    with open_graph(place, actor=actor) as graph:
        if not (yes or as_json or desired == STDIN) and sys.stdin.isatty():
            _confirm(graph.schema.plan(text, allow_data_loss=allow_data_loss))
        echo_target("schema apply", graph.uri, quiet=quiet)
        with Waiting("changing the schema"):
            done = graph.schema.apply(
                text,
                name=display_name(desired),
                allow_data_loss=allow_data_loss,
                expected_head=if_commit,
                operation_id=operation_id,
                message=message,
            )
    if as_json:
        print_json(done.to_json())
        return OK
    click.echo(done.render())
    click.echo(f"applied: {'yes' if done.applied else 'no'}")
    click.echo(f"manifest_version: {done.manifest_version}")
    return OK


def _confirm(planned: SchemaChangeApi) -> None:
    """Show a plan that drops something and ask whether to go on."""
    if planned.drops:
        click.echo(planned.render())
        click.confirm("Drop this?", abort=True)

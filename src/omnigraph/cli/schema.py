"""`omnigraph schema ...`."""

from __future__ import annotations

import json

import click

from omnigraph.cli.exit_codes import FAILURE, NOT_FOUND, OK
from omnigraph.cli.files import display_name, read_text, refuse_two_stdins, replace_text
from omnigraph.cli.scope import json_option, open_graph, print_json, resolve_uri, uri_argument


@click.group()
def schema() -> None:
    """Show, format and compare schemas."""


@schema.command("fmt")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is not formatted.")
@click.option("--diff", is_flag=True, help="Change nothing; print what would change.")
def fmt(paths: tuple[str, ...], check: bool, diff: bool) -> int:
    """Format schema files in place (- formats stdin to stdout). Comments are kept."""
    from omnigraph.lang.pg_format import format_schema

    changed = 0
    for path in paths:
        before = read_text(path)
        after = format_schema(before, name=display_name(path))
        if path == "-" and not (check or diff):
            click.echo(after, nl=False)
            continue
        if after == before:
            continue
        changed += 1
        if diff:
            _print_diff(before, after, path)
        elif check:
            click.echo(f"would reformat {path}")
        else:
            replace_text(path, after)
            click.echo(f"reformatted {path}")
    return FAILURE if check and changed else OK


def _print_diff(before: str, after: str, path: str) -> None:
    import difflib

    rows = difflib.unified_diff(before.splitlines(), after.splitlines(), path, path, lineterm="")
    click.echo("\n".join(rows))


@schema.command("show")
@uri_argument
@json_option
def show(uri: str | None, store: str | None, uri_option: str | None, as_json: bool) -> None:
    """Print the schema of a graph."""
    with open_graph(resolve_uri(uri, store, uri_option), mode="ro") as graph:
        if as_json:
            print_json({"schema_source": graph.schema_source})
        else:
            click.echo(graph.schema_source, nl=not graph.schema_source.endswith("\n"))


@schema.command("plan")
@click.argument("accepted", metavar="OLD.pg")
@click.option("--schema", "desired", required=True, metavar="NEW.pg", help="Desired schema.")
@click.option("--allow-data-loss", is_flag=True, help="Plan drops as hard drops.")
@click.option("--check", is_flag=True, help="Exit 3 when a change is not supported.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(accepted: str, desired: str, allow_data_loss: bool, check: bool, as_json: bool) -> int:
    """Show the steps that lead from one schema to another. Changes nothing."""
    from omnigraph.catalog import accept_initial
    from omnigraph.ids import UlidSource
    from omnigraph.lang import compile_schema
    from omnigraph.lang.schema_plan import plan_schema

    refuse_two_stdins(accepted, desired)
    before = compile_schema(read_text(accepted), name=display_name(accepted))
    after = compile_schema(read_text(desired), name=display_name(desired))
    found = plan_schema(
        accept_initial(before.catalog, domain=UlidSource().next()),
        after.catalog,
        allow_data_loss=allow_data_loss,
    )
    if as_json:
        body: dict[str, object] = {"uri": accepted, "step_count": len(found.steps)}
        body.update(found.to_json())
        if after.warnings:
            body["schema_warnings"] = [item.to_json() for item in after.warnings]
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        for warning in after.warnings:
            click.echo(warning.render(), err=True)
        click.echo(found.render())
    return NOT_FOUND if check and not found.supported else OK

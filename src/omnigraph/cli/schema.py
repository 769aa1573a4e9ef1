"""`omnigraph schema ...`."""

from __future__ import annotations

import json

import click

from omnigraph.cli.exit_codes import FAILURE, NOT_FOUND, OK
from omnigraph.cli.files import read_text, replace_text


@click.group()
def schema() -> None:
    """Format, compare and apply schemas."""


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
        after = format_schema(before, name=path)
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

    rows = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), path, path
    )
    click.echo("".join(rows), nl=False)


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

    before = compile_schema(read_text(accepted), name=accepted)
    after = compile_schema(read_text(desired), name=desired)
    found = plan_schema(
        accept_initial(before.catalog, domain=UlidSource().next()),
        after.catalog,
        allow_data_loss=allow_data_loss,
    )
    if as_json:
        body = {"uri": accepted, "step_count": len(found.steps), **found.to_json()}
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        for warning in after.warnings:
            click.echo(warning.render(), err=True)
        click.echo(found.render())
    return NOT_FOUND if check and not found.supported else OK

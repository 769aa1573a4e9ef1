"""`omnigraph lint`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from omnigraph.cli.files import display_name, read_text, refuse_two_stdins
from omnigraph.cli.places import named_scope
from omnigraph.cli.scope import GivenPlace, open_graph, stored_argument

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.lang import LintReport


@click.command()
@stored_argument
@click.option("--query", "query_path", required=True, help="Query file (.gq); - reads stdin.")
@click.option("--schema", "schema_path", metavar="FILE", help="Schema file (.pg), not a graph's.")
@click.option("--explain", is_flag=True, help="Also print the plan of each query.")
@click.option("--unset", is_flag=True, help="Also list properties that no update sets (L201).")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def lint(
    place_given: GivenPlace,
    query_path: str,
    schema_path: str | None,
    explain: bool,
    unset: bool,
    as_json: bool,
) -> int:
    """Check a query file against a schema file, or against the schema of a graph.

    Reports every type error of every query at once. Exits with 1 when there is an error.
    """
    from omnigraph.lang import lint_queries
    from omnigraph.lang.lint import UNSET_FINDING

    if schema_path is None:
        place = _graph_place(place_given)
        with open_graph(place, mode="ro") as graph:
            catalog, about = graph.catalog, {"kind": "graph", "uri": graph.uri}
        warnings: list[dict[str, object]] = []
    elif any(place_given) or named_scope().cluster:
        raise click.UsageError("give --schema FILE or a graph, not both")
    else:
        refuse_two_stdins(query_path, schema_path)
        catalog, warnings = _compiled(schema_path, quiet=as_json)
        about = {"kind": "file", "path": schema_path}
    report = lint_queries(read_text(query_path), catalog, name=display_name(query_path))
    if not unset:
        report = report.without(UNSET_FINDING)
    if as_json:
        body = report.to_json() | {"schema_source": about}
        if warnings:
            body["schema_warnings"] = warnings
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
    else:
        _print(report, explain=explain)
    return 0 if report.ok else 1


def _graph_place(place_given: GivenPlace) -> str:
    try:
        return place_given.resolve()
    except click.UsageError as error:
        if any(place_given):
            raise
        raise click.UsageError(f"give --schema FILE, or {error.message}") from None


def _compiled(path: str, *, quiet: bool) -> tuple[Catalog, list[dict[str, object]]]:
    from omnigraph.lang import compile_schema

    compiled = compile_schema(read_text(path), name=display_name(path))
    for warning in () if quiet else compiled.warnings:
        click.echo(warning.render(), err=True)
    return compiled.catalog, [item.to_json() for item in compiled.warnings]


def _print(report: LintReport, *, explain: bool) -> None:
    from omnigraph.lang.source import Severity
    from omnigraph.plan import explain as explain_plan

    for item in report.parse_errors:
        click.echo(item.render())
        click.echo()
    for query in report.queries:
        kind = "mutation" if query.mutation else "read"
        click.echo(f"{'ERROR' if query.errors else 'OK':<6}{kind} {query.name}")
        for error in query.errors:
            click.echo(error.render())
            click.echo()
        if explain and query.compiled is not None:
            click.echo(explain_plan(query.compiled.plan))
    for finding in report.findings:
        if not report.parse_errors:
            label = {"warning": "WARN", "error": "ERROR"}.get(finding.severity, "INFO")
            code = f"[{finding.code}] " if finding.code else ""
            click.echo(f"{label:<6}{code}{finding.message}")
    totals = ", ".join(
        f"{report.count(severity)} {severity}{'' if report.count(severity) == 1 else 's'}"
        for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)
    )
    queries = len(report.queries)
    click.echo(f"{queries} quer{'y' if queries == 1 else 'ies'} checked: {totals}")


check = click.Command(
    "check",
    params=lint.params,
    callback=lint.callback,
    help=lint.help,
    short_help="Same as lint.",
    hidden=True,
)

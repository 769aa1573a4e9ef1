"""`omnigraph doctor`: is everything in place, and if not, what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from msgspec.structs import asdict

from omnigraph.cli import doctor_checks as checks
from omnigraph.cli.doctor_checks import Finding, Level
from omnigraph.cli.exit_codes import FAILURE, OK
from omnigraph.cli.places import named_scope
from omnigraph.cli.scope import (
    GivenPlace,
    branch_option,
    json_option,
    open_stored,
    print_json,
    stored_argument,
)
from omnigraph.errors import OmniGraphError
from omnigraph.wording import counted


@click.command()
@stored_argument
@branch_option
@json_option
def doctor(place_given: GivenPlace, branch: str, as_json: bool) -> int:
    """Check the installation and a graph: versions, rights, disk, interrupted writes, indexes.

    Changes nothing. Exits with 1 when something needs attention. Without a graph, only the
    installation is checked.
    """
    place = _place(place_given)
    findings = list(checks.environment(os.environ))
    if place is not None:
        findings += _graph(place, branch)
    problems = [item for item in findings if item.level is Level.ATTENTION]
    if as_json:
        listed = [asdict(item) for item in findings]
        print_json({"uri": place, "healthy": not problems, "findings": listed})
    else:
        _show(findings, place)
    return FAILURE if problems else OK


def _place(place_given: GivenPlace) -> str | None:
    """Return the graph that is meant; None when none is named, configured or here."""
    scope = named_scope()
    try:
        return place_given.resolve()
    except click.UsageError:
        if any(place_given) or scope.cluster or scope.profile:
            raise
        return None


def _graph(place: str, branch: str) -> Iterator[Finding]:
    """Look at a graph from the outside in; what cannot be looked at is a finding itself."""
    from omnigraph.store import locate

    yield from checks.storage(locate(place), os.environ)
    try:
        with open_stored(place, mode="ro") as graph:
            yield Finding(area="graph", name="open", message=f"{graph.uri} can be read")
            yield from checks.writes(graph, place)
            yield from checks.branches(graph)
            yield from checks.tables(graph, branch, place)
    except OmniGraphError as error:
        yield Finding(
            area="graph",
            name="open",
            level=Level.ATTENTION,
            message=error.message,
            action=error.hint or "see docs/operations.md",
        )


def _show(findings: list[Finding], place: str | None) -> None:
    marks = {Level.OK: "  ", Level.NOTE: "- ", Level.ATTENTION: "! "}
    width = max(len(item.name) for item in findings)
    area = None
    for item in findings:
        if item.area != area:
            area = item.area
            click.echo(area)
        click.echo(f"{marks[item.level]}{item.name:<{width}}  {item.message}")
        if item.action is not None:
            click.echo(f"  {'':<{width}}  -> {item.action}")
    problems = sum(1 for item in findings if item.level is Level.ATTENTION)
    about = "the installation" if place is None else place
    if problems:
        things = counted(problems, "thing needs", "things need")
        click.echo(f"{about}: {things} attention (marked !)")
    else:
        click.echo(f"{about}: healthy")

"""`omnigraph cluster`: graphs, queries and policies as code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.exit_codes import FAILURE
from omnigraph.cli.scope import json_option, print_json

if TYPE_CHECKING:
    from omnigraph.cluster import Report
    from omnigraph.values.value import Json

F = TypeVar("F", bound=Callable[..., object])


@click.group()
def cluster() -> None:
    """Describe graphs, their queries and policies in a file, and make it so."""


def config_options(command: F) -> F:
    """Add where the configuration is, and `--json`."""
    command = json_option(command)
    return click.option(
        "--config",
        default=".",
        show_default=True,
        metavar="DIR",
        help="Folder that holds cluster.yaml.",
    )(command)


@cluster.command()
@config_options
def validate(config: str, as_json: bool) -> int:
    """Check the configuration and every file it names; all mistakes are listed."""
    from omnigraph.cluster import validate as run

    return _answer(run(config), as_json, _resource_lines)


@cluster.command()
@config_options
def plan(config: str, as_json: bool) -> int:
    """Show what apply would do."""
    from omnigraph.cluster import plan as run

    return _answer(run(config), as_json, _change_lines)


@cluster.command("apply")
@config_options
@click.option("--as", "actor", metavar="ACTOR", help="Actor of the changes.")
def apply_command(config: str, as_json: bool, actor: str | None) -> int:
    """Make the cluster what the configuration says.

    Changes that would destroy data wait for an approval; the exit code is 0 then
    too, and `converged` is false.
    """
    from omnigraph.cluster import apply as run

    return _answer(run(config, actor=actor), as_json, _applied_lines)


@cluster.command()
@config_options
def status(config: str, as_json: bool) -> int:
    """Show how every resource is, compared with what was applied."""
    from omnigraph.cluster import status as run

    return _answer(run(config), as_json, _status_lines)


@cluster.command()
@config_options
def refresh(config: str, as_json: bool) -> int:
    """Write into the ledger which schema each graph really has."""
    from omnigraph.cluster import refresh as run

    return _answer(run(config), as_json, _status_lines)


@cluster.command("import")
@config_options
def import_command(config: str, as_json: bool) -> int:
    """Begin a ledger with the graphs that are there already."""
    from omnigraph.cluster import adopt

    return _answer(adopt(config), as_json, _status_lines)


@cluster.command()
@click.argument("resource")
@config_options
@click.option("--as", "actor", metavar="ACTOR", required=True, help="Who approves.")
def approve(resource: str, config: str, as_json: bool, actor: str) -> int:
    """Agree to a destructive change of one resource, as the plan shows it now."""
    from omnigraph.cluster import approve as run

    def lines(body: Json) -> list[str]:
        return [f"approved: {body['operation']} {body['resource']} by {body['approved_by']}"]

    return _answer(run(config, resource, actor=actor), as_json, lines)


@cluster.command("force-unlock")
@click.argument("lock_id")
@config_options
def force_unlock(lock_id: str, config: str, as_json: bool) -> int:
    """Remove the lock of a process that lives but will not go on.

    A lock whose owner died needs no help: the next apply takes it over.
    """
    from omnigraph.cluster import force_unlock as run

    return _answer(run(config, lock_id), as_json, lambda _body: ["lock removed"])


def _answer(report: Report, as_json: bool, lines: Callable[[Json], list[str]]) -> int:
    body = report.to_json()
    if as_json:
        print_json(body)
    else:
        for item in report.diagnostics:
            click.echo(item.render(), err=True)
        for line in lines(body) if report.ok or "changes" in body else ():
            click.echo(line)
    return 0 if report.ok else FAILURE


def _resource_lines(body: Json) -> list[str]:
    return [
        *(f"{item['address']}  {_short(item['digest'])}" for item in body["resources"]),
        f"OK: {len(body['resources'])} resources",
    ]


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _change_lines(body: Json) -> list[str]:
    lines = []
    for change in body["changes"]:
        reason = f" ({change['reason']})" if "reason" in change else ""
        mark = " blocked" if change["disposition"] == "blocked" else ""
        lines.append(f"{change['operation']:<6} {change['resource']}{mark}{reason}")
        for step in change.get("migration", {}).get("steps", ()):
            name = step.get("property_name")
            what = step.get("type_name", "") + (f".{name}" if name else "")
            lines.append(f"         {step['kind']} {what}".rstrip())
    return lines or ["no changes"]


def _applied_lines(body: Json) -> list[str]:
    if body["converged"]:
        last = f"applied {body['applied_count']}, converged"
    else:
        last = f"applied {body['applied_count']}, {body['deferred_count']} left, not converged"
    return [*_change_lines(body), last]


def _status_lines(body: Json) -> list[str]:
    seen = body["observations"]
    lock = f", locked by {seen['lock_operation']} ({seen['lock_id']})" if seen["locked"] else ""
    lines = [f"revision {seen['state_revision']}{lock}"]
    for address, item in body["resource_statuses"].items():
        message = f": {item['message']}" if "message" in item else ""
        lines.append(f"{item['status']:<8} {address}{message}")
    return lines

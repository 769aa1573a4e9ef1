"""`omnigraph branch ...` and `omnigraph tag ...`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import click

from omnigraph.cli.complete_names import branch_names
from omnigraph.cli.exit_codes import OK, PREVIEW_CONFLICTS, exit_code
from omnigraph.cli.files import read_text
from omnigraph.cli.merge_review import conflict_lines, merged_text, plan_lines
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    at_option,
    confirm_elsewhere,
    echo_target,
    engine_options,
    graph_argument,
    is_spark,
    json_option,
    one_state,
    open_graph,
    open_stored,
    print_json,
    quiet_option,
    write_options,
)
from omnigraph.cli.waiting import Waiting
from omnigraph.errors import BadRequestError, MergeConflictError, OmniGraphError

if TYPE_CHECKING:
    from omnigraph.graph import GraphApi
    from omnigraph.graph.view import MergeOptions, PlanOptions
    from omnigraph.ops.merge.merging import Resolution
    from omnigraph.values.merges import MergeResult
    from omnigraph.values.words import SideWord


@click.group()
def branch() -> None:
    """Work on isolated branches and merge them."""


@branch.command("create")
@click.argument("name")
@graph_argument
@click.option(
    "--from",
    "source",
    default="main",
    show_default=True,
    metavar="STATE",
    shell_complete=branch_names,
)
@actor_option
@quiet_option
@json_option
def create(
    name: str, place_given: GivenPlace, source: str, actor: str | None, quiet: bool, as_json: bool
) -> None:
    """Make a branch from any state, such as main, HEAD~1 or a tag. No data is copied."""
    place = place_given.resolve()
    echo_target("branch create", place, quiet=quiet)
    with open_graph(place, actor=actor) as graph:
        graph.branches.create(name, source)
        if as_json:
            body = {"uri": graph.uri, "from": source, "name": name, "actor_id": graph.actor}
            print_json(body)
        else:
            click.echo(f"created branch {name} from {source}")


@branch.command("list")
@graph_argument
@json_option
def list_branches(place_given: GivenPlace, as_json: bool) -> None:
    """List branches, main first."""
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        names = graph.branches.list()
    if as_json:
        print_json({"branches": names})
        return
    for name in names:
        click.echo(name)


@branch.command("delete")
@click.argument("name", shell_complete=branch_names)
@graph_argument
@click.option("--yes", is_flag=True, help="Do not ask, on a server.")
@actor_option
@quiet_option
@json_option
def delete(
    name: str, place_given: GivenPlace, yes: bool, actor: str | None, quiet: bool, as_json: bool
) -> None:
    """Delete a branch; what was merged elsewhere stays there."""
    place = place_given.resolve()
    confirm_elsewhere(f"deleting branch {name}", place, yes=yes, as_json=as_json)
    echo_target("branch delete", place, quiet=quiet)
    with open_graph(place, actor=actor) as graph:
        graph.branches.delete(name)
        if as_json:
            print_json({"uri": graph.uri, "name": name, "actor_id": graph.actor})
        else:
            click.echo(f"deleted branch {name}")


def _resolution(resolve: str | None) -> Resolution | None:
    """Return a side, or the decisions in a file."""
    if resolve is None or resolve in ("ours", "theirs"):
        return cast("SideWord | None", resolve)
    try:
        content = json.loads(read_text(resolve))
    except ValueError as error:
        raise BadRequestError(f"{resolve} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadRequestError(f"{resolve} must hold a JSON object")
    decisions = content.get("merge_conflicts")
    if not isinstance(decisions, list):
        return content
    # A preview saved with --json and edited: `use` says what becomes of each conflict.
    rules: dict[str, object] = {}
    for item in decisions:
        if not isinstance(item, dict) or "use" not in item:
            raise BadRequestError(
                "every conflict in the file needs a decision",
                hint='add "use": "ours", "theirs" or the values to write',
            )
        rules[f"{item['table_key']}/{item['entity_id']}"] = item["use"]
    return rules


@branch.command("merge")
@click.argument("source", shell_complete=branch_names)
@graph_argument
@click.option(
    "--into", default="main", show_default=True, metavar="BRANCH", shell_complete=branch_names
)
@click.option("--preview", is_flag=True, help="Show every change and conflict; write nothing.")
@click.option(
    "--resolve",
    metavar="ours|theirs|FILE",
    help="Decide conflicts: one side for all, or a JSON file (see docs/branches.md).",
)
@click.option("--property-merge", is_flag=True, help="Join updates of different properties.")
@click.option(
    "--check", "checks", multiple=True, metavar="FILE", help="Query that must return no rows."
)
@click.option("--delete-branch", is_flag=True, help="Delete the source afterwards.")
@engine_options
@actor_option
@write_options
@json_option
def merge(
    source: str,
    place_given: GivenPlace,
    into: str,
    preview: bool,
    resolve: str | None,
    property_merge: bool,
    checks: tuple[str, ...],
    delete_branch: bool,
    engine: str,
    master: str | None,
    actor: str | None,
    if_commit: str | None,
    operation_id: str | None,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Merge a branch into another as one commit with two parents.

    Exit code 5 means conflicts, of which nothing was merged; 9 that a preview found some.
    """
    place = place_given.resolve()
    on_spark = is_spark(engine, master, place)
    if on_spark and preview:
        raise click.UsageError("--preview shows every row; it is for --engine local")
    decisions = _resolution(resolve)
    joining: PlanOptions = {"resolve": decisions, "property_merge": property_merge}
    echo_target("branch merge", place, quiet=quiet or preview)
    if preview:
        with open_graph(place, mode="ro", actor=actor) as graph:
            return _preview(graph, source, into, place, joining, as_json=as_json)
    options: MergeOptions = {
        **joining,
        "checks": [read_text(path) for path in checks],
        "delete_source": delete_branch,
        "expected_head": if_commit,
        "operation_id": operation_id,
        "message": message,
    }
    if on_spark:
        from omnigraph import spark

        with open_stored(place, actor=actor) as stored, Waiting(f"merging {source} into {into}"):
            result = spark.merge(stored, source, into, master=master, **options)
    else:
        with open_graph(place, actor=actor) as graph:
            try:
                with Waiting(f"merging {source} into {into}"):
                    result = graph.branches.merge(source, into, **options)
            except MergeConflictError as error:
                if as_json or not _show_conflicts(graph, source, into, place, joining):
                    raise
                return exit_code(error)
    _show_merged(result, quiet=quiet, as_json=as_json)
    return OK


def _preview(
    graph: GraphApi, source: str, into: str, place: str, joining: PlanOptions, *, as_json: bool
) -> int:
    with Waiting(f"comparing {source} with {into}"):
        plan = graph.branches.merge_plan(source, into, **joining)
    if as_json:
        print_json(plan.to_json())
    else:
        for line in plan_lines(plan, graph.catalog, place):
            click.echo(line)
    return OK if plan.is_clean else PREVIEW_CONFLICTS


def _show_conflicts(
    graph: GraphApi, source: str, into: str, place: str, joining: PlanOptions
) -> bool:
    """Tell on stderr what is in conflict. False if it cannot be told, or was solved meanwhile."""
    try:
        plan = graph.branches.merge_plan(source, into, **joining)
    except OmniGraphError:
        return False
    if plan.conflicts:
        for line in conflict_lines(plan, graph.catalog, place):
            click.echo(line, err=True)
    return bool(plan.conflicts)


def _show_merged(result: MergeResult, *, quiet: bool, as_json: bool) -> None:
    problem = result.branch_delete_error
    if problem is not None:
        click.echo(f"warning: {result.source} was not deleted: {problem}", err=True)
    if as_json:
        print_json(result.to_json())
        return
    click.echo(merged_text(result))
    if result.commit is not None and not quiet:
        click.echo(f"commit {result.commit.graph_commit_id}")


@click.group()
def tag() -> None:
    """Give names to states that never move."""


@tag.command("create")
@click.argument("name")
@graph_argument
@click.option(
    "--branch",
    default=None,
    help="Branch whose newest state is named (main).",
    shell_complete=branch_names,
)
@at_option
@click.option("--commit", "commit_id", metavar="ID", help="Name this commit instead.")
@actor_option
@json_option
def create_tag(
    name: str,
    place_given: GivenPlace,
    branch: str | None,
    at_state: str | None,
    commit_id: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Name the newest state of a branch, or any other."""
    one_state(at=at_state, commit=commit_id)
    place = place_given.resolve()
    with open_graph(place, actor=actor) as graph:
        new_tag = graph.tags.create(name, branch=branch, commit=at_state or commit_id)
    if as_json:
        print_json(new_tag.to_json())
    else:
        click.echo(f"tagged {new_tag.branch.name} at version {new_tag.version} as {name}")


@tag.command("list")
@graph_argument
@json_option
def list_tags(place_given: GivenPlace, as_json: bool) -> None:
    """List tags."""
    place = place_given.resolve()
    with open_graph(place, mode="ro") as graph:
        tags = graph.tags.list()
    if as_json:
        print_json({"tags": [item.to_json() for item in tags]})
        return
    for item in tags:
        click.echo(f"{item.name}  {item.branch.name} v{item.version}")
    if not tags:
        click.echo("(no tags)")


@tag.command("delete")
@click.argument("name")
@graph_argument
@actor_option
@json_option
def delete_tag(name: str, place_given: GivenPlace, actor: str | None, as_json: bool) -> None:
    """Forget a tag; the state it named stays."""
    place = place_given.resolve()
    with open_graph(place, actor=actor) as graph:
        graph.tags.delete(name)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"deleted tag {name}")

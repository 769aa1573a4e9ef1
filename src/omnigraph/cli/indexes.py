"""`omnigraph ensure-indices`."""

from __future__ import annotations

import click
from msgspec.structs import asdict

from omnigraph.cli.scope import (
    GivenPlace,
    branch_option,
    echo_target,
    json_option,
    open_stored,
    print_json,
    quiet_option,
    stored_argument,
)
from omnigraph.cli.waiting import Waiting


@click.command("ensure-indices")
@stored_argument
@branch_option
@quiet_option
@json_option
def ensure_indices(place_given: GivenPlace, branch: str, quiet: bool, as_json: bool) -> None:
    """Build the indexes the schema declares and the graph lacks. No result changes by it."""
    place = place_given.resolve()
    echo_target("ensure-indices", place, quiet=quiet)
    with open_stored(place) as graph:
        before = graph.commits.head(branch).graph_commit_id
        with Waiting("building indexes"):
            pending = graph.maintenance.ensure_indices(branch)
        head = graph.commits.head(branch)
    commit = None
    if head.graph_commit_id != before and head.kind == "ensure_indices":
        commit = head.graph_commit_id
    if as_json:
        listed = [asdict(item) for item in pending]
        print_json({"uri": place, "branch": branch, "commit": commit, "pending": listed})
        return
    click.echo(f"commit {commit}" if commit else "nothing to build")
    for item in pending:
        click.echo(f"pending {item.table_key}.{item.column} ({item.kind}): {item.reason}")

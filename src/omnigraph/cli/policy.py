"""`omnigraph policy`: look at a bundle, test it, ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.exit_codes import FAILURE
from omnigraph.cli.places import cluster_graph, find_cluster, named_scope
from omnigraph.cli.scope import cluster_options, json_option, print_json, profile_option

if TYPE_CHECKING:
    from omnigraph.policy import CedarPolicy, Decision, Outcome

F = TypeVar("F", bound=Callable[..., object])


@click.group()
def policy() -> None:
    """Look at policies: who may do what."""


def bundle_options(command: F) -> F:
    """Add where the bundle is: a file, or what a cluster applied."""
    return cluster_options(profile_option(click.argument("bundle", required=False)(command)))


def find_policy(bundle: str | None) -> CedarPolicy:
    """Return the policy a command is about."""
    from omnigraph.policy import load_policy

    scope = named_scope()
    if bundle is None:
        return _applied_policy(find_cluster(), scope.graph)
    if scope.cluster is not None:
        raise click.UsageError("name the bundle once: its file, or --cluster DIR")
    if scope.graph is not None:
        raise click.UsageError("--graph needs --cluster")
    return load_policy(bundle)


def _applied_policy(cluster: str, graph: str | None) -> CedarPolicy:
    """Return what a cluster applied: for one graph, or its only policy."""
    from omnigraph.cluster import read_cluster
    from omnigraph.errors import BadRequestError, NotFoundError

    if graph is not None:
        served = cluster_graph(cluster, graph)
        if served.problems:
            raise BadRequestError("\n".join(item.render() for item in served.problems))
        candidates = [served.policy]
    else:
        everything = read_cluster(cluster)
        candidates = [everything.policy, *(item.policy for item in everything.graphs.values())]
    policies = {item.name: item for item in candidates if item is not None}
    if not policies:
        raise NotFoundError("the cluster has no policy" + (f" for '{graph}'" if graph else ""))
    if len(policies) > 1:
        names = ", ".join(sorted(policies))
        raise BadRequestError("name a graph with --graph", hint=f"there are policies {names}")
    return next(iter(policies.values()))


@policy.command()
@bundle_options
@click.option("--cedar", is_flag=True, help="Print the Cedar policies it becomes.")
@json_option
def validate(bundle: str | None, cedar: bool, as_json: bool) -> None:
    """Check a bundle: every mistake is listed."""
    from omnigraph.policy import copies_unread

    cedar_policy = find_policy(bundle)
    rules = cedar_policy.bundle
    warnings = copies_unread(rules)
    if as_json:
        print_json(
            {
                "ok": True,
                "name": rules.name,
                "kind": rules.kind,
                "actors": list(rules.actors),
                "rules": [rule.id for rule in rules.rules],
                "warnings": warnings,
                **({"cedar": cedar_policy.cedar} if cedar else {}),
            }
        )
        return
    click.echo(
        f"{rules.name}: OK, a {rules.kind} policy with {_count(len(rules.actors), 'actor')} "
        f"and {_count(len(rules.rules), 'rule')}"
    )
    for warning in warnings:
        click.echo(f"WARN {warning}")
    if cedar:
        click.echo(cedar_policy.cedar)


@policy.command("test")
@bundle_options
@click.option("--tests", required=True, metavar="FILE", help="Questions and expected answers.")
@json_option
def test_bundle(bundle: str | None, tests: str, as_json: bool) -> int:
    """Ask a bundle every question of a file; exit 1 if any answer is not the expected one."""
    from omnigraph.policy import run_cases

    outcomes = run_cases(find_policy(bundle), tests)
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if as_json:
        print_json({"ok": not failed, "cases": [outcome.to_json() for outcome in outcomes]})
    else:
        for outcome in outcomes:
            click.echo(_case_line(outcome))
        click.echo(f"{len(outcomes) - len(failed)} of {_count(len(outcomes), 'case')} as expected")
    return FAILURE if failed else 0


@policy.command()
@bundle_options
@click.option("--actor", required=True, help="Who asks.")
@click.option("--action", required=True, help="What for.")
@click.option("--branch", help="The branch read, written or copied from.")
@click.option("--target-branch", help="The branch made, removed, merged into or migrated.")
@json_option
def explain(
    bundle: str | None,
    actor: str,
    action: str,
    branch: str | None,
    target_branch: str | None,
    as_json: bool,
) -> None:
    """Ask a bundle one question and print the answer with its reason."""
    from omnigraph.policy import Access, parse_action

    cedar_policy = find_policy(bundle)
    access = Access(
        action=parse_action(action, name="--action"),
        actor=actor,
        branch=branch,
        target_branch=target_branch,
    )
    decision = cedar_policy.decide(access)
    if as_json:
        print_json(decision.to_json())
        return
    click.echo(f"decision: {_word(decision)}")
    click.echo(f"matched rule: {decision.matched_rule_id or '-'}")
    click.echo(f"message: {decision.message}")
    if decision.hint is not None:
        click.echo(f"hint: {decision.hint}")


def _word(decision: Decision) -> str:
    return "allow" if decision.allowed else "deny"


def _case_line(outcome: Outcome) -> str:
    if outcome.ok:
        return f"OK    {outcome.id}"
    said = f"expected {outcome.expected}, got {_word(outcome.decision)}"
    return f"ERROR {outcome.id}: {said}: {outcome.decision.message}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

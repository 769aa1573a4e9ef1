"""A merge as text to read: what would change, what is in conflict, what to type next."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.places import is_served, split_served
from omnigraph.cli.value_text import property_types, value_text
from omnigraph.wording import counted, printable

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog, PropertyType
    from omnigraph.values.merges import Conflict, MergePlan, MergeResult

SIGNS = {"insert": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
OUTCOMES = {"fast_forward": "a fast forward", "merged": "a merge commit"}
DECIDABLE = {"divergent_insert", "divergent_update", "delete_vs_update"}


def merged_text(result: MergeResult) -> str:
    """Return what a merge did, in a sentence."""
    if result.outcome == "already_up_to_date":
        return f"{result.target} already has everything of {result.source}; nothing to merge"
    how = " (fast forward)" if result.outcome == "fast_forward" else ""
    return f"merged {result.source} into {result.target}{how}"


def plan_lines(plan: MergePlan, catalog: Catalog, place: str) -> Iterator[str]:
    """Yield the review of a merge that nothing was written of."""
    if plan.conflicts:
        yield from conflict_lines(plan, catalog, place)
        return
    if not plan.changes:
        yield f"{plan.target} already has everything of {plan.source}; nothing to merge"
        return
    how = OUTCOMES.get(plan.outcome, plan.outcome)
    yield f"{plan.source} into {plan.target}: {counted(len(plan.changes), 'change')}, no conflicts"
    for item in plan.changes:
        sign, colour = SIGNS[str(item["op"])]
        kind, _, name = str(item["table_key"]).partition(":")
        line = printable(f"  {sign} {item['op']} {kind} {name} {item['id']}")
        yield click.style(line, fg=colour)
    yield f"To make {how} of it:"
    yield f"  {_command(plan, place)}"


def conflict_lines(plan: MergePlan, catalog: Catalog, place: str) -> Iterator[str]:
    """Yield every conflict: per property the base, ours and theirs, where they differ."""
    head = f"{counted(len(plan.conflicts), 'conflict')}, nothing merged"
    yield f"{click.style(head, fg='red', bold=True)} ({plan.source} into {plan.target})"
    if any(str(item.kind) in DECIDABLE for item in plan.conflicts):
        yield f"property: before -> ours ({plan.target}) / theirs ({plan.source})"
    for conflict in plan.conflicts:
        yield ""
        yield click.style(printable(f"! {conflict.message}"), bold=True)
        yield from _sides(conflict, catalog)
    yield ""
    if plan.changes:
        count = counted(len(plan.changes), "other change")
        yield f"{count} of {plan.source} would merge without conflict."
    yield from _next_steps(plan, place)


def _sides(conflict: Conflict, catalog: Catalog) -> Iterator[str]:
    images = [_flat(image) for image in (conflict.base, conflict.ours, conflict.theirs)]
    base, ours, theirs = images
    if ours is None and theirs is None:
        return
    types = property_types(catalog, conflict.table_key.partition(":")[2])
    names = dict.fromkeys(name for image in images if image is not None for name in image)
    is_new = str(conflict.kind) == "divergent_insert"
    for name in names:
        declared = types.get(name)
        mine, yours = _side(ours, name, declared), _side(theirs, name, declared)
        if is_new:
            if mine != yours:
                yield f"    {name}: {_both(mine, yours)}"
            continue
        # Of crossing merges the base may not be known.
        before = "<unknown>" if base is None or name not in base else _text(base[name], declared)
        if not before == mine == yours:
            yield f"    {name}: {before} -> {_both(mine, yours)}"


def _both(mine: str, yours: str) -> str:
    return f"{click.style(mine, fg='green')} / {click.style(yours, fg='cyan')}"


def _flat(image: Mapping[str, Any] | None) -> dict[str, object] | None:
    """Return properties and endpoints in one mapping; the id is in the heading already."""
    if image is None:
        return None
    ends = {name: image[name] for name in ("from", "to") if name in image}
    return {**ends, **{name: value for name, value in image["data"].items() if name != "id"}}


def _side(image: dict[str, object] | None, name: str, declared: PropertyType | None) -> str:
    return "<deleted>" if image is None else _text(image.get(name), declared)


def _text(value: object, declared: PropertyType | None) -> str:
    short = value_text(value, declared)
    if "…" not in short and not short.startswith("<"):
        return short
    return short if value is None else f"{short}#{_mark(value)}"


def _mark(value: object) -> str:
    """Return a few letters that tell two shortened values apart."""
    import hashlib

    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:6]


def _next_steps(plan: MergePlan, place: str) -> Iterator[str]:
    if not all(str(item.kind) in DECIDABLE for item in plan.conflicts):
        yield "No side can be taken here: change one of the branches, then merge again. Compare:"
        yield f"  {_diff(plan, place)}"
        return
    command = _command(plan, place)
    file = f"{plan.source.replace('/', '-')}-conflicts.json"
    yield "To decide, type one of:"
    yield f"  {command} --resolve ours      # keep the rows of {plan.target}"
    yield f"  {command} --resolve theirs    # take the rows of {plan.source}"
    if any(str(item.kind) == "divergent_update" for item in plan.conflicts):
        yield f"  {command} --property-merge    # join updates of different properties"
    yield f"  {command} --preview --json > {file}"
    yield f'    # then give each conflict "use": "ours" | "theirs" | values, and --resolve {file}'


def _diff(plan: MergePlan, place: str) -> str:
    words = ["omnigraph", "diff", plan.target, plan.source]
    return shlex.join([*words, *_where(place)])


def _command(plan: MergePlan, place: str) -> str:
    words = ["omnigraph", "branch", "merge", plan.source, *_where(place)]
    return shlex.join(words if plan.target == "main" else [*words, "--into", plan.target])


def _where(place: str) -> list[str]:
    if not is_served(place):
        return [place]
    url, graph = split_served(place)
    return ["--server", url, *([] if graph is None else ["--graph", graph])]

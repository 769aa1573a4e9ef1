"""Entity resolution in plain Python, pair by pair: what both engines must find."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from omnigraph.resolve import Comparison, Key, Rules

Row = dict[str, Any]


@dataclass
class Outcome:
    pairs: dict[tuple[str, str], tuple[float | None, ...]] = field(default_factory=dict)
    compared: int = 0
    skipped: set[tuple[int, str, int]] = field(default_factory=set)
    becomes: dict[str, str | None] = field(default_factory=dict)
    """What each node of a cluster becomes; None if the cluster is too large."""
    nodes: dict[str, Row] = field(default_factory=dict)
    edges: dict[str, tuple[str, str]] = field(default_factory=dict)


def resolved(rules: Rules, nodes: list[Row], edges: list[Row], *, unique: bool) -> Outcome:
    """Resolve nodes with `id` and properties, and edges with `id`, `src`, `dst` among them."""
    found = Outcome()
    by_id = {row["id"]: row for row in nodes}
    for number, block in enumerate(rules.keys):
        members: dict[str, list[str]] = {}
        for row in nodes:
            parts = [_key(row[key.property], key) for key in block]
            if None not in parts:
                members.setdefault("\x1f".join(str(part) for part in parts), []).append(row["id"])
        for key, ids in members.items():
            if len(ids) > rules.block_nodes_max:
                found.skipped.add((number, key, len(ids)))
                continue
            for left, right in combinations(sorted(ids), 2):
                found.compared += 1
                scores = _scores(rules, by_id[left], by_id[right])
                if scores is not None:
                    found.pairs[left, right] = scores
    for cluster in _clusters(list(found.pairs)):
        small = len(cluster) <= rules.cluster_nodes_max
        stays = _survivor(rules, [by_id[name] for name in cluster], edges) if small else None
        found.becomes |= dict.fromkeys(cluster, stays)
    _merge(rules, found, by_id, edges, unique=unique)
    return found


def plain(text: str | None) -> str | None:
    """Return a text without case, accents and punctuation."""
    if text is None:
        return None
    letters = unicodedata.normalize("NFKD", text).lower()
    kept = [item for item in letters if not unicodedata.category(item).startswith("M")]
    words = [item if unicodedata.category(item)[0] in "LN" else " " for item in kept]
    return " ".join("".join(words).split()) or None


def edits(one: str, other: str) -> int:
    """Return the Levenshtein distance of two texts."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        before, row[0] = row[0], at
        for to, own in enumerate(other, start=1):
            best = min(row[to] + 1, row[to - 1] + 1, before + (letter != own))
            before, row[to] = row[to], best
    return row[-1]


def _key(value: Any, key: Key) -> Any:
    if key.by == "exact":
        return value
    text = plain(value)
    if text is None or key.by == "normalised":
        return text
    if key.by == "prefix":
        return text[: key.length or 4]
    words = text.split()
    return (
        "".join(word[0] for word in words) if key.by == "initials" else " ".join(sorted({*words}))
    )


def _score(item: Comparison, one: Any, other: Any) -> float | None:
    if item.by in ("normalised", "edit", "words"):
        one, other = plain(one), plain(other)
    if one is None or other is None:
        return None
    if item.by == "words":
        one, other = (" ".join(sorted({*text.split()})) for text in (one, other))
    if item.by in ("edit", "words"):
        return 1 - edits(one, other) / max(len(one), len(other))
    if item.by != "vector":
        return float(one == other)
    if item.measure == "l2":
        return 1 / (1 + math.dist(one, other))
    lengths = math.hypot(*one) * math.hypot(*other)
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return min(1.0, max(0.0, product / lengths)) if lengths else None


def _scores(rules: Rules, left: Row, right: Row) -> tuple[float | None, ...] | None:
    total = weight = 0.0
    found: list[float | None] = []
    for item in rules.compare:
        score = _score(item, left[item.property], right[item.property])
        score = None if score is None else round(score, 6)
        found.append(score)
        if item.threshold is not None and (score is None or score < item.threshold):
            return None
        if score is not None:
            total, weight = total + score * item.weight, weight + item.weight
    mean = round(total / weight, 6) if weight else 0.0
    return (mean, *found) if mean >= rules.threshold else None


def _clusters(pairs: list[tuple[str, str]]) -> list[list[str]]:
    groups: list[set[str]] = []
    for pair in pairs:
        touched = [group for group in groups if group & {*pair}]
        groups = [group for group in groups if group not in touched]
        groups.append(set(pair).union(*touched))
    return [sorted(group) for group in groups]


def _survivor(rules: Rules, rows: list[Row], edges: list[Row]) -> str:
    def rank(row: Row) -> Any:
        if rules.survivor == "most_edges":
            ends = sum((edge["src"] == row["id"]) + (edge["dst"] == row["id"]) for edge in edges)
            return (-ends, row["id"])
        if rules.survivor == "newest":
            when = row[str(rules.newest_by)]
            return (when is None, -(when or 0), row["id"])
        return row["id"]

    return str(min(rows, key=rank)["id"])


def _merge(
    rules: Rules, found: Outcome, by_id: dict[str, Row], edges: list[Row], *, unique: bool
) -> None:
    becomes = {name: stays for name, stays in found.becomes.items() if stays is not None}
    for name, row in by_id.items():
        stays = becomes.get(name, name)
        if stays == name:
            same = [by_id[other] for other in sorted(becomes) if becomes[other] == name]
            found.nodes[name] = _values(rules, row, same)
    moved: list[tuple[bool, str, tuple[str, str]]] = []
    for edge in edges:
        before = (str(edge["src"]), str(edge["dst"]))
        after = (becomes.get(before[0], before[0]), becomes.get(before[1], before[1]))
        if after == before or after[0] != after[1] or before[0] == before[1]:
            moved.append((after != before, edge["id"], after))
    taken: set[tuple[str, str]] = set()
    for _is_moved, name, ends in sorted(moved):
        if not unique or ends not in taken:
            taken.add(ends)
            found.edges[name] = ends


def _values(rules: Rules, row: Row, same: list[Row]) -> Row:
    found = dict(row)
    for name in row:
        rule = rules.properties.get(name, rules.properties.get("*", "survivor"))
        if rule == "survivor" or name == "id" or not same:
            continue
        order = sorted(same, key=lambda item: (item["id"] != row["id"], item["id"]))
        if rule == "longest":
            order.sort(key=lambda item: -len(item[name] or ""))
        if rule == "newest":
            when = str(rules.newest_by)
            order = sorted(
                same, key=lambda item: (item[when] is None, -(item[when] or 0), item["id"])
            )
        known = [item[name] for item in order if item[name] is not None]
        found[name] = known[0] if known else None
    return found

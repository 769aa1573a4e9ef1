"""Entity resolution: finds nodes that are the same thing, and proposes to merge them."""

from __future__ import annotations

from omnigraph.resolve.finding import Resolved, resolve
from omnigraph.resolve.merging import EdgeMoves, MergePlan
from omnigraph.resolve.proposing import propose, proposed
from omnigraph.resolve.report import text
from omnigraph.resolve.rules import Comparison, Key, Rules, parse_rules, read_rules, rules_of
from omnigraph.values.resolutions import ResolveReport

__all__ = [
    "Comparison",
    "EdgeMoves",
    "Key",
    "MergePlan",
    "ResolveReport",
    "Resolved",
    "Rules",
    "parse_rules",
    "propose",
    "proposed",
    "read_rules",
    "resolve",
    "rules_of",
    "text",
]

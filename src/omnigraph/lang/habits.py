"""Hints for those who write what other languages, or a shell, would have made of it."""

from __future__ import annotations

import re

EXAMPLE = "query q() { match { $p: Person } return { $p.name } }"
_CYPHER = re.compile(r"\s*(?:optional\s+)?(?:match|merge|create|unwind)\b\s*\(", re.IGNORECASE)
_SQL = re.compile(r"\s*(?:select|insert\s+into|update\s+\w+\s+set|delete\s+from)\b", re.IGNORECASE)
_CYPHER_NODE = re.compile(r"\(\s*\w*\s*\Z")
_LOST_VARIABLE = re.compile(r"[{,(\s]\Z")


def habit_hint(text: str, start: int) -> str | None:
    """Return help for what stands at a place of a text, None if it looks like no known habit."""
    before, rest = text[:start], text[start:]
    if not before.strip():
        if _CYPHER.match(rest):
            return f"this looks like Cypher; here it is: {EXAMPLE}"
        if _SQL.match(rest):
            return f"this looks like SQL; here it is: {EXAMPLE}"
        return None
    if rest.startswith("=") and before.endswith("="):
        return "one `=` compares"
    if rest.startswith("by") and before.rstrip().endswith(("order", "group")):
        return "write `order { ... }`; grouping follows from the columns that are returned"
    if rest.startswith(":") and _CYPHER_NODE.search(before):
        return "this looks like Cypher; write `$p: Person` and `$p knows $friend`"
    if rest.startswith((":", ".")) and "$" not in text and _LOST_VARIABLE.search(before):
        return "variables begin with `$`; in a shell, put the query into single quotes"
    return None

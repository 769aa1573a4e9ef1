"""Hints for those who write what other languages, or a shell, would have made of it."""

from __future__ import annotations

import re

EXAMPLE = "query q() { match { $p: Person } return { $p.name } }"
_CYPHER = re.compile(r"\s*(?:optional\s+)?(?:match|merge|create|unwind)\b\s*\(", re.IGNORECASE)
_SQL = re.compile(
    r"\s*(?:select|insert\s+into|update\s+\w+\s+set|delete\s+from|create\s+table)\b", re.IGNORECASE
)
_SCHEMA = re.compile(r"(?:node|edge|interface)\b")
_BODY = re.compile(r"(?:match|insert|upsert|update|delete)\b", re.IGNORECASE)
_LOST_VARIABLE = re.compile(r"[{,(\s]\Z")
_KEYWORDS = re.compile(
    "and|as|asc|contains|count|delete|desc|distinct|in|insert|is|limit|match|not|null|offset|"
    "optional|or|order|query|return|set|starts_with|update|upsert|where"
)
_WORD = re.compile(r"[A-Za-z]+")

_ARROW = "this looks like Cypher; write `$p: Person` and `$p knows $friend`"
_INSIDE = "conditions stand inside `match { ... }`, without `where`"
_GROUPING = "grouping follows from the columns that are returned"
# What stands before the place, what stands at it, and the help.
_HABITS = tuple(
    (re.compile(before + r"\Z"), re.compile(at), help_)
    for before, at, help_ in (
        ("=", "=", "one `=` compares"),
        ("<", ">", "write `!=`"),
        (r"order\s*", r"by\b", f"write `order {{ ... }}`; {_GROUPING}"),
        ("", r"group\b", f"leave it out: {_GROUPING}"),
        (r"\(\s*\w*\s*", ":", _ARROW),
        (r"-\s*\[\s*\w*\s*", ":", _ARROW),
        ("", "->|<-", _ARROW),
        ("", r"\|\|", "write `or` between conditions"),
        ("", "--", "comments start with `//`"),
        (r"}\s*", r"where\b", _INSIDE),
        ("", r"skip\b", "write `offset`"),
        (r"delete\s*", r"from\b", "write `delete Person where ...`"),
        (r"insert\s*", r"into\b", "write `insert Person { name: ... }`"),
        (r"set\s*", r"\w", "write `set { name: ... }`"),
        (r"return\s*", r"[$\w]", "write `return { ... }`"),
        (r"\{\s*", r"merge\b", "`upsert` inserts or updates"),
        (r"\{\s*", r"create\b", "`insert` makes nodes and edges"),
        (r"query\s+\w+\s*", r"\{", "a query has a list of parameters, empty or not: `query q()`"),
    )
)
_WORDS = {
    "like": "write `starts_with` or `contains`",
    "where": _INSIDE,
}


def habit_hint(text: str, start: int) -> str | None:
    """Return help for what stands at a place of a text, None if it looks like no known habit."""
    before, rest = text[:start], text[start:]
    if not before.strip():
        return _first_words(rest)
    if rest.startswith((":", ".")) and "$" not in text and _LOST_VARIABLE.search(before):
        return "variables begin with `$`; in a shell, put the query into single quotes"
    line = before[-80:]
    for ahead, at, help_ in _HABITS:
        if at.match(rest) and ahead.search(line):
            return help_
    word = _WORD.match(rest)
    return None if word is None else word_hint(word.group())


def is_foreign(text: str) -> bool:
    """Whether a text begins as one of another language does."""
    return bool(_CYPHER.match(text) or _SQL.match(text))


def word_hint(word: str) -> str | None:
    """Return help for a word that means something elsewhere, or in lower case."""
    lower = word.lower()
    if word != lower and _KEYWORDS.fullmatch(lower):
        return f"keywords are written in lower case: `{lower}`"
    return _WORDS.get(lower)


def _first_words(rest: str) -> str | None:
    if _CYPHER.match(rest):
        return f"this looks like Cypher; here it is: {EXAMPLE}"
    if _SQL.match(rest):
        return f"this looks like SQL; here it is: {EXAMPLE}"
    if _SCHEMA.match(rest):
        return "this looks like a schema; queries are in .gq files"
    if rest.startswith("query"):
        return "this looks like queries; a schema is in a .pg file"
    if _BODY.match(rest):
        return "a query has a name and braces: `query q() { match ... }`"
    return None

"""Keeps the version history inside fragments short.

For every row Lance remembers the table version that created it and the one that last changed it,
as runs of equal numbers in the fragment's metadata. A compaction of one-row fragments keeps one
run per row for good, and every later version file repeats them: the cost of a write would grow
with history. Neighbouring runs are therefore joined under the newest of their numbers. A reader
that asks "what changed since version v" may then be shown rows that did not change, which it
finds out by comparing them; it never misses one that did.
"""

from __future__ import annotations

import json

from lance.optimize import RewriteResult

from omnigraph.limits import VERSION_RUNS_MAX
from omnigraph.store.tables.protobuf import bytes_field, number_field, values

_FIELDS = ("last_updated_at_version_meta", "created_at_version_meta")
Run = tuple[int, int]
"""Number of rows, version."""


def shorten(result: RewriteResult) -> RewriteResult:
    """Return a compaction result whose new fragments hold few version runs."""
    known = json.loads(result.json())  # type: ignore[attr-defined]  # a stub gap
    changed = False
    for fragment in known["new_fragments"]:
        for name in _FIELDS:
            stored = (fragment.get(name) or {}).get("inline")
            runs = decode_runs(bytes(stored)) if stored else None
            if runs is not None and len(runs) > VERSION_RUNS_MAX:
                fragment[name]["inline"] = list(encode_runs(join_runs(runs, VERSION_RUNS_MAX)))
                changed = True
    if not changed:
        return result
    text = json.dumps(known)
    short: RewriteResult = RewriteResult.from_json(text)  # type: ignore[attr-defined]  # a stub gap
    return short


def join_runs(runs: list[Run], limit: int) -> list[Run]:
    """Join neighbours until at most `limit` runs are left."""
    size = -(-len(runs) // limit)
    groups = (runs[start : start + size] for start in range(0, len(runs), size))
    return [(sum(rows for rows, _ in group), max(v for _, v in group)) for group in groups]


def decode_runs(data: bytes) -> list[Run] | None:
    """Read runs from their protobuf form; None for any form not known here."""
    runs: list[Run] = []
    try:
        for number, run in values(data):
            parts = dict(values(run)) if number == 1 and isinstance(run, bytes) else {}
            span, version = parts.get(1), parts.get(2)
            if not isinstance(span, bytes) or not isinstance(version, int):
                return None
            (kind, limits), *others = values(span)
            if kind != 1 or others or not isinstance(limits, bytes):
                return None
            bounds = dict(values(limits))
            start, end = bounds.get(1, 0), bounds.get(2)
            if not isinstance(start, int) or not isinstance(end, int) or end <= start:
                return None
            runs.append((end - start, version))
    except (IndexError, ValueError):
        return None
    return runs


def encode_runs(runs: list[Run]) -> bytes:
    """Write runs in their protobuf form."""
    data = bytearray()
    for rows, version in runs:
        span = bytes_field(1, number_field(2, rows))
        data += bytes_field(1, bytes_field(1, span) + number_field(2, version))
    return bytes(data)

"""JSON text of the durable form of a schema, put together from the texts of its parts.

A part is written once and then stands in every schema that has it. Joined, the whole is to the byte
what the standard library writes for all of the data with `indent=1`; so each function is told how
many lists and objects there are around what it writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import msgspec

Parts = list[str]
"""Texts that make one value when they are joined."""


def lines_of(data: object, *, depth: int) -> str:
    """Return data as JSON over several lines."""
    # The same as `indent=1`, which the standard library writes many times slower.
    text = msgspec.json.format(json.dumps(data, ensure_ascii=False), indent=1)
    # Line ends inside of strings are escaped, so each of these begins a line of the layout.
    return text.replace("\n", _line(depth))


def list_of(items: Iterable[str], *, depth: int) -> Parts:
    """Return the list of values, given as texts that were written one level deeper."""
    inside = ("," + _line(depth + 1)).join(items)
    return ["[", _line(depth + 1), inside, _line(depth), "]"] if inside else ["[]"]


def object_of(members: Mapping[str, Parts], *, depth: int) -> Parts:
    """Return the object of values by name, each written one level deeper. It has a member."""
    pieces: Parts = []
    for name, parts in members.items():
        pieces += ["," if pieces else "{", _line(depth + 1), json.dumps(name), ": ", *parts]
    return [*pieces, _line(depth), "}"]


def _line(depth: int) -> str:
    return "\n" + " " * depth

"""Tables for notebooks. Text of a graph is never markup in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "") -> str:
    """Return rows as an HTML table; what is None is left empty."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return escape(f"{value:,}" if type(value) is int else str(value))

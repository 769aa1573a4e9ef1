"""Long lists in parts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from omnigraph.errors import BadRequestError

T = TypeVar("T")
Token = dict[str, str]


def page(
    items: Sequence[T], *, key: Callable[[T], str], limit: int | None, page_token: str | None
) -> tuple[list[T], Token]:
    """Return one part of a list, and the token of the next in a field if there is one.

    A token names the last item of the part before it, so items that are added or removed
    meanwhile make no other item appear twice or go missing.
    """
    start = 0
    if page_token is not None:
        last = read_token(page_token)
        place = next((n for n, item in enumerate(items) if key(item) == last), None)
        if place is None:
            raise BadRequestError("the page token belongs to another list", hint="start again")
        start = place + 1
    part = list(items[start:] if limit is None else items[start : start + limit])
    if start + len(part) >= len(items) or not part:
        return part, {}
    return part, {"next_page_token": _write(key(part[-1]))}


def _write(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_token(token: str) -> str:
    """Return the key of the item that a token names. Raises `BadRequestError`."""
    try:
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except (ValueError, binascii.Error):
        raise BadRequestError("the page token is damaged", hint="start again") from None

"""Which of several forms of an answer a caller wants, by its Accept header (RFC 9110)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.server.http_errors import HttpProblem


@dataclass(frozen=True, slots=True)
class Chosen:
    """A form of an answer, with the parameters the caller gave it."""

    media_type: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Range:
    """One part of an Accept header, such as `text/*;q=0.5`."""

    media_type: str
    parameters: Mapping[str, str]
    quality: float

    def closeness(self, offered: str) -> int:
        """Return how exactly a media type is named, 0 if it is not."""
        if self.media_type == offered:
            return 3 + len(self.parameters)
        if self.media_type == f"{offered.partition('/')[0]}/*":
            return 2
        return 1 if self.media_type == "*/*" else 0


def choose(accept: Sequence[str], offered: Sequence[str]) -> Chosen:
    """Return the form a caller likes best; of equal ones that which it names first.

    Without an Accept header it is the first one offered. Raises `HttpProblem` if none will do.
    """
    ranges = [
        media_range
        for value in accept
        for part in value.split(",")
        if (media_range := _range(part))
    ]
    if not ranges:
        return Chosen(offered[0])
    liked: list[tuple[float, int, int, Chosen]] = []
    for number, name in enumerate(offered):
        # The part that names a type most exactly decides about it.
        place, media_range = max(
            enumerate(ranges), key=lambda item: (item[1].closeness(name), -item[0])
        )
        if media_range.closeness(name) and media_range.quality > 0:
            liked.append(
                (-media_range.quality, place, number, Chosen(name, media_range.parameters))
            )
    if not liked:
        raise HttpProblem(406, f"the answer can be {', '.join(offered)}", type_="not_acceptable")
    return min(liked, key=lambda item: item[:3])[3]


def _range(part: str) -> _Range | None:
    """Return one part of the header; None for what is none."""
    name, *rest = (piece.strip().lower() for piece in part.split(";"))
    if "/" not in name:
        return None
    parameters = {}
    for piece in rest:
        key, _, value = piece.partition("=")
        parameters[key.strip()] = value.strip().strip('"')
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        return None
    return _Range(name, parameters, quality if 0 <= quality <= 1 else 0.0)

"""Where a graph lives: turns what a user wrote into one absolute root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from omnigraph.errors import BadRequestError


@dataclass(frozen=True, slots=True)
class Location:
    """The root of one graph on a local disk."""

    root: str

    @property
    def uri(self) -> str:
        """The root as users see it."""
        return self.root

    def path(self, *parts: str) -> str:
        """Return the path of something below the root."""
        return os.path.join(self.root, *parts)


def locate(uri: str | os.PathLike[str]) -> Location:
    """Resolve a path or `file://` URI, symlinks included, so that one graph has one name."""
    text = os.fspath(uri)
    if not text.strip():
        raise BadRequestError("the graph location is empty")
    scheme = urlparse(text).scheme if "://" in text else ""
    if scheme in ("http", "https"):
        raise BadRequestError(
            f"{text} names a server, not storage", hint="open a local path instead"
        )
    if scheme == "file":
        text = unquote(urlparse(text).path)
    elif scheme:
        raise BadRequestError(
            f"{scheme}:// locations are not supported by this release", hint="use a local path"
        )
    return Location(os.path.realpath(os.path.expanduser(text)))

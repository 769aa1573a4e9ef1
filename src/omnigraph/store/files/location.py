"""Where a graph lives: turns what a user wrote into one absolute root, and how to reach it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from omnigraph.environment import variables
from omnigraph.errors import BadRequestError
from omnigraph.store.files.local_files import LocalFiles
from omnigraph.store.files.storage_options import (
    SCHEMES,
    GivenOptions,
    StorageOptions,
    given_for,
    storage_options,
)

if TYPE_CHECKING:
    from omnigraph.store.files.object_files import ObjectFiles


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RENAME = "choose another name for the folder"


class Location:
    """The root of one graph: a folder, or a prefix of an object store with the way to reach it."""

    def __init__(
        self,
        root: str,
        options: StorageOptions | None = None,
        given: GivenOptions | None = None,
    ) -> None:
        self.root = root
        self.given = given
        self._options = options
        self.files: LocalFiles | ObjectFiles = (
            LocalFiles() if options is None else _object_files(root, options)
        )

    def __repr__(self) -> str:
        return f"Location({self.root!r})"

    @property
    def uri(self) -> str:
        """The root as users see it."""
        return self.root

    @property
    def lance_options(self) -> dict[str, str] | None:
        """What Lance needs to know to reach the place; None on a local disk."""
        return None if self._options is None else self._options.for_lance()

    def near(self, uri: str) -> Location:
        """Return another place, reached as this one if it is in a store of the same kind."""
        location = locate(uri)
        schemes = {place.partition("://")[0] for place in (self.root, location.root)}
        alike = self._options is not None and len(schemes) == 1
        return Location(location.root, self._options) if alike else location

    def path(self, *parts: str) -> str:
        """Return the path of something below the root."""
        return os.path.join(self.root, *parts)


def _object_files(root: str, options: StorageOptions) -> ObjectFiles:
    # Imported when needed: a graph on a local disk has no use for the client.
    from omnigraph.store.files.object_files import ObjectFiles

    return ObjectFiles(root, options)


def locate(
    uri: str | os.PathLike[str],
    options: Mapping[str, str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> Location:
    """Resolve a path or URI so that one graph has one name; symlinks are followed.

    `options` say how to reach an object store, else `reaching` does; what they leave out the
    environment may say, which is that of the process unless another is given.
    """
    text = _text(uri)
    scheme = urlparse(text).scheme if "://" in text else ""
    if scheme in ("http", "https"):
        raise BadRequestError(
            f"{text} names a server, not storage", hint="name a path or an s3:// place instead"
        )
    if scheme in SCHEMES:
        root = _object_root(text, scheme)
        known = variables() if environment is None else environment
        given = GivenOptions(scheme, options) if options else given_for(scheme)
        return Location(root, storage_options(scheme, given, known), given)
    if options:
        raise BadRequestError(f"{text} is a local path; storage options are for object stores")
    if scheme == "file":
        text = unquote(urlparse(text).path)
    elif scheme:
        raise BadRequestError(
            f"{scheme}:// locations are not supported",
            hint="use a local path, or one of s3://, gs:// and az://",
        )
    return Location(_plain_path(os.path.realpath(os.path.expanduser(text))))


def _text(uri: str | os.PathLike[str]) -> str:
    """Return what was given as text that every part below can take. Raises `BadRequestError`."""
    text = os.fspath(uri)
    if not isinstance(text, str):
        raise BadRequestError("the graph location must be text, not bytes")
    if not text.strip():
        raise BadRequestError("the graph location is empty")
    return _readable(text)


def _readable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequestError(f"{text!a} is not valid Unicode", hint=_RENAME) from None
    if _CONTROL.search(text):
        raise BadRequestError(f"{text!a} holds a control character", hint=_RENAME)
    return text


def _plain_path(path: str) -> str:
    """Return a folder's real path if Lance takes it as it is; links are followed by now."""
    if "?" in _readable(path):
        # Lance reads the rest as the options of an address, and would write somewhere else.
        raise BadRequestError(f"{path} holds a question mark", hint=_RENAME)
    return path


def _object_root(text: str, scheme: str) -> str:
    """Return `scheme://bucket/prefix` in its one form: no empty, dotted or trailing parts."""
    bucket, _slash, prefix = text[len(scheme) + 3 :].partition("/")
    parts = [part for part in prefix.split("/") if part]
    if not bucket:
        raise BadRequestError(f"{text} names no bucket", hint=f"{scheme}://bucket/prefix")
    if not parts:
        raise BadRequestError(
            f"{text} names a whole bucket", hint=f"add a prefix: {scheme}://{bucket}/graph"
        )
    if any(part in (".", "..") for part in parts) or {"?", "#"} & set(text):
        raise BadRequestError(f"{text} is not a plain place in a bucket")
    if unquote(text) != text:
        # Lance would put its tables where the decoded text says.
        raise BadRequestError(f"{text} holds an encoded character", hint="write it as it is")
    return f"{scheme}://{bucket}/{'/'.join(parts)}"

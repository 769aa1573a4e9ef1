"""The files of a graph, wherever it lives: what a local disk and an object store both can do.

Names are whole paths, as `Location.path` gives them. A file is written as a whole: no reader sees a
part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple, Protocol


class Entry(NamedTuple):
    """Something that lies below a folder; `mark` of an object is another one for other content."""

    path: str
    size_bytes: int
    changed_at_s: float
    mark: str = ""


class Files(Protocol):
    """Reads, makes and removes files. Raises `StorageError` when the storage fails."""

    @property
    def safe(self) -> bool:
        """Whether what was written stays, whole, without being synced."""

    @property
    def calls_at_once(self) -> int:
        """How many calls are worth making side by side."""

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes | None:
        """Return a file's bytes, or some of them; None when it does not exist."""

    def read_tagged(self, path: str) -> tuple[bytes, str | None] | None:
        """Return a file's bytes and what `tags` says of them; None when it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether a file exists."""

    def create(self, path: str, data: bytes, *, sync: bool) -> bool:
        """Make a file with its whole content; False when the name is taken."""

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Write a file as a whole, whether it exists or not."""

    def replace_if(self, path: str, before: bytes | None, data: bytes, *, sync: bool) -> bool:
        """Write a file if it still is what it was, None for absent; False when it is not.

        Of several who saw the same content one succeeds. An object store decides that itself; on a
        disk those who call this wait for each other.
        """

    def delete(self, path: str) -> None:
        """Remove a file; absent is fine."""

    def names(self, folder: str, *, first: bool = False) -> list[str]:
        """Return the names of what lies in a folder; nothing when there is no such folder.

        With `first` those that come first in order are enough, if more would cost more.
        """

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders right below a folder, in order."""

    def tags(self, folder: str, *, first: bool = False) -> dict[str, str] | None:
        """Return what tells one content of each file in a folder from another, by name.

        None where looking is no cheaper than reading. With `first` as `names`.
        """

    def keeps_conditions(self, path: str) -> bool:
        """Whether a name is given to one of several who want it; a probe may be left at a path."""

    def below(self, folder: str) -> Iterator[str]:
        """Yield every file below a folder, however deep."""

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield what lies below a folder, however deep; on a disk the folders as well, at 0 bytes.

        What goes away meanwhile is left out.
        """

    def has_folder(self, folder: str) -> bool:
        """Whether there is a folder, or something that would lie in it."""

    def make_folder(self, folder: str) -> None:
        """Make sure that a folder can be seen, though it holds nothing."""

    def can_be_folder(self, path: str) -> bool:
        """Whether files can be put below a path: no file has its name."""

    def open(self, path: str) -> tuple[IO[bytes], int] | None:
        """Return a file to be read piece by piece, and its size; None when it does not exist."""

    def put_file(self, path: str, local: str) -> None:
        """Make a file out of one on the local disk, which goes or stays; it replaces another."""

    def is_free(self, folder: str) -> bool:
        """Whether nothing lies at a place."""

    def workplace(self, folder: str) -> str:
        """Make a new local folder in which a folder can be prepared."""

    def adopt(self, prepared: str, folder: str, *, last: str) -> None:
        """Make a prepared folder the one at a free place, all of it or nothing.

        Where that cannot be one step, the files whose names begin with `last` come last.
        """

    def remove(self, folder: str) -> int:
        """Remove everything below a folder; return the bytes it held."""

    def remove_empty(self, folder: str, *, below: str) -> None:
        """Remove a folder that holds nothing, and those above it that then hold nothing either.

        Only folders below another one go.
        """

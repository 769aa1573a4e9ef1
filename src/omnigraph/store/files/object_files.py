"""The files of a graph in an object store.

A put is whole and durable when it is answered, so nothing is synced and nothing is ever torn. An
answer may be lost, though. Every put is therefore made so that it can be looked at afterwards: if
the object holds what was sent, it landed. Requests are repeated by the client while the server is
busy (backing off), for a bounded time; what is left is reported as a storage failure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import obstore
from msgspec import Struct
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from omnigraph.errors import StorageError, StorageFailureKind
from omnigraph.limits import OBJECT_CALLS_AT_ONCE, PUT_ATTEMPTS_MAX
from omnigraph.store.files.counters import count
from omnigraph.store.files.local_files import LocalFiles
from omnigraph.store.files.protocol import Entry
from omnigraph.store.files.storage_options import StorageOptions

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode, PutResult, UpdateVersion
    from obstore.store import ObjectStore

MISSING = (FileNotFoundError, NotFoundError)
_REFUSED = (PermissionDeniedError, UnauthenticatedError)
_UNABLE = (NotSupportedError, RuntimeError)
_STORES: dict[str, Callable[..., ObjectStore]] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_NO_BUCKET = "NoSuchBucket"
PLACEHOLDER = ".folder"


class Tag(Struct, frozen=True):
    """Which content of an object is meant; the store compares it when it replaces one."""

    e_tag: str | None
    version: str | None

    @property
    def condition(self) -> UpdateVersion:
        """The same as the client takes it: only what the store gave."""
        condition: UpdateVersion = {}
        if self.e_tag is not None:
            condition["e_tag"] = self.e_tag
        if self.version is not None:
            condition["version"] = self.version
        return condition


def entry_of(path: str, meta: ObjectMeta) -> Entry:
    """Return what a store says about an object."""
    changed_at_s = meta["last_modified"].timestamp()
    return Entry(path, int(meta["size"]), changed_at_s, meta.get("e_tag") or str(changed_at_s))


class ObjectFiles:
    """Objects below one prefix of a bucket."""

    safe = True
    calls_at_once = OBJECT_CALLS_AT_ONCE

    def __init__(self, root: str, options: StorageOptions) -> None:
        self._root = root
        try:
            scheme, _, place = root.partition("://")
            bucket, _, prefix = place.partition("/")
            self._store = _STORES[scheme](bucket, prefix=prefix, **options.for_obstore())
        except (BaseError, ValueError, TypeError) as error:
            raise StorageError(
                f"{root} cannot be reached: {_short_message(error)}",
                failure=StorageFailureKind.CONFIGURATION,
                hint="check the storage options",
            ) from None

    def _key(self, path: str) -> str:
        return path.removeprefix(self._root).strip("/")

    # ---- as any storage -------------------------------------------------------------------

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes | None:
        """Return an object's bytes, or some of them; None when it does not exist."""
        if size is None:
            stored = self.get(path)
            return None if stored is None else stored[0][start:]
        try:
            part = obstore.get_range(self._store, self._key(path), start=start, length=size)
        except MISSING:
            return None
        except BaseError as error:
            raise object_failure("read", path, error) from error
        return bytes(part)

    def read_tagged(self, path: str) -> tuple[bytes, str | None] | None:
        """Return an object's bytes and their e-tag; None when it does not exist."""
        stored = self.get(path)
        return None if stored is None else (stored[0], stored[1].e_tag)

    def exists(self, path: str) -> bool:
        """Whether an object exists."""
        return self.tag(path) is not None

    def create(self, path: str, data: bytes, *, sync: bool) -> bool:
        """Make an object; False when the name is taken by other content."""
        return self.put_new(path, data) is not None

    def replace(self, path: str, data: bytes, *, sync: bool) -> None:
        """Write an object, whether it exists or not."""
        self._put(path, data, "overwrite")

    def replace_if(self, path: str, before: bytes | None, data: bytes, *, sync: bool) -> bool:
        """Write an object if it still is what it was; the store decides."""
        if before is None:
            return self.put_new(path, data) is not None
        stored = self.get(path)
        if stored is None or stored[0] != before:
            return False
        return self.swap(path, data, stored[1]) is not None

    def delete(self, path: str) -> None:
        """Remove an object; absent is fine."""
        try:
            obstore.delete(self._store, self._key(path))
        except MISSING:
            return
        except BaseError as error:
            # The answer may be lost, not the deletion.
            if self.exists(path):
                raise object_failure("delete", path, error) from error

    def names(self, folder: str, *, first: bool = False) -> list[str]:
        """Return the names of the objects right below a prefix, in order.

        With `first` one request is made, which answers a thousand of them at least.
        """
        prefix = self._key(folder)
        children: list[str] = []
        for page in self._pages(folder):
            names = (str(item["path"])[len(prefix) :].lstrip("/") for item in page)
            children += [name for name in names if "/" not in name]
            if first and children:
                break
        return sorted(children)

    def folders(self, folder: str) -> list[str]:
        """Return the names of what begins right below a prefix and goes on, in order."""
        prefix = self._key(folder)
        try:
            prefixes = obstore.list_with_delimiter(self._store, prefix or None)["common_prefixes"]
        except BaseError as error:
            raise object_failure("list", folder, error) from error
        return sorted(str(item)[len(prefix) :].strip("/") for item in prefixes)

    def tags(self, folder: str, *, first: bool = False) -> dict[str, str] | None:
        """Return the e-tags of the objects right below a prefix. One request."""
        prefix = self._key(folder)
        if first:
            listed: Sequence[ObjectMeta] = next(self._pages(folder), ())
        else:
            try:
                listed = obstore.list_with_delimiter(self._store, prefix or None)["objects"]
            except BaseError as error:
                raise object_failure("list", folder, error) from error
        return {str(item["path"])[len(prefix) :].lstrip("/"): str(item["e_tag"]) for item in listed}

    def below(self, folder: str) -> Iterator[str]:
        """Yield every object below a prefix."""
        yield from (item.path for item in self.entries(folder))

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the objects below a prefix."""
        for page in self._pages(folder):
            for item in page:
                path = f"{self._root}/{item['path']}"
                yield entry_of(path, item)

    def has_folder(self, folder: str) -> bool:
        """Whether anything lies below a prefix."""
        return any(page for page in self._pages(folder))

    def make_folder(self, folder: str) -> None:
        """Leave something below a prefix, so that it can be seen."""
        self.replace(f"{folder}/{PLACEHOLDER}", b"", sync=False)

    def can_be_folder(self, path: str) -> bool:
        """Return True: an object of the same name is not in the way."""
        return True

    def open(self, path: str) -> tuple[IO[bytes], int] | None:
        """Return an object to be read piece by piece, and its size; None when it is not there."""
        try:
            reader: Any = obstore.open_reader(self._store, self._key(path))
        except MISSING:
            return None
        except BaseError as error:
            raise object_failure("read", path, error) from error
        return reader, int(reader.size)

    def put_file(self, path: str, local: str) -> None:
        """Put an object with the content of a local file, in parts if it is large."""
        try:
            with open(local, "rb") as handle:
                obstore.put(self._store, self._key(path), handle)
        except BaseError as error:
            raise object_failure("write", path, error) from error

    def is_free(self, folder: str) -> bool:
        """Whether nothing lies below a prefix."""
        return not self.has_folder(folder)

    def workplace(self, folder: str) -> str:
        """Make a temporary folder on the local disk."""
        return tempfile.mkdtemp(prefix="omnigraph-")

    def adopt(self, prepared: str, folder: str, *, last: str) -> None:
        """Put the files of a local folder below a prefix; on a failure nothing stays."""
        names = [path.removeprefix(f"{prepared}/") for path in LocalFiles().below(prepared)]
        try:
            for name in sorted(names, key=lambda name: (name.startswith(last), name)):
                self.put_file(f"{folder}/{name}", f"{prepared}/{name}")
        except StorageError:
            self.remove(folder)
            raise

    def remove(self, folder: str) -> int:
        """Remove everything below a prefix; return the bytes it held."""
        freed = 0
        for page in self._pages(folder):
            freed += sum(int(item["size"]) for item in page)
            try:
                obstore.delete(self._store, [str(item["path"]) for item in page])
            except MISSING:
                continue
            except BaseError as error:
                raise object_failure("remove", folder, error) from error
        return freed

    def remove_empty(self, folder: str, *, below: str) -> None:
        """Do nothing: a store has no folders."""

    def keeps_conditions(self, path: str) -> bool:
        """Whether the store refuses puts whose condition does not hold.

        Two puts that a good store refuses; the first time a third one makes what they aim at.
        """
        count("conditional_probes")
        if self._answered(path, "create") and self._answered(path, "create"):
            return False
        return not self._answered(path, {"e_tag": '"no such tag"'})

    def _answered(self, path: str, mode: PutMode) -> bool:
        try:
            self._send(path, b"This object shows whether the store keeps conditions.\n", mode)
        except (AlreadyExistsError, PreconditionError):
            return False
        except _UNABLE:
            # The client was told not to use conditions.
            return True
        except BaseError as error:
            raise object_failure("write", path, error) from error
        return True

    def _pages(self, folder: str) -> Iterator[Sequence[ObjectMeta]]:
        try:
            yield from obstore.list(self._store, self._key(folder) or None, chunk_size=1000)
        except MISSING:
            return
        except BaseError as error:
            # In a bucket that is not there, nothing lies.
            if _NO_BUCKET not in str(error):
                raise object_failure("list", folder, error) from error

    # ---- by content -----------------------------------------------------------------------

    def get(self, path: str) -> tuple[bytes, Tag] | None:
        """Return an object's bytes and which content that is, None when it does not exist."""
        try:
            answer = obstore.get(self._store, self._key(path))
            return bytes(answer.bytes()), _tag(answer.meta)
        except MISSING:
            return None
        except BaseError as error:
            raise object_failure("read", path, error) from error

    def tag(self, path: str) -> Tag | None:
        """Return which content an object has, None when it does not exist."""
        try:
            return _tag(obstore.head(self._store, self._key(path)))
        except MISSING:
            return None
        except BaseError as error:
            raise object_failure("look at", path, error) from error

    def put_new(self, path: str, data: bytes) -> Tag | None:
        """Make an object; None when the name is taken.

        A caller that needs to know that it was the one makes the content its own, by a nonce.
        """
        return self._put(path, data, "create")

    def swap(self, path: str, data: bytes, tag: Tag) -> Tag | None:
        """Replace an object if it still has the content of a tag; None when it does not."""
        return self._put(path, data, tag.condition)

    def _put(self, path: str, data: bytes, mode: PutMode) -> Tag | None:
        """Put an object; what an error leaves open is decided by looking."""
        for left in reversed(range(PUT_ATTEMPTS_MAX)):
            try:
                return self._send(path, data, mode)
            except (AlreadyExistsError, PreconditionError):
                # The client repeats a put whose answer was lost, and meets its own object.
                stored = self.get(path)
                return stored[1] if stored is not None and stored[0] == data else None
            except MISSING:
                return None
            except (*_REFUSED, *_UNABLE) as error:
                raise object_failure("write", path, error) from error
            except BaseError as error:
                stored = self.get(path)
                if stored is not None and stored[0] == data:
                    return stored[1]
                if not left:
                    raise object_failure("write", path, error) from error
        return None

    def _send(self, path: str, data: bytes, mode: PutMode) -> Tag:
        return _tag(obstore.put(self._store, self._key(path), data, mode=mode))


def _tag(meta: ObjectMeta | PutResult) -> Tag:
    return Tag(meta["e_tag"], meta["version"])


def _short_message(error: Exception) -> str:
    """Return the first line of a client's message, without the server's page."""
    return str(error).split("\n", 1)[0].split("<?xml", 1)[0].strip().rstrip(":")


def object_failure(verb: str, path: str, error: Exception) -> StorageError:
    """Translate a client's error."""
    if _NO_BUCKET in str(error):
        return StorageError(
            f"cannot {verb} {path}: there is no such bucket",
            failure=StorageFailureKind.CONFIGURATION,
            hint="make the bucket first, or check the endpoint",
        )
    lasting = isinstance(error, (*_REFUSED, *_UNABLE))
    kind = StorageFailureKind.CONFIGURATION if lasting else StorageFailureKind.TRANSIENT
    denied = isinstance(error, _REFUSED)
    hint = "check the credentials and what they allow" if denied else None
    return StorageError(f"cannot {verb} {path}: {_short_message(error)}", failure=kind, hint=hint)

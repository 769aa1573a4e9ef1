"""Finds and opens single blobs without reading their table."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from msgspec import Struct

from omnigraph.errors import StorageError
from omnigraph.store.files.counters import count
from omnigraph.store.tables.keys import quoted
from omnigraph.store.tables.lance_errors import translated
from omnigraph.store.tables.table import Table

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from lance.blob import BlobFile

_EXTERNAL = 3
"""How a stored descriptor marks a value that is only a reference to elsewhere."""


class BlobRef(Struct, frozen=True, kw_only=True):
    """Where one value lies. `uri` is set for an external one, whose size is not known."""

    size: int | None
    uri: str | None
    etag: str
    address: int


def find_blob(table: Table, column: str, entity_id: str) -> tuple[bool, BlobRef | None]:
    """Return whether a row exists, and its blob unless that is null. Reads no blob."""
    count("data_scans")
    with table.at_work():
        rows = table.dataset.scanner(
            columns=[column, "_rowid", "_row_last_updated_at_version"],
            filter=f"id = {quoted(entity_id)}",
            with_row_address=True,
        ).to_table()
    if not rows.num_rows:
        return False, None
    row = rows.to_pylist()[0]
    value: dict[str, Any] | None = row[column]
    if value is None:
        return True, None
    # The row's identity and last change outlive compaction, so the tag changes with the value only.
    origin = f"{table.path}:{column}:{row['_rowid']}:{row['_row_last_updated_at_version']}"
    external = value["kind"] == _EXTERNAL
    return True, BlobRef(
        size=None if external else int(value["size"]),
        uri=str(value["blob_uri"]) if external else None,
        etag=hashlib.sha256(origin.encode()).hexdigest()[:32],
        address=int(row["_rowaddr"]),
    )


def open_blob(table: Table, column: str, reference: BlobRef) -> BinaryIO:
    """Open a managed blob as a file that reads what is asked for."""
    with table.at_work():
        (blob,) = table.dataset.take_blobs(column, addresses=[reference.address])
    if blob is None:
        raise StorageError(f"a blob of {table.path} that was found cannot be opened")
    return cast(BinaryIO, _Blob(blob, f"reading {table.path}"))


class _Blob(io.RawIOBase):
    """A blob as a file, whose failures are ours."""

    def __init__(self, blob: BlobFile, what: str) -> None:
        super().__init__()
        self._blob = blob
        self._what = what

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes, or all that are left; fewer only at the end."""
        with translated(self._what):
            return bytes(self._blob.read(-1 if size is None else size))

    def readall(self) -> bytes:
        """Return all bytes that are left."""
        return self.read()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read as many bytes as the buffer holds."""
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        with translated(self._what):
            return int(self._blob.seek(offset, whence))

    def tell(self) -> int:
        """Return the place."""
        with translated(self._what):
            return int(self._blob.tell())

    def close(self) -> None:
        """Let go of the file."""
        if not self.closed:
            with translated(self._what):
                self._blob.close()
        super().close()

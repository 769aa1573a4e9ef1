"""Rows that do not fit into memory: written to a nameless temporary file and mapped back.

The file has no name (or loses it at once), so nothing is left behind however a load ends: not by
an error, not by a kill. What is mapped is read from the file as it is looked at, and `release`
gives back the memory that looking at it took.
"""

from __future__ import annotations

import contextlib
import mmap
import tempfile
import threading
import weakref
from collections.abc import Iterable
from typing import IO

import pyarrow as pa

from omnigraph.errors import StorageError


class SpillFile:
    """Rows of one schema, appended in chunks and then read back as one table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._map: mmap.mmap | None = None
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - stays open
        except OSError as error:
            raise _failed(error) from error
        self._writer = pa.ipc.new_file(self._file, schema)

    def append(self, chunk: pa.Table) -> None:
        """Write one more table."""
        try:
            self._writer.write_table(chunk)
        except OSError as error:
            self._file.close()
            raise _failed(error) from error

    def table(self) -> pa.Table:
        """Return everything written, as a table whose columns lie in the file."""
        try:
            self._writer.close()
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _failed(error) from error
        finally:
            # The mapping keeps the content for as long as a table rests on it.
            self._file.close()
        with _mapped_lock:
            _mapped.add(self)
        return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self._map))).read_all()

    def close(self) -> None:
        """Let go of a file that will not be read. A table that was returned stays."""
        self._file.close()

    def release(self) -> None:
        """Give back the memory that reading the table took; it is read again when needed."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


_mapped: weakref.WeakSet[SpillFile] = weakref.WeakSet()
_mapped_lock = threading.Lock()


def release_mapped() -> None:
    """Give back the memory that reading mapped rows took, of all files; see `release`."""
    with _mapped_lock:
        spills = list(_mapped)
    for spill in spills:
        spill.release()


def spilled(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> tuple[pa.Table, SpillFile]:
    """Write batches to a file of their own and return them as a table."""
    spill = SpillFile(schema)
    with contextlib.closing(spill):
        for batch in batches:
            if batch.num_rows:
                spill.append(pa.Table.from_batches([batch], schema=schema))
        return spill.table(), spill


def _failed(error: OSError) -> StorageError:
    return StorageError(
        f"writing temporary rows: {error.strerror or error}",
        hint=f"a large load needs space in {tempfile.gettempdir()}; TMPDIR names another folder",
    )

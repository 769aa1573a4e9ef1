"""Answers in files: whoever takes a large one slowly holds no memory of the server."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref

import pyarrow as pa

from omnigraph.errors import StorageError, TooManyRequestsError
from omnigraph.graph import Result
from omnigraph.limits import HELD_RESULT_BYTES_MAX, RESULT_FILE_ROWS, RESULT_FILES_RETRY_S


class ResultFiles:
    """A folder of answers. A file has no name any more while it is read: it goes with its reader.

    All that are being read hold so many bytes together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._made = 0
        self._folder: str | None = None
        self._lock = threading.Lock()

    def new_path(self) -> str:
        """Return where a new answer may be written. Raises when there is no room for one."""
        with self._lock:
            if self._bytes >= self._bytes_max:
                raise TooManyRequestsError(
                    "large answers that are still being taken leave no room for another one",
                    retry_after_s=RESULT_FILES_RETRY_S,
                )
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix="omnigraph-results-")
            self._made += 1
            return os.path.join(self._folder, str(self._made))

    def open(self, path: str) -> pa.Table:
        """Return the rows of a file that nobody else will read."""
        size_bytes = os.stat(path).st_size
        with pa.memory_map(path) as content:
            table = pa.ipc.open_file(content).read_all()
        os.unlink(path)
        with self._lock:
            self._bytes += size_bytes
        weakref.finalize(table, self._forget, size_bytes)
        return table

    def _forget(self, size_bytes: int) -> None:
        with self._lock:
            self._bytes -= size_bytes

    def out_of_memory(self, result: Result) -> Result:
        """Return the same answer from a file, if it is large."""
        table = result.to_arrow()
        if table.nbytes <= HELD_RESULT_BYTES_MAX:
            return result
        path = self.new_path()
        write_result(table, path)
        found = Result(
            self.open(path),
            query_name=result.query_name,
            commit_id=result.commit_id,
            column_types=result.column_types,
        )
        found.target = result.target
        return found

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def write_result(table: pa.Table, path: str) -> None:
    """Write rows to a new file. Raises `StorageError` if the disk has no room."""
    try:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            for batch in table.to_batches(max_chunksize=RESULT_FILE_ROWS):
                writer.write_batch(batch)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise StorageError(f"a large answer could not be kept: {error}") from error

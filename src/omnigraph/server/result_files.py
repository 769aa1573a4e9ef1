"""Answers in files: a client that takes a large one slowly holds no memory of the server."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
import threading
import weakref
from typing import Final

import pyarrow as pa

from omnigraph.errors import StorageError, TooManyRequestsError
from omnigraph.graph import Result
from omnigraph.limits import HELD_RESULT_BYTES_MAX, RESULT_FILE_ROWS, RESULT_FILES_RETRY_S

_PREFIX: Final = "omnigraph-results-"
_LOCK: Final = "lock"


class ResultFiles:
    """A folder of answers. A file has no name any more while it is read: it goes with its reader.

    All that are being read hold so many bytes together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._made = 0
        self._folder: str | None = None
        self._claim: int | None = None
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
                _remove_left_behind()
                self._folder = tempfile.mkdtemp(prefix=_PREFIX)
                self._claim = _locked(self._folder)
            self._made += 1
            return os.path.join(self._folder, str(self._made))

    def open(self, path: str) -> pa.Table:
        """Return the rows of a file that no other request will read."""
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
        answer = Result(
            self.open(path),
            query_name=result.query_name,
            commit_id=result.commit_id,
            column_types=result.column_types,
        )
        answer.target = result.target
        return answer

    @staticmethod
    def discard(path: str) -> None:
        """Remove what may have been written of an answer that no client gets."""
        with contextlib.suppress(OSError):
            os.unlink(path)

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None


def _locked(folder: str) -> int | None:
    """Claim a folder for as long as this process runs; None if another process has it."""
    descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_left_behind() -> None:
    """Remove folders of servers that were killed."""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), f"{_PREFIX}*")):
        # Those of other users are theirs to remove.
        with contextlib.suppress(OSError):
            claim = _locked(folder)
            if claim is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(claim)


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

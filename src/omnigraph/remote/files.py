"""What is loaded from and written to files."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omnigraph.errors import DataError, NotFoundError, StorageError
from omnigraph.write.blobs import encode_blob

Loadable = str | os.PathLike[str] | bytes | Iterable[Mapping[str, object]]


def load_bytes(data: Loadable) -> bytes:
    """Return what a load sends: a file, its bytes, or envelopes as lines."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str | os.PathLike):
        return b"".join(_lines(data))
    path = os.fspath(data)
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def with_file_name(error: DataError, data: Loadable) -> DataError:
    """Return an error that names the file, of which the server only saw the content."""
    if not isinstance(data, str | os.PathLike):
        return error
    message = error.message.replace(" in the input", f" in {os.fspath(data)}", 1)
    return DataError(message, problems=error.problems, hint=error.hint)


def _lines(envelopes: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    for number, item in enumerate(envelopes, 1):
        try:
            text = json.dumps(item, allow_nan=False, ensure_ascii=False, default=_plain)
        except (TypeError, ValueError) as error:
            message = f"not expressible as JSON: {error}"
            raise DataError(
                f"line {number}: {message}", problems=[{"line": number, "message": message}]
            ) from error
        yield text.encode() + b"\n"


def _plain(value: object) -> object:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return encode_blob(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")


def copy_lines(parts: Iterable[bytes], dest: str | os.PathLike[str]) -> tuple[int, dict[str, Any]]:
    """Write a stream of JSON lines to a file that appears only when it is complete.

    Returns the number of lines, and the last one.
    """
    target = os.fspath(dest)
    temporary = f"{target}.partial"
    lines, last = 0, b""
    try:
        with open(temporary, "wb") as handle:
            for part in parts:
                handle.write(part)
                lines += part.count(b"\n")
                last = (last + part)[-1 << 20 :]
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror}") from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return lines, json.loads(last.splitlines()[-1]) if last else {}

"""Reading and writing the text files commands are given."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from omnigraph.errors import BadRequestError, NotFoundError, StorageError


def read_text(path: str) -> str:
    """Read a UTF-8 file, or standard input for `-`."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {path}") from None
    except IsADirectoryError:
        raise BadRequestError(f"{path} is a directory, not a file") from None
    except UnicodeDecodeError as error:
        raise BadRequestError(
            f"{path} is not valid UTF-8: byte {error.start} is {error.object[error.start]:#04x}",
            hint="save the file as UTF-8",
        ) from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def replace_text(path: str, text: str) -> None:
    """Replace a file as a whole: readers see the old text or the new one."""
    target = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.chmod(name, target.stat().st_mode & 0o777)
        os.replace(name, target)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error

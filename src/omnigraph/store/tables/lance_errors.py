"""Translates what Lance raises. Nothing of Lance leaves this room."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from omnigraph.errors import ConflictError, NotFoundError, StorageError, StorageFailureKind

_TRANSIENT = (
    "Too many concurrent writers",
    "Retryable commit conflict",
    "timed out",
    "status code: 5",
    "status code: 429",
    "error sending request",
)
_FAILURES = (OSError, ValueError, RuntimeError, LookupError, TypeError, pa.ArrowException)
"""What Lance and Arrow raise, over damaged files also the errors of a wrong call."""

_CONFLICTS = ("Commit conflict", "CommitConflict", "Retryable commit conflict")
_REFUSED = ("status code: 403", "status code: 401")


def translate(error: Exception, what: str) -> Exception:
    """Return the error to raise for an exception of Lance or Arrow."""
    # A server's page is of no use to a caller, and may name an account.
    text = str(error).split("\n", 1)[0].split("<?xml", 1)[0].strip().rstrip(":")
    if isinstance(error, ValueError) and "not found" in text.lower():
        return NotFoundError(f"{what}: not found")
    if "Not found" in text or "No such file" in text:
        return StorageError(
            f"{what}: a file is missing: {text}", failure=StorageFailureKind.NOT_FOUND
        )
    if any(part in text for part in _CONFLICTS):
        return ConflictError(f"{what}: another commit was first", hint="try again")
    transient = any(part in text for part in _TRANSIENT)
    kind = StorageFailureKind.TRANSIENT if transient else StorageFailureKind.UNKNOWN
    if "No space left" in text:
        return StorageError(
            f"{what}: no space left on the disk",
            failure=StorageFailureKind.TRANSIENT,
            hint="free some space",
        )
    refused = any(part in text for part in _REFUSED)
    if refused or "Permission denied" in text:
        return StorageError(
            f"{what}: permission denied",
            failure=StorageFailureKind.CONFIGURATION,
            hint="check the credentials and what they allow"
            if refused
            else "check the permissions",
        )
    return StorageError(f"{what}: {text}", failure=kind)


class LancePanic(OSError):
    """Lance gave up in the middle of a call: over damaged files, or something it cannot do.

    What it raises then is no `Exception`, so that nothing that handles failures would see it.
    """


@contextlib.contextmanager
def calm() -> Iterator[None]:
    """Turn a panic of Lance inside the block into `LancePanic`; all else passes."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if not _is_panic(error):
            raise
        reason = str(error).split("\n", 1)[0]
        raise LancePanic(f"Lance cannot go on: {reason}") from error


def _is_panic(error: BaseException) -> bool:
    # The class cannot be imported.
    kind = type(error)
    return kind.__name__ == "PanicException" and kind.__module__.startswith("pyo3_runtime")


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Translate what Lance and Arrow raise inside the block, panics included."""
    try:
        with calm():
            yield
    except _FAILURES as error:
        raise translate(error, what) from error

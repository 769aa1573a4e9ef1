"""Exit code of every kind of error. A test keeps the table complete."""

from __future__ import annotations

from omnigraph.error_kinds import ErrorKind
from omnigraph.errors import OmniGraphError

OK = 0
FAILURE = 1
USAGE = 2
NOT_FOUND = 3
PRECONDITION = 4
CONFLICT = 5
DENIED = 6
RECOVERY = 7
LIMIT = 8
PREVIEW_CONFLICTS = 9
CONFLICTING_VARIABLES = 64

EXIT_CODES = {
    ErrorKind.COMPILE: FAILURE,
    ErrorKind.QUERY: FAILURE,
    ErrorKind.BAD_REQUEST: FAILURE,
    ErrorKind.DATA: FAILURE,
    ErrorKind.CURSOR_REJECTED: FAILURE,
    ErrorKind.EXTERNAL_BLOB_POLICY: FAILURE,
    ErrorKind.BLOB_RANGE: FAILURE,
    ErrorKind.NOT_FOUND: NOT_FOUND,
    ErrorKind.VERSION_RECLAIMED: FAILURE,
    ErrorKind.CHANGE_FEED_GAP: FAILURE,
    ErrorKind.UNAUTHORIZED: DENIED,
    ErrorKind.POLICY_DENIED: DENIED,
    ErrorKind.CONFLICT: CONFLICT,
    ErrorKind.VERSION_CONFLICT: CONFLICT,
    ErrorKind.READ_SET_CONFLICT: CONFLICT,
    ErrorKind.KEY_CONFLICT: CONFLICT,
    ErrorKind.DIFF_REFUSED: CONFLICT,
    ErrorKind.ALREADY_EXISTS: CONFLICT,
    ErrorKind.ALREADY_INITIALIZED: CONFLICT,
    ErrorKind.MERGE_CONFLICT: CONFLICT,
    ErrorKind.MERGE_CHECK_FAILED: CONFLICT,
    ErrorKind.PRECONDITION_FAILED: PRECONDITION,
    ErrorKind.RECOVERY_REQUIRED: RECOVERY,
    ErrorKind.RESOURCE_LIMIT: LIMIT,
    ErrorKind.TOO_MANY_REQUESTS: CONFLICT,
    ErrorKind.STORAGE: FAILURE,
    ErrorKind.EXTERNAL_BLOB_SOURCE: FAILURE,
    ErrorKind.EMBEDDING: FAILURE,
    ErrorKind.OUTCOME_UNKNOWN: FAILURE,
    ErrorKind.FORMAT_VERSION: FAILURE,
    ErrorKind.INTERNAL: FAILURE,
    ErrorKind.DRIFT: RECOVERY,
}


def exit_code(error: OmniGraphError) -> int:
    """Return the exit code of an error."""
    return EXIT_CODES[error.kind]

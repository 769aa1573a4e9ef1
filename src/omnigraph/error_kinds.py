"""The precise causes errors name, and what they need of a compiler's finding."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class ErrorKind(StrEnum):
    """The precise cause of an error. Append-only: clients match on these strings."""

    COMPILE = "compile"
    QUERY = "query"
    BAD_REQUEST = "bad_request"
    DATA = "data"
    CURSOR_REJECTED = "cursor_rejected"
    EXTERNAL_BLOB_POLICY = "external_blob_policy"
    BLOB_RANGE = "blob_range"
    NOT_FOUND = "not_found"
    VERSION_RECLAIMED = "version_reclaimed"
    CHANGE_FEED_GAP = "change_feed_gap"
    UNAUTHORIZED = "unauthorized"
    POLICY_DENIED = "policy_denied"
    CONFLICT = "conflict"
    VERSION_CONFLICT = "version_conflict"
    READ_SET_CONFLICT = "read_set_conflict"
    KEY_CONFLICT = "key_conflict"
    DIFF_REFUSED = "diff_refused"
    ALREADY_EXISTS = "already_exists"
    ALREADY_INITIALIZED = "already_initialized"
    MERGE_CONFLICT = "merge_conflict"
    MERGE_CHECK_FAILED = "merge_check_failed"
    PRECONDITION_FAILED = "precondition_failed"
    RECOVERY_REQUIRED = "recovery_required"
    RESOURCE_LIMIT = "resource_limit"
    TOO_MANY_REQUESTS = "too_many_requests"
    STORAGE = "storage"
    EXTERNAL_BLOB_SOURCE = "external_blob_source"
    EMBEDDING = "embedding"
    OUTCOME_UNKNOWN = "outcome_unknown"
    FORMAT_VERSION = "format_version"
    INTERNAL = "internal"
    DRIFT = "drift"


class StorageFailureKind(StrEnum):
    """How a storage failure should be read."""

    TRANSIENT = "transient"
    CONFIGURATION = "configuration"
    NOT_FOUND = "not_found"
    PRECONDITION = "precondition"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class DiagnosticLike(Protocol):
    """What `CompileError` needs of a compiler diagnostic (the compiler owns the real class)."""

    def render(self) -> str:
        """Return the diagnostic as text for people, with source line and caret."""

    def to_json(self) -> dict[str, object]:
        """Return the diagnostic as plain JSON data."""

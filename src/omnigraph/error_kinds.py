"""The precise causes errors name."""

from __future__ import annotations

from enum import StrEnum


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
    RECOVERY_INVARIANT = "recovery_invariant"
    RESOURCE_LIMIT = "resource_limit"
    TOO_MANY_REQUESTS = "too_many_requests"
    STORAGE = "storage"
    BLOB_INTEGRITY = "blob_integrity"
    EXTERNAL_BLOB_SOURCE = "external_blob_source"
    EMBEDDING = "embedding"
    OUTCOME_UNKNOWN = "outcome_unknown"
    FORMAT_VERSION = "format_version"
    INTERNAL = "internal"


class StorageFailureKind(StrEnum):
    """How a storage failure should be read."""

    TRANSIENT = "transient"
    CONFIGURATION = "configuration"
    NOT_FOUND = "not_found"
    PRECONDITION = "precondition"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"

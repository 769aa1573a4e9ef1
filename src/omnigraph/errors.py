"""Every error OmniGraph raises, as one tree.

Categories (second level) follow what the caller does next; leaves name the precise situation.
`kind` is the stable machine-readable cause: members are added, never renamed or removed.

    OmniGraphError
    ├── InvalidInput            fix the request
    │   ├── CompileError            schema or query text does not compile (carries diagnostics)
    │   ├── QueryError              a query failed while running
    │   ├── BadRequestError         the request itself is malformed
    │   │   └── DataError           input rows refused (carries line and field of each problem)
    │   ├── CursorRejectedError     a change-feed cursor is not ours
    │   ├── ExternalBlobPolicyError an external blob URI is not admitted
    │   └── BlobRangeError          a byte range lies outside the value
    ├── NotFound                name something that exists
    │   ├── NotFoundError           graph, branch, commit, entity
    │   ├── ChangeFeedGapError      history below the cursor was cleaned up
    │   └── VersionReclaimedError   (a NotFoundError) a cleanup removed what a state needs
    ├── AlreadyExists           choose another name
    ├── Forbidden               get permission
    │   ├── UnauthorizedError       no or unknown token
    │   └── PolicyDeniedError       policy says no
    ├── Conflict                re-read, then decide to try again
    │   └── ConflictError           parent of everything that is HTTP 409
    │       ├── VersionConflictError
    │       ├── ReadSetConflictError
    │       ├── KeyConflictError
    │       ├── DiffRefusedError
    │       ├── CheckFailedError
    │       ├── AlreadyExistsError      (also AlreadyExists)
    │       ├── AlreadyInitializedError (also AlreadyExists)
    │       └── MergeConflictError      (also MergeConflict)
    │   └── PreconditionFailedError expected head is not the head
    ├── MergeConflict           reconcile the two sides
    ├── RecoveryRequired        resolve what was left behind first
    │   ├── RecoveryRequiredError   an interrupted write
    │   └── DriftError              another program changed a table: `repair` decides
    ├── LimitExceeded           send less
    │   ├── ResourceLimitError
    │   └── TooManyRequestsError
    ├── StorageFailure          the environment failed, perhaps for a moment
    │   ├── StorageError
    │   ├── ExternalBlobSourceError
    │   └── EmbeddingError          an embedding model failed or gave no usable vector
    ├── OutcomeUnknown          it may have landed: look before retrying, delete nothing
    │   └── OutcomeUnknownError
    ├── FormatError             rebuild or upgrade
    │   └── FormatVersionError
    └── InternalError           a bug in OmniGraph
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from omnigraph.error_kinds import DiagnosticLike as DiagnosticLike
from omnigraph.error_kinds import ErrorKind
from omnigraph.error_kinds import StorageFailureKind as StorageFailureKind
from omnigraph.wording import counted


class OmniGraphError(Exception):
    """Root of every error this package raises on purpose.

    Attributes:
        kind: Precise, stable cause.
        http_status: Status an HTTP server answers with.
        code: Wire code of the error body, or None where the closed wire enum has no member.
        retryable: Whether repeating the same call later can succeed without changing it.
        hint: What the caller can do about it, or None.
        detail_name: Member of the wire form that holds the details, or None.
        detail_fields: Attributes that make up the details; those that are None are left out.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    http_status: ClassVar[int] = 500
    code: ClassVar[str | None] = "internal"
    retryable: bool = False
    detail_name: ClassVar[str | None] = None
    detail_fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def details(self) -> Mapping[str, object]:
        """Structured fields of this error, as sent on the wire; what is unknown is left out."""
        fields = {name: getattr(self, name) for name in self.detail_fields}
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Return the wire form: `error`, `type`, optional `code`, `hint` and the detail object."""
        body: dict[str, object] = {"error": self.message, "type": str(self.kind)}
        if self.code is not None:
            body["code"] = self.code
        if self.hint is not None:
            body["hint"] = self.hint
        if self.detail_name is not None and self.details:
            body[self.detail_name] = dict(self.details)
        return body


class InvalidInput(OmniGraphError):
    """The request is wrong: fix it."""

    kind = ErrorKind.BAD_REQUEST
    http_status = 400
    code = "bad_request"


class CompileError(InvalidInput):
    """Schema or query text does not parse or typecheck.

    Carries every diagnostic found, in source order; the message renders them all.
    """

    kind = ErrorKind.COMPILE

    def __init__(self, diagnostics: Sequence[DiagnosticLike]) -> None:
        super().__init__("\n\n".join(item.render() for item in diagnostics))
        self.diagnostics = tuple(diagnostics)

    @property
    def span(self) -> object:
        """Span of the first diagnostic, or None when it has no position."""
        return getattr(self.diagnostics[0], "span", None) if self.diagnostics else None

    def to_json(self) -> dict[str, object]:
        """Return the wire form with a `diagnostics` list."""
        body = super().to_json()
        body["diagnostics"] = [item.to_json() for item in self.diagnostics]
        return body


class QueryError(InvalidInput):
    """A query compiled but could not be executed."""

    kind = ErrorKind.QUERY


class BadRequestError(InvalidInput):
    """The request is malformed or contradicts itself."""


class DataError(BadRequestError):
    """Input rows were refused; nothing was written.

    `problems` lists what was found, each with `line`, `type`, `field` (where known) and `message`.
    """

    kind = ErrorKind.DATA
    detail_name = "data_errors"

    def __init__(
        self,
        message: str,
        *,
        problems: Sequence[Mapping[str, object]] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(dict(problem) for problem in problems)

    @property
    def details(self) -> Mapping[str, object]:
        """The problems found, in input order."""
        return {"problems": [dict(problem) for problem in self.problems]} if self.problems else {}


class CursorRejectedError(InvalidInput):
    """A change-feed cursor was not issued by this graph or is damaged."""

    kind = ErrorKind.CURSOR_REJECTED

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}")


class ExternalBlobPolicyError(InvalidInput):
    """An external blob URI is not admitted by the graph's policy."""

    kind = ErrorKind.EXTERNAL_BLOB_POLICY


class BlobRangeError(InvalidInput):
    """A requested byte range lies outside the stored value."""

    kind = ErrorKind.BLOB_RANGE
    http_status = 416
    detail_name = "blob_range"
    detail_fields = ("start", "end", "length")

    def __init__(self, *, start: int, end: int, length: int) -> None:
        super().__init__(f"byte range {start}-{end} is outside a value of {length} bytes")
        self.start, self.end, self.length = start, end, length


class NotFound(OmniGraphError):
    """Something named does not exist."""

    kind = ErrorKind.NOT_FOUND
    http_status = 404
    code: ClassVar[str | None] = "not_found"


class NotFoundError(NotFound):
    """Graph, branch, commit, type or entity does not exist."""


class VersionReclaimedError(NotFoundError):
    """A state existed, but a cleanup removed what it needs."""

    kind = ErrorKind.VERSION_RECLAIMED
    http_status = 410


class ChangeFeedGapError(NotFound):
    """History needed by a change-feed cursor is no longer kept."""

    kind = ErrorKind.CHANGE_FEED_GAP
    http_status = 410
    code = None
    detail_name = "change_feed_gap"
    detail_fields = ("first_unreadable_commit_id", "cursor")

    def __init__(self, *, cursor: str | None, first_unreadable_commit_id: str) -> None:
        super().__init__(
            f"the change feed starts after commit {first_unreadable_commit_id}, "
            "which is no longer kept",
            hint="take a new baseline",
        )
        self.cursor = cursor
        self.first_unreadable_commit_id = first_unreadable_commit_id


class AlreadyExists(OmniGraphError):
    """The name is taken."""

    kind = ErrorKind.ALREADY_EXISTS
    http_status = 409
    code: ClassVar[str | None] = "conflict"


class Forbidden(OmniGraphError):
    """The caller may not do this."""

    kind = ErrorKind.POLICY_DENIED
    http_status = 403
    code = "forbidden"


class UnauthorizedError(Forbidden):
    """The request has no token, or an unknown one."""

    kind = ErrorKind.UNAUTHORIZED
    http_status = 401
    code = "unauthorized"


class PolicyDeniedError(Forbidden):
    """Policy denies this action to this actor.

    `near_rule_ids` are rules that allow the actor the same on other branches.
    """

    detail_name = "policy_denial"
    detail_fields = (
        *("action", "resource", "actor", "branch", "target_branch"),
        *("policy", "near_rule_ids"),
    )

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        action: str | None = None,
        resource: str | None = None,
        actor: str | None = None,
        branch: str | None = None,
        target_branch: str | None = None,
        policy: str | None = None,
        near_rule_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.action, self.resource, self.actor, self.policy = action, resource, actor, policy
        self.branch, self.target_branch = branch, target_branch
        self.near_rule_ids = list(near_rule_ids) or None


class Conflict(OmniGraphError):
    """The graph is not in the state the caller worked from."""

    kind = ErrorKind.CONFLICT
    http_status = 409
    code: ClassVar[str | None] = "conflict"


class ConflictError(Conflict):
    """Another write came first, or the target exists in another form."""

    retryable = True


class VersionConflictError(ConflictError):
    """A table moved since the caller read it."""

    kind = ErrorKind.VERSION_CONFLICT
    detail_name = "manifest_conflict"
    detail_fields = ("table_key", "expected", "actual")

    def __init__(self, *, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"table {table_key} moved from version {expected} to {actual}",
            hint="refresh and repeat the operation",
        )
        self.table_key, self.expected, self.actual = table_key, expected, actual


class ReadSetConflictError(ConflictError):
    """Something this operation read or relied on changed before it could commit."""

    kind = ErrorKind.READ_SET_CONFLICT
    detail_name = "read_set_conflict"
    detail_fields = ("member", "expected", "actual")

    def __init__(self, *, member: str, expected: str | None, actual: str | None) -> None:
        before = "" if expected is None else f" from {expected}"
        after = "" if actual is None else f" to {actual}"
        super().__init__(
            f"{member} changed{before}{after} before the commit",
            hint="start the operation again from a fresh read",
        )
        self.member, self.expected, self.actual = member, expected, actual


class KeyConflictError(ConflictError):
    """An id that must be new exists already."""

    kind = ErrorKind.KEY_CONFLICT
    retryable = False
    detail_name = "key_conflict"
    detail_fields = ("entity_kind", "type_name", "entity_id")

    def __init__(
        self, *, entity_kind: str, type_name: str, entity_id: str | None, message: str | None = None
    ) -> None:
        name = f" '{entity_id}'" if entity_id is not None else ""
        super().__init__(message or f"{entity_kind} {type_name}{name} already exists")
        self.entity_kind, self.type_name, self.entity_id = entity_kind, type_name, entity_id


class DiffRefusedError(ConflictError):
    """Two states cannot be compared row by row."""

    kind = ErrorKind.DIFF_REFUSED
    retryable = False
    detail_name = "change_diff_refusal"
    detail_fields = ("reason", "graph_commit_id", "type_name")

    def __init__(self, *, reason: str, graph_commit_id: str, type_name: str | None = None) -> None:
        super().__init__(f"commit {graph_commit_id} cannot be compared: {reason}")
        self.reason, self.graph_commit_id, self.type_name = reason, graph_commit_id, type_name


class AlreadyExistsError(ConflictError, AlreadyExists):
    """A branch, tag or file of that name exists."""

    kind = ErrorKind.ALREADY_EXISTS
    retryable = False


class AlreadyInitializedError(ConflictError, AlreadyExists):
    """The location already holds a graph, or another process is creating one there."""

    kind = ErrorKind.ALREADY_INITIALIZED
    retryable = False


class MergeConflict(OmniGraphError):
    """Two branches changed the same thing in ways that do not fit together."""

    kind = ErrorKind.MERGE_CONFLICT
    http_status = 409
    code: ClassVar[str | None] = "conflict"


class MergeConflictError(ConflictError, MergeConflict):
    """A merge found conflicts; the target is untouched."""

    kind = ErrorKind.MERGE_CONFLICT
    retryable = False

    def __init__(self, conflicts: Sequence[Mapping[str, object]]) -> None:
        shown = "; ".join(str(item.get("message", item)) for item in conflicts[:3])
        more = f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        super().__init__(f"{counted(len(conflicts), 'conflict')}, nothing merged: {shown}{more}")
        self.conflicts = tuple(dict(item) for item in conflicts)

    def to_json(self) -> dict[str, object]:
        """Return the wire form with the full `merge_conflicts` list."""
        return {**super().to_json(), "merge_conflicts": [dict(item) for item in self.conflicts]}


class CheckFailedError(ConflictError):
    """A query that must return no rows, on the merged state, returned some; nothing was merged."""

    kind = ErrorKind.MERGE_CHECK_FAILED
    retryable = False
    detail_name = "merge_check"
    detail_fields = ("query_name", "row_count", "rows")

    def __init__(
        self, query_name: str, rows: Sequence[Mapping[str, object]], row_count: int, where: str = ""
    ) -> None:
        outcome = f"returns {counted(row_count, 'row')} {where or 'once merged'}"
        super().__init__(f"the check '{query_name}' {outcome}")
        self.query_name, self.row_count = query_name, row_count
        self.rows = tuple(dict(row) for row in rows)


class PreconditionFailedError(Conflict):
    """The branch head is not the commit the caller named."""

    kind = ErrorKind.PRECONDITION_FAILED
    http_status = 412
    code = None
    detail_name = "precondition_failure"
    detail_fields = ("expected", "actual")

    def __init__(self, *, expected: str, actual: str | None) -> None:
        head = "the branch has no head" if actual is None else f"the branch head is {actual}"
        super().__init__(
            f"{head}, not the expected {expected}",
            hint="read the new head, check your change still applies, then repeat",
        )
        self.expected, self.actual = expected, actual


class RecoveryRequired(OmniGraphError):
    """What was left behind in a table must be resolved first."""

    kind = ErrorKind.RECOVERY_REQUIRED
    http_status = 503
    code = None


class RecoveryRequiredError(RecoveryRequired):
    """An interrupted write blocks this operation."""

    retryable = True
    detail_name = "recovery_required"
    detail_fields = ("operation_id",)

    def __init__(self, *, operation_id: str, message: str | None = None) -> None:
        super().__init__(
            message or f"an interrupted write ({operation_id}) blocks this branch",
            hint="open the graph read-write to resolve it",
        )
        self.operation_id = operation_id


class DriftError(RecoveryRequired):
    """Another program changed a table past its published version; nothing was written."""

    kind = ErrorKind.DRIFT
    detail_name = "drift"
    detail_fields = ("table_path", "verdict", "published_version", "head_version")

    def __init__(
        self, *, table_path: str, verdict: str, published_version: int, head_version: int
    ) -> None:
        super().__init__(
            f"table {table_path} was changed by another program ({verdict}): version "
            f"{published_version} is published, version {head_version} is the newest",
            hint="run repair: --confirm --force keeps the changes, --confirm --discard drops them",
        )
        self.table_path, self.verdict = table_path, verdict
        self.published_version, self.head_version = published_version, head_version


class LimitExceeded(OmniGraphError):
    """A stated limit was reached."""

    kind = ErrorKind.RESOURCE_LIMIT
    http_status = 413
    code = "bad_request"


class ResourceLimitError(LimitExceeded):
    """The request needs more of something than it may have."""

    detail_name = "resource_limit"
    detail_fields = ("resource", "limit", "actual")

    def __init__(
        self, message: str = "", *, resource: str, limit: int, actual: int, hint: str | None = None
    ) -> None:
        super().__init__(message or f"{resource}: {actual} exceeds the limit of {limit}", hint=hint)
        self.resource, self.limit, self.actual = resource, limit, actual


class TooManyRequestsError(LimitExceeded):
    """Too many requests of this actor are in flight."""

    kind = ErrorKind.TOO_MANY_REQUESTS
    http_status = 429
    code = "too_many_requests"
    retryable = True

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message, hint=f"try again in {retry_after_s} seconds")
        self.retry_after_s = retry_after_s


class StorageFailure(OmniGraphError):
    """The storage below failed."""

    kind = ErrorKind.STORAGE


class StorageError(StorageFailure):
    """Reading or writing storage failed; `failure` says whether it may pass."""

    def __init__(
        self,
        message: str,
        *,
        failure: StorageFailureKind = StorageFailureKind.UNKNOWN,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.failure = failure
        self.retryable = failure is StorageFailureKind.TRANSIENT


class ExternalBlobSourceError(StorageFailure):
    """An external blob could not be read from its source."""

    kind = ErrorKind.EXTERNAL_BLOB_SOURCE
    http_status = 424
    code = None
    detail_name = "external_blob_source"
    detail_fields = ("uri", "reason")

    def __init__(self, *, uri: str, reason: str) -> None:
        super().__init__(f"external blob {uri} could not be read: {reason}")
        self.uri, self.reason = uri, reason


class EmbeddingError(StorageFailure):
    """An embedding model could not be reached, failed, or gave no usable vector."""

    kind = ErrorKind.EMBEDDING
    http_status = 424
    code = None


class OutcomeUnknown(OmniGraphError):
    """The effect may have landed; nothing may be deleted on this evidence."""

    kind = ErrorKind.OUTCOME_UNKNOWN
    http_status = 500
    code = "internal"


class OutcomeUnknownError(OutcomeUnknown):
    """It could not be learned whether a commit landed.

    Repeat the call with the same operation id: it is applied exactly once.
    """

    retryable = True

    def __init__(self, message: str, *, operation_id: str) -> None:
        super().__init__(message, hint=f"repeat with operation id {operation_id}")
        self.operation_id = operation_id


class FormatError(OmniGraphError):
    """The stored format is not one this release reads."""

    kind = ErrorKind.FORMAT_VERSION


class FormatVersionError(FormatError):
    """The graph was written in another storage format version."""

    def __init__(self, *, found: int | str | None, supported: int, remedy: str) -> None:
        seen = "no format stamp" if found is None else f"storage format {found}"
        super().__init__(f"found {seen}; this release reads format {supported}", hint=remedy)
        self.found, self.supported, self.remedy = found, supported, remedy


class InternalError(OmniGraphError):
    """A bug in OmniGraph: please report it."""

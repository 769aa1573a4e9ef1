"""One operation on its way to a commit, whether it is published alone or with others."""

from __future__ import annotations

import contextvars
from typing import TypeVar

from omnigraph.catalog import AcceptedSchema
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.groups import Touched
from omnigraph.commits.identity import CommitIdentity
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.operation import Operation, Request
from omnigraph.commits.records import GraphCommit
from omnigraph.errors import OutcomeUnknownError

E = TypeVar("E", bound=BaseException)


class Member:
    """Who asks for an operation, under which identity, and what has become of it."""

    def __init__(
        self,
        operation: Operation,
        request: Request,
        schema: AcceptedSchema | None,
        identity: CommitIdentity,
        *,
        shared: bool,
    ) -> None:
        self.operation = operation
        self.request = request
        self.schema = schema
        self.identity = identity
        self.shared = shared
        """Whether it may be published together with others."""
        self.context = contextvars.copy_context()
        """What is counted while it is prepared counts for its caller, in any thread."""
        self.tried = False
        """Whether a publish of it was tried: from then on its commit may be in the lineage."""
        self.first: BranchState | None = None
        """The state of the first attempt: a strict write must not have lost anything since."""
        self.changes: ChangeSet | None = None
        self.commit: GraphCommit | None = None
        self.twin: Member | None = None
        """The same operation, asked for twice at once: this one repeats it."""
        self.error: BaseException | None = None
        self.touched: Touched = {}
        """The rows it touches, if it is published with others."""

    @property
    def may_be_repeated(self) -> bool:
        """Whether a commit of this operation may be there already, however long ago."""
        return self.tried or not self.request.new_id

    def forget(self) -> None:
        """Drop what an attempt found: the next one judges anew."""
        self.changes = self.commit = self.twin = self.error = None

    def fail(self, error: BaseException) -> None:
        """Answer with an error that was raised for several: each gets one of its own."""
        if isinstance(error, OutcomeUnknownError):
            operation_id = self.identity.operation_id
            self.error = OutcomeUnknownError(error.message, operation_id=operation_id)
        else:
            self.error = _own(error)

    def result(self) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Return what became of it, or raise its error."""
        if self.error is not None:
            raise self.error
        if self.twin is not None:
            return self.twin.commit, None
        return self.commit, self.changes


def _own(error: E) -> E:
    """Return another error that says the same; tracebacks of several threads do not mix in it."""
    copy: E = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error.__cause__
    return copy

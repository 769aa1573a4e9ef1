"""An open graph used by one caller: what that one may do, and what it has looked at."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from omnigraph.commits import BranchState, ChangeSet, GraphCommit, Request
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.errors import (
    BadRequestError,
    MergeConflictError,
    NotFoundError,
    PolicyDeniedError,
    PreconditionFailedError,
)
from omnigraph.graph.engine import Engine
from omnigraph.graph.permits import PermittedBranches
from omnigraph.graph.result import Result
from omnigraph.graph.targets import At, resolve
from omnigraph.limits import COMMIT_MESSAGE_BYTES_MAX, SESSION_BRANCHES_MAX
from omnigraph.policy import Access, Action, Policy, check, check_actor, text_problem
from omnigraph.read import QueryControl
from omnigraph.store import Place
from omnigraph.wording import did_you_mean


class SessionBase:
    """What a session last looked at, branch by branch: its strict writes are judged against it."""

    def __init__(self, seen: Mapping[str, Mapping[str, Place]] | None = None) -> None:
        self._seen = {branch: dict(places) for branch, places in (seen or {}).items()}
        self._last: BranchState | None = None
        """What was looked at last, if nothing was written since."""
        self._lock = threading.Lock()
        self._prune_at = SESSION_BRANCHES_MAX

    def __len__(self) -> int:
        return len(self._seen)

    def copy(self) -> SessionBase:
        """Return a base that begins as this one and goes its own way."""
        with self._lock:
            return SessionBase(self._seen)

    def look(self, line: OpenBranch, state: BranchState) -> None:
        """Remember the state of a branch."""
        if state is self._last:
            return
        with self._lock:
            self._seen[line.branch.uid] = _places(state)
            self._last = state

    def of(self, line: OpenBranch) -> Mapping[str, Place]:
        """Return what was last looked at; at first, what a branch is when it is first used.

        Threads that share a session share this value: what one of them writes counts for all.
        """
        with self._lock:
            return self._of(line)

    def wrote(
        self, line: OpenBranch, commit: GraphCommit, table_keys: Iterable[str] | None = None
    ) -> None:
        """Remember tables as a commit of the session left them, unless it looked at newer ones.

        What others committed after it was not seen, even if this process knows of it already.
        """
        pins = line.manifest.pins_at(commit.manifest_version)
        with self._lock:
            self._last = None
            seen = self._of(line)
            for key in pins if table_keys is None else table_keys:
                place, known = pins[key].place, seen.get(key)
                if known is None or known[0] != place[0] or known[1] < place[1]:
                    seen[key] = place

    def prune(self, lines: OpenBranches) -> None:
        """Forget branches that were deleted, if there are many; those that exist stay.

        Forgetting one of these would let a strict write overwrite what it never saw.
        """
        if len(self._seen) < self._prune_at:
            return
        with self._lock:
            gone = set(self._seen)
        gone -= {branch.uid for branch in lines.directory.ids()}
        with self._lock:
            self._last = None
            for branch in gone:
                self._seen.pop(branch, None)
            self._prune_at = max(SESSION_BRANCHES_MAX, 2 * len(self._seen))

    def _of(self, line: OpenBranch) -> dict[str, Place]:
        branch = line.branch.uid
        if branch not in self._seen:
            self._seen[branch] = _places(line.manifest.capture(fresh=False))
        return self._seen[branch]


def _places(state: BranchState) -> dict[str, Place]:
    return {key: pin.place for key, pin in state.pins.items()}


class Caller(Struct, frozen=True, kw_only=True):
    """On whose behalf an open graph is used.

    Without a base a write is judged only by what it reads itself.
    """

    actor: str | None = None
    policy: Policy | None = None
    base: SessionBase | None = None

    def permit(
        self,
        action: Action,
        *,
        branch: str | None = None,
        target_branch: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Return if the policy allows something; without a policy everything is allowed.

        Raises `PolicyDeniedError`. Every operation asks here before it does anything.
        """
        check_actor(actor)
        if self.policy is not None:
            who = actor if actor is not None else self.actor
            access = Access(action=action, actor=who, branch=branch, target_branch=target_branch)
            check(self.policy, access)


class Acting:
    """An engine and a caller: what every operation of a session starts from."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        check_actor(caller.actor)
        self.engine = engine
        self.caller = caller
        self.closed = False
        # Of the caller, not of this: who serves many requests makes one of these for each, and
        # what refers to itself stays until Python looks for cycles.
        self.permit = caller.permit
        self.readable = PermittedBranches(engine.lines, self.permit)
        self.exportable = PermittedBranches(engine.lines, self.permit, Action.EXPORT)

    def line(self, name: str) -> OpenBranch:
        """Return a branch to write to. Raises `NotFoundError`, with the names that may be meant."""
        with self.suggesting(name):
            return self.engine.lines.get(name)

    @contextlib.contextmanager
    def suggesting(self, name: str) -> Iterator[None]:
        """Let the failure to find a branch say which one may be meant."""
        try:
            yield
        except NotFoundError as error:
            # Where a policy may hide branches, none is named.
            is_meant = error.message == f"branch '{name}' does not exist"
            if is_meant and self.caller.policy is None and error.hint is None:
                names = [item.name for item in self.engine.lines.directory.ids()]
                error.hint = did_you_mean(name, names)
            raise

    @contextlib.contextmanager
    def telling(self, branch: str, actor: str | None = None) -> Iterator[None]:
        """Let failures tell of a branch only what its caller may read of it."""
        try:
            yield
        except (MergeConflictError, PreconditionFailedError) as error:
            if not self.may_read(branch, actor=actor):
                raise _without_details(error) from None
            raise

    def may_read(self, branch: str, *, actor: str | None = None) -> bool:
        """Whether the caller may read a branch."""
        try:
            self.permit(Action.READ, branch=branch, actor=actor)
        except PolicyDeniedError:
            return False
        return True

    def check_writable(self) -> None:
        """Refuse to go on when the session or its graph is closed, or open read-only."""
        if self.closed:
            raise BadRequestError("the graph is closed", hint="open it again")
        self.engine.check_writable()

    def check_maintainable(self) -> None:
        """Refuse to go on unless the caller may maintain the graph."""
        self.check_writable()
        self.permit(Action.ADMIN)

    def state(
        self,
        at: At,
        lines: PermittedBranches | None = None,
        max_staleness_s: float | None = None,
    ) -> BranchState:
        """Return the state that is meant, if the caller may read it; the newest is a look."""
        if max_staleness_s is not None and not max_staleness_s >= 0:
            raise BadRequestError(f"max_staleness_s must be 0 or more, not {max_staleness_s}")
        line, state = resolve(lines or self.readable, at, max_staleness_s)
        if at.is_newest:
            self.look(line, state)
        return state

    def look(self, line: OpenBranch, state: BranchState) -> None:
        """Remember what the caller looked at: its strict writes are judged against it."""
        if self.caller.base is not None:
            self.caller.base.look(line, state)
            self.caller.base.prune(self.engine.lines)

    def ask(self, source: str, state: BranchState) -> Result:
        """Run a read query of the engine's own on a state; whether that may be was asked before."""
        compiled, table = self.engine.run(source, None, None, state, QueryControl())
        return Result(table, query_name=compiled.name, commit_id=state.head.graph_commit_id)

    def request(
        self,
        line: OpenBranch,
        *,
        actor: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        warm_schema: bool = False,
    ) -> Request:
        """Return what the caller says about a write."""
        check_actor(actor)
        _check_operation_id(operation_id)
        check_message(message)
        base = self.caller.base
        if base is not None:
            base.prune(self.engine.lines)
        return Request(
            actor_id=actor if actor is not None else self.caller.actor,
            operation_id=operation_id or self.engine.ids.next(),
            new_id=operation_id is None,
            expected_head=expected_head,
            message=message,
            observed=None if base is None else base.of(line),
            warm_schema=warm_schema,
        )

    def after_commit(
        self,
        line: OpenBranch,
        commit: GraphCommit | None,
        changes: ChangeSet | None,
        *,
        compact_tails: bool = True,
    ) -> None:
        """After a write: the graph is looked after, and the caller has seen what it wrote."""
        if commit is None or changes is None:
            return
        # One of the commits that were published together looks after all of them.
        if line.manifest.history.is_last(commit):
            rows = sum(change.written_rows for change in changes.effective())
            self.engine.after_commit(line, rows=rows, compact_tails=compact_tails)
        written = {change.entity.table_key for change in changes.effective()}
        self.wrote(line, commit, written - changes.unseen)

    def wrote(
        self, line: OpenBranch, commit: GraphCommit, table_keys: Iterable[str] | None = None
    ) -> None:
        """Remember that the caller has seen what its commit did, to some tables or all."""
        if self.caller.base is not None:
            self.caller.base.wrote(line, commit, table_keys)


def _without_details(
    error: MergeConflictError | PreconditionFailedError,
) -> MergeConflictError | PreconditionFailedError:
    """Return a failure for a caller who may not read the branch: what that has is left out."""
    if isinstance(error, MergeConflictError):
        return MergeConflictError([{"message": "the target may not be read"}])
    failure = PreconditionFailedError(expected=error.expected, actual=None)
    failure.message = f"the branch head is not the expected {error.expected}"
    failure.args = (failure.message,)
    return failure


def _check_operation_id(operation_id: str | None) -> None:
    if operation_id is None:
        return
    if not operation_id.strip():
        raise BadRequestError("operation_id must not be blank")
    if problem := text_problem(operation_id, "operation_id"):
        raise BadRequestError(problem)


def check_message(message: str | None) -> None:
    """Refuse what cannot be the message of a commit. Raises `BadRequestError`."""
    if message is None:
        return
    if not message.strip():
        raise BadRequestError("the message is empty", hint="leave it out, or say what changed")
    if problem := text_problem(message, "the message"):
        raise BadRequestError(problem)
    if (size := len(message.encode())) > COMMIT_MESSAGE_BYTES_MAX:
        raise BadRequestError(
            f"the message takes {size:,} bytes; at most {COMMIT_MESSAGE_BYTES_MAX:,} are kept"
        )
    if any((ord(letter) < 32 and letter not in "\n\t") or ord(letter) == 127 for letter in message):
        raise BadRequestError("the message holds control characters", hint="remove them")

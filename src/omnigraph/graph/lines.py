"""The branches a handle works on, each with its warm manifest and its writer."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from omnigraph.errors import NotFoundError, OmniGraphError
from omnigraph.ids import UlidSource
from omnigraph.manifest import (
    MAIN,
    MAIN_BRANCH,
    BranchDirectory,
    BranchId,
    BranchInfo,
    Capture,
    Coordinator,
    GraphCommit,
    Publisher,
    Recovery,
    RecoveryAudit,
    Verdict,
)
from omnigraph.ops.fold import Folding
from omnigraph.store import Journal, KeyProbe, Location, Slots, Syncer, Tables
from omnigraph.write import Writer


@dataclass(slots=True)
class Line:
    """One branch: its manifest, who writes it, and what the handle last saw of it."""

    branch: BranchId
    coordinator: Coordinator
    publisher: Publisher
    recovery: Recovery
    writer: Writer
    folding: Folding
    observed: dict[str, int] = field(default_factory=dict)

    def observe(self, capture: Capture) -> None:
        """Remember what was looked at: strict writes are judged against it."""
        self.observed = {key: pin.version for key, pin in capture.pins.items()}


class Lines:
    """Opens branches and keeps them warm. Safe to share between threads."""

    def __init__(
        self,
        location: Location,
        *,
        tables: Tables,
        syncer: Syncer,
        probe: KeyProbe,
        ids: UlidSource,
        audit: RecoveryAudit,
        stamp: int,
        writable: bool,
    ) -> None:
        self._location = location
        self._tables = tables
        self._syncer = syncer
        self._probe = probe
        self._ids = ids
        self._audit = audit
        self._stamp = stamp
        self._writable = writable
        self._lock = threading.RLock()
        self._slots = Slots(location, syncer)
        self.main = self._open(MAIN_BRANCH)
        self._known: dict[str, Line] = {}
        self.directory = BranchDirectory(
            self.main.coordinator, tables, self._slots, syncer, ids.next
        )

    def get(self, name: str) -> Line:
        """Return a branch, opening it if need be. Raises `NotFoundError`."""
        if name == MAIN:
            return self.main
        with self._lock:
            known = self._known.get(name)
            if known is not None and self.directory.exists(known.branch):
                return known
            self.forget(name)
            line = self._open(self.directory.find(name).id)
            self._known[name] = line
            if self._writable:
                line.recovery.set_aside_torn()
                line.recovery.clear_leftovers(self._ids.next)
            line.observe(line.coordinator.capture(fresh=False))
            return line

    def _open(self, branch: BranchId) -> Line:
        journal = Journal(self._location.path(branch.path))
        if self._writable:
            journal.set_aside_torn()
        coordinator = Coordinator(journal, stamp=self._stamp, branch=branch)
        publisher = Publisher(coordinator, self._tables, self._slots, self._syncer)
        recovery = Recovery(publisher, self._audit)
        return Line(
            branch=branch,
            coordinator=coordinator,
            publisher=publisher,
            recovery=recovery,
            writer=Writer(publisher, recovery, self._probe, self._ids),
            folding=Folding(publisher, self._probe, self._ids),
        )

    def sweep(self) -> list[Verdict]:
        """Resolve the interrupted writes of every branch, then what they left on main's tables."""
        found: list[Verdict] = []
        self.main.recovery.set_aside_torn()
        self._slots.remove_unfinished()
        for name in self._slots.names():
            incarnation = self.main.recovery.branch_of(name)
            verdict: Verdict | None
            if incarnation is None or incarnation.is_main:
                verdict = self.main.recovery.resolve(name)
            elif not self.directory.exists(incarnation):
                verdict = self.main.recovery.discard(name)
            else:
                verdict = self.get(incarnation.name).recovery.resolve(name)
            if verdict is not None:
                found.append(verdict)
        if self.main.recovery.clear_leftovers(self._ids.next):
            found.append(Verdict.ROLLED_BACK)
        return found

    def containing(self, commit_id: str) -> tuple[Line, GraphCommit]:
        """Return a branch whose history holds a commit, and the commit. Raises `NotFoundError`."""
        for line in self.warm():
            found = line.coordinator.ledger.commits.get(commit_id)
            if found is not None and self.directory.exists(line.branch):
                return line, found
        for info in self.directory.branches():
            try:
                line = self.get(info.name)
                line.coordinator.capture()
            except OmniGraphError:
                if self.directory.exists(info.id):
                    raise
                # Deleted since it was listed: what is looked for may lie elsewhere.
                continue
            if (found := line.coordinator.ledger.commits.get(commit_id)) is not None:
                return line, found
        raise NotFoundError(f"commit '{commit_id}' does not exist")

    def at(self, branch: BranchId, version: int) -> tuple[Line, Capture]:
        """Return the state of a branch at a version it holds, in the life that is meant."""
        line = self.get(branch.name)
        if line.branch != branch:
            raise NotFoundError(f"branch '{branch.name}' was deleted and made again")
        line.coordinator.capture()
        return line, line.coordinator.at_version(version)

    def create(self, name: str, capture: Capture) -> BranchInfo:
        """Make a branch whose first state is the captured one."""
        return self.directory.create(name, self.holding(capture))

    def holding(self, capture: Capture) -> Capture:
        """Return the same state as its own line of manifest versions holds it.

        A branch knows its parent's history, but the versions of it lie with the parent.
        """
        infos = {info.id.incarnation: info for info in self.directory.branches()}
        info = infos.get(capture.branch.incarnation)
        while info is not None and info.parent is not None and capture.version < info.forked_at:
            info = infos[info.parent]
            line = self.get(info.name)
            line.coordinator.capture()
            capture = line.coordinator.at_version(capture.version)
        return capture

    def warm(self) -> list[Line]:
        """Return the branches in use."""
        with self._lock:
            return [self.main, *(self._known[name] for name in sorted(self._known))]

    def forget(self, name: str) -> None:
        """Drop a branch that is gone."""
        with self._lock:
            line = self._known.pop(name, None)
        if line is not None:
            line.publisher.close()

    def close(self) -> None:
        """Stop the threads."""
        for line in self.warm():
            line.publisher.close()

"""The branches a handle works on, each with its warm manifest and its writer."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import AcceptedSchema
from omnigraph.clock import elapsed_s
from omnigraph.commits.audit import RecoveryAudit
from omnigraph.commits.branch_ids import (
    MAIN_BRANCH,
    MANIFEST,
    BranchId,
    BranchName,
    parse_branch_uid,
)
from omnigraph.commits.branches import BranchDirectory, BranchInfo
from omnigraph.commits.inner_states import InnerStates
from omnigraph.commits.loop import Writer
from omnigraph.commits.manifest_reader import BranchState, ManifestReader, read_newest
from omnigraph.commits.publisher import Publisher
from omnigraph.commits.records import MAIN, GraphCommit
from omnigraph.commits.recovery import Recovery, Verdict
from omnigraph.commits.taking_over import TakeOver
from omnigraph.errors import (
    ConflictError,
    NotFoundError,
    OmniGraphError,
    StorageError,
    VersionReclaimedError,
)
from omnigraph.ids import UlidSource
from omnigraph.limits import (
    BRANCH_CONTROL_ATTEMPTS_MAX,
    COMMIT_THREADS,
    MADE_BRANCHES_MAX,
    OPEN_BRANCH_COMMITS_MIN,
    OPEN_BRANCHES_COMMITS_MAX,
    PAST_BRANCHES_COMMITS_MAX,
)
from omnigraph.store import (
    IdLookup,
    Journal,
    JournalView,
    Location,
    Syncer,
    Tables,
    new_session,
    open_slots,
    split_branch,
)
from omnigraph.store.upkeep.relocate import is_moved, relocate_branches

T = TypeVar("T")


class OpenBranch(Struct, weakref=True, eq=False):
    """One branch: its manifest, and who writes and recovers it."""

    branch: BranchId
    manifest: ManifestReader
    publisher: Publisher
    recovery: Recovery
    writer: Writer
    looked_s: float = -math.inf
    """When its manifest was last looked at for a reader, on the clock of `elapsed_s`."""

    def newest(self, max_staleness_s: float | None = None) -> BranchState:
        """Return the newest state; with a bound, one that was the newest so long ago will do."""
        begun = elapsed_s()
        if max_staleness_s is not None and begun - self.looked_s <= max_staleness_s:
            return self.manifest.capture(fresh=False)
        state = self.manifest.capture()
        self.looked_s = begun
        return state


class OpenBranches:
    """Opens branches and keeps them warm. Safe to share between threads."""

    def __init__(
        self,
        location: Location,
        *,
        tables: Tables,
        syncer: Syncer,
        id_lookup: IdLookup,
        ids: UlidSource,
        audit: RecoveryAudit,
        stamp: int,
        writable: bool,
        shares: Callable[[str | None], bool],
    ) -> None:
        self._location = location
        self._tables = tables
        self._syncer = syncer
        self._id_lookup = id_lookup
        self._ids = ids
        self._audit = audit
        self._stamp = stamp
        self._writable = writable
        self._shares = shares
        self._lock = threading.RLock()
        self._opening: dict[str, threading.Event] = {}
        """Branches that a thread is opening; it tells the others when it has."""
        self._slots = open_slots(location, syncer)
        self._placed = False
        self._session = new_session()
        self._threads = ThreadPoolExecutor(COMMIT_THREADS, thread_name_prefix="omnigraph-commit")
        self.main = self._open(MAIN_BRANCH, self._manifest(MAIN_BRANCH))
        self._recent: BoundedCache[str, OpenBranch] = BoundedCache(OPEN_BRANCHES_COMMITS_MAX)
        # What left the cache while a caller uses it is still the one line of its branch.
        self._alive: WeakValueDictionary[str, OpenBranch] = WeakValueDictionary()
        self._made: BoundedCache[str, tuple[BranchInfo, JournalView]] = BoundedCache(
            MADE_BRANCHES_MAX
        )
        self._inner = InnerStates(tables, writable=writable)
        self.schema_at: Callable[[str], AcceptedSchema] = _unknown_schema
        """Returns the schema of a commit."""
        self.check_stored_schema: Callable[[], object] = lambda: None
        """Raises when the stored schema files do not agree with the graph."""
        self._past: BoundedCache[str, ManifestReader] = BoundedCache(PAST_BRANCHES_COMMITS_MAX)
        self.directory = BranchDirectory(self.main.manifest, tables, self._slots, syncer, ids.next)

    @property
    def calls_at_once(self) -> int:
        """How many branches are worth looking at side by side."""
        return self._location.files.calls_at_once

    def get(self, name: str) -> OpenBranch:
        """Return a branch, opening it if need be. Raises `NotFoundError`.

        A `BranchName` finds the life it was made for, and no other.
        """
        line = self._get(name)
        if isinstance(name, BranchName) and line.branch.uid != name.uid:
            raise NotFoundError(
                f"branch '{name}' was deleted, and another of this name was made",
                hint="ask the graph for the branch again",
            )
        return line

    def _get(self, name: str) -> OpenBranch:
        if name == MAIN:
            return self.main
        # No caller waits for a look at the storage on behalf of another branch.
        while True:
            with self._lock:
                known = self._alive.get(name)
            if known is not None and self.directory.exists(known.branch):
                self._recent.put(name, known, _weight(known.manifest))
                return known
            with self._lock:
                if self._alive.get(name) is not known:
                    continue
                self.forget(name)
                others = self._opening.get(name)
                mine = self._opening.setdefault(name, threading.Event())
            if others is not None:
                others.wait()
                continue
            try:
                return self._opened(name)
            finally:
                with self._lock:
                    del self._opening[name]
                mine.set()

    def _opened(self, name: str) -> OpenBranch:
        """Open a branch. The caller is the only one who does."""
        info, view = self._made.pop(name) or (None, None)
        if info is None or not self.directory.exists(info.id):
            info, view = self.directory.find(name), None
        line = self._open_branch(info, view)
        try:
            if self._writable:
                line.recovery.set_aside_torn()
                line.writer.clear_leftovers()
        finally:
            with self._lock:
                self._alive[name] = line
            self._recent.put(name, line, _weight(line.manifest))
        return line

    def _open_branch(self, info: BranchInfo, view: JournalView | None) -> OpenBranch:
        """Open a branch; what it shares with a parent in use is not read again."""
        parent = self._in_use(info.parent or MAIN)
        if parent is None:
            return self._open(info.id, self._manifest(info.id, self.main.manifest))
        manifest = self._manifest(info.id, parent.manifest, info.forked_at, view)
        return self._open(info.id, manifest)

    def _open(self, branch: BranchId, manifest: ManifestReader) -> OpenBranch:
        publisher = Publisher(manifest, self._tables, self._slots, self._syncer, self._threads)
        publisher.check_kept = self._check_kept
        recovery = Recovery(publisher, self._audit)
        writer = Writer(
            publisher, recovery, self._id_lookup, self._ids, self._shares, self._check_schema
        )
        return OpenBranch(
            branch=branch,
            manifest=manifest,
            publisher=publisher,
            recovery=recovery,
            writer=writer,
        )

    def _manifest(
        self,
        branch: BranchId,
        parent: ManifestReader | None = None,
        forked_at: int = 0,
        view: JournalView | None = None,
    ) -> ManifestReader:
        journal = Journal(self._location, branch.path, self._session)
        if self._writable and view is None:
            journal.set_aside_torn()
        if not branch.is_main and not self._placed:
            self._place(branch)
        return ManifestReader(
            journal,
            stamp=self._stamp,
            branch=branch,
            parent=parent,
            forked_at=forked_at,
            view=view,
        )

    def _place(self, branch: BranchId) -> None:
        """Make branches of a graph that was moved or copied share the files of this place."""
        journal = Journal(self._location, branch.path, self._session)
        dataset = read_newest(journal, branch, journal.open_latest).dataset
        if is_moved(dataset, self._location.path(MANIFEST)):
            if not self._writable:
                raise StorageError(
                    "the graph was moved since its branches were made",
                    hint="open it read-write once: they are then pointed to this place",
                )
            pins = self.main.manifest.history.pins_at(self.main.manifest.view.version)
            for path in sorted({split_branch(pin.path)[0] for pin in pins.values()}):
                relocate_branches(self._location.files, self._tables.folder(path))
            # Last: until then the next open finds that there is work to do.
            relocate_branches(self._location.files, self._location.path(MANIFEST))
        self._placed = True

    def sweep(self) -> list[Verdict]:
        """Resolve the interrupted writes of every branch, then what they left on main's tables."""
        verdicts: list[Verdict] = []
        self.main.recovery.set_aside_torn()
        self._slots.remove_unfinished()
        names = self._slots.names()
        self._slots.wait_until_known(names)
        for name in names:
            verdict = self._resolve(name)
            if verdict is not None:
                verdicts.append(verdict)
        if self.main.writer.clear_leftovers():
            verdicts.append(Verdict.ROLLED_BACK)
        return verdicts

    def _resolve(self, slot: str) -> Verdict | None:
        branch = self.main.recovery.branch_of(slot)
        if branch is None or branch.is_main:
            return self.main.recovery.resolve(slot)
        try:
            line = self.get(BranchName(branch))
            return line.recovery.resolve(slot)
        except NotFoundError:
            if self.directory.exists(branch):
                raise
            return self.main.recovery.discard(slot)

    def containing(self, commit_id: str) -> tuple[OpenBranch, GraphCommit]:
        """Return a branch whose history holds a commit, and the commit. Raises `NotFoundError`."""
        for line in self.warm():
            if (commit := line.manifest.history.commits.get(commit_id)) is not None:
                return line, commit
        for info in self.directory.branches():
            try:
                line = self.get(info.name)
                line.manifest.capture()
            except OmniGraphError:
                if self.directory.exists(info.id):
                    raise
                # Deleted since it was listed: what is looked for may lie elsewhere.
                continue
            if (commit := line.manifest.history.commits.get(commit_id)) is not None:
                return line, commit
        raise NotFoundError(f"commit '{commit_id}' does not exist")

    def history(self, branch_uid: str) -> ManifestReader | None:
        """Return the manifest of a branch, deleted ones that are kept included, for reading."""
        line = self._in_use(branch_uid)
        if line is not None:
            return line.manifest
        manifest = self._past.get(branch_uid)
        branch = parse_branch_uid(branch_uid)
        if manifest is not None or branch is None:
            return manifest
        try:
            manifest = self._manifest(branch, self.main.manifest)
        except NotFoundError:
            return None
        self._past.put(branch_uid, manifest, _weight(manifest))
        return manifest

    def _in_use(self, branch_uid: str) -> OpenBranch | None:
        """Return a branch if a caller has it at hand."""
        branch = parse_branch_uid(branch_uid)
        if branch is None or branch.is_main:
            return None if branch is None else self.main
        with self._lock:
            line = self._alive.get(branch.name)
        return line if line is not None and line.branch.uid == branch_uid else None

    def at(self, branch: BranchId, version: int) -> tuple[OpenBranch, BranchState]:
        """Return the state of a branch at a version it holds, in the life that is meant."""
        line = self.get(branch.name)
        if line.branch != branch:
            raise NotFoundError(f"branch '{branch.name}' was deleted and made again")
        line.manifest.capture()
        return line, self.state(line, version)

    def state(self, line: OpenBranch, version: int) -> BranchState:
        """Return the state of a branch at a version, if it can still be read.

        Raises `NotFoundError` and `VersionReclaimedError`.
        """
        state = line.manifest.at_version(version)
        if version < line.manifest.view.version:
            self.directory.check_kept(line.branch, version)
        return state

    def state_of(self, line: OpenBranch, commit: GraphCommit) -> BranchState:
        """Return the state a commit of a branch made, if it can still be read."""
        return self.within(self.state(line, commit.manifest_version), commit, line.manifest)

    def within(
        self, after: BranchState, commit: GraphCommit, manifest: ManifestReader
    ) -> BranchState:
        """Return the state a commit made, given that of the graph version it is part of."""
        history = manifest.history
        if history.is_last(commit):
            return after
        return self._inner.state(after, commit, history, self.schema_at(commit.schema_hash))

    def _check_schema(self) -> None:
        self.check_stored_schema()

    def _check_kept(self, branch: BranchId, version: int) -> None:
        self.directory.check_kept(branch, version)

    def is_stored(self, state: BranchState) -> bool:
        """Whether every table of a state is still there."""
        try:
            tables = [self._tables.open(pin.path, pin.version) for pin in state.pins.values()]
        except NotFoundError:
            return False
        return not any(table.is_gone is not None and table.is_gone() for table in tables)

    def naming(self, find: Callable[[], BranchState], name: Callable[[BranchState], T]) -> T:
        """Find a state and name it; another one if that was given up before it had its name.

        A branch that is written to moves on, and a cleanup may take the state found first.
        """
        for _attempt in range(BRANCH_CONTROL_ATTEMPTS_MAX):
            state = find()
            try:
                return name(state)
            except VersionReclaimedError:
                if find().version == state.version:
                    raise
        raise ConflictError("other writers kept changing the branch", hint="try again")

    def create(self, name: str, state: BranchState) -> BranchInfo:
        """Make a branch whose first state is the captured one."""
        if state.inner:
            return self._create_inside(name, state)
        info, view = self.directory.create(name, self.holding(state))
        if view is not None:
            with self._lock:
                self._made.put(name, (info, view))
        return info

    def _create_inside(self, name: str, state: BranchState) -> BranchInfo:
        """Make a branch that starts between commits which were published together."""
        manifest = self.get(state.branch.name).manifest
        group, commits = manifest.history.group_until(state.head)
        after = manifest.at_version(state.version)
        before = self.holding(manifest.at_version(state.version - 1))
        if self._tables.is_gone(before.branch.path, before.version):
            raise VersionReclaimedError(
                f"graph version {before.version}, which a branch at this commit would be made "
                "from, is no longer kept",
                hint="a cleanup removed it; tag commits that new branches start at",
            )
        operation = TakeOver(group, commits, after.pins)
        schema = self.schema_at(state.head.schema_hash)

        def begin(info: BranchInfo, view: JournalView | None) -> None:
            line = self._open_branch(info, view)
            line.publisher.out_of_sight = True
            line.writer.maintain(operation, schema)

        info, _view = self.directory.create(name, before, begin)
        return info

    def holding(self, state: BranchState) -> BranchState:
        """Return the same state as its own line of manifest versions holds it.

        A branch knows its parent's history, but the versions of it lie with the parent.
        """
        branch = state.branch
        while not branch.is_main:
            info = self.directory.info(branch)
            parent = parse_branch_uid(info.parent or MAIN)
            if parent is None or state.version >= info.forked_at:
                break
            line = self.get(parent.name)
            line.manifest.capture()
            branch, state = line.branch, line.manifest.at_version(state.version)
        return state

    def maker(self, state: BranchState) -> BranchId:
        """Return the branch that the head of a captured state was made on."""
        branch = state.branch
        while not branch.is_main:
            info = self.directory.info(branch)
            parent = parse_branch_uid(info.parent or MAIN)
            if parent is None or state.head.manifest_version > info.forked_at:
                break
            branch = parent
        return branch

    def warm(self) -> list[OpenBranch]:
        """Return the branches in use that still exist."""
        with self._lock:
            known = sorted(self._alive.items())
        branches = [self.main]
        for name, line in known:
            if self.directory.exists(line.branch):
                branches.append(line)
            else:
                self._forget(name, line)
        return branches

    def _forget(self, name: str, line: OpenBranch) -> None:
        """Drop a branch that is gone, but not another of its name."""
        with self._lock:
            if self._alive.get(name) is line:
                self.forget(name)

    def forget(self, name: str) -> None:
        """Drop a branch that is gone."""
        with self._lock:
            self._recent.pop(name)
            self._alive.pop(name, None)

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown()
        self._inner.close()


def _weight(manifest: ManifestReader) -> int:
    """Return how many commits a manifest holds in memory, or is counted as."""
    return max(OPEN_BRANCH_COMMITS_MIN, len(manifest.history.recent.commits))


def _unknown_schema(schema_hash: str) -> AcceptedSchema:
    raise AssertionError(f"schema {schema_hash} was asked for before the graph was open")

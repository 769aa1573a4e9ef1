"""The history of a branch: the newest part in memory, what is older read when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from omnigraph.commits.checkpoints import Checkpoint, checkpoint
from omnigraph.commits.groups import Group
from omnigraph.commits.past import Past
from omnigraph.commits.records import (
    MAINTENANCE_KINDS,
    RECOVERY,
    RECOVERY_ACTOR,
    GraphCommit,
    Record,
)
from omnigraph.commits.span import Span
from omnigraph.store import Pin, Place

NEWEST_CHECKPOINTS = 2
"""Checkpoints in memory from which on what lies before the first of them is let go."""


class History:
    """Everything the manifest says of a branch, grown as rows arrive.

    `recent` begins at a checkpoint, or with the branch; `past` knows what lies before.
    """

    def __init__(self, past: Past | None = None, recent: Span | None = None) -> None:
        self._past = past
        self.recent = recent or Span()

    @property
    def commits(self) -> Mapping[str, GraphCommit]:
        """Every commit by its id."""
        return _Commits(self)

    @property
    def origins(self) -> int:
        """Commits without a parent; a graph has one."""
        return self.recent.origins

    def take_in(self, records: Iterable[Record]) -> None:
        """Take in records, in any order; let go of those that became old."""
        recent = self.recent
        recent.take_in(records)
        if self._past is not None and len(recent.checkpoints) >= NEWEST_CHECKPOINTS:
            self.recent = recent.above(recent.checkpoints[-NEWEST_CHECKPOINTS])

    def checkpoint(
        self, seq: int, pins: Iterable[Pin], added: Iterable[GraphCommit]
    ) -> Checkpoint | None:
        """Return the checkpoint of the next version; None when it can no longer be the next."""
        recent = self.recent
        known = [number for number in recent.checkpoints if number < seq]
        since = known[-1] if known else recent.floor
        if since >= seq:
            return None
        commits = [*recent.commits_between(since, seq - 1), *added]
        return checkpoint(seq, since, pins, commits)

    # ---- states ---------------------------------------------------------------------------

    def _span(self, version: int) -> Span:
        """Return where the state of a version is known."""
        recent = self.recent
        if version >= recent.floor or version < 1 or self._past is None:
            return recent
        return self._past.span(version)

    def _holder(self, version: int) -> Span:
        """Return where the rows of a version are."""
        recent = self.recent
        if version > recent.floor or self._past is None:
            return recent
        return self._past.span(version)

    def head_at(self, version: int) -> GraphCommit:
        """Return the newest commit of a manifest version."""
        return self._span(version).head_at(version)

    def pins_at(self, version: int) -> Mapping[str, Pin]:
        """Return the published version of every table at a manifest version, by table key."""
        return self._span(version).pins_at(version) if version > 0 else {}

    # ---- commits published together -------------------------------------------------------

    def group_of(self, commit: GraphCommit) -> Group | None:
        """Return the commits that a commit was published with; None when it was published alone."""
        return self._group(commit.manifest_version)

    def _group(self, version: int) -> Group | None:
        return self._span(version).groups.get(version) if self.is_group(version) else None

    def group_until(self, commit: GraphCommit) -> tuple[Group, list[GraphCommit]]:
        """Return the group of a commit, and its commits up to that one."""
        group = self.group_of(commit)
        if group is None:
            raise AssertionError(f"{commit.graph_commit_id} was published alone")
        names = [member.commit_id for member in group.members]
        until = names.index(commit.graph_commit_id) + 1
        return group, [self.commits[name] for name in names[:until]]

    def is_group(self, version: int) -> bool:
        """Whether several commits were published as a manifest version."""
        head = self.head_at(version)
        return head.manifest_version == version and head.place > 0

    def is_last(self, commit: GraphCommit) -> bool:
        """Whether a commit made the state of its manifest version: no other one follows in it."""
        return self.head_at(commit.manifest_version).graph_commit_id == commit.graph_commit_id

    def author(self, version: int, table_key: str, entity_id: str) -> GraphCommit:
        """Return the commit of a manifest version that touched a row."""
        group = self._group(version)
        commit_id = None if group is None else group.author(table_key, entity_id)
        return self.head_at(version) if commit_id is None else self.commits[commit_id]

    # ---- tables ---------------------------------------------------------------------------

    def pins_back(self, incarnation: int, version: int) -> Iterator[Pin]:
        """Yield the published versions of a table up to a manifest version, newest first.

        A table is followed through its renames: under whatever key, it is the same table.
        """
        while version > 0:
            span = self._holder(version)
            yield from reversed(span.pins_of(incarnation, version))
            below = span.pin_below(incarnation)
            if below is None:
                return
            version = below.seq

    def first_pin(self, pin: Pin, version: int) -> Pin:
        """Return how a table first came to one of its versions, or above: the oldest such pin.

        `pin` is a later one of the same branch of the table.
        """
        recent = self.recent
        below = recent.pin_below(pin.incarnation)
        is_older = pin.seq <= recent.floor or (
            below is not None and below.path == pin.path and below.version >= version
        )
        if is_older and self._past is not None:
            first = self._past.first_pin(pin, version, recent.floor)
        else:
            pins = recent.pins_of(pin.incarnation, pin.seq)
            first = next((p for p in pins if p.path == pin.path and p.version >= version), None)
        return first or pin

    def only_maintenance(self, pin: Pin, *, since: Place) -> bool:
        """Whether a table's rows are still those of an earlier published version of it.

        The commits that published its versions tell: some kinds change no row. A rollback goes
        back to what was published before it.
        """
        for item in self.pins_back(pin.incarnation, pin.seq):
            if item.place == since:
                return True
            if not self._left_rows_alone(item.seq):
                return False
        return False

    def _left_rows_alone(self, version: int) -> bool:
        commit = self.head_at(version)
        return commit.manifest_version == version and (
            commit.kind in MAINTENANCE_KINDS
            or (commit.kind == RECOVERY and commit.actor_id == RECOVERY_ACTOR)
        )

    def pins_over(self, first: int, last: int) -> Iterator[Pin]:
        """Yield each table version that the states from one graph version to another one name."""
        yield from self.pins_at(first).values()
        recent = self.recent
        if recent.floor > first and self._past is not None:
            for span in self._past.oldest_first(first, min(last, recent.floor)):
                yield from span.pins_between(first, last)
        yield from recent.pins_between(first, last)

    def paths(self) -> set[str]:
        """Return where every table that was ever registered lies."""
        recent = self.recent
        older = self._past.paths() if recent.floor and self._past is not None else set()
        return older | set(recent.paths())

    def grew_from(self, pin: Pin | None, origin: Pin | None) -> bool:
        """Whether a table's state came out of another one, step by step, on this branch.

        Only then do version numbers along the way mean anything.
        """
        if pin is None or origin is None or not 0 < origin.seq <= pin.seq:
            return False
        before = self._span(origin.seq).pin_at(pin.table_key, pin.incarnation, origin.seq)
        return before is not None and before.place == origin.place

    # ---- commits --------------------------------------------------------------------------

    def commit_of(self, operation_id: str, *, past: bool = True) -> GraphCommit | None:
        """Return the commit an operation made, if it made one; without `past`, lately."""
        recent = self.recent
        commit = recent.by_operation.get(operation_id)
        if commit is None and past and recent.floor and self._past is not None:
            commit = self._past.commit_of(operation_id, recent.floor)
        return commit

    def oldest_first(self, after: int, to: int) -> Iterator[GraphCommit]:
        """Yield the commits after a manifest version up to another one."""
        recent = self.recent
        if recent.floor > max(after, 0) and self._past is not None:
            for span in self._past.oldest_first(after, min(to, recent.floor)):
                yield from span.commits_between(after, to)
        yield from recent.commits_between(after, to)

    def newest_first(
        self, to: int, *, since_us: int | None = None, until_us: int | None = None
    ) -> Iterator[GraphCommit]:
        """Yield the commits up to a manifest version; only those made within a time, if given."""
        recent = self.recent
        for commit in self._back(recent, to, since_us, until_us):
            if since_us is not None and commit.created_at_us < since_us:
                continue
            if until_us is None or commit.created_at_us <= until_us:
                yield commit

    def _back(
        self, recent: Span, to: int, since_us: int | None, until_us: int | None
    ) -> Iterator[GraphCommit]:
        yield from reversed(recent.commits_between(0, to))
        if recent.floor and self._past is not None:
            last = min(to, recent.floor)
            for span in self._past.newest_first(last, since_us=since_us, until_us=until_us):
                yield from reversed(span.commits_between(0, to))

    def heads_between(self, after: int, to: int) -> list[GraphCommit]:
        """Return the last commit of every manifest version after one up to another."""
        heads: list[GraphCommit] = []
        for commit in self.oldest_first(after, to):
            if heads and heads[-1].manifest_version == commit.manifest_version:
                heads[-1] = commit
            else:
                heads.append(commit)
        return heads

    def find(self, commit_id: str) -> GraphCommit | None:
        """Return a commit by its id."""
        recent = self.recent
        commit = recent.commits.get(commit_id)
        if commit is None and recent.floor and self._past is not None:
            commit = self._past.find(commit_id, recent.floor)
        return commit

    def starting_with(self, prefix: str) -> list[GraphCommit]:
        """Return the commits whose ids begin so, oldest first."""
        recent = self.recent
        # A copy, made at once: a writer may add to it meanwhile.
        commits = recent.commits.copy()
        matches = [item for name, item in commits.items() if name.startswith(prefix)]
        if recent.floor and self._past is not None:
            older = self._past.starting_with(prefix, recent.floor)
            matches += [item for item in older if item not in matches]
        return sorted(matches, key=lambda item: (item.manifest_version, item.place))


class _Commits(Mapping[str, GraphCommit]):
    """The commits of a history by their ids, none of them held for it."""

    def __init__(self, history: History) -> None:
        self._history = history

    def __getitem__(self, commit_id: str) -> GraphCommit:
        commit = self._history.find(commit_id)
        if commit is None:
            raise KeyError(commit_id)
        return commit

    def _all(self) -> Iterator[GraphCommit]:
        return self._history.oldest_first(0, self._history.recent.last)

    def __iter__(self) -> Iterator[str]:
        return (commit.graph_commit_id for commit in self._all())

    def __len__(self) -> int:
        return sum(1 for _commit in self._all())

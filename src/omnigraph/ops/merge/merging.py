"""Merging branches: preview, decisions, checks and the merge itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import AcceptedSchema, TypeKind
from omnigraph.commits import MAIN, BranchId, BranchState, ChangeSet, GraphCommit, Request
from omnigraph.commits.open_branches import OpenBranch, OpenBranches
from omnigraph.errors import (
    BadRequestError,
    ConflictError,
    DiffRefusedError,
    NotFoundError,
    ReadSetConflictError,
    VersionReclaimedError,
)
from omnigraph.limits import MERGE_BASE_STATES_MAX, WRITE_ATTEMPTS_MAX
from omnigraph.ops.merge.ancestors import Ancestors
from omnigraph.ops.merge.operation import Merge, MergeOutcome, MergeWorkers, Origin
from omnigraph.rows.entities import envelopes
from omnigraph.rows.three_way import Conflict, Decision, Side, by_property
from omnigraph.store import Tables
from omnigraph.values.merges import MergePlan as MergePlan
from omnigraph.values.merges import MergeResult as MergeResult
from omnigraph.values.words import SideWord

ALREADY_UP_TO_DATE = "already_up_to_date"
FAST_FORWARD = "fast_forward"
MERGED = "merged"
CONFLICTS = "conflicts"
Resolution = SideWord | Mapping[str, object]


class _Setup(Struct, kw_only=True):
    """Both sides of a merge. `outcome` follows the target when that moves meanwhile."""

    source: OpenBranch
    target: OpenBranch
    captured: BranchState
    outcome: str
    bases: tuple[GraphCommit, ...]


class _UpToDate(Exception):
    """Another writer merged the same meanwhile."""


class Merging:
    """Merges branches of one graph."""

    def __init__(self, lines: OpenBranches, tables: Tables) -> None:
        self._lines = lines
        self._tables = tables

    def plan(
        self, schema: AcceptedSchema, source: str, into: str, decide: Callable[[Conflict], Decision]
    ) -> MergePlan:
        """Compute a merge for review."""
        setup = self._setup(source, into)
        if setup.outcome == ALREADY_UP_TO_DATE:
            outcome = MergeOutcome(changes=ChangeSet())
        else:
            outcome = self._merge(schema, setup, decide).compute(setup.target.writer.base(schema))
        return MergePlan(
            source=source,
            target=into,
            outcome=CONFLICTS if outcome.conflicts else setup.outcome,
            base_commit_ids=tuple(item.graph_commit_id for item in setup.bases),
            changes=tuple(_listed(outcome.changes)),
            conflicts=tuple(outcome.conflicts),
        )

    @staticmethod
    def done(target: OpenBranch, request: Request) -> GraphCommit | None:
        """Return the commit an earlier call with this operation id made.

        What that call took in may be gone by now, so this is asked before anything is looked at.
        """
        target.manifest.capture()
        return target.manifest.commit_of(request.operation_id, past=not request.new_id)

    def run(
        self,
        schema: AcceptedSchema,
        source: str,
        into: str,
        decide: Callable[[Conflict], Decision],
        request: Request,
        *,
        source_head: str | None = None,
        workers: MergeWorkers | None = None,
    ) -> tuple[str, GraphCommit | None, ChangeSet | None]:
        """Merge; return the outcome, its commit, and what changed.

        With `source_head` the source must not have moved on from it.
        """
        target = self._lines.get(into)
        done = self.done(target, request)
        if done is not None:
            return self._outcome_of(done, target), done, None
        for _attempt in range(WRITE_ATTEMPTS_MAX):
            setup = self._setup(source, into, source_head)
            try:
                return self._run(schema, setup, decide, request, workers)
            except _UpToDate:
                return ALREADY_UP_TO_DATE, None, None
            except VersionReclaimedError as error:
                if not self._lines.directory.exists(setup.source.branch):
                    raise NotFoundError(f"branch '{source}' was deleted") from error
                # The source went on, and a cleanup took the state that was to be merged.
                if setup.source.manifest.capture().version == setup.captured.version:
                    raise
        raise ConflictError(f"other writers kept changing branch '{source}'", hint="try again")

    def _run(
        self,
        schema: AcceptedSchema,
        setup: _Setup,
        decide: Callable[[Conflict], Decision],
        request: Request,
        workers: MergeWorkers | None,
    ) -> tuple[str, GraphCommit | None, ChangeSet | None]:
        if setup.outcome == ALREADY_UP_TO_DATE:
            return setup.outcome, None, None
        head = setup.captured.head.graph_commit_id
        merge = self._merge(schema, setup, decide, workers)
        request = replace(
            request,
            merged_parent=head,
            merged_branch=self._maker(setup),
            merged_state=(setup.source.branch, setup.captured.version),
        )
        commit, changes = setup.target.writer.run(merge, request, schema)
        return setup.outcome, commit, changes

    @contextlib.contextmanager
    def trial(
        self,
        schema: AcceptedSchema,
        source: str,
        into: str,
        decide: Callable[[Conflict], Decision],
        source_head: str,
    ) -> Iterator[BranchState]:
        """Hold the state a merge would lead to, for reading; no branch moves or is made."""
        setup = self._setup(source, into, source_head)
        if setup.outcome == ALREADY_UP_TO_DATE:
            yield setup.target.manifest.capture()
            return
        with setup.target.writer.trial(self._merge(schema, setup, decide), schema) as merged:
            yield merged

    def _maker(self, setup: _Setup) -> str:
        """Return the life of the branch that the head of the source was made on.

        A branch without commits of its own may vanish with all its history.
        """
        branch, made_on = setup.source.branch, setup.captured.head.branch
        if (made_on or MAIN) != branch.name:
            branch = self._lines.maker(setup.captured)
        return branch.uid

    def _outcome_of(self, commit: GraphCommit, into: OpenBranch) -> str:
        """Return what an earlier merge was; one whose source is gone counts as merged."""
        ancestors = Ancestors(self._lines, into)
        source = ancestors.find(commit.merged_parent_commit_id or "", commit.merged_branch)
        target = ancestors.find(commit.parent_commit_id or "")
        if source is None or target is None:
            return MERGED
        return _outcome(ancestors.bases(source, target), source, target)

    def apply_commit(
        self,
        schema: AcceptedSchema,
        commit_id: str,
        branch: str,
        decide: Callable[[Conflict], Decision],
        request: Request,
        *,
        inverse: bool,
    ) -> tuple[GraphCommit | None, ChangeSet | None]:
        """Make the changes of one commit on a branch, or undo them there."""
        line, commit = self._lines.containing(commit_id)
        if commit.parent_commit_id is None:
            raise BadRequestError("the first commit of a graph has no changes to take")
        manifest = line.manifest
        parent = manifest.history.commits[commit.parent_commit_id]
        target = self._lines.get(branch)
        here = target.manifest.capture().head.schema_hash
        if {parent.schema_hash, commit.schema_hash} != {here}:
            raise DiffRefusedError(reason="schema_boundary", graph_commit_id=commit.graph_commit_id)
        states = [self._lines.state_of(line, c) for c in (parent, commit)]
        origin, wanted = reversed(states) if inverse else states
        merge = Merge(
            schema,
            self._tables,
            source=wanted,
            histories=(manifest.history, target.manifest.history),
            origin_of=lambda _target: Origin(states=[origin.pins]),
            decide=decide,
            kind="revert" if inverse else "cherry_pick",
        )
        return target.writer.run(merge, request, schema)

    def _merge(
        self,
        schema: AcceptedSchema,
        setup: _Setup,
        decide: Callable[[Conflict], Decision],
        workers: MergeWorkers | None = None,
    ) -> Merge:
        return Merge(
            schema,
            self._tables,
            source=setup.captured,
            histories=(setup.source.manifest.history, setup.target.manifest.history),
            origin_of=partial(self._origin, setup),
            decide=decide,
            workers=workers,
        )

    def kept_bases(self, pairs: Iterable[Sequence[str]]) -> list[tuple[BranchId, int]]:
        """Return the states that merging pairs of branches looks back to, now or after more merges.

        These are the best common ancestors of each pair, and what those in turn have in common:
        merges that cross make these the ancestors that a later merge starts from.
        """
        pairs = list(pairs)
        lines = {name: self._lines.get(name) for pair in pairs for name in pair}
        heads = {name: line.manifest.capture().head for name, line in lines.items()}
        ancestors = Ancestors(self._lines, *lines.values())
        commits: dict[str, GraphCommit] = {}
        crossed = False
        for source, into in pairs:
            bases = ancestors.bases(heads[source], heads[into])
            crossed |= len(bases) > 1
            for item in ancestors.behind(bases)[0] if bases else ():
                commits[item.graph_commit_id] = item
        if crossed:
            _close(commits, list(heads.values()), ancestors)
        holders = ((ancestors.holder(item).branch, item) for item in commits.values())
        return [(branch, item.manifest_version) for branch, item in holders]

    def pending_states(self) -> list[tuple[BranchId, int]]:
        """Return the states that merges under way take in: their commits will name these.

        Each announces itself in its slot before it looks whether its state is still kept, and a
        cleanup says what it gives up before it looks here: one of the two sees the other.
        """
        ancestors = Ancestors(self._lines, self._lines.main)
        states: list[tuple[BranchId, int]] = []
        for commit_id, branch in self._lines.main.recovery.pending_merges():
            commit = ancestors.find(commit_id, branch)
            if commit is not None:
                states.append((ancestors.holder(commit).branch, commit.manifest_version))
        return states

    def _setup(self, source: str, into: str, source_head: str | None = None) -> _Setup:
        if source == into:
            raise BadRequestError("a branch cannot be merged into itself")
        line, target = self._lines.get(source), self._lines.get(into)
        captured, now = line.manifest.capture(), target.manifest.capture()
        head = captured.head.graph_commit_id
        if source_head not in (None, head):
            raise ReadSetConflictError(
                member=f"branch '{source}'", expected=str(source_head), actual=head
            )
        bases = Ancestors(self._lines, line, target).bases(captured.head, now.head)
        outcome = _outcome(bases, captured.head, now.head)
        return _Setup(source=line, target=target, captured=captured, outcome=outcome, bases=bases)

    def _origin(self, setup: _Setup, target: BranchState) -> Origin:
        source = setup.captured
        ancestors = Ancestors(self._lines, setup.source, setup.target)
        bases = ancestors.bases(source.head, target.head)
        if not bases:
            raise ConflictError("the branches have no commit in common")
        setup.outcome = _outcome(bases, source.head, target.head)
        if setup.outcome == ALREADY_UP_TO_DATE:
            raise _UpToDate
        return ancestors.origin(bases)


def _close(
    commits: dict[str, GraphCommit], heads: Sequence[GraphCommit], ancestors: Ancestors
) -> None:
    """Add what any two of the commits have in common, until nothing more is found or too much.

    What grows from a head has in common with an older commit what the head has.
    """
    waiting = [*commits.values(), *heads]
    while waiting and len(commits) < MERGE_BASE_STATES_MAX * 2:
        one = waiting.pop()
        for other in list(commits.values()):
            for item in ancestors.bases(one, other):
                if item.graph_commit_id not in commits:
                    commits[item.graph_commit_id] = item
                    waiting.append(item)


def _outcome(bases: Sequence[GraphCommit], source: GraphCommit, target: GraphCommit) -> str:
    if source in bases:
        return ALREADY_UP_TO_DATE
    return FAST_FORWARD if target in bases else MERGED


def _listed(changes: ChangeSet) -> Iterable[dict[str, object]]:
    nodes_first = sorted(changes.effective(), key=lambda c: c.entity.kind is not TypeKind.NODE)
    for change in nodes_first:
        entity = change.entity
        key = entity.table_key
        for op, rows in (("insert", change.added), ("update", change.changed)):
            if rows is not None:
                for image in envelopes(entity, rows):
                    data = image["data"]
                    entity_id = data["id"] if isinstance(data, dict) else None
                    yield {"table_key": key, "id": entity_id, "op": op, "after": image}
        for entity_id in change.deleted:
            yield {"table_key": key, "id": entity_id, "op": "delete"}


def decider(
    resolve: Resolution | None, *, property_merge: bool = False
) -> Callable[[Conflict], Decision]:
    """Return what decides conflicts.

    `resolve` is `ours` or `theirs` for everything, or a mapping from `Type`, `Type/id`, or a
    table key with or without `/id`, to a side or to the values to write.
    """
    rules: Mapping[str, object] = {}
    default: Side | None = None
    if isinstance(resolve, str):
        default = _side(resolve)
    elif resolve is not None:
        rules = dict(resolve)

    def decide(conflict: Conflict) -> Decision:
        name = conflict.table_key.partition(":")[2]
        for key in (
            f"{conflict.table_key}/{conflict.entity_id}",
            f"{name}/{conflict.entity_id}",
            conflict.table_key,
            name,
        ):
            if key in rules:
                return _decision(conflict, rules[key])
        joined = by_property(conflict) if property_merge else None
        return joined if joined is not None else default

    return decide


def _side(text: str) -> Side:
    try:
        return Side(text)
    except ValueError:
        raise BadRequestError(f"unknown resolution {text!r}; expected ours or theirs") from None


def _decision(conflict: Conflict, value: object) -> Decision:
    if isinstance(value, str):
        return _side(value)
    if not isinstance(value, Mapping):
        raise BadRequestError(
            f"a resolution of {conflict.table_key} must be ours, theirs or values"
        )
    if "data" in value:
        return value
    image = conflict.ours or conflict.theirs or conflict.base or {}
    data = image.get("data")
    known = dict(data) if isinstance(data, Mapping) else {}
    ends = {name: value[name] for name in ("from", "to") if name in value and name in image}
    changed = {name: item for name, item in value.items() if name not in ends}
    return {**image, **ends, "data": {**known, **changed}}

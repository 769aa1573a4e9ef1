"""What one publish does, as data: which tables move and how, and what is said about them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct
from msgspec.structs import replace

from omnigraph.commits.branch_ids import BranchId
from omnigraph.commits.identity import CommitChain, CommitIdentity
from omnigraph.commits.intents import (
    GROUP_FORMAT,
    INTENT_FORMAT,
    MESSAGE_FORMAT,
    UNSTAGED,
    Intent,
    IntentMember,
    IntentTable,
)
from omnigraph.commits.manifest_reader import BranchState
from omnigraph.commits.records import TableEntry, renamed
from omnigraph.store import Pin, StagedTable
from omnigraph.store.tables.steps import Adopt, UnstagedStep


class PlannedTable(Struct, frozen=True, kw_only=True):
    """One table of a plan: where it is published, and what is to be done to it."""

    pin: Pin
    step: StagedTable | UnstagedStep
    becomes: str | None = None
    """The key it is published under from now on, if its type gets another name."""

    @property
    def path(self) -> str:
        """The branch of the table that moves."""
        return self.step.path if isinstance(self.step, StagedTable) else self.pin.path

    def is_published_in(self, state: BranchState) -> bool:
        """Whether a state has the table at the very version that it is to be moved from."""
        known = state.pins.get(self.pin.table_key)
        return known is not None and known.place == self.pin.place

    @property
    def announced(self) -> IntentTable | None:
        """What recovery has to know of it; None when there is nothing to finish or undo."""
        if isinstance(self.step, Adopt):
            return None
        version, uuid = self.pin.version, UNSTAGED
        if isinstance(self.step, StagedTable):
            version, uuid = self.step.parent.version, self.step.uuid
        return IntentTable(
            table_key=self.pin.table_key,
            incarnation=self.pin.incarnation,
            path=self.path,
            expected_version=version,
            transaction_uuid=uuid,
        )

    def entries(self, version: int, row_count: int, transaction_uuid: str) -> list[TableEntry]:
        """Return what a manifest says of the table when it has moved."""
        pin = replace(
            self.pin,
            path=self.path,
            version=version,
            row_count=row_count,
            transaction_uuid=transaction_uuid,
            seq=0,
        )
        return [pin] if self.becomes is None else renamed(pin, self.becomes)


class PublishPlan(Struct, frozen=True, kw_only=True):
    """Everything one publish does, as data. `rollback_id` is new for every attempt."""

    chain: CommitChain
    rollback_id: str
    tables: tuple[PlannedTable, ...] = ()
    entries: tuple[TableEntry, ...] = ()
    """What is said about tables that do not move: new ones, renamed ones, those that go."""
    merged_state: tuple[BranchId, int] | None = None
    """The state a merge takes in: its commit names it, so it must still be kept."""

    @property
    def identity(self) -> CommitIdentity:
        """The last commit of the plan: all happen, or none, so it stands for all."""
        return self.chain.last

    @property
    def staged(self) -> list[StagedTable]:
        """The tables that are moved by one staged commit each."""
        return [item.step for item in self.tables if isinstance(item.step, StagedTable)]

    @property
    def is_staged(self) -> bool:
        """Whether it is known beforehand what will be published."""
        return len(self.staged) == len(self.tables)

    def staged_entries(self, versions: Sequence[int]) -> list[TableEntry]:
        """Return what is said about tables, the staged ones at the given versions."""
        entries: list[TableEntry] = list(self.entries)
        tables = [item for item in self.tables if isinstance(item.step, StagedTable)]
        for item, staged, version in zip(tables, self.staged, versions, strict=True):
            entries += item.entries(version, staged.rows_after, staged.uuid)
        return entries

    def intent(self, state: BranchState) -> Intent:
        """Return what the slot of its owner says."""
        identity = self.identity
        announced = [item.announced for item in self.tables]
        members = self._members()
        return Intent(
            format=self._format(bool(members)),
            operation_id=identity.operation_id,
            commit_id=identity.commit_id,
            rollback_id=self.rollback_id,
            kind=identity.kind,
            branch=state.branch.uid,
            merged_parent_commit_id=identity.merged_parent_commit_id,
            merged_branch=identity.merged_branch,
            head_commit_id=state.head.graph_commit_id,
            manifest_version=state.version,
            actor_id=identity.actor_id,
            schema_hash=identity.schema_hash,
            created_at_us=identity.created_at_us,
            tables=tuple(item for item in announced if item is not None),
            members=members or UNSET,
            message=identity.message or UNSET,
        )

    def _format(self, is_group: bool) -> int:
        """Return the oldest form that holds the plan: more releases can finish or undo it."""
        if any(item.message is not None for item in self.chain.members):
            return MESSAGE_FORMAT
        return GROUP_FORMAT if is_group else INTENT_FORMAT

    def _members(self) -> tuple[IntentMember, ...]:
        """Return the commits of the plan if there are several."""
        pairs = zip(self.chain.members, self.chain.touched, strict=False)
        return tuple(
            IntentMember(
                operation_id=item.operation_id,
                commit_id=item.commit_id,
                kind=item.kind,
                actor_id=item.actor_id,
                created_at_us=item.created_at_us,
                touched=dict(touched),
                message=item.message or UNSET,
            )
            for item, touched in pairs
        )

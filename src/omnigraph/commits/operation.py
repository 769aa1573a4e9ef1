"""What the write loop is given: an operation, what its caller says, and how long it goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Protocol

from msgspec import Struct

from omnigraph.catalog import AcceptedSchema
from omnigraph.commits.base import Base
from omnigraph.commits.branch_ids import BranchId
from omnigraph.commits.changes import ChangeSet
from omnigraph.commits.intents import Intent
from omnigraph.commits.records import GraphCommit
from omnigraph.errors import BadRequestError, ConflictError
from omnigraph.limits import WRITE_ATTEMPTS_MAX
from omnigraph.rows.changes import TableChange
from omnigraph.store import Place, StagedTable, Table
from omnigraph.store.tables.workers import InProcess, Workers


class SchemaMovedError(ConflictError):
    """The branch has another schema than the one a write was made for; nothing was written."""

    def __init__(self) -> None:
        super().__init__("the schema changed while this write was prepared", hint="try again")


class LeftoversFound(Exception):
    """Versions of an interrupted write lie above a table: they go first, then it is tried again."""


class Reserve(Enum):
    """When an operation takes the branch's slot before it prepares, so that all others wait."""

    AFTER_LOSSES = auto()
    IF_QUICK = auto()
    """After losses, unless preparing takes so long that waiting writers would give up."""
    AT_ONCE = auto()
    NEVER = auto()


class Persistence(Struct, frozen=True, kw_only=True):
    """How an operation goes on when others come first."""

    attempts: int = WRITE_ATTEMPTS_MAX
    reserve: Reserve = Reserve.AFTER_LOSSES
    waits: bool = True
    """Whether it waits for a living writer; else it loses at once."""
    takes_turn: bool = True
    """Whether it waits for its turn among the writers of this process."""
    looks: bool = True
    """Whether it looks for a newer state first; the publish is exact in any case."""
    clears_leftovers: bool = False
    """Whether it clears what interrupted writes left on tables that it finds moved."""
    given_up: str = "the branch moved {attempts} times while this write was prepared"
    hint: str = "try again"


class Operation(Protocol):
    """A change of the graph: turns a base into changes. May be asked again on a newer base."""

    kind: str

    @property
    def shares_publish(self) -> bool:
        """Whether it may be published with others: it changes few rows, and nothing but rows."""

    @property
    def persistence(self) -> Persistence:
        """How it goes on when others come first."""

    @property
    def workers(self) -> Workers:
        """Who does the long work."""

    def ids_to_look_up(self, schema: AcceptedSchema) -> Mapping[str, Collection[str]]:
        """Return ids that preparing it will ask for, by table key, as far as that is known."""

    def prepare(self, base: Base) -> ChangeSet:
        """Evaluate and validate on a base. Raises when the change is refused."""

    def tables_read_strictly(self, changes: ChangeSet) -> tuple[str, ...]:
        """Return the tables whose rows the changes were computed from."""

    def tables_surely_written(self) -> tuple[str, ...]:
        """Return tables that are written to unless the write is refused."""

    def stage_elsewhere(
        self, change: TableChange, parent: Table, properties: dict[str, str]
    ) -> StagedTable:
        """Stage rows that lie elsewhere."""

    def finish(self, intent: Intent | None, commit: GraphCommit | None) -> None:
        """Do what follows before another owner can come; None when nothing was to be published."""


class PlainOperation:
    """What most operations are: nothing strict, nothing sure, nothing to follow."""

    shares_publish = False
    persistence = Persistence()
    workers: Workers = InProcess()

    def ids_to_look_up(self, schema: AcceptedSchema) -> Mapping[str, Collection[str]]:
        """Nothing is known beforehand."""
        return {}

    def tables_read_strictly(self, changes: ChangeSet) -> tuple[str, ...]:
        """Nothing was computed from rows that must not change."""
        return ()

    def tables_surely_written(self) -> tuple[str, ...]:
        """Nothing is sure to be written to."""
        return ()

    def stage_elsewhere(
        self, change: TableChange, parent: Table, properties: dict[str, str]
    ) -> StagedTable:
        """All rows are here."""
        raise BadRequestError(f"rows of {change.entity.name} lie with workers; there are none")

    def finish(self, intent: Intent | None, commit: GraphCommit | None) -> None:
        """Nothing follows."""


class Request(Struct, frozen=True, kw_only=True):
    """What the caller says about a write."""

    actor_id: str | None
    operation_id: str
    new_id: bool = False
    """Whether the operation id was made for this call: nothing before it can have that id."""
    expected_head: str | None = None
    message: str | None = None
    observed: Mapping[str, Place] | None = None
    warm_schema: bool = False
    """Whether the schema was taken as known: who leads the publish looks at what is stored."""
    merged_parent: str | None = None
    """The commit a merge takes in: it is published even if no row changes."""
    merged_branch: str | None = None
    """The life of the branch that commit was made on."""
    merged_state: tuple[BranchId, int] | None = None
    """Where the state of that commit is kept."""

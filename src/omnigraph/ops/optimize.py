"""Makes tables fast again: full-size fragments, indexes over every row. No row changes.

Fragments are rewritten beside the writers; only moving the tables to them needs the branch's
slot. If writers keep coming first, the slot is taken before the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.catalog import Entity
from omnigraph.commits import (
    Base,
    BranchState,
    ChangeSet,
    LeftoversFound,
    Persistence,
    PlainOperation,
    TableStep,
)
from omnigraph.limits import OPTIMIZE_ATTEMPTS_MAX
from omnigraph.store import DRIFT, Pin, Standing, Table, Tables, side_by_side, standing
from omnigraph.store.tables.compaction import auto_cleanup_settings, index_name
from omnigraph.store.tables.steps import Compact
from omnigraph.store.tables.workers import InProcess, Workers, plan_rewrite
from omnigraph.values.reports import OptimizedTable as OptimizedTable

DRIFT_REASON = "drift_needs_repair"
INHERITED = "inherited"
_PERSISTENCE = Persistence(
    takes_turn=False,
    clears_leftovers=True,
    given_up="writers came first {attempts} times",
    hint="try again later",
)


class _Work(Struct, frozen=True, kw_only=True):
    pin: Pin
    table: Table
    columns: tuple[str, ...]
    rewrites: list[Any]

    @property
    def is_needed(self) -> bool:
        fragments = {fragment.fragment_id for fragment in self.table.fragments()}
        uncovered = any(
            fragments - self.table.index_fragments(index_name(column)) for column in self.columns
        )
        return bool(self.rewrites) or uncovered or bool(auto_cleanup_settings(self.table))


class Optimize(PlainOperation):
    """Optimizes the tables of one branch."""

    kind = "optimize"

    def __init__(
        self,
        *,
        columns_of: Callable[[Entity], tuple[str, ...]],
        progress: Callable[[str], None] | None = None,
        workers: Workers | None = None,
        losses_max: int = OPTIMIZE_ATTEMPTS_MAX,
    ) -> None:
        self.workers = workers or InProcess()
        self.persistence = replace(_PERSISTENCE, attempts=losses_max)
        self.tables: list[OptimizedTable] = []
        """What became of each table, as of the newest preparation."""
        self._columns_of = columns_of
        self._progress = progress or (lambda _name: None)
        self._cleared = False
        self._done: dict[tuple[str, int], _Work] = {}

    def prepare(self, base: Base) -> ChangeSet:
        """Rewrite what is worth it. Raises `LeftoversFound` once."""
        works, others = self._plan(base)
        self.tables = sorted([*map(_optimized, works), *others], key=lambda item: item.table_key)
        return ChangeSet(
            steps=tuple(
                TableStep(
                    table_key=work.pin.table_key,
                    step=Compact(rewrites=tuple(work.rewrites), columns=work.columns),
                )
                for work in works
            )
        )

    def look(self, base: Base) -> list[OptimizedTable]:
        """Tell what would be done, and do nothing: fragments that would go and come."""
        self._cleared = True  # What an interrupted writer left is cleared by a real run.
        wanted, skipped = self._sorted_out(base)
        planned = side_by_side(
            lambda item: _planned(base.tables.open(item[0].path, item[0].version), item[0]),
            wanted,
            at_once=base.tables.files.calls_at_once,
        )
        return sorted([*planned, *skipped], key=lambda item: item.table_key)

    def _plan(self, base: Base) -> tuple[list[_Work], list[OptimizedTable]]:
        wanted, skipped = self._sorted_out(base)
        works = self._prepared(base.tables, wanted)
        idle = [OptimizedTable(table_key=w.pin.table_key) for w in works if not w.is_needed]
        return [work for work in works if work.is_needed], skipped + idle

    def _sorted_out(self, base: Base) -> tuple[list[tuple[Pin, Entity]], list[OptimizedTable]]:
        """Return the tables to work on, and those that stay as they are."""
        skipped: list[OptimizedTable] = []
        wanted: list[tuple[Pin, Entity]] = []
        pins = base.capture.pins
        known = [
            (pins[entity.table_key], entity)
            for entity in base.schema.catalog.entities()
            if entity.table_key in pins
        ]
        reasons = side_by_side(
            lambda item: self._reason_to_skip(base.tables, base.capture, item[0]),
            known,
            at_once=base.tables.files.calls_at_once,
        )
        for (pin, entity), (reason, head) in zip(known, reasons, strict=True):
            if reason is None:
                wanted.append((pin, entity))
            else:
                skipped.append(
                    OptimizedTable(
                        table_key=pin.table_key,
                        skipped=reason,
                        published_version=pin.version,
                        head_version=head,
                    )
                )
        return wanted, skipped

    def _reason_to_skip(
        self, tables: Tables, state: BranchState, pin: Pin
    ) -> tuple[str | None, int]:
        if not state.branch.owns(pin.table_branch):
            return INHERITED, pin.version
        status = standing(tables, pin.path, pin.version)
        if status.verdict is Standing.LEFTOVER and not self._cleared:
            # Once: if they cannot be cleared, a living writer is moving these tables.
            self._cleared = True
            raise LeftoversFound
        return (DRIFT_REASON if status.verdict in DRIFT else None), status.head

    def _prepared(self, tables: Tables, wanted: list[tuple[Pin, Entity]]) -> list[_Work]:
        """Rewrite what is small; kept over lost races as long as a table stays where it is."""
        new = [item for item in wanted if (item[0].path, item[0].version) not in self._done]
        opened = side_by_side(
            lambda item: tables.open(item[0].path, item[0].version),
            new,
            at_once=tables.files.calls_at_once,
        )
        full = [table for (pin, _), table in zip(new, opened, strict=True) if pin.row_count]
        rewritten = dict(zip(map(id, full), self.workers.rewrite(full), strict=True))
        for (pin, entity), table in zip(new, opened, strict=True):
            self._done[(pin.path, pin.version)] = _Work(
                pin=pin,
                table=table,
                columns=self._columns_of(entity) if pin.row_count else (),
                rewrites=rewritten.get(id(table), []),
            )
        for pin, _entity in wanted:
            self._progress(pin.table_key)
        return [self._done[(pin.path, pin.version)] for pin, _entity in wanted]


def _planned(table: Table, pin: Pin) -> OptimizedTable:
    # Each task of a plan makes one fragment of the size that is wanted.
    tasks = plan_rewrite(table) if pin.row_count else []
    return OptimizedTable(
        table_key=pin.table_key,
        fragments_removed=sum(len(task.fragments) for task in tasks),
        fragments_added=len(tasks),
    )


def _optimized(work: _Work) -> OptimizedTable:
    metrics = [result.metrics for result in work.rewrites]
    return OptimizedTable(
        table_key=work.pin.table_key,
        fragments_removed=sum(item.fragments_removed for item in metrics),
        fragments_added=sum(item.fragments_added for item in metrics),
        committed=True,
    )

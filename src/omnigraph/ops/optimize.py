"""Makes tables fast again: full-size fragments, indexes over every row. No row changes.

Fragments are rewritten beside the writers; only moving the tables to them needs the branch's
slot. If writers keep coming first, the slot is taken before the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from omnigraph.catalog import AcceptedSchema, EdgeType, NodeType
from omnigraph.clock import now_us
from omnigraph.errors import ConflictError, DriftError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.limits import OPTIMIZE_ATTEMPTS_MAX, RESERVE_AFTER_LOSSES
from omnigraph.manifest import (
    Capture,
    Effect,
    GraphCommit,
    Identity,
    Lost,
    Pin,
    Publisher,
    Recovery,
)
from omnigraph.store import DRIFT, HeldSlot, Standing, Table, standing
from omnigraph.store.maintenance import (
    auto_cleanup_settings,
    commit_rewrite,
    index_name,
    index_tail,
    require_current,
    strip_auto_cleanup,
)
from omnigraph.store.workers import InProcess, Workers
from omnigraph.values.reports import OptimizedTable as OptimizedTable
from omnigraph.write import SchemaMovedError

Entity = NodeType | EdgeType
DRIFT_REASON = "drift_needs_repair"
INHERITED = "inherited"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
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


class Optimize:
    """Optimizes the tables of one branch as one commit."""

    def __init__(
        self,
        publisher: Publisher,
        recovery: Recovery,
        schema: AcceptedSchema,
        ids: UlidSource,
        *,
        columns_of: Callable[[Entity], tuple[str, ...]],
        progress: Callable[[str], None] | None = None,
        workers: Workers | None = None,
        losses_max: int = OPTIMIZE_ATTEMPTS_MAX,
    ) -> None:
        self._publisher = publisher
        self._losses_max = losses_max
        self._recovery = recovery
        self._schema = schema
        self._ids = ids
        self._columns_of = columns_of
        self._progress = progress or (lambda _name: None)
        self._workers = workers or InProcess()
        self._leftovers: bool | None = None
        """Whether unpublished versions of this engine were seen, and nothing was done yet."""
        self._done: dict[tuple[str, int], _Work] = {}

    def run(self) -> tuple[GraphCommit | None, list[OptimizedTable]]:
        """Do it; None for the commit when there was nothing to do."""
        for losses in range(self._losses_max):
            capture = self._publisher.coordinator.capture()
            if capture.head.schema_hash != self._schema.ir_hash():
                raise SchemaMovedError
            identity = self._identity(capture)
            slot: HeldSlot | None = None
            if losses >= RESERVE_AFTER_LOSSES:
                slot = self._publisher.reserve(capture, identity, self._ids.next())
                if slot is None:
                    # Its owner may be dead, not ahead of us.
                    self._recovery.resolve(capture.slot)
                    continue
            try:
                works, skipped = self._plan(capture)
            except BaseException:
                if slot is not None:
                    slot.remove()
                raise
            if self._leftovers:
                # Once: if it cannot be done, a living writer is moving these tables.
                self._leftovers = False
                if slot is not None:
                    slot.remove()
                self._recovery.clear_leftovers(self._ids.next)
                continue
            if not works:
                if slot is not None:
                    slot.remove()
                return None, skipped
            effects = [Effect(pin=w.pin, apply=partial(self._apply, w)) for w in works]
            try:
                commit = self._recovery.publish_effects(
                    capture, identity, self._ids.next(), effects, reserved=slot
                )
            except Lost:
                continue
            except (ConflictError, DriftError):
                # An interrupted write left versions above the published ones.
                self._recovery.clear_leftovers(self._ids.next)
                continue
            done = [_optimized(work) for work in works]
            return commit, sorted(done + skipped, key=lambda item: item.table_key)
        raise ConflictError(f"writers came first {self._losses_max} times", hint="try again later")

    def _identity(self, capture: Capture) -> Identity:
        return Identity(
            operation_id=self._ids.next(),
            commit_id=self._ids.next(),
            kind="optimize",
            actor_id=None,
            created_at_us=now_us(),
            schema_hash=capture.head.schema_hash,
        )

    def _plan(self, capture: Capture) -> tuple[list[_Work], list[OptimizedTable]]:
        skipped: list[OptimizedTable] = []
        wanted: list[tuple[Pin, Entity]] = []
        for entity in self._schema.catalog.entities():
            pin = capture.pins.get(entity.table_key)
            if pin is None:
                continue
            reason, head = self._reason_to_skip(capture, pin)
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
        works = self._prepared(wanted)
        idle = [OptimizedTable(table_key=w.pin.table_key) for w in works if not w.is_needed]
        return [work for work in works if work.is_needed], skipped + idle

    def _reason_to_skip(self, capture: Capture, pin: Pin) -> tuple[str | None, int]:
        if not capture.branch.owns(pin.table_branch):
            return INHERITED, pin.version
        found = standing(self._publisher.tables, pin.path, pin.version)
        # Unpublished versions of this engine are a living writer's, or cleared under the slot.
        if found.verdict is Standing.LEFTOVER and self._leftovers is None:
            self._leftovers = True
        return (DRIFT_REASON if found.verdict in DRIFT else None), found.head

    def _prepared(self, wanted: list[tuple[Pin, Entity]]) -> list[_Work]:
        """Rewrite what is small; kept over lost races as long as a table stays where it is."""
        tables = self._publisher.tables
        opened: dict[tuple[str, int], Table] = {}
        for pin, _entity in wanted:
            key = (pin.path, pin.version)
            if pin.row_count and key not in self._done:
                opened[key] = tables.open(*key)
        rewritten = dict(zip(opened, self._workers.rewrite(list(opened.values())), strict=True))
        for pin, entity in wanted:
            key = (pin.path, pin.version)
            if key not in self._done:
                self._done[key] = _Work(
                    pin=pin,
                    table=opened.get(key) or tables.open(*key),
                    columns=self._columns_of(entity) if pin.row_count else (),
                    rewrites=rewritten.get(key, []),
                )
            self._progress(pin.table_key)
        return [self._done[(pin.path, pin.version)] for pin, _entity in wanted]

    def _apply(self, work: _Work) -> Table:
        tables = self._publisher.tables
        fire(Failpoint.OPTIMIZE_BEFORE_COMPACT)
        require_current(tables, work.table)
        # Before the compaction: with them, its commit would make Lance delete history.
        moved = strip_auto_cleanup(tables, work.table)
        if work.rewrites:
            moved = commit_rewrite(tables, moved, work.rewrites)
        fire(Failpoint.OPTIMIZE_AFTER_COMPACT_PRE_INDEX)
        return index_tail(tables, moved, work.columns, self._workers)


def _optimized(work: _Work) -> OptimizedTable:
    metrics = [result.metrics for result in work.rewrites]
    return OptimizedTable(
        table_key=work.pin.table_key,
        fragments_removed=sum(item.fragments_removed for item in metrics),
        fragments_added=sum(item.fragments_added for item in metrics),
        committed=True,
    )

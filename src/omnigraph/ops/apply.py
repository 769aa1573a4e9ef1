"""Changes the schema of a graph: one commit that carries the new schema and the changed tables.

The commit decides: before it the old schema is accepted, after it the new one. What it needs is
written before it, what follows from it is only a copy. No other writer writes meanwhile, and no
branch can appear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from omnigraph.catalog import (
    AcceptedSchema,
    Catalog,
    Entity,
    IndexConstraint,
    TypeKind,
)
from omnigraph.commits import (
    MAIN,
    SCHEMA_APPLY,
    Base,
    BranchDirectory,
    BranchState,
    ChangeSet,
    GraphCommit,
    Intent,
    Persistence,
    PlainOperation,
    Publisher,
    Request,
    Reserve,
    TableEntry,
    TableStep,
    Writer,
    dropped,
    registered,
    renamed,
)
from omnigraph.commits.contract import SchemaContract
from omnigraph.errors import BadRequestError, ConflictError, OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.lang.schema_plan import SchemaPlan, plan_schema
from omnigraph.lang.schema_steps import (
    AddConstraint,
    AddProperty,
    ChangeNullability,
    DropMode,
    DropProperty,
    DropType,
    Step,
    WidenProperty,
)
from omnigraph.rows import Problems, has_blobs, table_folder, table_schema
from omnigraph.rows.migrate import Rule, TypeChange, check_stored, missing_ids, type_changes
from omnigraph.store import OPERATION_PROPERTY, ColumnChanges, Pin, Table, side_by_side
from omnigraph.store.tables.steps import ChangeColumns
from omnigraph.store.upkeep.reclaim import erase_history, erase_table
from omnigraph.store.upkeep.words import erase_words


class Review(Struct, frozen=True, kw_only=True):
    """A plan, how many stored rows each step changes or removes, and what stands against it."""

    plan: SchemaPlan
    changes: tuple[TypeChange, ...] = ()
    rows: tuple[int, ...]
    problems: Problems


class Outcome(Struct, frozen=True, kw_only=True):
    """What an apply did; no commit when the schemas were the same."""

    review: Review
    commit: GraphCommit | None


class SchemaApply:
    """Changes the schema of one graph."""

    def __init__(
        self,
        writer: Writer,
        directory: BranchDirectory,
        contract: SchemaContract,
        may_name: Callable[[str], bool] = lambda _branch: True,
    ) -> None:
        """`may_name` says of which branches, and their tags, a refusal may speak."""
        self._may_name = may_name
        self._writer = writer
        self._publisher = writer.publisher
        self._directory = directory
        self._contract = contract

    def run(
        self, source: str, desired: Catalog, request: Request, *, allow_data_loss: bool = False
    ) -> Outcome:
        """Make `desired` the schema. Raises, with nothing changed, when data stands against it."""

        def review(state: BranchState) -> Review:
            return self.review(state, desired, allow_data_loss=allow_data_loss)

        change = _SchemaChange(
            self._publisher, self._directory, self._contract, review, source, self._may_name
        )
        with self._directory.control():
            commit, _changes = self._writer.run(change, request)
            # No review: it was done before, by this operation id.
            reviewed = change.review or review(self._publisher.manifest.capture(fresh=False))
        return Outcome(review=reviewed, commit=commit)

    # ---- looking --------------------------------------------------------------------------

    def review(
        self, state: BranchState, desired: Catalog, *, allow_data_loss: bool = False
    ) -> Review:
        """Plan a change on a captured state, and hold it against the stored rows."""
        accepted = self._contract.at(state.head.schema_hash)
        plan = plan_schema(accepted, desired, allow_data_loss=allow_data_loss)
        problems = Problems(source="the stored data")
        if not plan.supported:
            return Review(plan=plan, rows=(0,) * len(plan.steps), problems=problems)
        changes = tuple(type_changes(accepted, plan.desired, plan.differ))
        added = _added_rules(plan)
        for change in changes:
            if change.old is not None and change.new is not None:
                rules = added.get((change.new.kind, change.new.name), [])
                check_stored(change, rules, self._table(state, change), problems)
        rows = tuple(self._affected(state, changes, step) for step in plan.steps)
        return Review(plan=plan, changes=changes, rows=rows, problems=problems)

    def _table(self, state: BranchState, change: TypeChange) -> Table:
        if change.old is None:
            raise BadRequestError("a new type has no stored rows")
        pin = state.pins[change.old.table_key]
        return self._publisher.tables.open(pin.path, pin.version)

    def _affected(self, state: BranchState, changes: Sequence[TypeChange], step: Step) -> int:
        """Return how many stored rows a step changes or removes."""
        if isinstance(step, DropType):
            return state.pins[f"{step.type_kind}:{step.name}"].row_count
        if not isinstance(step, AddProperty | DropProperty | ChangeNullability | WidenProperty):
            return 0
        change = next(
            (
                item
                for item in changes
                if item.old is not None
                and item.new is not None
                and (item.new.kind, item.new.name) == (step.type_kind, step.type_name)
            ),
            None,
        )
        if change is None or change.old is None:
            # Interfaces store nothing.
            return 0
        table = self._table(state, change)
        total = state.pins[change.old.table_key].row_count
        if isinstance(step, AddProperty):
            return total if step.has_default and not step.property_type.nullable else 0
        if isinstance(step, DropProperty):
            stored = change.old.properties[step.property_name]
            return total - sum(1 for _ in missing_ids(table, stored, limit=total))
        stored = change.sources[step.property_name]
        missing = sum(1 for _ in missing_ids(table, stored, limit=total))
        if isinstance(step, WidenProperty):
            return total - missing
        return missing if step.required and step.has_default else 0


class _SchemaChange(PlainOperation):
    """One change of the schema. It takes the slot first: all other writers wait."""

    kind = SCHEMA_APPLY
    persistence = Persistence(
        reserve=Reserve.AT_ONCE,
        takes_turn=False,
        given_up="other writers kept changing the graph",
    )

    def __init__(
        self,
        publisher: Publisher,
        directory: BranchDirectory,
        contract: SchemaContract,
        review: Callable[[BranchState], Review],
        source: str,
        may_name: Callable[[str], bool],
    ) -> None:
        self._may_name = may_name
        self.review: Review | None = None
        """What the newest preparation found."""
        self._publisher = publisher
        self._directory = directory
        self._contract = contract
        self._judge = review
        self._source = source
        self._before: BranchState | None = None

    def prepare(self, base: Base) -> ChangeSet:
        """Plan on the state that no other writer can move; raise what stands against it."""
        fire(Failpoint.SCHEMA_POST_RESERVE)
        self._refuse_branches()
        state = base.capture
        review = self._decide(state)
        self.review, self._before = review, state
        if review.plan.is_empty:
            return ChangeSet()
        desired = review.plan.desired
        # Before anything names it: a commit whose schema is nowhere could never be read.
        self._contract.keep(self._source, desired)
        fire(Failpoint.SCHEMA_POST_HISTORY)
        steps: list[TableStep] = []
        entries: list[TableEntry] = []
        for change in review.changes:
            if change.old is None:
                continue
            if change.new is not None and (columns := change.columns()).any:
                hard = _removes(review)
                steps.append(_column_step(change.old, change.new, columns, hard=hard))
            else:
                entries += _kept_entries(state.pins[change.old.table_key], change)
        new = [change.new for change in review.changes if change.old is None and change.new]
        entries += self._create(desired, new)
        return ChangeSet(
            steps=tuple(steps),
            entries=tuple(entries),
            schema_hash=desired.ir_hash(),
            alone=True,
        )

    def _refuse_branches(self) -> None:
        names = [info.name for info in self._directory.branches() if info.name != MAIN]
        if names:
            raise ConflictError(
                "schema apply requires a graph with only main; found non-main branches: "
                + _names_as_text([name if self._may_name(name) else None for name in names]),
                hint="merge or delete them first, then apply and branch again",
            )

    def _decide(self, state: BranchState) -> Review:
        review = self._judge(state)
        if review.plan.refusal is not None:
            raise BadRequestError(review.plan.refusal.message)
        review.problems.raise_any()
        tags = [
            tag.name if self._may_name(tag.branch.name) else None for tag in self._directory.tags()
        ]
        if tags and _removes(review):
            raise ConflictError(
                f"tags hold what would be lost: {_names_as_text(tags)}",
                hint="delete them first, or apply without allowing data loss",
            )
        fire(Failpoint.SCHEMA_POST_VALIDATE)
        return review

    def _create(self, desired: AcceptedSchema, entities: Sequence[Entity]) -> list[TableEntry]:
        """Make the tables of new types; before the commit they are only empty folders."""
        taken = self._publisher.manifest.history.paths() if entities else set()
        places: list[tuple[Entity, str]] = []
        for entity in entities:
            path = base = table_folder(entity.kind, entity.name)
            number = 1
            while path in taken:
                # A name that comes back is another table: history still needs the first one.
                number += 1
                path = f"{base}-{number}"
            taken.add(path)
            places.append((entity, path))
        pins = side_by_side(
            lambda item: self._created(desired, *item),
            places,
            at_once=self._publisher.tables.files.calls_at_once,
        )
        return [entry for pin in pins for entry in registered(pin)]

    def _created(self, desired: AcceptedSchema, entity: Entity, path: str) -> Pin:
        tables = self._publisher.tables
        tables.discard_unpublished(path)
        properties = {OPERATION_PROPERTY: SCHEMA_APPLY}
        table = tables.create(path, table_schema(entity), properties)
        fire(Failpoint.SCHEMA_POST_TABLE_CREATE)
        self._publisher.syncer.sync_tree(tables.folder(path))
        _type_id, incarnation = desired.table_identity(entity.kind, entity.name)
        return Pin(
            table_key=entity.table_key,
            incarnation=incarnation,
            path=path,
            version=table.version,
            row_count=0,
            transaction_uuid=table.transaction_uuid(),
            seq=0,
        )

    def finish(self, intent: Intent | None, commit: GraphCommit | None) -> None:
        """After the commit: refresh the copy at the root, and forget what was dropped for good.

        The commit stands even if this fails.
        """
        if commit is None or self._before is None or self.review is None:
            return
        try:
            fire(Failpoint.SCHEMA_POST_MANIFEST_COMMIT)
            self._contract.bring_up_to_date()
            fire(Failpoint.SCHEMA_POST_FILES)
            if _removes(self.review):
                self._erase(self._before, self.review.changes)
        except OmniGraphError:
            # The next open or write sees that the copy lags, and brings it up to date.
            return

    def _erase(self, before: BranchState, changes: Sequence[TypeChange]) -> None:
        tables = self._publisher.tables
        pins = self._publisher.manifest.capture(fresh=False).pins
        # With main alone no merge can start from a deleted branch; they hold the data, too.
        self._directory.purge(self._directory.retired())
        for change in changes:
            if change.old is None:
                continue
            path = before.pins[change.old.table_key].path
            if change.new is None:
                erase_table(tables, path)
            elif change.columns().dropped:
                erase_history(tables, path, below=pins[change.new.table_key].version)
            else:
                continue
            erase_words(tables, path)


def _column_step(old: Entity, new: Entity, columns: ColumnChanges, *, hard: bool) -> TableStep:
    """Return what is to be done to the columns of a type that stays."""
    anew = hard and columns.dropped and not has_blobs(new)
    return TableStep(
        table_key=old.table_key,
        step=ChangeColumns(changes=columns, content=table_schema(new) if anew else None),
        becomes=None if new.table_key == old.table_key else new.table_key,
    )


def _kept_entries(pin: Pin, change: TypeChange) -> list[TableEntry]:
    """Return what is said about a table whose columns stay as they are."""
    if change.new is None:
        return [dropped(pin)]
    return [] if change.new.table_key == pin.table_key else renamed(pin, change.new.table_key)


def _added_rules(plan: SchemaPlan) -> dict[tuple[TypeKind, str], list[Rule]]:
    rules: dict[tuple[TypeKind, str], list[Rule]] = {}
    for step in plan.steps:
        if isinstance(step, AddConstraint) and not isinstance(step.constraint, IndexConstraint):
            rules.setdefault((step.type_kind, step.type_name), []).append(step.constraint)
    return rules


def _names_as_text(names: list[str | None]) -> str:
    """Return names as words; of those that may not be told, how many there are."""
    known = [name for name in names if name is not None]
    hidden = len(names) - len(known)
    return ", ".join([*known, *([f"{hidden} that you may not read"] if hidden else [])])


def _removes(review: Review) -> bool:
    """Whether data is removed for good."""
    return any(map(_is_hard, review.plan.steps))


def _is_hard(step: Step) -> bool:
    return isinstance(step, DropType | DropProperty) and step.mode is DropMode.HARD

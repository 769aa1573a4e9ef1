"""Executes a mutation plan against a base plus its own pending rows."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from omnigraph.catalog import (
    AcceptedSchema,
    EdgeType,
    Entity,
    NodeType,
    Property,
    PropertyType,
    Scalar,
)
from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.values import convert
from omnigraph.commits import Base, ChangeSet, PlainOperation
from omnigraph.compute import (
    constant_value,
    evaluate_condition,
    evaluate_value,
    python_values,
    storage_filter,
)
from omnigraph.compute.types import arrow_type
from omnigraph.errors import (
    DataError,
    ExternalBlobPolicyError,
    InternalError,
    KeyConflictError,
    OmniGraphError,
)
from omnigraph.plan.expression import Expression, variables_of
from omnigraph.plan.mutation import (
    Assignment,
    Delete,
    InsertEdge,
    InsertNode,
    MutationPlan,
    Statement,
    Update,
    UpsertEdge,
    UpsertNode,
)
from omnigraph.rows import Problem, Problems, has_blobs, rows_from_values, rows_schema, validate
from omnigraph.rows.blobs import decode_blob
from omnigraph.rows.embeddings import Embeddings
from omnigraph.rows.keys import key_ids

Values = Mapping[str, LiteralValue]


class RowColumns(Struct):
    """Rows of one table as the columns of a predicate."""

    table: pa.Table

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    def column(self, variable: str, name: str) -> pa.Array:
        """Return a column; there is only one variable here."""
        return self.table[name].combine_chunks()


class Pending:
    """Rows one mutation has written so far in one table, by id; the last write wins."""

    def __init__(self, entity: Entity) -> None:
        self._entity = entity
        self._rows: pa.Table | None = None
        """Made when they are asked for: most mutations write one row and never look."""
        self._fresh: dict[str, dict[str, object]] = {}

    def put(self, values: dict[str, object]) -> None:
        """Write one row."""
        self._fresh[str(values["id"])] = values

    def put_rows(self, rows: pa.Table) -> None:
        """Write many rows."""
        kept = self.table()
        gone = pc.is_in(kept["id"], value_set=rows["id"].combine_chunks())
        self._rows = pa.concat_tables([kept.filter(pc.invert(gone)), rows])
        self._fresh = {}

    def table(self) -> pa.Table:
        """Return all pending rows."""
        if self._fresh:
            fresh = rows_from_values(self._entity, list(self._fresh.values()))
            if self._rows is not None and self._rows.num_rows:
                gone = pc.is_in(self._rows["id"], value_set=fresh["id"].combine_chunks())
                fresh = pa.concat_tables([self._rows.filter(pc.invert(gone)), fresh])
            self._rows, self._fresh = fresh, {}
        elif self._rows is None:
            self._rows = rows_schema(self._entity).empty_table()
        return self._rows

    def ids(self) -> list[str]:
        """Return the ids of all pending rows."""
        if self._rows is None:
            return list(self._fresh)
        return list(self.table()["id"].to_pylist())

    def has(self, entity_id: str) -> bool:
        """Whether there is a pending row of this id."""
        if entity_id in self._fresh or self._rows is None:
            return entity_id in self._fresh
        return bool(pc.any(pc.equal(self._rows["id"], entity_id)).as_py())

    def row(self, entity_id: str) -> pa.Table:
        """Return one pending row as a table of one row, or of none."""
        rows = self.table()
        return rows.filter(pc.equal(rows["id"], entity_id))


class Mutation(PlainOperation):
    """A mutation as an operation of the write protocol."""

    kind = "mutation"
    shares_publish = True

    def __init__(
        self,
        plan: MutationPlan,
        parameters: Values,
        *,
        now: datetime.datetime,
        new_id: Callable[[], str],
        embeddings: Embeddings | None = None,
    ) -> None:
        self.plan = plan
        self._embeddings = embeddings or Embeddings(None)
        self._parameters = parameters
        self._now = now
        self._new_id = new_id
        self.affected_nodes = 0
        self.affected_edges = 0

    def tables_read_strictly(self, changes: ChangeSet) -> tuple[str, ...]:
        """Updates and deletes were computed from rows that must not have changed."""
        names = {
            f"{'edge' if item.is_edge else 'node'}:{item.type_name}"
            for item in self.plan.statements
            if isinstance(item, Update | Delete)
        }
        cascaded = {c.entity.table_key for c in changes.effective() if c.deleted}
        return tuple(sorted(names | cascaded))

    def tables_surely_written(self) -> tuple[str, ...]:
        """An insert writes whatever it finds."""
        kinds = {InsertNode: "node", UpsertNode: "node", InsertEdge: "edge"}
        return tuple(
            f"{kinds[type(item)]}:{item.type_name}"
            for item in self.plan.statements
            if type(item) in kinds
        )

    def embed_ahead(self, schema: AcceptedSchema) -> None:
        """Embed the texts of all statements together, not one by one."""
        nodes = schema.catalog.nodes
        self._embeddings.prefetch(
            (nodes[item.type_name], {a.property: self.value(a.value) for a in _fixed(item)})
            for item in self.plan.statements
            if isinstance(item, InsertNode | UpsertNode | Update) and item.type_name in nodes
        )

    def value(self, expression: Expression) -> LiteralValue:
        """Return what an assigned expression comes to."""
        return constant_value(expression, self._parameters, self._now)

    def ids_to_look_up(self, schema: AcceptedSchema) -> dict[str, list[str]]:
        """Return the ids of keyed nodes that are written, and of the ends of edges."""
        ids: dict[str, list[str]] = {}
        catalog = schema.catalog
        for item in self.plan.statements:
            if isinstance(item, InsertNode | UpsertNode) and catalog.nodes[item.type_name].key:
                node = catalog.nodes[item.type_name]
                key = self._key_of(schema, node, item)
                ids.setdefault(node.table_key, []).extend(key)
            elif isinstance(item, InsertEdge | UpsertEdge):
                edge = catalog.edges[item.type_name]
                for end, name in ((item.source, edge.source), (item.target, edge.target)):
                    value = self.value(end)
                    if isinstance(value, str):
                        ids.setdefault(catalog.nodes[name].table_key, []).append(value)
        return ids

    def _key_of(
        self, schema: AcceptedSchema, node: NodeType, item: InsertNode | UpsertNode
    ) -> list[str]:
        """Return the id that a key makes; nothing if the values are refused later."""
        given = {a.property: a.value for a in item.assignments}
        try:
            values = {
                name: stored_value(self.value(given[name]), node.properties[name])
                for name in node.key
            }
            return [key_id(schema, node, values)]
        except (ValueError, LookupError, OmniGraphError):
            return []

    def prepare(self, base: Base) -> ChangeSet:
        """Run the statements in order, then validate the outcome once."""
        if self._embeddings.active:
            self.embed_ahead(base.schema)
        run = _Run(self, base)
        for item in self.plan.statements:
            run.statement(item)
        changes = run.changes()
        problems = Problems()
        validate(base, changes, problems)
        problems.raise_any()
        self.affected_nodes, self.affected_edges = run.affected_nodes, run.affected_edges
        return changes


class _Run:
    """One evaluation of a mutation on one base."""

    def __init__(self, mutation: Mutation, base: Base) -> None:
        self._mutation = mutation
        self._base = base
        self._pending: dict[str, Pending] = {}
        self._deleted: dict[str, dict[str, None]] = {}
        # Ids minted here are new by construction and need no look-up.
        self._generated: dict[str, set[str]] = {}
        self._chosen: dict[str, set[str]] = {}
        self.affected_nodes = 0
        self.affected_edges = 0

    def statement(self, item: Statement) -> None:
        """Apply one statement to the pending rows."""
        match item:
            case InsertNode() | UpsertNode():
                self._put_node(item)
            case InsertEdge() | UpsertEdge():
                self._put_edge(item)
            case Update():
                self._update(item)
            case Delete():
                self._delete(item)

    def changes(self) -> ChangeSet:
        """Return what the statements amount to, ids told apart into new and existing."""
        changes, catalog = ChangeSet(), self._base.schema.catalog
        for key, pending in self._pending.items():
            ids = pending.ids()
            if not ids:
                continue
            entity, rows = catalog.entity_of_table(key), pending.table()
            change = changes.of(entity)
            known = self._existing(entity, ids)
            if not known:
                change.added = rows
                continue
            self._refuse_known(entity, known)
            exists = pc.is_in(rows["id"], value_set=pa.array(sorted(known), pa.string()))
            change.changed = rows.filter(exists)
            change.added = rows.filter(pc.invert(exists))
        for key, gone in self._deleted.items():
            if gone:
                changes.of(catalog.entity_of_table(key)).deleted = list(gone)
        return changes

    def _refuse_known(self, entity: Entity, known: set[str]) -> None:
        """An insert that chose its id adds an entity, as one does that must be new."""
        taken = sorted(known & self._chosen.get(entity.table_key, set()))
        if taken:
            raise KeyConflictError(
                entity_kind=str(entity.kind), type_name=entity.name, entity_id=taken[0]
            )

    def _choose(self, entity: Entity, entity_id: object) -> None:
        chosen = self._chosen.setdefault(entity.table_key, set())
        if entity_id in chosen or self._of(entity).has(str(entity_id)):
            raise KeyConflictError(
                entity_kind=str(entity.kind), type_name=entity.name, entity_id=str(entity_id)
            )
        chosen.add(str(entity_id))

    def _existing(self, entity: Entity, ids: list[str]) -> set[str]:
        generated = self._generated.get(entity.table_key, set())
        return self._base.existing_ids(entity, [item for item in ids if item not in generated])

    # ---- values ---------------------------------------------------------------------------

    def _value(self, expression: Expression) -> LiteralValue:
        return self._mutation.value(expression)

    def _assigned(self, entity: Entity, items: tuple[Assignment, ...]) -> dict[str, object]:
        problems = Problems()
        values: dict[str, object] = {}
        for item in items:
            if item.property == "id":
                values["id"] = self._value(item.value)
                continue
            declared = entity.properties[item.property]
            try:
                values[item.property] = stored_value(self._value(item.value), declared)
            except ValueError as error:
                problems.add(
                    Problem(
                        message=f"{entity.name}.{item.property}: {error}",
                        type_name=entity.name,
                        field=item.property,
                    )
                )
        problems.raise_any()
        self._mutation._embeddings.fill_values(entity, values)
        return values

    def _of(self, entity: Entity) -> Pending:
        return self._pending.setdefault(entity.table_key, Pending(entity))

    # ---- insert and upsert ----------------------------------------------------------------

    def _put_node(self, item: InsertNode | UpsertNode) -> None:
        node = self._base.schema.catalog.nodes[item.type_name]
        values = self._assigned(node, item.assignments)
        if node.key:
            values["id"] = key_id(self._base.schema, node, values)
            if isinstance(item, InsertNode) and item.must_be_new:
                self._choose(node, values["id"])
        elif values.get("id") is None:
            values["id"] = self._new_id(node)
        elif isinstance(item, InsertNode):
            self._choose(node, values["id"])
        if isinstance(item, UpsertNode):
            self._merge(node, str(values["id"]), values, item.missing_required)
        else:
            _fill_defaults(node, values)
            self._of(node).put(values)
        self.affected_nodes += 1

    def _new_id(self, entity: Entity) -> str:
        entity_id = self._mutation._new_id()
        self._generated.setdefault(entity.table_key, set()).add(entity_id)
        return entity_id

    def _put_edge(self, item: InsertEdge | UpsertEdge) -> None:
        edge = self._base.schema.catalog.edges[item.type_name]
        values = self._assigned(edge, item.assignments)
        for column, end in (("src", item.source), ("dst", item.target)):
            value = self._value(end)
            if not isinstance(value, str):
                word = "from" if column == "src" else "to"
                raise DataError(f"{edge.name}: `{word}` must be the id of a node, got {value!r}")
            values[column] = value
        if isinstance(item, UpsertEdge):
            entity_id = values.get("id") or self._edge_between(edge, values)
            values["id"] = entity_id or self._new_id(edge)
            self._merge(edge, str(values["id"]), values, item.missing_required)
        else:
            if values.get("id") is None:
                values["id"] = self._new_id(edge)
            else:
                self._choose(edge, values["id"])
            _fill_defaults(edge, values)
            self._of(edge).put(values)
        self.affected_edges += 1

    def _edge_between(self, edge: EdgeType, values: dict[str, object]) -> str | None:
        pending = self._of(edge).table()
        same = pc.and_(
            pc.equal(pending["src"], values["src"]), pc.equal(pending["dst"], values["dst"])
        )
        pending_ids = pending.filter(same)["id"].to_pylist()
        if pending_ids:
            return str(pending_ids[0])
        ends = self._base.edge_ends(edge, "src", [str(values["src"])])
        ids = ends.filter(pc.equal(ends["dst"], values["dst"]))["id"].to_pylist()
        return str(ids[0]) if ids else None

    def _merge(
        self,
        entity: Entity,
        entity_id: str,
        values: dict[str, object],
        missing: tuple[str, ...],
    ) -> None:
        """Replace the named properties of an existing row, or add a new one."""
        present = self._of(entity).row(entity_id)
        if present.num_rows == 0 and self._base.row_count(entity):
            present = self._base.rows_where(entity, "id", [entity_id]).cast(rows_schema(entity))
        if present.num_rows:
            self._of(entity).put_rows(_with_values(present, values))
            return
        if missing:
            raise DataError(
                f"{entity.name} '{entity_id}' does not exist, and adding it needs "
                + ", ".join(f"'{name}'" for name in missing),
                problems=[
                    {"type": entity.name, "id": entity_id, "field": name, "message": "required"}
                    for name in missing
                ],
            )
        _fill_defaults(entity, values)
        self._of(entity).put(values)

    # ---- update and delete ----------------------------------------------------------------

    def _matching(self, entity: Entity, predicate: Expression) -> tuple[pa.Table, pa.Table]:
        """Return committed rows (not yet rewritten) and pending rows a predicate matches."""
        parameters, now = self._mutation._parameters, self._mutation._now
        pending = self._of(entity).table()
        committed = rows_schema(entity).empty_table()
        if self._base.row_count(entity):
            where = storage_filter(predicate, parameters, now)
            schema = rows_schema(entity)
            # By name: a schema change leaves columns in the order they came.
            committed = self._base.scan(entity, schema.names, where, blobs=has_blobs(entity))
            committed = committed.cast(schema)
            shadowed = pc.is_in(committed["id"], value_set=pending["id"].combine_chunks())
            committed = committed.filter(pc.invert(shadowed))
            committed = committed.filter(
                evaluate_condition(predicate, RowColumns(committed), parameters, now)
            )
        mine = pending.filter(evaluate_condition(predicate, RowColumns(pending), parameters, now))
        return committed, mine

    def _update(self, item: Update) -> None:
        catalog = self._base.schema.catalog
        entity: Entity = (
            catalog.edges[item.type_name] if item.is_edge else catalog.nodes[item.type_name]
        )
        values = self._assigned(entity, _fixed(item))
        rows = pa.concat_tables(self._matching(entity, item.predicate))
        if rows.num_rows == 0:
            return
        computed = self._computed(entity, item, rows)
        rows = _with_values(rows, values)
        for name, column in computed.items():
            rows = _with_column(rows, name, column)
        self._of(entity).put_rows(self._embedded(entity, item, rows, frozenset(computed)))
        self._count(entity, rows.num_rows)

    def _computed(self, entity: Entity, item: Update, rows: pa.Table) -> dict[str, list[object]]:
        """Return what assignments that read the row come to, each for the row as it was."""
        problems = Problems()
        columns: dict[str, list[object]] = {}
        ids = rows["id"].to_pylist()
        mutation = self._mutation
        for assigned in item.assignments:
            if not variables_of(assigned.value):
                continue
            name, declared = assigned.property, entity.properties[assigned.property]
            values = columns.setdefault(name, [])
            given = evaluate_value(
                assigned.value, RowColumns(rows), mutation._parameters, mutation._now
            )
            for entity_id, value in zip(ids, python_values(given), strict=True):
                try:
                    values.append(stored_value(value, declared))
                except ValueError as error:
                    message = f"{entity.name} '{entity_id}': {name}: {error}"
                    problems.add(Problem(message=message, type_name=entity.name, field=name))
        problems.raise_any()
        return columns

    def _embedded(
        self, entity: Entity, item: Update, rows: pa.Table, computed: frozenset[str]
    ) -> pa.Table:
        """Return rows with the vectors of computed texts, unless these are assigned as well."""
        embeddings = self._mutation._embeddings
        assigned = {a.property for a in item.assignments}
        stale = [
            declared.name
            for declared in entity.properties.values()
            if declared.embedding is not None
            and declared.embedding.source in computed
            and declared.name not in assigned
        ]
        if not stale or not embeddings.active:
            return rows
        for name in stale:
            rows = _with_column(rows, name, [None] * rows.num_rows)
        return embeddings.fill_rows(entity, rows)

    def _delete(self, item: Delete) -> None:
        catalog = self._base.schema.catalog
        if item.is_edge:
            self._delete_edges(
                catalog.edges[item.type_name],
                self._matching(catalog.edges[item.type_name], item.predicate)[0]["id"].to_pylist(),
            )
            return
        node = catalog.nodes[item.type_name]
        ids = self._matching(node, item.predicate)[0]["id"].to_pylist()
        gone = self._deleted.setdefault(node.table_key, {})
        new = [entity_id for entity_id in ids if entity_id not in gone]
        gone.update(dict.fromkeys(new))
        self._count(node, len(new))
        if new:
            self._cascade(node, new)

    def _cascade(self, node: NodeType, ids: list[str]) -> None:
        for edge in self._base.schema.catalog.incident_edges(node.name):
            for column, type_name in (("src", edge.source), ("dst", edge.target)):
                if type_name == node.name:
                    edge_ids = self._base.edge_ends(edge, column, ids)["id"].to_pylist()
                    self._delete_edges(edge, edge_ids)

    def _delete_edges(self, edge: EdgeType, ids: list[str]) -> None:
        gone = self._deleted.setdefault(edge.table_key, {})
        new = [entity_id for entity_id in ids if entity_id not in gone]
        gone.update(dict.fromkeys(new))
        self._count(edge, len(new))

    def _count(self, entity: Entity, number: int) -> None:
        if isinstance(entity, EdgeType):
            self.affected_edges += number
        else:
            self.affected_nodes += number


def key_id(schema: AcceptedSchema, node: NodeType, values: Mapping[str, object]) -> str:
    """Return the id of a keyed node with these values. Raises `DataError` for a null in its key."""
    order = schema.key_order(node)
    missing = [name for name in order if values.get(name) is None]
    if missing:
        raise DataError(
            f"{node.name}: key property '{missing[0]}' must not be null",
            problems=[{"type": node.name, "field": missing[0], "message": "null key"}],
        )
    types = [(name, node.properties[name].type) for name in order]
    first = values[order[0]]
    if len(order) == 1 and isinstance(first, str) and types[0][1].scalar is Scalar.STRING:
        return first
    columns = [pa.array([values[name]], arrow_type(declared)) for name, declared in types]
    return str(key_ids(columns, [declared for _name, declared in types])[0].as_py())


def _with_values(rows: pa.Table, values: Mapping[str, object]) -> pa.Table:
    """Return rows with some columns set to one value each."""
    for name, value in values.items():
        rows = _with_column(rows, name, [value] * rows.num_rows)
    return rows


def _with_column(rows: pa.Table, name: str, values: list[object]) -> pa.Table:
    """Return rows with other values in one column."""
    index = rows.schema.get_field_index(name)
    field = rows.schema.field(index)
    plain = [list(value) if isinstance(value, tuple) else value for value in values]
    return rows.set_column(index, field, pa.array(plain, field.type))


def _fixed(item: InsertNode | UpsertNode | Update) -> tuple[Assignment, ...]:
    """Return the assignments that are the same for all rows."""
    return tuple(a for a in item.assignments if not variables_of(a.value))


def _fill_defaults(entity: Entity, values: dict[str, object]) -> None:
    for name, declared in entity.properties.items():
        if declared.has_default and name not in values:
            values[name] = declared.default


def stored_value(value: LiteralValue, declared: Property) -> object:
    """Return a mutation value as the column stores it. Raises `ValueError`."""
    wanted: PropertyType = declared.type
    if value is None:
        return None
    if wanted.scalar is Scalar.BLOB:
        if not isinstance(value, str):
            raise InternalError("a blob value must be text")
        try:
            return decode_blob(value)
        except ExternalBlobPolicyError as error:
            raise ValueError(error.message) from error
    if wanted.is_integer and isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            raise ValueError(f"cannot convert {value} to {wanted.scalar} without loss")
        value = int(value)
    if isinstance(value, tuple):
        return convert(list(value), wanted)
    return convert(value, wanted)

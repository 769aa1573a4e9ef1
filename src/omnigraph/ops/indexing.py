"""Builds the indexes a schema declares, as a commit that changes no row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from msgspec import Struct

from omnigraph.catalog import Entity, NodeType, Scalar
from omnigraph.catalog.model import index_kind
from omnigraph.commits import Base, BuildIndexes, ChangeSet, Persistence, PlainOperation, Reserve
from omnigraph.errors import ResourceLimitError, StorageError
from omnigraph.limits import EDGE_FILE_GROWTH_MAX
from omnigraph.read.edge_files import keep_edges
from omnigraph.read.topology import Topologies
from omnigraph.read.word_files import keep_words
from omnigraph.store import IndexSpec, lacking_indexes, missing_indexes, side_by_side
from omnigraph.store.tables.workers import InProcess, Workers

_PARTIAL = "it does not cover every row"
_KINDS = {"vector": "IVF_FLAT", "label_list": "LABEL_LIST", "inverted": "INVERTED"}


class PendingIndex(Struct, frozen=True, kw_only=True):
    """A declared index that could not be built yet, and why.

    >>> [item.column for item in graph.maintenance.ensure_indices()]
    []
    """

    table_key: str
    column: str
    kind: str
    reason: str


def declared_indexes(entity: Entity) -> list[IndexSpec]:
    """Return every index a type should have, by column and kind."""
    pairs = {(name, "BTREE") for name in entity.implicit_columns}
    keys = entity.key if isinstance(entity, NodeType) else ()
    pairs |= {(name, "BTREE") for name in keys}
    pairs |= {(name, "BTREE") for item in entity.uniques for name in item.columns}
    declared = {name for item in entity.indexes for name in item.columns}
    declared |= {p.name for p in entity.properties.values() if p.embedding is not None}
    for name in declared & set(entity.properties):
        kind = _kind(entity, name)
        if kind is not None:
            pairs.add((name, kind))
    return [IndexSpec(column=column, kind=kind) for column, kind in sorted(pairs)]


def _kind(entity: Entity, name: str) -> str | None:
    declared = entity.properties[name].type
    kind = index_kind(declared)
    if kind is None:
        return None
    few_values = declared.scalar is Scalar.BOOL or bool(declared.enum_values)
    return "BITMAP" if few_values and kind == "btree" else _KINDS.get(kind, "BTREE")


class Indexing(PlainOperation):
    """Makes every declared index cover every row, where there is anything to index.

    Indexes are built beside other writers. When one of them was first, what was built is carried
    over to the new state if it still fits, else built again.
    """

    kind = "ensure_indices"
    persistence = Persistence(
        reserve=Reserve.IF_QUICK,
        takes_turn=False,
        given_up="the branch moved {attempts} times while its indexes were built",
        hint="try again when there are fewer writes",
    )

    def __init__(self, workers: Workers | None = None) -> None:
        self.workers = workers or InProcess()

    def prepare(self, base: Base) -> ChangeSet:
        """Find what the indexes of each table lack."""
        pins = base.capture.pins
        full = [e for e in base.schema.catalog.entities() if pins[e.table_key].row_count]
        lacking = side_by_side(
            lambda entity: lacking_indexes(base.table(entity), declared_indexes(entity)),
            full,
            at_once=base.tables.files.calls_at_once,
        )
        builds = [
            BuildIndexes(table_key=entity.table_key, specs=tuple(specs))
            for entity, specs in zip(full, lacking, strict=True)
            if specs
        ]
        return ChangeSet(indexes=tuple(builds))


def partial_indexes(base: Base, entities: Iterable[Entity]) -> list[PendingIndex]:
    """Return the declared indexes of some types that do not cover every row."""
    return [
        PendingIndex(
            table_key=entity.table_key, column=spec.column, kind=spec.kind, reason=_PARTIAL
        )
        for entity in entities
        for spec in lacking_indexes(base.table(entity), declared_indexes(entity))
    ]


def pending_indexes(base: Base) -> list[PendingIndex]:
    """Return the declared indexes that could not be built yet, for want of anything to index."""
    pending: list[PendingIndex] = []
    for entity in base.schema.catalog.entities():
        reason = "no row has a vector" if base.pin(entity).row_count else "there are no rows"
        pending += [
            PendingIndex(
                table_key=entity.table_key, column=spec.column, kind=spec.kind, reason=reason
            )
            for spec in missing_indexes(base.table(entity), declared_indexes(entity))
        ]
    return pending


def keep_what_reads_need(base: Base) -> None:
    """Write down what the first query of a process would have to compute.

    These are the words of texts that have an index, and the ends of edges as numbers of nodes.
    """
    catalog, tables = base.schema.catalog, base.tables
    for entity in catalog.nodes.values():
        pin = base.pin(entity)
        for spec in declared_indexes(entity) if pin.row_count else ():
            if spec.kind == _KINDS["inverted"]:
                # Only a search is faster by it: no reason to fail.
                with contextlib.suppress(StorageError):
                    language = entity.properties[spec.column].language
                    keep_words(tables, pin, spec.column, language)
    keep_edge_numbers(base)


def keep_edge_numbers(
    base: Base, *, added: int | None = None, shared: Topologies | None = None
) -> None:
    """Write down the ends of edges as numbers of nodes, so that the next process finds them.

    After a write of some rows, only for tables of which these may be a good part. Queries that use
    `shared` wait for it.
    """
    catalog = base.schema.catalog
    for edge in catalog.edges.values():
        pin = base.pin(edge)
        if added is not None and pin.row_count > added * EDGE_FILE_GROWTH_MAX:
            continue
        ends = (base.pin(catalog.nodes[edge.source]), base.pin(catalog.nodes[edge.target]))
        with contextlib.suppress(StorageError, ResourceLimitError):
            keep_edges(base.tables, pin, ends, shared)

"""Creates a graph. The manifest comes last: until it exists there is no graph."""

from __future__ import annotations

import os
import shutil
import time

from omnigraph.catalog import AcceptedSchema, TypeKind
from omnigraph.errors import AlreadyInitializedError, BadRequestError
from omnigraph.ids import UlidSource
from omnigraph.manifest import GraphCommit, Pin, TableRecord, encode, manifest_schema
from omnigraph.store import ControlFiles, Journal, Location, Slots, Syncer, Tables, version_file
from omnigraph.write import table_schema
from omnigraph.write.contract import CONTRACT_FILES, write_contract

MANIFEST = "__manifest"
CLAIM = "__init_claim.json"
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


def table_folder(kind: TypeKind, name: str) -> str:
    """Return where a type's first table lives: a hash of its name, so any name is a path."""
    value = _FNV_OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{kind}s/{value:016x}"


def initialize(
    location: Location,
    syncer: Syncer,
    *,
    schema_source: str,
    accepted: AcceptedSchema,
    ids: UlidSource,
    stamp: int,
    force: bool = False,
) -> None:
    """Create a graph at an empty place. Of two racing callers one wins, the other is told.

    Raises `AlreadyInitializedError` when a graph, or files of one, are there. `force` replaces
    schema files that lie around without a manifest, never a graph.
    """
    if os.path.exists(location.root) and not os.path.isdir(location.root):
        raise BadRequestError(f"{location.uri} is a file, not a folder")
    claims = Slots(location, syncer, folder="")
    slot = claims.take(CLAIM, b"{}") or claims.seize(CLAIM)
    if slot is None:
        raise AlreadyInitializedError(f"another process is creating a graph at {location.uri}")
    with slot:
        try:
            _refuse_existing(location, syncer, force=force)
            _create(location, syncer, schema_source, accepted, ids, stamp)
        finally:
            slot.remove()


def _refuse_existing(location: Location, syncer: Syncer, *, force: bool) -> None:
    control = ControlFiles(location, syncer)
    if Journal(location.path(MANIFEST)).exists():
        raise AlreadyInitializedError(
            f"{location.uri} already holds a graph", hint="open it, or choose another place"
        )
    present = [name for name in CONTRACT_FILES if control.exists(name)]
    if present and not force:
        raise AlreadyInitializedError(
            f"{location.uri} holds {', '.join(present)} but no graph",
            hint="remove them, or repeat with force",
        )
    # Without a manifest these tables belong to nobody: an earlier init died on the way.
    for folder in ("nodes", "edges", MANIFEST):
        shutil.rmtree(location.path(folder), ignore_errors=True)


def _create(
    location: Location,
    syncer: Syncer,
    schema_source: str,
    accepted: AcceptedSchema,
    ids: UlidSource,
    stamp: int,
) -> None:
    tables = Tables(location)
    records: list[TableRecord | Pin | GraphCommit] = []
    files: list[str] = []
    for entity in accepted.catalog.entities():
        path = table_folder(entity.kind, entity.name)
        table = tables.create(path, table_schema(entity))
        files.append(f"{location.path(path)}/{version_file(table)}")
        _type_id, incarnation = accepted.table_identity(entity.kind, entity.name)
        records.append(
            TableRecord(table_key=entity.table_key, incarnation=incarnation, path=path, seq=1)
        )
        records.append(
            Pin(
                table_key=entity.table_key,
                incarnation=incarnation,
                path=path,
                version=table.version,
                row_count=0,
                transaction_uuid=table.transaction_uuid(),
                seq=1,
            )
        )
    write_contract(ControlFiles(location, syncer), schema_source, accepted)
    syncer.sync(files)
    operation_id = ids.next()
    records.append(
        GraphCommit(
            graph_commit_id=ids.next(),
            manifest_version=1,
            parent_commit_id=None,
            created_at_us=time.time_ns() // 1000,
            operation_id=operation_id,
            schema_hash=accepted.ir_hash(),
        )
    )
    journal = Journal(location.path(MANIFEST))
    view = journal.create(
        encode(records, manifest_schema(stamp)), {"omnigraph.operation_id": operation_id}
    )
    syncer.sync(journal.files_of(view))

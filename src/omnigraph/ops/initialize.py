"""Creates a graph. The manifest comes last: until it exists there is no graph."""

from __future__ import annotations

import json
import re

from omnigraph.catalog import AcceptedSchema
from omnigraph.clock import now_us
from omnigraph.commits import GraphCommit, TableRecord, encode, manifest_schema
from omnigraph.commits.contract import CONTRACT_FILES, write_contract, write_history
from omnigraph.errors import AlreadyInitializedError, BadRequestError, OmniGraphError
from omnigraph.failpoints import Failpoint, fire
from omnigraph.ids import UlidSource
from omnigraph.rows import table_folder, table_schema
from omnigraph.store import (
    OPERATION_PROPERTY,
    ControlFiles,
    Journal,
    Location,
    Pin,
    Syncer,
    Tables,
    check_conditional_put,
    open_slots,
    side_by_side,
    version_file,
)

MANIFEST = "__manifest"
CLAIM = "__init_claim.json"


def initialize(
    location: Location,
    syncer: Syncer,
    *,
    schema_source: str,
    accepted: AcceptedSchema,
    ids: UlidSource,
    stamp: int,
    operation_id: str,
    force: bool = False,
) -> None:
    """Create a graph at an empty place. Of two racing callers one wins, the other is told.

    The first commit carries the operation id, so that a caller who did not get an answer can
    find out whether the graph is the one it made.

    Raises `AlreadyInitializedError` when a graph, or files of one, are there. `force` replaces
    schema files that lie around without a manifest, never a graph.
    """
    if not location.files.can_be_folder(location.root):
        raise BadRequestError(f"{location.uri} is a file, not a folder")
    check_conditional_put(location)
    claims = open_slots(location, syncer, folder="")
    paths = [table_folder(e.kind, e.name) for e in accepted.catalog.entities()]
    body = json.dumps({"tables": paths}).encode()
    slot = claims.take(CLAIM, body)
    if slot is None:
        claims.wait_until_known([CLAIM])
    abandoned = claims.seize(CLAIM) if slot is None else None
    slot = slot or abandoned
    if slot is None:
        raise AlreadyInitializedError(f"another process is creating a graph at {location.uri}")
    with slot:
        try:
            _refuse_existing(location, syncer, force=force, abandoned=abandoned is not None)
        except OmniGraphError:
            slot.remove()
            raise
        # From here on a failure leaves the claim, as a death does: it tells the next init what
        # to clear away.
        if abandoned is not None:
            _remove_abandoned(location, abandoned.body)
            abandoned.rewrite(body)
        fire(Failpoint.INIT_AFTER_CLAIM)
        _create(location, syncer, schema_source, accepted, ids, stamp, operation_id)
        slot.remove()


def _refuse_existing(location: Location, syncer: Syncer, *, force: bool, abandoned: bool) -> None:
    control = ControlFiles(location, syncer)
    if Journal(location, MANIFEST).exists():
        raise AlreadyInitializedError(
            f"{location.uri} already holds a graph", hint="open it, or choose another place"
        )
    present = [name for name in CONTRACT_FILES if control.exists(name)]
    if present and not force and not abandoned:
        raise AlreadyInitializedError(
            f"{location.uri} holds {', '.join(present)} but no graph",
            hint="remove them, or repeat with force",
        )


def _remove_abandoned(location: Location, claim: bytes) -> None:
    """Remove what an init that died on the way says it was making; nothing else."""
    try:
        paths = json.loads(claim)["tables"]
    except (ValueError, KeyError, TypeError):
        return
    for path in [*paths, MANIFEST]:
        if re.fullmatch(r"(nodes|edges)/[0-9a-f]{16}|__manifest", str(path)):
            location.files.remove(location.path(str(path)))


def _create(
    location: Location,
    syncer: Syncer,
    schema_source: str,
    accepted: AcceptedSchema,
    ids: UlidSource,
    stamp: int,
    operation_id: str,
) -> None:
    tables = Tables(location)
    records: list[TableRecord | Pin | GraphCommit] = []
    files: list[str] = []
    made = side_by_side(
        lambda entity: tables.create(table_folder(entity.kind, entity.name), table_schema(entity)),
        accepted.catalog.entities(),
        at_once=location.files.calls_at_once,
    )
    for entity, table in zip(accepted.catalog.entities(), made, strict=True):
        path = table.path
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
    fire(Failpoint.INIT_AFTER_TABLES)
    control = ControlFiles(location, syncer)
    write_history(control, schema_source, accepted)
    write_contract(control, schema_source, accepted)
    syncer.sync(files)
    fire(Failpoint.INIT_AFTER_CONTRACT)
    records.append(
        GraphCommit(
            graph_commit_id=ids.next(),
            manifest_version=1,
            parent_commit_id=None,
            created_at_us=now_us(),
            operation_id=operation_id,
            schema_hash=accepted.ir_hash(),
        )
    )
    journal = Journal(location, MANIFEST)
    view = journal.create(
        encode(records, manifest_schema(stamp)), {OPERATION_PROPERTY: operation_id}
    )
    fire(Failpoint.INIT_POST_MANIFEST_CREATE)
    syncer.sync(journal.files_of(view))

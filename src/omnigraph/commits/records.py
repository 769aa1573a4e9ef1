"""Rows of the manifest: what they mean, and how they are stored.

Six kinds exist: a table was registered, a table's published version moved, a table left the
schema, a graph commit was made, several graph commits were made together, and what all of this
adds up to was noted. Rows are never changed or removed. `seq` is the manifest version that
published a row; it alone decides what is newest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from omnigraph.commits.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from omnigraph.commits.groups import Group, GroupMember, RowIds
from omnigraph.errors import FormatError, StorageError
from omnigraph.store import Pin, primary_key_field
from omnigraph.values.commits import MAIN as MAIN
from omnigraph.values.commits import GraphCommit as GraphCommit

STAMP_KEY = b"omnigraph:internal_schema_version"
SCHEMA_APPLY = "schema_apply"
BRANCH_CREATE = "branch_create"
"""What a branch that starts inside a group is doing while it takes over commits."""
RECOVERY = "recovery"
RECOVERY_ACTOR = "omnigraph:recovery"
MAINTENANCE_KINDS = frozenset(("optimize", "ensure_indices"))
"""Kinds of commits that change no row."""


class TableRecord(Struct, frozen=True, kw_only=True):
    """A registered table: which type's rows it holds and where."""

    table_key: str
    incarnation: int
    path: str
    seq: int


class Tombstone(Struct, frozen=True, kw_only=True):
    """A table is no longer known under a key, as of a manifest version. Its data stays."""

    table_key: str
    incarnation: int
    path: str
    version: int
    seq: int


TableEntry = TableRecord | Pin | Tombstone
"""What a commit says about tables."""

Record = TableEntry | GraphCommit | Group | Checkpoint

CHECKPOINT = "checkpoint"
COMMIT = "graph_commit"
TABLE = "table"
"""Values of `object_type` that are searched for."""


def registered(pin: Pin) -> list[TableEntry]:
    """Return what a commit says of a table that is new under its key."""
    record = TableRecord(table_key=pin.table_key, incarnation=pin.incarnation, path=pin.path, seq=0)
    return [record, pin]


def dropped(pin: Pin) -> Tombstone:
    """Return what a commit says of a table that is no longer known under its key."""
    return Tombstone(
        table_key=pin.table_key,
        incarnation=pin.incarnation,
        path=pin.path,
        version=pin.version,
        seq=0,
    )


def renamed(pin: Pin, table_key: str) -> list[TableEntry]:
    """Return what a commit says of a table that gets another key."""
    return [dropped(pin), *registered(replace(pin, table_key=table_key, seq=0))]


def published_after(pins: Mapping[str, Pin], entries: Iterable[TableEntry]) -> list[Pin]:
    """Return the published versions of tables after a commit that says something about some."""
    published = {(pin.table_key, pin.incarnation): pin for pin in pins.values()}
    for item in entries:
        if isinstance(item, Pin):
            published[(item.table_key, item.incarnation)] = item
        elif isinstance(item, Tombstone):
            published.pop((item.table_key, item.incarnation), None)
    return [published[key] for key in sorted(published)]


def manifest_schema(stamp: int) -> pa.Schema:
    """Return the Arrow schema of the manifest, stamped with the storage format version."""
    return pa.schema(
        [
            primary_key_field("object_id"),
            pa.field("object_type", pa.string(), nullable=False),
            pa.field("location", pa.string()),
            pa.field("metadata", pa.string()),
            pa.field("base_objects", pa.list_(pa.string())),
            pa.field("table_key", pa.string(), nullable=False),
            pa.field("table_version", pa.uint64()),
            pa.field("table_branch", pa.string()),
            pa.field("row_count", pa.uint64()),
        ],
        metadata={STAMP_KEY: str(stamp).encode()},
    )


def encode(records: Iterable[Record], schema: pa.Schema) -> pa.Table:
    """Return records as manifest rows."""
    return pa.Table.from_pylist([_row(item) for item in records], schema=schema)


def _row(item: Record) -> dict[str, object]:
    match item:
        case TableRecord():
            return {
                "object_id": f"table:{item.table_key}:{item.incarnation}.{item.seq}",
                "object_type": TABLE,
                "location": item.path,
                "metadata": _json({"incarnation": item.incarnation, "seq": item.seq}),
                "table_key": item.table_key,
            }
        case Pin():
            branch = item.table_branch
            return {
                # With the table and the commit it belongs to: a name that comes back is another
                # table, and a version may be published again.
                "object_id": f"{item.table_key}${branch or MAIN}${item.version:020d}"
                f"${item.incarnation}.{item.seq}",
                "object_type": "table_version",
                "table_branch": branch,
                "location": item.path,
                "metadata": _json(
                    {
                        "incarnation": item.incarnation,
                        "seq": item.seq,
                        "txn_uuid": item.transaction_uuid,
                    }
                ),
                "table_key": item.table_key,
                "table_version": item.version,
                "row_count": item.row_count,
            }
        case Tombstone():
            return {
                "object_id": f"{item.table_key}$tombstone${item.version:020d}"
                f"${item.incarnation}.{item.seq}",
                "object_type": "table_tombstone",
                "location": item.path,
                "metadata": _json({"incarnation": item.incarnation, "seq": item.seq}),
                "table_key": item.table_key,
                "table_version": item.version,
            }
        case GraphCommit():
            return _commit_row(item)
        case Group():
            members = [[member.commit_id, member.touched] for member in item.members]
            return {
                "object_id": f"group${item.members[-1].commit_id}",
                "object_type": "graph_group",
                "metadata": _json({"seq": item.seq, "members": members}),
                "table_key": "",
                "table_version": item.seq,
            }
        case Checkpoint():
            return {
                "object_id": f"checkpoint${item.seq:020d}",
                "object_type": CHECKPOINT,
                "metadata": encode_checkpoint(item),
                "table_key": "",
                "table_version": item.seq,
            }


def _commit_row(item: GraphCommit) -> dict[str, object]:
    return {
        "object_id": item.graph_commit_id,
        "object_type": COMMIT,
        "metadata": _json(
            {
                "seq": item.manifest_version,
                "parent_commit_id": item.parent_commit_id,
                "merged_parent_commit_id": item.merged_parent_commit_id,
                "merged_branch": item.merged_branch,
                "actor_id": item.actor_id,
                "created_at": item.created_at_us,
                "operation_id": item.operation_id,
                "kind": item.kind,
                "schema_hash": item.schema_hash,
                "recovery_for_actor": item.recovery_for_actor,
                **({"place": item.place} if item.place else {}),
                **({} if item.message is None else {"message": item.message}),
            }
        ),
        "table_key": "",
        "table_version": item.manifest_version,
        "table_branch": item.branch,
    }


def _json(value: dict[str, object]) -> str:
    return msgspec.json.encode(value).decode()


def decode(rows: pa.Table) -> Iterator[Record]:
    """Yield the records of manifest rows. Raises `StorageError` for one that is damaged."""
    try:
        yield from _decoded(rows)
    except (ValueError, LookupError, TypeError, AttributeError, msgspec.MsgspecError) as error:
        raise StorageError(
            f"the manifest holds a damaged row: {error}", hint="restore it from a backup"
        ) from error


def _decoded(rows: pa.Table) -> Iterator[Record]:
    columns = ["object_id", "object_type", "location", "metadata", "table_key", "table_branch"]
    numbers = ["table_version", "row_count"]
    values = zip(*(rows[name].to_pylist() for name in (*columns, *numbers)), strict=True)
    for object_id, kind, location, metadata, table_key, branch, version, row_count in values:
        if kind == CHECKPOINT:
            yield decode_checkpoint(metadata)
            continue
        known = json.loads(metadata)
        if kind == COMMIT:
            yield GraphCommit(
                graph_commit_id=object_id,
                manifest_version=known["seq"],
                parent_commit_id=known["parent_commit_id"],
                merged_parent_commit_id=known["merged_parent_commit_id"],
                merged_branch=known.get("merged_branch"),
                actor_id=known["actor_id"],
                created_at_us=known["created_at"],
                operation_id=known["operation_id"],
                kind=known["kind"],
                schema_hash=known["schema_hash"],
                recovery_for_actor=known["recovery_for_actor"],
                branch=branch,
                place=known.get("place", 0),
                message=known.get("message"),
            )
        elif kind == "graph_group":
            yield Group(
                seq=known["seq"],
                members=tuple(
                    GroupMember(commit_id=name, touched=msgspec.convert(ids, dict[str, RowIds]))
                    for name, ids in known["members"]
                ),
            )
        elif kind == "table_version":
            yield Pin(
                table_key=table_key,
                incarnation=known["incarnation"],
                path=location,
                version=version,
                row_count=row_count,
                transaction_uuid=known["txn_uuid"],
                seq=known["seq"],
            )
        elif kind == "table_tombstone":
            yield Tombstone(
                table_key=table_key,
                incarnation=known["incarnation"],
                path=location,
                version=version,
                seq=known["seq"],
            )
        elif kind == TABLE:
            yield TableRecord(
                table_key=table_key,
                incarnation=known["incarnation"],
                path=location,
                seq=known["seq"],
            )
        else:
            raise FormatError(
                f"the manifest holds an unknown row type '{kind}'", hint="upgrade omnigraph first"
            )

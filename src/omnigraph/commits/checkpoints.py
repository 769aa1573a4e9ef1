"""What a manifest file ends with: enough to go on from there without reading what is older.

A checkpoint repeats, in one row, what the rows up to its commit add up to: the published version
of every table. It also says about the commits since the checkpoint before it when they were made
and, as short marks, which operations they were. Nothing rests on it alone: everything in it can be
told from the other rows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from hashlib import blake2b

import msgspec
import numpy as np
from numpy.typing import NDArray

from omnigraph.commits.groups import Group
from omnigraph.store import Pin
from omnigraph.values.commits import GraphCommit

Marks = NDArray[np.uint64]
"""Operations, each as a number; two operations may share one."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The tables after a manifest version, and the commits since the checkpoint before it."""

    seq: int
    since: int
    pins: tuple[Pin, ...]
    oldest_us: int
    newest_us: int
    operations: bytes
    """The marks of their operations, eight bytes each."""

    @property
    def marks(self) -> Marks:
        """The marks of their operations."""
        return np.frombuffer(self.operations, dtype="<u8").astype(np.uint64)


def checkpoint(
    seq: int, since: int, pins: Iterable[Pin], commits: Iterable[GraphCommit]
) -> Checkpoint:
    """Return the checkpoint of a version, given the commits since the one before it."""
    made = list(commits)
    moments = [commit.created_at_us for commit in made]
    return Checkpoint(
        seq=seq,
        since=since,
        pins=tuple(pins),
        oldest_us=min(moments),
        newest_us=max(moments),
        operations=marks_of(commit.operation_id for commit in made).astype("<u8").tobytes(),
    )


def marks_of(operation_ids: Iterable[str]) -> Marks:
    """Return the marks of operations."""
    return np.array([_mark(item) for item in operation_ids], dtype=np.uint64)


def _mark(operation_id: str) -> int:
    return int.from_bytes(blake2b(operation_id.encode(), digest_size=8).digest(), "little")


def encode_checkpoint(item: Checkpoint) -> str:
    """Return what is stored of a checkpoint."""
    pins = [
        [
            pin.table_key,
            pin.incarnation,
            pin.path,
            pin.version,
            pin.row_count,
            pin.transaction_uuid,
            pin.seq,
        ]
        for pin in item.pins
    ]
    body = _Stored(
        seq=item.seq,
        since=item.since,
        created=(item.oldest_us, item.newest_us),
        operations=base64.b64encode(item.operations).decode(),
        pins=msgspec.Raw(msgspec.json.encode(pins)),
    )
    return msgspec.json.encode(body).decode()


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    since: int
    created: tuple[int, int]
    operations: str
    pins: msgspec.Raw


_StoredPin = tuple[str, int, str, int, int, str, int]
_stored = msgspec.json.Decoder(_Stored)
_stored_pins = msgspec.json.Decoder(list[_StoredPin])


def decode_checkpoint(text: str, *, tables: bool = True) -> Checkpoint:
    """Read a checkpoint; without `tables`, all but its pins. Raises `ValueError`."""
    stored = _stored.decode(text)
    pins: list[Pin] = []
    for key, incarnation, path, version, rows, uuid, seq in (
        _stored_pins.decode(stored.pins) if tables else ()
    ):
        pins.append(
            Pin(
                table_key=key,
                incarnation=incarnation,
                path=path,
                version=version,
                row_count=rows,
                transaction_uuid=uuid,
                seq=seq,
            )
        )
    try:
        operations = base64.b64decode(stored.operations, validate=True)
    except binascii.Error as error:
        raise ValueError(f"the operations of a checkpoint: {error}") from error
    if len(operations) % 8:
        raise ValueError("the operations of a checkpoint are cut off")
    return Checkpoint(
        seq=stored.seq,
        since=stored.since,
        pins=tuple(pins),
        oldest_us=stored.created[0],
        newest_us=stored.created[1],
        operations=operations,
    )


class Landmark(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint with the newest commit before it, and its group: where a history begins."""

    checkpoint: Checkpoint
    head: GraphCommit
    group: Group | None = None

"""Blobs of one graph: what they are, and their bytes on demand."""

from __future__ import annotations

from typing import BinaryIO

from omnigraph.catalog import Scalar
from omnigraph.commits import MAIN, BranchState
from omnigraph.errors import (
    BadRequestError,
    BlobRangeError,
    ExternalBlobSourceError,
    NotFoundError,
)
from omnigraph.graph.acting import Acting
from omnigraph.graph.targets import At
from omnigraph.store import BlobRef, Table, find_blob, open_blob
from omnigraph.values.reports import BlobStat as BlobStat
from omnigraph.values.words import EntityKind


class Blobs:
    """Reads blobs at a snapshot. External values are reported, never fetched."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting

    def stat(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> BlobStat:
        """Describe a blob: `kind` is `node` or `edge`, `id` the entity's id.

        >>> graph.blobs.stat("node", "Task", "t1", "plan").size
        8
        """
        return self._find(kind, type_name, id, prop, branch, commit)[2]

    def open(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> BinaryIO:
        """Open a blob as a binary file; only what is read of it is fetched.

        >>> with graph.blobs.open("node", "Task", "t1", "plan") as plan:
        ...     plan.read()
        b'dig deep'
        """
        table, blob, stat = self._find(kind, type_name, id, prop, branch, commit)
        if stat.uri is not None:
            raise ExternalBlobSourceError(uri=stat.uri, reason="external values are not fetched")
        return open_blob(table, prop, blob)

    def _find(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        branch: str | None,
        commit: str | None,
    ) -> tuple[Table, BlobRef, BlobStat]:
        if branch is not None and commit is not None:
            raise BadRequestError("give a branch or a commit, not both")
        state = self._acting.state(At(branch=branch, commit=commit))
        self._check_property(state, kind, type_name, prop)
        pin = state.pins[f"{kind}:{type_name}"]
        table = self._acting.engine.tables.open(pin.path, pin.version)
        exists, blob = find_blob(table, prop, id)
        if blob is None:
            what = f"{prop} of {type_name} '{id}' is null" if exists else f"no {type_name} '{id}'"
            raise NotFoundError(what)
        stat = BlobStat(
            entity=kind,
            type_name=type_name,
            id=id,
            property_name=prop,
            size=blob.size,
            uri=blob.uri,
            etag=blob.etag,
            branch=None if commit else branch or MAIN,
            snapshot=commit,
            resolved_snapshot=state.head.graph_commit_id,
        )
        return table, blob, stat

    def _check_property(
        self, state: BranchState, kind: EntityKind, type_name: str, prop: str
    ) -> None:
        if kind not in ("node", "edge"):
            raise BadRequestError(f"expected node or edge, not {kind!r}")
        catalog = self._acting.engine.schema_of(state.head.schema_hash).catalog
        entity = (catalog.nodes if kind == "node" else catalog.edges).get(type_name)
        if entity is None:
            raise NotFoundError(f"unknown {kind} type '{type_name}'")
        declared = entity.properties.get(prop)
        if declared is None:
            raise NotFoundError(f"{type_name} has no property '{prop}'")
        if declared.type.scalar is not Scalar.BLOB:
            raise BadRequestError(f"{type_name}.{prop} is {declared.type}, not a Blob")


def blob_range(size: int, *, offset: int | None, length: int | None) -> tuple[int, int]:
    """Return start and end of a part of a blob; an end beyond the value is cut back to it.

    Raises `BlobRangeError` when the part starts behind the value.
    """
    start = offset or 0
    end = size if length is None else min(size, start + length)
    if start > size or (start == size and size):
        raise BlobRangeError(start=start, end=max(end, start), length=size)
    return start, end

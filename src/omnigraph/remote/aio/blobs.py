"""Blobs of a served graph."""

# Made from src/omnigraph/remote/blobs.py by `make client`: change that, not this.
from __future__ import annotations

import io
from typing import BinaryIO

from omnigraph.errors import ExternalBlobSourceError
from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.blobs import _selector
from omnigraph.values.commits import MAIN
from omnigraph.values.headers import SNAPSHOT_ID
from omnigraph.values.reports import BlobStat
from omnigraph.values.words import EntityKind


class AsyncRemoteBlobs:
    """Blobs of a served graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def stat(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> BlobStat:
        """Describe a blob."""
        params = _selector(kind, type_name, id, prop, branch, commit)
        response = await self._connection.head("/blob", params)
        external = response.status_code == 302
        return BlobStat(
            entity=kind,
            type_name=type_name,
            id=id,
            property_name=prop,
            size=None if external else int(response.headers["content-length"]),
            uri=response.headers["location"] if external else None,
            etag=response.headers["etag"].strip('"'),
            branch=None if commit else branch or MAIN,
            snapshot=commit,
            resolved_snapshot=response.headers[SNAPSHOT_ID],
        )

    async def open(
        self,
        kind: EntityKind,
        type_name: str,
        id: str,
        prop: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> BinaryIO:
        """Return a blob as a binary file; it is fetched whole."""
        params = _selector(kind, type_name, id, prop, branch, commit)
        async with self._connection.stream("GET", "/blob", params=params) as response:
            if response.status_code == 302:
                uri = response.headers["location"]
                raise ExternalBlobSourceError(uri=uri, reason="external values are not fetched")
            return io.BytesIO(await response.read())

"""A served graph, used by a program on asyncio."""

# Made from src/omnigraph/remote/graph.py by `make client`: change that, not this.
from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast
from urllib.parse import quote

import msgspec

from omnigraph.errors import BadRequestError, DataError
from omnigraph.limits import CLIENT_RETRIES, CLIENT_TIMEOUT_S
from omnigraph.remote.aio.blobs import AsyncRemoteBlobs
from omnigraph.remote.aio.branches import AsyncRemoteBranches, AsyncRemoteTags
from omnigraph.remote.aio.connection import AsyncConnection
from omnigraph.remote.aio.entities import AsyncRemoteEntities, AsyncRemotePictures
from omnigraph.remote.aio.history import AsyncRemoteCommits, AsyncRemoteFeed
from omnigraph.remote.aio.maintenance import AsyncRemoteMaintenance, AsyncRemoteUpkeep
from omnigraph.remote.aio.schema import AsyncRemoteSchema
from omnigraph.remote.aio.snapshots import AsyncRemoteSnapshot
from omnigraph.remote.aio.waiting import aside, for_aside, parts_for_aside
from omnigraph.remote.connection import Json, moment_text, new_id, state_fields
from omnigraph.remote.graph import (
    _ON_STORAGE,
    _call_body,
    _parameters,
    _query_body,
)
from omnigraph.remote.maintenance import not_served
from omnigraph.remote.rows import JsonRows, rows_from
from omnigraph.values.changes import Diff
from omnigraph.values.commits import MAIN
from omnigraph.values.headers import ARROW, NDJSON, PARQUET
from omnigraph.values.networks import igraph_graph, networkx_graph
from omnigraph.values.results import Explanation, LoadResult, MutationResult

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.catalog import Catalog
    from omnigraph.graph import Result
    from omnigraph.graph.api import Loadable, Moment, Params
    from omnigraph.graph.exporting import StateRows
    from omnigraph.intake.declared import Given
    from omnigraph.ops.load import LoadMode
    from omnigraph.remote.aio.prepared import AsyncPreparedQuery
    from omnigraph.remote.aio.view import AsyncBranchView
    from omnigraph.values.words import ChangeOp, EntityKind, ExportFormat, LoadWord


class AsyncRemoteGraph(AsyncRemoteUpkeep, AsyncRemotePictures):
    """One graph of a server. Tasks of one event loop may share it; close it when done.

    >>> with og.connect("http://127.0.0.1:8080", token="secret") as served:
    ...     served.uri
    'http://127.0.0.1:8080'

    What works on storage itself (`bulk`, `dump` and their like) needs the embedded handle.
    """

    actor: str | None = None
    """The token decides who the commits are by."""

    def __init__(
        self,
        url: str,
        *,
        graph: str | None = None,
        token: str | None = None,
        timeout: float = CLIENT_TIMEOUT_S,
        retries: int = CLIENT_RETRIES,
    ) -> None:
        self._use(AsyncConnection(url, graph=graph, token=token, timeout=timeout, retries=retries))

    @classmethod
    def over(cls, connection: AsyncConnection) -> Self:
        """Return the graph at the other end of a connection."""
        graph = cls.__new__(cls)
        graph._use(connection)
        return graph

    def _use(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.branches = AsyncRemoteBranches(self._connection)
        self.tags = AsyncRemoteTags(self._connection)
        self.commits = AsyncRemoteCommits(self._connection)
        self.feed = AsyncRemoteFeed(self._connection)
        self.blobs = AsyncRemoteBlobs(self._connection)
        self.entities = AsyncRemoteEntities(self._connection)
        self.schema = AsyncRemoteSchema(self._connection)
        self.maintenance = AsyncRemoteMaintenance(self._connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    if not TYPE_CHECKING:  # A type checker would take it for every name that is missing.

        def __getattr__(self, name: str) -> NoReturn:
            if name in _ON_STORAGE:
                raise not_served(name)
            raise AttributeError(name)

    async def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        await self._connection.close()

    @property
    def uri(self) -> str:
        """Where the graph is served."""
        return self._connection.uri

    @property
    async def schema_source(self) -> str:
        """Text of the accepted schema."""
        return str((await self._connection.get("/schema"))["schema_source"])

    @property
    async def catalog(self) -> Catalog:
        """The accepted schema as data."""
        from omnigraph.lang import compile_schema

        return compile_schema(await self.schema_source, name="_schema.pg", stored=True).catalog

    def as_actor(self, actor: str) -> NoReturn:
        """Refuse: the token decides who the commits are by."""
        raise BadRequestError(f"a token decides who acts, not '{actor}'", hint="use their token")

    async def refresh(self, branch: str | None = None) -> None:
        """Do nothing: every request sees the newest state."""

    # ---- reading --------------------------------------------------------------------------

    async def query(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a read query on one snapshot, as the embedded `Graph.query` does."""
        from omnigraph.remote.values import result_from

        state = state_fields(branch, commit, version, tag, timestamp)
        body = _query_body(source, params, name, timeout) | state

        return result_from((await self._connection.post("/query", body, accept=ARROW)).content)

    async def prepare(self, source: str, *, name: str | None = None) -> AsyncPreparedQuery:
        """Check a read query now, to be run many times with other parameters."""
        from omnigraph.graph.prepared import check_reads
        from omnigraph.lang import compile_query
        from omnigraph.remote.aio.prepared import AsyncPreparedQuery

        check_reads(compile_query(source, await self.catalog, select=name))
        return AsyncPreparedQuery(self.query, source, name)

    async def query_rows(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        timeout: float | None = None,
    ) -> JsonRows | Result:
        """Run a read query as `query` does; rows come as JSON if that can hold them."""
        state = state_fields(branch, commit, version, tag, timestamp)
        body = _query_body(source, params, name, timeout) | state
        rows = rows_from(await self._connection.post("/query", body, accept=NDJSON))
        if rows is not None:
            return rows
        state = {"branch": branch, "commit": commit, "version": version}
        return await self.query(
            source, params, name=name, tag=tag, timestamp=timestamp, timeout=timeout, **state
        )

    async def call_rows(
        self,
        name: str,
        params: Params = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
    ) -> JsonRows | Result:
        """Run a stored query that reads; rows come as JSON if that can hold them."""
        body = _call_body(params, branch, commit, expect_mutation=False)
        path = f"/queries/{quote(name, safe='')}"
        rows = rows_from(await self._connection.invoke(path, body, accept=NDJSON))
        if rows is not None:
            return rows
        whole = await self.call(name, params, branch=branch, commit=commit, expect_mutation=False)
        return cast("Result", whole)

    async def explain(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        timeout: float | None = None,
    ) -> Explanation:
        """Run a read query and return how: its plan, and rows, time and storage calls by step."""
        body = _query_body(source, params, name, timeout) | {"explain": True}
        body |= state_fields(branch, commit, version, tag, timestamp)
        return Explanation.from_json(
            (await self._connection.post("/query", body)).json()["explain"]
        )

    async def call(
        self,
        name: str,
        params: Params = None,
        *,
        branch: str | None = None,
        commit: str | None = None,
        expect_mutation: bool | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
    ) -> Result | MutationResult:
        """Run a stored query by its name."""
        body = _call_body(params, branch, commit, expect_mutation=expect_mutation)
        body["dry_run"] = dry_run
        suffix = "" if expected_head is None else "/if-graph-commit"
        response = await self._connection.invoke(
            f"/queries/{quote(name, safe='')}{suffix}",
            body,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        if response.headers["content-type"] == ARROW:
            from omnigraph.remote.values import result_from

            return result_from(response.content)
        return MutationResult.from_json(response.json())

    async def stored_queries(self) -> list[dict[str, Any]]:
        """Return the catalog of stored queries."""
        return list((await self._connection.get("/queries"))["queries"])

    async def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> AsyncRemoteSnapshot:
        """Return the newest snapshot, or the one at a commit id, graph version, tag or moment."""
        params = {
            "branch": branch,
            "commit": commit,
            "version": version,
            "tag": tag,
            "timestamp": moment_text(timestamp),
        }
        snapshot = AsyncRemoteSnapshot.from_json(await self._connection.get("/snapshot", params))
        return snapshot.asked_by(self.query)

    async def diff(
        self,
        a: str | int,
        b: str | int,
        *,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> Diff:
        """Return what turns one state into another."""
        params: Json = {"from": str(a), "to": str(b)}
        params |= {"kind": [*kinds], "type": [*types], "op": [*ops]}
        return Diff.from_json(await self._connection.get("/diff", params))

    async def export(
        self,
        dest: str | os.PathLike[str] | None = None,
        *,
        format: ExportFormat | None = None,
        branch: str | None = None,
        types: Iterable[str] = (),
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> AsyncIterator[dict[str, object]] | int:
        """Yield every entity as an envelope, nodes before edges; with `dest` write a file.

        Formats are those of the embedded `Graph.export`. Returns the number of entities with
        `dest`.
        """
        if dest is not None or format is not None:
            from omnigraph.graph.exporting import export_format, write_state

            form = export_format(dest, format)
            if dest is not None and form != "jsonl":
                at = (branch, commit, version, tag, timestamp)
                return write_state(await self._state(types, False, *at), types, dest, form)
        body = state_fields(branch, commit, version, tag, timestamp) | {"type_names": [*types]}
        if dest is None:
            return self._exported(body)
        from omnigraph.remote.files import copy_lines

        async with self._connection.stream("POST", "/export", body=body) as response:
            return (await aside(copy_lines, parts_for_aside(response.iter_bytes()), dest))[0]

    async def export_table(
        self,
        type_name: str,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> pa.Table:
        """Return the rows of one type as an Arrow table, by id; `load_table` takes it as it is."""
        from omnigraph.remote.values import table_from

        body = state_fields(branch, commit, version, tag, timestamp) | {"type_names": [type_name]}
        return table_from((await self._connection.post("/export", body, accept=ARROW)).content)

    async def to_networkx(
        self,
        *,
        types: Iterable[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> Any:
        """Return a state as a `networkx.MultiDiGraph`, as the embedded `Graph.to_networkx` does."""
        state = await self._state(types, True, branch, commit, version, tag, timestamp)
        return networkx_graph(*state.network())

    async def to_igraph(
        self,
        *,
        types: Iterable[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> Any:
        """Return a state as a directed `igraph.Graph`, as the embedded `Graph.to_igraph` does."""
        state = await self._state(types, True, branch, commit, version, tag, timestamp)
        return igraph_graph(*state.network())

    async def _state(
        self,
        names: Iterable[str],
        with_ends: bool,
        branch: str | None,
        commit: str | None,
        version: int | None,
        tag: str | None,
        timestamp: Moment,
    ) -> StateRows:
        """Return the rows of a state, which is named by its commit so that all are of that one."""
        from omnigraph.graph.exporting import StateRows

        snapshot = await self.snapshot(
            branch, commit=commit, version=version, tag=tag, timestamp=timestamp
        )
        pinned = snapshot.commit.graph_commit_id
        known = await self.schema.describe(commit=pinned)
        held: dict[str, pa.Table] = {}
        state = StateRows(types=known.types, rows=lambda info: held[info.name])
        state = state.only(names, with_ends=with_ends)
        for info in state.types:
            held[info.name] = await self.export_table(info.name, commit=pinned)
        return state

    async def entity_at(
        self,
        table_key: str,
        id: str,
        *,
        version: int | None = None,
        branch: str | None = None,
        commit: str | None = None,
        tag: str | None = None,
    ) -> dict[str, object] | None:
        """Return one entity at a graph version, commit or tag, None when it did not exist."""
        params: Json = {"table": table_key, "id": id, "version": version, "branch": branch}
        params |= {"commit": commit, "tag": tag}
        entity: dict[str, object] | None = (await self._connection.get("/entity", params))["entity"]
        return entity

    async def get(
        self, type_name: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, Any] | None:
        """Return one entity by its id as a dictionary, None when there is none."""
        from omnigraph.graph.lookup import python_entity

        entity = (await self.catalog).entity_named(type_name)
        at = await self.snapshot(branch, commit=commit)
        name = at.branch or MAIN
        image = await self.entity_at(entity.table_key, id, version=at.version, branch=name)
        return python_entity(entity, image)

    async def _exported(self, body: Json) -> AsyncIterator[dict[str, object]]:
        decode = msgspec.json.Decoder(dict[str, object]).decode
        async with self._connection.stream("POST", "/export", body=body) as response:
            async for line in response.iter_lines():
                yield decode(line)

    # ---- writing --------------------------------------------------------------------------

    async def mutate(
        self,
        source: str,
        params: Params = None,
        *,
        name: str | None = None,
        branch: str = MAIN,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
    ) -> MutationResult:
        """Run a mutation query as one atomic commit, as the embedded `Graph.mutate` does."""
        body = {
            "query": source,
            "params": _parameters(params),
            "name": name,
            "branch": branch,
            "dry_run": dry_run,
        }
        path = "/mutate" if expected_head is None else "/mutate/if-graph-commit"
        answer = await self._connection.write(
            path, body, expected_head=expected_head, operation_id=operation_id, message=message
        )
        return MutationResult.from_json(answer)

    async def load(
        self,
        data: Loadable,
        *,
        mode: LoadMode | LoadWord,
        branch: str = MAIN,
        create_from: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> LoadResult:
        """Load nodes and edges as one atomic commit, as the embedded `Graph.load` does."""
        from omnigraph.remote.files import load_bytes, with_file_name

        content = await aside(load_bytes, data, for_aside(lambda: self.catalog))
        if progress is not None:
            progress(len(content))
        params = {"branch": branch, "from": create_from, "mode": str(mode), "dry_run": dry_run}
        try:
            answer = await self._connection.write(
                "/load/ndjson",
                content=content,
                params=params,
                expected_head=expected_head,
                operation_id=operation_id,
                message=message,
            )
        except DataError as error:
            raise with_file_name(error, data) from None
        return LoadResult.from_json(answer)

    async def load_table(
        self,
        type_name: str,
        table: Given,
        *,
        mode: LoadMode | LoadWord,
        branch: str = MAIN,
        from_col: str = "from",
        to_col: str = "to",
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
    ) -> LoadResult:
        """Load rows of one type, a frame or the path of a Parquet file, as one commit."""
        from omnigraph.intake.inputs import as_arrow
        from omnigraph.remote.files import frame_envelopes, load_bytes

        if isinstance(table, str | os.PathLike):
            sent = {
                "type": type_name,
                "branch": branch,
                "mode": str(mode),
                "from_col": from_col,
                "to_col": to_col,
                "dry_run": dry_run,
            }
            answer = await self._connection.write(
                "/load/parquet",
                content=await aside(load_bytes, table, for_aside(lambda: self.catalog)),
                content_type=PARQUET,
                params=sent,
                expected_head=expected_head,
                operation_id=operation_id,
                message=message,
            )
            return LoadResult.from_json(answer)
        frame = as_arrow(table)
        return await self.load(
            frame_envelopes(await self.catalog, type_name, frame, from_col=from_col, to_col=to_col),
            mode=mode,
            branch=branch,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            dry_run=dry_run,
        )

    async def branch(self, name: str, *, from_: str | int = MAIN) -> AsyncBranchView:
        """Return a view of one branch; it is made from another one if it does not exist."""
        from omnigraph.remote.aio.view import AsyncBranchView

        if not await self.branches.exists(name):
            await self.branches.create(name, from_)
        return AsyncBranchView(self, name)

    def transaction(
        self, *, base: str = MAIN, name: str | None = None
    ) -> AbstractAsyncContextManager[AsyncBranchView]:
        """Work on a branch of its own: merged at the end of the block, dropped on an error."""
        from omnigraph.remote.aio.view import AsyncBranchView, transaction

        branch = name or f"tx-{new_id().lower()}"
        return transaction(self, branch, base, partial(AsyncBranchView, self))

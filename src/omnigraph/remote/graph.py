"""A served graph, used like one that is opened."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast
from urllib.parse import quote

import msgspec

from omnigraph.errors import BadRequestError, DataError
from omnigraph.limits import CLIENT_RETRIES, CLIENT_TIMEOUT_S
from omnigraph.remote.blobs import RemoteBlobs
from omnigraph.remote.branches import RemoteBranches, RemoteTags
from omnigraph.remote.connection import Connection, Json, moment_text, new_id, state_fields
from omnigraph.remote.entities import RemoteEntities, RemotePictures
from omnigraph.remote.history import RemoteCommits, RemoteFeed
from omnigraph.remote.maintenance import RemoteMaintenance, RemoteUpkeep, not_served
from omnigraph.remote.rows import JsonRows, rows_from
from omnigraph.remote.schema import RemoteSchema
from omnigraph.remote.snapshots import RemoteSnapshot
from omnigraph.remote.waiting import aside, for_aside, parts_for_aside
from omnigraph.values.changes import Diff
from omnigraph.values.commits import MAIN
from omnigraph.values.headers import ARROW, NDJSON, PARQUET
from omnigraph.values.networks import igraph_graph, networkx_graph
from omnigraph.values.results import Explanation, LoadResult, MutationResult

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.catalog import Catalog
    from omnigraph.graph import BranchView, Result
    from omnigraph.graph.api import Loadable, Moment, Params
    from omnigraph.graph.exporting import StateRows
    from omnigraph.graph.prepared import PreparedQuery
    from omnigraph.intake.declared import Given
    from omnigraph.ops.load import LoadMode
    from omnigraph.values.words import ChangeOp, EntityKind, ExportFormat, LoadWord

_ON_STORAGE = frozenset({"bulk"})


class RemoteGraph(RemoteUpkeep, RemotePictures):
    """One graph of a server. Threads may share it; close it when done.

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
        self._use(Connection(url, graph=graph, token=token, timeout=timeout, retries=retries))

    @classmethod
    def over(cls, connection: Connection) -> Self:
        """Return the graph at the other end of a connection."""
        graph = cls.__new__(cls)
        graph._use(connection)
        return graph

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self.branches = RemoteBranches(self._connection)
        self.tags = RemoteTags(self._connection)
        self.commits = RemoteCommits(self._connection)
        self.feed = RemoteFeed(self._connection)
        self.blobs = RemoteBlobs(self._connection)
        self.entities = RemoteEntities(self._connection)
        self.schema = RemoteSchema(self._connection)
        self.maintenance = RemoteMaintenance(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    if not TYPE_CHECKING:  # A type checker would take it for every name that is missing.

        def __getattr__(self, name: str) -> NoReturn:
            if name in _ON_STORAGE:
                raise not_served(name)
            raise AttributeError(name)

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        self._connection.close()

    @property
    def uri(self) -> str:
        """Where the graph is served."""
        return self._connection.uri

    @property
    def schema_source(self) -> str:
        """Text of the accepted schema."""
        return str(self._connection.get("/schema")["schema_source"])

    @property
    def catalog(self) -> Catalog:
        """The accepted schema as data."""
        from omnigraph.lang import compile_schema

        return compile_schema(self.schema_source, name="_schema.pg", stored=True).catalog

    def as_actor(self, actor: str) -> NoReturn:
        """Refuse: the token decides who the commits are by."""
        raise BadRequestError(f"a token decides who acts, not '{actor}'", hint="use their token")

    def refresh(self, branch: str | None = None) -> None:
        """Do nothing: every request sees the newest state."""

    # ---- reading --------------------------------------------------------------------------

    def query(
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

        return result_from(self._connection.post("/query", body, accept=ARROW).content)

    def prepare(self, source: str, *, name: str | None = None) -> PreparedQuery:
        """Check a read query now, to be run many times with other parameters."""
        from omnigraph.graph.prepared import PreparedQuery, check_reads
        from omnigraph.lang import compile_query

        check_reads(compile_query(source, self.catalog, select=name))
        return PreparedQuery(self.query, source, name)

    def query_rows(
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
        rows = rows_from(self._connection.post("/query", body, accept=NDJSON))
        if rows is not None:
            return rows
        state = {"branch": branch, "commit": commit, "version": version}
        return self.query(
            source, params, name=name, tag=tag, timestamp=timestamp, timeout=timeout, **state
        )

    def call_rows(
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
        rows = rows_from(self._connection.invoke(path, body, accept=NDJSON))
        if rows is not None:
            return rows
        whole = self.call(name, params, branch=branch, commit=commit, expect_mutation=False)
        return cast("Result", whole)

    def explain(
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
        return Explanation.from_json(self._connection.post("/query", body).json()["explain"])

    def call(
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
        response = self._connection.invoke(
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

    def stored_queries(self) -> list[dict[str, Any]]:
        """Return the catalog of stored queries."""
        return list(self._connection.get("/queries")["queries"])

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> RemoteSnapshot:
        """Return the newest snapshot, or the one at a commit id, graph version, tag or moment."""
        params = {
            "branch": branch,
            "commit": commit,
            "version": version,
            "tag": tag,
            "timestamp": moment_text(timestamp),
        }
        snapshot = RemoteSnapshot.from_json(self._connection.get("/snapshot", params))
        return snapshot.asked_by(self.query)

    def diff(
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
        return Diff.from_json(self._connection.get("/diff", params))

    def export(
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
    ) -> Iterator[dict[str, object]] | int:
        """Yield every entity as an envelope, nodes before edges; with `dest` write a file.

        Formats are those of the embedded `Graph.export`. Returns the number of entities with
        `dest`.
        """
        if dest is not None or format is not None:
            from omnigraph.graph.exporting import export_format, write_state

            form = export_format(dest, format)
            if dest is not None and form != "jsonl":
                at = (branch, commit, version, tag, timestamp)
                return write_state(self._state(types, False, *at), types, dest, form)
        body = state_fields(branch, commit, version, tag, timestamp) | {"type_names": [*types]}
        if dest is None:
            return self._exported(body)
        from omnigraph.remote.files import copy_lines

        with self._connection.stream("POST", "/export", body=body) as response:
            return aside(copy_lines, parts_for_aside(response.iter_bytes()), dest)[0]

    def export_table(
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
        return table_from(self._connection.post("/export", body, accept=ARROW).content)

    def to_networkx(
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
        state = self._state(types, True, branch, commit, version, tag, timestamp)
        return networkx_graph(*state.network())

    def to_igraph(
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
        state = self._state(types, True, branch, commit, version, tag, timestamp)
        return igraph_graph(*state.network())

    def _state(
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

        snapshot = self.snapshot(
            branch, commit=commit, version=version, tag=tag, timestamp=timestamp
        )
        pinned = snapshot.commit.graph_commit_id
        known = self.schema.describe(commit=pinned)
        held: dict[str, pa.Table] = {}
        state = StateRows(types=known.types, rows=lambda info: held[info.name])
        state = state.only(names, with_ends=with_ends)
        for info in state.types:
            held[info.name] = self.export_table(info.name, commit=pinned)
        return state

    def entity_at(
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
        entity: dict[str, object] | None = self._connection.get("/entity", params)["entity"]
        return entity

    def get(
        self, type_name: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, Any] | None:
        """Return one entity by its id as a dictionary, None when there is none."""
        from omnigraph.graph.lookup import python_entity

        entity = self.catalog.entity_named(type_name)
        at = self.snapshot(branch, commit=commit)
        name = at.branch or MAIN
        image = self.entity_at(entity.table_key, id, version=at.version, branch=name)
        return python_entity(entity, image)

    def _exported(self, body: Json) -> Iterator[dict[str, object]]:
        decode = msgspec.json.Decoder(dict[str, object]).decode
        with self._connection.stream("POST", "/export", body=body) as response:
            for line in response.iter_lines():
                yield decode(line)

    # ---- writing --------------------------------------------------------------------------

    def mutate(
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
        answer = self._connection.write(
            path, body, expected_head=expected_head, operation_id=operation_id, message=message
        )
        return MutationResult.from_json(answer)

    def load(
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

        content = aside(load_bytes, data, for_aside(lambda: self.catalog))
        if progress is not None:
            progress(len(content))
        params = {"branch": branch, "from": create_from, "mode": str(mode), "dry_run": dry_run}
        try:
            answer = self._connection.write(
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

    def load_table(
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
            answer = self._connection.write(
                "/load/parquet",
                content=aside(load_bytes, table, for_aside(lambda: self.catalog)),
                content_type=PARQUET,
                params=sent,
                expected_head=expected_head,
                operation_id=operation_id,
                message=message,
            )
            return LoadResult.from_json(answer)
        frame = as_arrow(table)
        return self.load(
            frame_envelopes(self.catalog, type_name, frame, from_col=from_col, to_col=to_col),
            mode=mode,
            branch=branch,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
            dry_run=dry_run,
        )

    def branch(self, name: str, *, from_: str | int = MAIN) -> BranchView:
        """Return a view of one branch; it is made from another one if it does not exist."""
        from omnigraph.graph import BranchView

        if not self.branches.exists(name):
            self.branches.create(name, from_)
        return BranchView(self, name)

    def transaction(
        self, *, base: str = MAIN, name: str | None = None
    ) -> AbstractContextManager[BranchView]:
        """Work on a branch of its own: merged at the end of the block, dropped on an error."""
        from omnigraph.graph.view import BranchView, transaction

        branch = name or f"tx-{new_id().lower()}"
        return transaction(self, branch, base, partial(BranchView, self))


def _query_body(source: str, params: Params, name: str | None, timeout: float | None) -> Json:
    return {"query": source, "params": _parameters(params), "name": name, "timeout": timeout}


def _call_body(
    params: Params, branch: str | None, commit: str | None, *, expect_mutation: bool | None
) -> Json:
    return {
        "params": _parameters(params),
        "branch": branch,
        "snapshot": commit,
        "expect_mutation": expect_mutation,
    }


def _parameters(params: Mapping[str, object] | None) -> Json | None:
    """Return parameters as JSON takes them. Raises `BadRequestError` for what it cannot hold."""
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise BadRequestError("parameters must be an object of names and values")
    return {str(name): _parameter(str(name), value) for name, value in params.items()}


def _parameter(name: str, value: object) -> object:
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_listed)
        json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequestError(f"parameter '{name}': not expressible as JSON: {error}") from error
    return cast("object", plain)


def _listed(value: object) -> object:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")

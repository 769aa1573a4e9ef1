"""What a session reads: queries, states, entities, exports."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.catalog import Catalog
from omnigraph.graph.acting import Acting, Caller
from omnigraph.graph.api import Moment, Params, Path
from omnigraph.graph.branches import Branches
from omnigraph.graph.changes import Changes, Diff
from omnigraph.graph.describing import describe_types
from omnigraph.graph.engine import Engine
from omnigraph.graph.explanation import Explanation
from omnigraph.graph.exporting import StateRows, export_format, write_state
from omnigraph.graph.lookup import entity_image, get_entity
from omnigraph.graph.prepared import PreparedQuery
from omnigraph.graph.querying import LOCAL, Asked, QueryEngine
from omnigraph.graph.result import Result
from omnigraph.graph.results import Snapshot
from omnigraph.graph.targets import At
from omnigraph.ops.diff import ChangeFilter
from omnigraph.ops.export import (
    export_envelopes,
    export_lines,
    export_table,
    select_tables,
)
from omnigraph.store import Table
from omnigraph.values.inspection import TypeInfo
from omnigraph.values.networks import igraph_graph, networkx_graph
from omnigraph.values.words import ChangeOp, EntityKind, ExportFormat
from omnigraph.version import INTERNAL_SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa


class Reads:
    """The reading half of a session; `Session` adds parts and writes."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._acting = Acting(engine, caller)

    @property
    def actor(self) -> str | None:
        """Who the commits of this session are by.

        >>> graph.as_actor("ann").actor
        'ann'
        """
        return self._acting.caller.actor

    @property
    def uri(self) -> str:
        """Location of the graph.

        >>> graph.uri
        '...tasks.omni'
        """
        return self._engine.uri

    @property
    def schema_source(self) -> str:
        """Text of the accepted schema.

        >>> "node Person" in graph.schema_source
        True
        """
        self._permit_schema()
        return self._engine.contract.source

    @property
    def catalog(self) -> Catalog:
        """The accepted schema as data.

        >>> sorted(graph.catalog.nodes)
        ['Person', 'Task']
        """
        self._permit_schema()
        return self._engine.schema.catalog

    def _permit_schema(self) -> None:
        """Ask for the schema: all branches have the same, so reading any of them is enough."""
        if self._acting.caller.policy is not None:
            Branches(self._acting).details()

    def refresh(self, branch: str | None = None) -> None:
        """Look at the newest state of a branch, or of all in use.

        >>> graph.refresh()

        Strict writes from now on are judged against it. A write whose owner died after its last
        table commit is finished; nothing is undone.
        """
        self._engine.accepted_schema()
        lines = self._engine.lines
        for line in lines.warm() if branch is None else (lines.get(branch),):
            self._acting.look(line, self._engine.newest(line))

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
        cancel: threading.Event | None = None,
        max_staleness_s: float | None = None,
        engine: QueryEngine = LOCAL,
        session: object = None,
        master: str | None = None,
    ) -> Result:
        """Run a read query on one snapshot.

        >>> graph.query(TASKS)[0]
        {'slug': 't1', 'title': 'Dig'}
        >>> graph.query(TASKS, branch="dev")[1]["title"]
        'Water'

        Args:
            source: Text of a `.gq` file.
            params: Parameter values.
            name: Which query of the text to run, if it holds several.
            branch: Branch to read.
            commit: Commit id to read at, instead of the newest state.
            version: Graph version of the branch to read at.
            tag: Tag to read at.
            timestamp: Read the branch as it was at this moment.
            timeout: Give up after this many seconds, with `ResourceLimitError`.
            cancel: Give up when this event is set, with `QueryError`.
            max_staleness_s: Look for newer commits only if that was longer ago than this.
            engine: `local`, `spark` (a `SparkResult`), or `auto`: Spark if memory is too small.
            session: The Spark session to use; by default the one in use.
            master: Where to start Spark if there is no session, such as `local[4]`.
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        where = (engine, session, master)
        asked = Asked(source, params, name, at, timeout, cancel, *where, max_staleness_s)
        return asked.run(self._acting, self)

    def prepare(self, source: str, *, name: str | None = None) -> PreparedQuery:
        """Check and compile a read query now, to be run many times with other parameters.

        >>> tasks = graph.prepare(TASKS)
        >>> len(tasks())
        2
        """
        self._permit_schema()
        self._engine.compile_read(source, name, self._engine.schema)
        return PreparedQuery(self.query, source, name)

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
        cancel: threading.Event | None = None,
        engine: QueryEngine = LOCAL,
        session: object = None,
        master: str | None = None,
    ) -> Explanation:
        """Run a read query and return how: its plan, and rows, time and storage calls by step.

        >>> graph.explain(TASKS).rows
        2

        Options are those of `query`. Of one on Spark there are the plan and its joins.
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        where = (engine, session, master)
        asked = Asked(source, params, name, at, timeout, cancel, *where)
        return asked.explain(self._acting, self)

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> Snapshot:
        """Return the newest snapshot, or the one at a commit id, graph version, tag or moment.

        >>> graph.snapshot().tables["node:Task"].row_count
        2
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        state = self._acting.state(at)
        return Snapshot(
            version=state.version,
            commit=state.head,
            tables=state.pins,
            internal_schema_version=INTERNAL_SCHEMA_VERSION,
            branch=state.branch.name,
        ).asked_by(self.query)

    def diff(
        self,
        a: str | int,
        b: str | int,
        *,
        kinds: Iterable[EntityKind] = (),
        types: Iterable[str] = (),
        ops: Iterable[ChangeOp] = (),
    ) -> Diff:
        """Return what turns one state into another.

        >>> [(item.op, item.id) for item in graph.diff("main", "dev").changes]
        [('update', 't2')]

        States are branches, commit ids, graph versions, tags, or `branch@version`. `kinds`
        (`node`, `edge`), `types` and `ops` (`insert`, `update`, `delete`) narrow the answer.
        """
        wanted = ChangeFilter.of(kinds, types, ops)
        engine = self._engine
        return Changes(self._acting.readable, engine.tables, engine.contract).diff(a, b, wanted)

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
        """Return one entity at a graph version, commit or tag, None when it did not exist.

        >>> graph.entity_at("node:Task", "t1", tag="v1")["data"]["title"]
        'Dig'
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag)
        return entity_image(self._acting, table_key, id, at)

    def get(
        self, type_name: str, id: str, *, branch: str | None = None, commit: str | None = None
    ) -> dict[str, Any] | None:
        """Return one entity by its id as a dictionary, None when there is none.

        >>> graph.get("Task", "t1")["title"]
        'Dig'
        """
        return get_entity(self._acting, type_name, id, At(branch=branch, commit=commit))

    def export(
        self,
        dest: Path | None = None,
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

        >>> next(graph.export(types=["Person"]))
        {'type': 'Person', 'data': {'id': 'ann', 'age': 41, 'name': 'ann'}}
        >>> graph.export("tasks.jsonl"), graph.export("tasks-csv", format="csv")
        (5, 5)

        The output of one call is one snapshot. Loading it into an empty graph of the same
        schema reproduces all entities, ids and values. Returns the number of entities with `dest`.

        Args:
            dest: A file; for CSV a folder that does not exist yet.
            format: `jsonl`, `graphml`, or `csv`: a folder with a file for each type. By default
                what the ending of `dest` says, else `jsonl`.
            branch: Branch to export.
            types: Only these types; in GraphML edges bring the types of their ends along.
            commit: As for `query`.
            version: As for `query`.
            tag: As for `query`.
            timestamp: As for `query`.
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        form = export_format(dest, format)
        catalog, tables = self._exported(at)
        if dest is None:
            return export_envelopes(catalog, tables, tuple(types))
        if form != "jsonl":
            return write_state(_state(catalog, tables), types, dest, form)
        return export_lines(catalog, tables, tuple(types), dest)

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
        """Return the rows of one type as an Arrow table, by id; `load_table` takes it as it is.

        >>> graph.export_table("Owns").column_names
        ['id', 'from', 'to', 'since']
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        catalog, tables = self._exported(at)
        (key,) = select_tables(catalog, tables, (type_name,))
        return export_table(catalog, key, tables[key])

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
        """Return a state as a `networkx.MultiDiGraph`, which is held in memory as a whole.

        >>> graph.to_networkx().nodes["Task", "t1"]["title"]
        'Dig'

        A node is keyed by its type and id, an edge besides by its own type and id. Attributes are
        `type`, `id` and the properties that are not null, as values of Python. With `types` only
        those, and the types at the ends of edges.
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        state = _state(*self._exported(at))
        return networkx_graph(*state.only(types, with_ends=True).network())

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
        """Return a state as a directed `igraph.Graph`, which is held in memory as a whole.

        >>> graph.to_igraph().vs.find(type="Task", id="t1")["title"]
        'Dig'

        Attributes are as of `to_networkx`; `vs.find(type=..., id=...)` finds a vertex.
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag, timestamp=timestamp)
        state = _state(*self._exported(at))
        return igraph_graph(*state.only(types, with_ends=True).network())

    def _exported(self, at: At) -> tuple[Catalog, dict[str, Table]]:
        """Return types and tables of a state, if the policy lets them be exported."""
        state = self._acting.state(at, self._acting.exportable)
        catalog = self._engine.schema_of(state.head.schema_hash).catalog
        return catalog, self._engine.opened(state)


def _state(catalog: Catalog, tables: Mapping[str, Table]) -> StateRows:
    """Return types and tables as the rows that other programs are given."""

    def rows(info: TypeInfo) -> pa.Table:
        key = catalog.entity_named(info.name).table_key
        return export_table(catalog, key, tables[key])

    known = {catalog.entity_of_table(key).name for key in tables}
    return StateRows(types=tuple(t for t in describe_types(catalog) if t.name in known), rows=rows)

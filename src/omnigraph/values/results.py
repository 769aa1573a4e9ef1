"""What queries, mutations and loads return besides rows."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from omnigraph.values.commits import MAIN, GraphCommit
from omnigraph.values.notebook import html_table
from omnigraph.values.value import Value, form

Mode = Annotated[str, Meta(extra_json_schema={"enum": ["append", "merge", "overwrite"]})]


class MutationResult(Value, frozen=True, kw_only=True):
    """Outcome of a mutation; `commit` is None when it changed nothing, or for a dry run.

    >>> done = graph.mutate(RENAME, {"slug": "t1", "title": "Mow"})
    >>> done.affected_nodes, done.commit.kind
    (1, 'mutation')

    `repeated` says that an earlier call with this operation id made the commit. What that one
    counted was not kept, so the counts are None.
    """

    published_as: ClassVar[str] = "ChangeOutput"
    optional: ClassVar[frozenset[str]] = frozenset({"dry_run"})
    hidden: ClassVar[frozenset[str]] = frozenset({"io"})

    branch: str = MAIN
    query_name: str = ""
    affected_nodes: int | None
    affected_edges: int | None
    repeated: bool = False
    actor_id: str | None = None
    dry_run: bool = False
    commit: GraphCommit | None
    io: Mapping[str, int] = msgspec.field(default_factory=dict)


class LoadedTable(Value, frozen=True, kw_only=True):
    """Rows loaded into one table."""

    table_key: str
    rows_loaded: int


class LoadedType(Value, frozen=True, kw_only=True):
    """Entities loaded of one type."""

    name: str
    entities_loaded: int


if TYPE_CHECKING:
    Counts = Mapping[str, int]
    Milliseconds = float
    TextLines = str
else:
    Counts = form(
        list[LoadedType],
        send=lambda counts: [{"name": n, "entities_loaded": c} for n, c in counts.items()],
        read=lambda items: {item.name: item.entities_loaded for item in items},
    )
    Milliseconds = form(float, send=lambda seconds: seconds * 1e3, read=lambda ms: ms / 1e3)
    TextLines = form(list[str], send=lambda text: text.split("\n"), read="\n".join)


class LoadResult(Value, frozen=True, kw_only=True):
    """Outcome of a load: rows per type, and the commit (None for an empty input or a dry run).

    >>> done = graph.load([{"type": "Person", "data": {"name": "cy"}}], mode="append")
    >>> done.nodes, done.commit.kind
    ({'Person': 1}, 'load')

    The rows are those of the input, also when `repeated` says that an earlier call with this
    operation id made the commit; `bulk` does not read the input again then, and counts none.
    `rejected` rows were left out, as the caller allowed. `warning` says what went wrong after the
    commit, such as a file for rejected rows that could not be written.
    """

    published_as: ClassVar[str] = "BatchLoadOutput"
    derived: ClassVar[Mapping[str, str]] = {"tables": "tables", "total_entities": "total_entities"}
    optional: ClassVar[frozenset[str]] = frozenset({"rejected"})
    hidden: ClassVar[frozenset[str]] = frozenset({"io", "warning"})

    branch: str = MAIN
    base_branch: str | None = None
    branch_created: bool = False
    mode: Mode
    nodes: Counts
    edges: Counts
    actor_id: str | None = None
    dry_run: bool = False
    repeated: bool = False
    rejected: int = 0
    commit: GraphCommit | None
    warning: str | None = None
    io: Mapping[str, int] = msgspec.field(default_factory=dict)

    def without(self, rejected: int) -> LoadResult:
        """Return the same with a number of rows that were left out."""
        return msgspec.structs.replace(self, rejected=rejected) if rejected else self

    @property
    def total_entities(self) -> int:
        """Rows loaded over all types."""
        return sum(self.nodes.values()) + sum(self.edges.values())

    @property
    def tables(self) -> tuple[LoadedTable, ...]:
        """Rows loaded, by table."""
        return tuple(
            LoadedTable(table_key=f"{kind}:{name}", rows_loaded=rows)
            for kind, counts in (("node", self.nodes), ("edge", self.edges))
            for name, rows in counts.items()
        )

    def _repr_html_(self) -> str:
        what = "a trial of a load into" if self.dry_run else "loaded into"
        rows = [(item.table_key, item.rows_loaded) for item in self.tables]
        rows += [("rejected", self.rejected)] if self.rejected else []
        commit = "no commit" if self.commit is None else f"commit {self.commit.graph_commit_id}"
        return html_table(("table", "rows"), rows, caption=f"{what} {self.branch}: {commit}")


class Stage(Value, frozen=True, kw_only=True, rename={"text": "step", "seconds": "ms"}):
    """One step as it was run: what it did, how many rows it left, how long it took."""

    text: str
    rows: int
    estimated_rows: int | None
    seconds: Milliseconds


class Explanation(Value, frozen=True, kw_only=True, rename={"rows": "row_count", "seconds": "ms"}):
    """The plan of a query, what each step did, and what it cost in storage calls."""

    plan: TextLines
    stages: tuple[Stage, ...]
    rows: int
    seconds: Milliseconds
    io: Mapping[str, int]

    def __str__(self) -> str:
        lines = [self.plan, "", f"{'rows':>10} {'estimated':>10} {'ms':>9}  step"]
        for item in self.stages:
            guess = "" if item.estimated_rows is None else f"{item.estimated_rows:,}"
            lines.append(f"{item.rows:>10,} {guess:>10} {item.seconds * 1e3:>9.3f}  {item.text}")
        lines.append(f"{self.rows:>10,} {'':>10} {self.seconds * 1e3:>9.3f}  in all")
        calls = ", ".join(f"{name} {count}" for name, count in sorted(self.io.items()))
        return "\n".join([*lines, f"storage: {calls or 'nothing'}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

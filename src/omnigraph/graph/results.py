"""What graph operations return: plain frozen values with a wire form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph.manifest import GraphCommit, Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult:
    """Outcome of a mutation; `commit` is None when it changed nothing, or for a dry run.

    `repeated` says that an earlier call with this operation id made the commit. Nobody kept what
    that one counted, so the counts are None.
    """

    affected_nodes: int | None
    affected_edges: int | None
    commit: GraphCommit | None
    repeated: bool = False
    branch: str = "main"
    query_name: str = ""
    actor_id: str | None = None
    dry_run: bool = False
    io: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "repeated": self.repeated,
            "actor_id": self.actor_id,
            **({"dry_run": True} if self.dry_run else {}),
            "commit": None if self.commit is None else self.commit.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Outcome of a load: rows per type, and the commit (None for an empty input or a dry run).

    The rows are those of the input, also when `repeated` says that an earlier call with this
    operation id made the commit. `rejected` rows of it were left out, as the caller allowed.
    """

    mode: str
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    commit: GraphCommit | None
    repeated: bool = False
    branch: str = "main"
    base_branch: str | None = None
    branch_created: bool = False
    actor_id: str | None = None
    dry_run: bool = False
    rejected: int = 0
    io: Mapping[str, int] = field(default_factory=dict)

    def without(self, rejected: int) -> LoadResult:
        """Return the same with a number of rows that were left out."""
        return replace(self, rejected=rejected) if rejected else self

    @property
    def total_entities(self) -> int:
        """Rows loaded over all types."""
        return sum(self.nodes.values()) + sum(self.edges.values())

    def to_json(self) -> dict[str, object]:
        """Return the wire form, with the newer field names beside the older ones."""
        tables = [
            {"table_key": f"{kind}:{name}", "rows_loaded": rows}
            for kind, counts in (("node", self.nodes), ("edge", self.edges))
            for name, rows in counts.items()
        ]
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "tables": tables,
            "nodes": [{"name": n, "entities_loaded": c} for n, c in self.nodes.items()],
            "edges": [{"name": n, "entities_loaded": c} for n, c in self.edges.items()],
            "total_entities": self.total_entities,
            "actor_id": self.actor_id,
            "dry_run": self.dry_run,
            "repeated": self.repeated,
            **({"rejected": self.rejected} if self.rejected else {}),
            "commit": None if self.commit is None else self.commit.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The graph at one version: which version of each table is published. Never moves."""

    version: int
    commit: GraphCommit
    tables: Mapping[str, Pin]
    internal_schema_version: int
    branch: str = "main"

    def to_json(self) -> dict[str, object]:
        """Return the wire form, with the newer field names beside the older ones."""
        tables = [
            {
                "table_key": pin.table_key,
                "table_path": pin.path,
                "table_version": pin.version,
                "table_branch": pin.table_branch,
                "row_count": pin.row_count,
            }
            for pin in self.tables.values()
        ]
        datasets = [
            {
                "entity_kind": pin.table_key.partition(":")[0],
                "type_name": pin.table_key.partition(":")[2],
                "dataset_path": pin.path,
                "published_dataset_version": pin.version,
                "native_dataset_branch": pin.table_branch,
                "entity_count": pin.row_count,
            }
            for pin in self.tables.values()
        ]
        return {
            "branch": self.branch,
            "graph_branch": self.branch,
            "manifest_version": self.version,
            "graph_manifest_version": self.version,
            "internal_schema_version": self.internal_schema_version,
            "graph_commit_id": self.commit.graph_commit_id,
            "tables": tables,
            "datasets": datasets,
        }

"""What maintenance did: optimize, repair, cleanup, dump; and what is known of a blob."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from omnigraph.values.commits import MANIFEST, GraphCommit
from omnigraph.values.value import Value, form, plain


def _pending(indexes: tuple[Mapping[str, str], ...]) -> list[dict[str, str]]:
    """Return indexes that are still to be built, with the column under its newer name as well."""
    newer = {"column": "property"}
    return [
        {name: value for key, value in item.items() for name in (key, newer.get(key, key))}
        for item in indexes
    ]


if TYPE_CHECKING:
    PendingIndexes = tuple[Mapping[str, str], ...]
else:
    PendingIndexes = form(
        list[dict[str, str]],
        send=_pending,
        read=lambda indexes: tuple(
            {name: value for name, value in item.items() if name != "property"} for item in indexes
        ),
    )


class OptimizedTable(Value, frozen=True, kw_only=True):
    """What an optimize did to one table, or why it left it alone."""

    derived: ClassVar[Mapping[str, str]] = {
        "type_key": "table_key",
        "manifest_version": "_published",
        "published_dataset_version": "_published",
        "lance_head_version": "_head",
    }
    optional: ClassVar[frozenset[str]] = frozenset(
        {"skipped", "manifest_version", "published_dataset_version", "lance_head_version"}
    )
    hidden: ClassVar[frozenset[str]] = frozenset({"published_version", "head_version"})

    table_key: str
    fragments_removed: int = 0
    fragments_added: int = 0
    committed: bool = False
    pending_indexes: PendingIndexes = ()
    skipped: str | None = None
    published_version: int | None = None
    head_version: int | None = None

    @property
    def _published(self) -> int | None:
        return None if self.skipped is None else self.published_version

    @property
    def _head(self) -> int | None:
        return None if self.skipped is None else self.head_version


if TYPE_CHECKING:
    OptimizedTables = tuple[OptimizedTable, ...]
else:
    # The manifest folds itself while it is written; it is told of after the tables.
    OptimizedTables = form(
        list[OptimizedTable],
        send=lambda tables: plain([*tables, OptimizedTable(table_key=MANIFEST)]),
        read=lambda tables: tuple(item for item in tables if item.table_key != MANIFEST),
    )


class OptimizeReport(Value, frozen=True, kw_only=True):
    """What an optimize did, or would do; `commit` is None when nothing needed it.

    In a trial (`dry_run`) `pending_indexes` are those that do not cover every row.
    """

    derived: ClassVar[Mapping[str, str]] = {"datasets": "tables"}
    optional: ClassVar[frozenset[str]] = frozenset({"dry_run"})

    uri: str
    branch: str
    commit: GraphCommit | None
    tables: OptimizedTables
    dry_run: bool = False


class Classification(StrEnum):
    """What lies above a table's published version."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"
    LEFTOVER = "leftover"
    MISSING = "missing"
    LOST_INDEX = "lost_index"


class RepairedTable(
    Value,
    frozen=True,
    kw_only=True,
    rename={"published_version": "manifest_version", "head_version": "lance_head_version"},
):
    """One table: what was found above its published version, and what was done about it."""

    derived: ClassVar[Mapping[str, str]] = {
        "type_key": "table_key",
        "published_dataset_version": "published_version",
    }

    table_key: str
    published_version: int
    head_version: int
    classification: Classification
    action: str = "no_op"
    operations: tuple[str, ...] = ()


class RepairReport(Value, frozen=True, kw_only=True):
    """What a repair found and did."""

    derived: ClassVar[Mapping[str, str]] = {
        "manifest_version": "_version",
        "graph_manifest_version": "_version",
        "datasets": "tables",
    }
    hidden: ClassVar[frozenset[str]] = frozenset({"commit"})

    uri: str
    confirm: bool
    force: bool
    commit: GraphCommit | None = None
    """The commit that published what was found; of a served graph it is not told."""
    tables: tuple[RepairedTable, ...]

    @property
    def refused(self) -> bool:
        """Whether something was found that only force would publish."""
        return any(item.action == "refused" for item in self.tables)

    @property
    def _version(self) -> int | None:
        return None if self.commit is None else self.commit.manifest_version


class CleanedTable(Value, frozen=True, kw_only=True):
    """What a cleanup removed, or would remove, of one table."""

    derived: ClassVar[Mapping[str, str]] = {"type_key": "table_key"}
    optional: ClassVar[frozenset[str]] = frozenset({"error"})

    table_key: str
    bytes_removed: int = 0
    old_versions_removed: int = 0
    forks_removed: int = 0
    error: str | None = None


class CleanupReport(
    Value,
    frozen=True,
    kw_only=True,
    rename={"keep": "keep_versions", "older_than_s": "older_than_secs"},
):
    """What a cleanup removed, or would remove."""

    derived: ClassVar[Mapping[str, str]] = {"datasets": "tables"}

    uri: str
    keep: int | None
    older_than_s: float | None
    dry_run: bool
    tables: tuple[CleanedTable, ...]

    @property
    def versions(self) -> int:
        """Versions removed over all tables."""
        return sum(item.old_versions_removed for item in self.tables)

    @property
    def bytes(self) -> int:
        """Bytes freed over all tables."""
        return sum(item.bytes_removed for item in self.tables)


class TableHealth(Value, frozen=True, kw_only=True):
    """How one table is doing. Files and bytes are those of all its versions and branches.

    >>> graph.maintenance.tables()[0].table_key
    'node:Person'
    """

    table_key: str
    rows: int
    fragments: int
    files: int
    bytes: int
    indexes: int
    """How many indexes the schema declares."""
    missing_indexes: tuple[str, ...]
    """Columns whose index does not exist."""
    uncovered_rows: int
    """Rows that the index of at least one column does not cover, so that it is scanned for them."""


class DumpReport(Value, frozen=True, kw_only=True, rename={"heads": "branches"}):
    """What a dump holds.

    >>> sorted(graph.maintenance.dump("tasks.tar").heads)
    ['dev', 'main']
    """

    uri: str
    archive: str
    heads: Mapping[str, str]
    files: int
    bytes: int


class BlobSelector(Value, frozen=True, kw_only=True, rename={"type_name": "type"}):
    """Which blob is meant."""

    entity: str
    type_name: str
    id: str
    property: str


class BlobTarget(Value, frozen=True, kw_only=True):
    """Which state a blob was looked at in."""

    optional: ClassVar[frozenset[str]] = frozenset({"branch", "snapshot"})

    branch: str | None = None
    snapshot: str | None = None
    resolved_snapshot: str


class BlobStat(Value, frozen=True, kw_only=True):
    """What is known of a blob without reading it; an external one has an address and no size."""

    derived: ClassVar[Mapping[str, str]] = {
        "selector": "_selector",
        "kind": "kind",
        "target": "_target",
    }
    optional: ClassVar[frozenset[str]] = frozenset({"size", "uri"})
    hidden: ClassVar[frozenset[str]] = frozenset(
        {"entity", "type_name", "id", "property_name", "branch", "snapshot", "resolved_snapshot"}
    )

    entity: str
    type_name: str
    id: str
    property_name: str
    size: int | None
    etag: str
    uri: str | None
    branch: str | None
    snapshot: str | None
    resolved_snapshot: str

    @property
    def kind(self) -> str:
        """`managed` or `external`."""
        return "managed" if self.uri is None else "external"

    @property
    def _selector(self) -> BlobSelector:
        return BlobSelector(
            entity=self.entity, type_name=self.type_name, id=self.id, property=self.property_name
        )

    @property
    def _target(self) -> BlobTarget:
        return BlobTarget(
            branch=self.branch, snapshot=self.snapshot, resolved_snapshot=self.resolved_snapshot
        )

"""Commits, branches, tags and snapshots."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from omnigraph.errors import BadRequestError
from omnigraph.values.notebook import html_table
from omnigraph.values.value import Value, form

MAIN = "main"
MANIFEST = "__manifest"
GENESIS_KIND = "init"
_QUERY = "_query"
"""Where a snapshot keeps the `query` of its graph; under that name it would hide its own."""
_STATES = ("branch", "commit", "version", "tag", "timestamp")


def moment(microseconds: int) -> datetime.datetime:
    """Return an instant, UTC."""
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC)


def keyed_operation(key: str, *, name: str, request: str) -> str:
    """Return the id of the operation that one request with a caller's key is, and no other."""
    return f"{key}~{name}.{request}"


def caller_operation(operation_id: str) -> str:
    """Return the id as its caller gave it: what a server put behind a key tells others nothing."""
    return _KEYED.sub("", operation_id)


_KEYED = re.compile(r"~[0-9a-f]{32}\.[0-9a-f]{32}\Z")

if TYPE_CHECKING:
    OperationId = str
else:
    OperationId = form(str, send=caller_operation, read=str)


class GraphCommit(
    Value,
    frozen=True,
    kw_only=True,
    rename={"branch": "manifest_branch", "created_at_us": "created_at"},
):
    """One commit of the graph's history. On the wire newer names stand beside older ones.

    >>> commit = graph.commits.head("dev")
    >>> commit.kind, commit.actor_id, commit.message
    ('mutation', None, None)
    """

    published_as: ClassVar[str] = "CommitOutput"
    derived: ClassVar[Mapping[str, str]] = {
        "graph_branch": "branch",
        "graph_manifest_version": "manifest_version",
    }
    optional: ClassVar[frozenset[str]] = frozenset({"message"})

    graph_commit_id: str
    branch: str | None = None
    """The branch it was made on, None for main."""
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None = None
    actor_id: str | None = None
    created_at_us: Annotated[int, Meta(description="Microseconds since 1970, UTC.")] = 0
    kind: str = GENESIS_KIND
    recovery_for_actor: str | None = None
    operation_id: OperationId = ""
    schema_hash: str = ""
    merged_branch: str | None = None
    """The life of the branch the merged parent was made on."""
    place: int = 0
    """Its place among the commits that were published together as one graph version, from 0."""
    message: str | None = None
    """What its caller said about it."""

    @property
    def created_at(self) -> datetime.datetime:
        """When the commit was made, UTC."""
        return moment(self.created_at_us)

    def _repr_html_(self) -> str:
        facts = {
            "kind": self.kind,
            "branch": self.branch or MAIN,
            "by": self.actor_id,
            "at": self.created_at.isoformat(sep=" ", timespec="seconds"),
            "parent": self.parent_commit_id,
            "merged": self.merged_parent_commit_id,
            "message": self.message,
        }
        told = [(name, value) for name, value in facts.items() if value is not None]
        return html_table(("commit", self.graph_commit_id), told)


class BranchId(msgspec.Struct, frozen=True):
    """A branch in one of its lives. A name deleted and made again is another branch.

    Everything written for a branch carries its uid, so a writer that slept through
    deletion and rebirth finds nothing of its own instead of another branch's.
    """

    name: str
    uid: str

    @property
    def path(self) -> str:
        """Where its manifest lies, relative to the graph's root."""
        return MANIFEST if self.is_main else f"{MANIFEST}/tree/{self.uid}"

    @property
    def is_main(self) -> bool:
        """Whether this is the main branch."""
        return self.name == MAIN

    def owns(self, table_branch: str | None) -> bool:
        """Whether a branch of a table belongs to this branch of the graph."""
        if table_branch is None:
            return self.is_main
        return table_branch.startswith(f"{self.uid}.")

    def fork_name(self, operation_id: str) -> str:
        """Return a name for a branch of a table that nothing else ever had."""
        return f"{self.uid}.{operation_id}"


class BranchInfo(Value, frozen=True, kw_only=True):
    """A branch, the branch it was made from, and the graph version where it left it."""

    name: str
    branch_uid: str
    """The name together with what tells it from namesakes made earlier or later."""
    parent: str | None = None
    forked_at: int = 0
    created_at_s: int = 0

    @property
    def id(self) -> BranchId:
        """The branch in this life of its name."""
        return BranchId(self.name, self.branch_uid)

    @property
    def created_at(self) -> datetime.datetime | None:
        """When it was made; unknown for main."""
        return moment(self.created_at_s * 1_000_000) if self.created_at_s else None


class Tag(
    Value,
    frozen=True,
    kw_only=True,
    rename={
        "branch_name": "branch",
        "version": "manifest_version",
        "created_at_us": "created_at",
    },
):
    """A name for one graph version of one branch."""

    published_as: ClassVar[str] = "TagOutput"

    name: str
    branch_name: str
    version: int
    created_at_us: int
    branch_uid: str = ""
    """The branch in the life whose state is named."""
    commit_id: str | None = None
    """The commit that made the state, if later ones were published in the same version."""

    @property
    def branch(self) -> BranchId:
        """The branch in the life whose state is named."""
        return BranchId(self.branch_name, self.branch_uid or self.branch_name)


class PublishedTable(
    Value,
    frozen=True,
    kw_only=True,
    rename={"path": "table_path", "version": "table_version"},
):
    """A published table."""

    published_as: ClassVar[str] = "SnapshotTable"

    table_key: str
    path: str
    version: int
    table_branch: str | None
    row_count: int


class Dataset(Value, frozen=True, kw_only=True):
    """A published table under the newer names."""

    entity_kind: str
    type_name: str
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None
    entity_count: int


_PUBLISHED = ("table_key", "path", "version", "table_branch", "row_count")


def _published(pin: object) -> dict[str, object]:  # a pin of the manifest as well
    return PublishedTable(**{name: getattr(pin, name) for name in _PUBLISHED}).to_json()


if TYPE_CHECKING:
    Tables = Mapping[str, Any]
else:
    Tables = form(
        list[PublishedTable],
        send=lambda tables: [_published(pin) for pin in tables.values()],
        read=lambda tables: {item.table_key: item for item in tables},
    )


class Snapshot(Value, frozen=True, kw_only=True, dict=True, rename={"version": "manifest_version"}):
    """The graph at one version: which version of each table is published. Never moves.

    >>> state = graph.snapshot("dev")
    >>> state.branch, state.tables["node:Task"].row_count
    ('dev', 2)
    """

    published_as: ClassVar[str] = "SnapshotOutput"
    derived: ClassVar[Mapping[str, str]] = {
        "graph_branch": "branch",
        "graph_manifest_version": "version",
        "graph_commit_id": "graph_commit_id",
        "datasets": "datasets",
    }

    branch: str = MAIN
    version: int
    internal_schema_version: int
    tables: Tables
    commit: GraphCommit

    @property
    def graph_commit_id(self) -> str:
        """The commit that made this state."""
        return self.commit.graph_commit_id

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The tables under the newer names."""
        return tuple(
            Dataset(
                entity_kind=item.table_key.partition(":")[0],
                type_name=item.table_key.partition(":")[2],
                dataset_path=item.path,
                published_dataset_version=item.version,
                native_dataset_branch=item.table_branch,
                entity_count=item.row_count,
            )
            for item in self.tables.values()
        )

    def asked_by(self, query: Callable[..., object]) -> Self:
        """Return itself, knowing the `query` of its graph; that is not part of the value."""
        self.__dict__[_QUERY] = query
        return self

    def ask(
        self,
        source: str,
        params: Mapping[str, object] | None,
        name: str | None,
        options: Mapping[str, object],
    ) -> Any:  # noqa: ANN401 - the rows of a query, or a promise of them
        """Run a read query of its graph on this state."""
        if given := [option for option in _STATES if options.get(option) is not None]:
            raise BadRequestError(
                f"a snapshot is one state: {given[0]} has no place here",
                hint=f"graph.query(..., {given[0]}=...)",
            )
        query = self.__dict__.get(_QUERY)
        if query is None:
            raise BadRequestError(
                "this snapshot was copied, and knows of no graph",
                hint="graph.query(..., commit=snapshot.graph_commit_id)",
            )
        return query(source, params, name=name, **{**options, "commit": self.graph_commit_id})

"""Differences between states, the changes of a commit, and pages of the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from omnigraph.values.commits import MAIN, GraphCommit, OperationId
from omnigraph.values.merges import image_text, text_table
from omnigraph.values.pages import Token, page
from omnigraph.values.value import Value, form

HTML_ROWS_MAX = 200


class TypeRef(Value, frozen=True, kw_only=True):
    """A type: its stable number, as text, and its name."""

    id: str
    name: str


class EntityChange(Value, frozen=True, kw_only=True):
    """One entity that differs. Images hold all properties; an edge's also its endpoints."""

    optional: ClassVar[frozenset[str]] = frozenset({"before", "after"})

    kind: str
    type: TypeRef
    id: str
    op: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None

    @property
    def type_id(self) -> int:
        """The stable number of its type."""
        return int(self.type.id)

    @property
    def type_name(self) -> str:
        """The name of its type."""
        return self.type.name

    def changed_properties(self) -> dict[str, tuple[object, object]]:
        """Return the properties an update changed, with their old and new values."""
        old = _properties(self.before)
        new = _properties(self.after)
        return {
            name: (old.get(name), new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        }


def _properties(image: Mapping[str, object] | None) -> Mapping[str, object]:
    properties = {} if image is None else image["properties"]
    return properties if isinstance(properties, Mapping) else {}


class Diff(Value, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """What turns one state into another. Iterate over it, or look at it in a notebook.

    >>> [(item.op, item.id) for item in graph.diff("main", "dev").changes]
    [('update', 't2')]
    """

    published_as: ClassVar[str] = "DiffOutput"

    before: str
    after: str
    changes: tuple[EntityChange, ...]

    def __iter__(self) -> Iterator[EntityChange]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of changes by type and operation."""
        counts: dict[str, dict[str, int]] = {}
        for item in self.changes:
            ops = counts.setdefault(item.type_name, {"insert": 0, "update": 0, "delete": 0})
            ops[item.op] += 1
        return counts

    def to_arrow(self) -> Any:  # noqa: ANN401  # pyarrow carries no types
        """Return one row per change, images as JSON text."""
        rows = [
            {
                "op": item.op,
                "kind": item.kind,
                "type": item.type_name,
                "id": item.id,
                "before": image_text(item.before),
                "after": image_text(item.after),
            }
            for item in self.changes
        ]
        return text_table(("op", "kind", "type", "id", "before", "after"), rows)

    def to_pandas(self) -> Any:  # noqa: ANN401  # pandas may be missing
        """Return `to_arrow` as a pandas frame."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        import html

        lines = "".join(
            f"<tr><td>{item.op}</td><td>{html.escape(item.type_name)}</td>"
            f"<td>{html.escape(item.id)}</td><td>{html.escape(_short(item))}</td></tr>"
            for item in self.changes[:HTML_ROWS_MAX]
        )
        head = "<tr><th>op</th><th>type</th><th>id</th><th>what</th></tr>"
        more = len(self.changes) - HTML_ROWS_MAX
        tail = f"<p>... and {more} more</p>" if more > 0 else ""
        return f"<table>{head}{lines}</table>{tail}"


def _short(item: EntityChange) -> str:
    changed = item.changed_properties()
    if item.op == "update":
        return ", ".join(f"{name}: {old!r} -> {new!r}" for name, (old, new) in changed.items())
    return ", ".join(f"{n}: {v!r}" for n, (o, new) in changed.items() for v in [new or o])


class CommitCause(
    Value,
    frozen=True,
    kw_only=True,
    rename={"branch": "authored_branch", "created_at_us": "authored_at"},
):
    """Who made changes, when and where: a commit as the feed tells of it."""

    optional: ClassVar[frozenset[str]] = frozenset({"message"})

    graph_commit_id: str
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    branch: str
    actor_id: str | None
    created_at_us: int
    manifest_version: int = 0
    kind: str = ""
    recovery_for_actor: str | None = None
    operation_id: OperationId = ""
    schema_hash: str = ""
    merged_branch: str | None = None
    message: str | None = None


def _cause(commit: GraphCommit) -> dict[str, object]:
    fields = {name: getattr(commit, name) for name in CommitCause.__struct_fields__}
    return CommitCause(**fields | {"branch": commit.branch or MAIN}).to_json()


def _commit(cause: CommitCause) -> GraphCommit:
    fields = msgspec.structs.asdict(cause)
    return GraphCommit(**fields | {"branch": None if cause.branch == MAIN else cause.branch})


if TYPE_CHECKING:
    Cause = GraphCommit
else:
    Cause = form(CommitCause, send=_cause, read=_commit)


class ChangeBlock(Value, frozen=True, kw_only=True, rename={"commit": "cause"}):
    """The changes one commit made, against its first parent."""

    optional: ClassVar[frozenset[str]] = frozenset({"schema_boundary"})

    commit: Cause
    schema_boundary: bool = False
    """The commit changed the schema: what it did to stored rows is told by no row event."""
    changes: tuple[EntityChange, ...]

    def cause(self) -> dict[str, object]:
        """Return who made the changes, when and where."""
        return _cause(self.commit)

    def page(self, *, limit: int | None, page_token: str | None) -> tuple[ChangeBlock, Token]:
        """Return some of the changes, and the token of the next ones if there are any."""
        changes, token = page(
            self.changes,
            key=lambda item: f"{item.kind} {item.type_id} {item.id} {item.op}",
            limit=limit,
            page_token=page_token,
        )
        return msgspec.structs.replace(self, changes=tuple(changes)), token


class FeedPage(Value, frozen=True, kw_only=True):
    """One answer of the feed. There is a cursor once all its commits were delivered whole."""

    published_as: ClassVar[str] = "FeedOutput"
    optional: ClassVar[frozenset[str]] = frozenset({"next_page_token", "cursor", "caught_up"})
    derived: ClassVar[Mapping[str, str]] = {"caught_up": "_told_with_cursor"}
    hidden: ClassVar[frozenset[str]] = frozenset({"caught_up"})

    blocks: tuple[ChangeBlock, ...]
    next_page_token: str | None = None
    cursor: str | None = None
    caught_up: bool = False

    @property
    def _told_with_cursor(self) -> bool | None:
        return None if self.cursor is None else self.caught_up


class Baseline(Value, frozen=True, kw_only=True):
    """A whole snapshot written to a file, and where the feed goes on after it."""

    hidden: ClassVar[frozenset[str]] = frozenset({"entities"})

    snapshot_commit_id: str
    resume_cursor: str
    entities: int = 0

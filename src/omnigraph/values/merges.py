"""What merges return: outcomes, plans and conflicts."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from omnigraph.values.commits import GraphCommit
from omnigraph.values.value import Value, form

Outcome = Annotated[
    str, Meta(extra_json_schema={"enum": ["already_up_to_date", "fast_forward", "merged"]})
]


class MergeResult(Value, frozen=True, kw_only=True):
    """Outcome of a merge; `commit` is None when there was nothing to merge.

    >>> graph.branches.merge("dev").outcome
    'fast_forward'
    """

    derived: ClassVar[Mapping[str, str]] = {"branch_delete_error_details": "_delete_error"}
    optional: ClassVar[frozenset[str]] = frozenset(
        {"branch_delete_error", "branch_delete_error_details"}
    )

    source: str
    target: str
    outcome: Outcome
    actor_id: str | None = None
    commit: GraphCommit | None = None
    branch_deleted: bool = False
    branch_delete_error: str | None = None

    @property
    def _delete_error(self) -> dict[str, str] | None:
        error = self.branch_delete_error
        return None if error is None else {"error": error}


class ConflictKind(StrEnum):
    """Why two changes do not fit together."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


class Conflict(Value, frozen=True, kw_only=True):
    """One entity both sides changed differently. Images are envelopes; None means absent.

    Of a base merged from several states `base` leaves out the values these disagree on.
    """

    derived: ClassVar[Mapping[str, str]] = {"row_id": "entity_id"}
    hidden: ClassVar[frozenset[str]] = frozenset({"base", "ours", "theirs"})

    table_key: str
    entity_id: str | None
    kind: ConflictKind
    message: str
    base: Mapping[str, Any] | None = None
    ours: Mapping[str, Any] | None = None
    theirs: Mapping[str, Any] | None = None

    def to_review(self) -> dict[str, object]:
        """Return the wire form with the three images."""
        return {**self.to_json(), "base": self.base, "ours": self.ours, "theirs": self.theirs}


if TYPE_CHECKING:
    Reviewed = tuple[Conflict, ...]
else:
    Reviewed = form(
        tuple[Conflict, ...],
        send=lambda conflicts: [item.to_review() for item in conflicts],
        read=lambda conflicts: conflicts,
    )


class MergePlan(Value, frozen=True, kw_only=True, rename={"conflicts": "merge_conflicts"}):
    """What a merge would do, for review. Nothing of it is written.

    >>> plan = graph.branches.merge_plan("dev")
    >>> plan.outcome, len(plan.conflicts)
    ('fast_forward', 0)
    """

    published_as: ClassVar[str] = "MergePlanOutput"
    derived: ClassVar[Mapping[str, str]] = {"base_commit_id": "base_commit_id"}

    source: str
    target: str
    outcome: str
    base_commit_ids: tuple[str, ...]
    changes: tuple[Mapping[str, Any], ...]
    conflicts: Reviewed

    @property
    def base_commit_id(self) -> str | None:
        """The commit the merge starts from; None when it starts from several, merged into one."""
        return self.base_commit_ids[0] if len(self.base_commit_ids) == 1 else None

    @property
    def is_clean(self) -> bool:
        """Whether the merge would go through."""
        return not self.conflicts

    def to_arrow(self) -> Any:  # noqa: ANN401  # pyarrow carries no types
        """Return the changes and conflicts as an Arrow table, images as JSON text."""
        rows = [
            {
                "table": item["table_key"],
                "id": item["id"],
                "what": item["op"],
                "base": None,
                "ours": None,
                "theirs": image_text(item.get("after")),
            }
            for item in self.changes
        ]
        rows += [
            {
                "table": item.table_key,
                "id": item.entity_id,
                "what": str(item.kind),
                "base": image_text(item.base),
                "ours": image_text(item.ours),
                "theirs": image_text(item.theirs),
            }
            for item in self.conflicts
        ]
        return text_table(("table", "id", "what", "base", "ours", "theirs"), rows)

    def to_pandas(self) -> Any:  # noqa: ANN401  # pandas may be missing
        """Return `to_arrow` as a pandas frame."""
        return self.to_arrow().to_pandas()

    def _repr_html_(self) -> str:
        table = self.to_arrow()
        cells = "".join(f"<th>{name}</th>" for name in table.column_names)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(str(v)) if v is not None else ''}</td>" for v in row)
            + "</tr>"
            for row in zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        )
        head = html.escape(f"{self.source} into {self.target}: {self.outcome}")
        return f"<p>{head}</p><table><tr>{cells}</tr>{body}</table>"


def image_text(image: object) -> str | None:
    """Return the image of an entity as JSON text."""
    return None if image is None else json.dumps(image, ensure_ascii=False)


def text_table(
    names: tuple[str, ...],
    rows: Sequence[Mapping[str, object]],
) -> Any:  # noqa: ANN401  # Arrow
    """Return rows of texts as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))

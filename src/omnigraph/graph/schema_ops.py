"""Plans and applies changes of the schema."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.ids import UlidSource
from omnigraph.lang import compile_schema
from omnigraph.manifest import MAIN, GraphCommit
from omnigraph.ops.apply import Review, SchemaApply
from omnigraph.policy import Action, Permit
from omnigraph.values.schema_changes import SchemaChange as SchemaChange
from omnigraph.write import Request
from omnigraph.write.contract import SchemaContract

if TYPE_CHECKING:
    from omnigraph.catalog import AcceptedSchema
    from omnigraph.graph.lines import Line, Lines
    from omnigraph.manifest import Capture


class Host(Protocol):
    """What schema changes need of the graph handle."""

    @property
    def uri(self) -> str:
        """Where the graph lives."""

    @property
    def permit(self) -> Permit:
        """Asks whether the actor may do something."""

    def check_writable(self) -> None:
        """Refuse to go on when the graph is open read-only."""

    def accepted_schema(self) -> AcceptedSchema:
        """Return the accepted schema, checked against what is stored."""

    def request(
        self, line: Line, actor: str | None, expected_head: str | None, operation_id: str | None
    ) -> Request:
        """Return what a caller says about a write."""

    def observe(self, line: Line, capture: Capture) -> None:
        """Remember what the handle looked at."""


class SchemaOps:
    """The schema of one graph: plan a change, apply it."""

    def __init__(self, host: Host, lines: Lines, contract: SchemaContract, ids: UlidSource) -> None:
        self._host = host
        self._lines = lines
        main = lines.main
        self._apply = SchemaApply(main.publisher, main.recovery, lines.directory, contract, ids)

    def plan(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
    ) -> SchemaChange:
        """Return the steps that lead to a schema, and what stored rows say to them.

        Args:
            schema: Schema text, or the path of a `.pg` file.
            allow_data_loss: Plan every drop as hard: history loses the data too.
            name: What messages call the text.
        """
        self._host.permit(Action.READ, branch=MAIN)
        text, found = schema_text(schema)
        desired = compile_schema(text, name=name or found).catalog
        self._host.accepted_schema()
        capture = self._lines.main.coordinator.capture()
        review = self._apply.review(capture, desired, allow_data_loss=allow_data_loss)
        return self._change(review, capture.version)

    def apply(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        actor: str | None = None,
    ) -> SchemaChange:
        """Make a schema the graph's, with its tables, as one atomic commit.

        Args:
            schema: Schema text, or the path of a `.pg` file.
            allow_data_loss: Make every drop hard: history loses the data too.
            name: What messages call the text.
            expected_head: Refuse unless this commit is main's head.
            operation_id: Your own id for this change: repeating it returns the first outcome.
            actor: Overrides the handle's actor.

        Raises `BadRequestError` for a change no step describes, `DataError` naming the rows that
        stand against it, and `ConflictError` while there are branches besides main.
        """
        self._host.check_writable()
        self._host.permit(Action.SCHEMA_APPLY, target_branch=MAIN, actor=actor)
        text, found = schema_text(schema)
        desired = compile_schema(text, name=name or found).catalog
        self._host.accepted_schema()
        main = self._lines.main
        request = self._host.request(main, actor, expected_head, operation_id)
        outcome = self._apply.run(text, desired, request, allow_data_loss=allow_data_loss)
        self._host.accepted_schema()
        capture = main.coordinator.capture(fresh=False)
        if outcome.commit is not None:
            self._host.observe(main, capture)
        return self._change(outcome.review, capture.version, outcome.commit)

    def _change(
        self, review: Review, version: int, commit: GraphCommit | None = None
    ) -> SchemaChange:
        return SchemaChange(
            uri=self._host.uri,
            supported=review.plan.supported,
            manifest_version=version,
            steps=tuple(
                step.to_json() | {"affected_rows": rows}
                for step, rows in zip(review.plan.steps, review.rows, strict=True)
            ),
            notes=review.plan.notes,
            problems=tuple(item.to_json() for item in review.problems.items),
            commit=commit,
            text=_render(review),
            plan=review.plan,
        )


def _render(review: Review) -> str:
    """Return text for people: the verdict, a line per step with its rows, then problems."""
    plan = review.plan
    lines = [f"supported: {'yes' if plan.supported else 'no'}"]
    for step, rows in zip(plan.steps, review.rows, strict=True):
        noun = "row" if rows == 1 else "rows"
        lines.append(f"{step.render()}{f' [{rows} {noun}]' if rows else ''}")
    if plan.is_empty:
        lines.append("no changes")
    lines += [f"note: {note}" for note in plan.notes]
    lines += [f"problem: {item.to_json()['message']}" for item in review.problems.items]
    return "\n".join(lines)


def schema_text(schema: str | os.PathLike[str]) -> tuple[str, str]:
    """Return schema text and what messages call it; a path is read."""
    is_path = not isinstance(schema, str) or ("\n" not in schema and schema.endswith(".pg"))
    if not is_path:
        return str(schema), "<schema>"
    path = os.fspath(schema)
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read(), path
    except FileNotFoundError:
        raise NotFoundError(f"schema file not found: {path}") from None
    except UnicodeDecodeError as error:
        raise BadRequestError(f"{path} is not valid UTF-8: {error.reason}") from error

"""Plans and applies changes of the schema."""

from __future__ import annotations

import os
from functools import partial

from omnigraph.catalog import AcceptedSchema
from omnigraph.commits import MAIN, BranchState, GraphCommit
from omnigraph.drawing import Drawing, draw_schema
from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.graph.acting import Acting
from omnigraph.graph.describing import describe_types
from omnigraph.graph.linting import lint_schema_text, lint_text
from omnigraph.graph.targets import At, resolve
from omnigraph.ops.apply import Review, SchemaApply
from omnigraph.policy import Action
from omnigraph.values.inspection import LintReport, SchemaDescription
from omnigraph.values.schema_changes import SchemaChange as SchemaChange
from omnigraph.values.words import Language


class SchemaOps:
    """The schema of one graph: plan a change, apply it."""

    def __init__(self, acting: Acting) -> None:
        self._acting = acting
        self._engine = acting.engine
        self._main = acting.engine.lines.main

    def _apply(self, actor: str | None = None) -> SchemaApply:
        engine = self._engine
        may_read = partial(self._acting.may_read, actor=actor)
        return SchemaApply(self._main.writer, engine.lines.directory, engine.contract, may_read)

    def plan(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
    ) -> SchemaChange:
        """Return the steps that lead to a schema, and what stored rows say to them.

        >>> wider = graph.schema_source.replace("age: I32?", "age: I32?  mail: String?")
        >>> graph.schema.plan(wider).supported
        True

        Args:
            schema: Schema text, or the path of a `.pg` file.
            allow_data_loss: Plan every drop as hard: history loses the data too.
            name: What messages call the text.
        """
        self._acting.permit(Action.READ, branch=MAIN)
        text, label = schema_text(schema)
        desired = self._engine.schemas.catalog(text, name=name or label)
        self._engine.accepted_schema()
        state = self._main.manifest.capture()
        review = self._apply().review(state, desired, allow_data_loss=allow_data_loss)
        return self._change(review, state.version)

    def apply(
        self,
        schema: str | os.PathLike[str],
        *,
        allow_data_loss: bool = False,
        name: str | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        message: str | None = None,
        actor: str | None = None,
    ) -> SchemaChange:
        """Make a schema the graph's, with its tables, as one atomic commit.

        >>> graph.branches.delete("dev")
        >>> wider = graph.schema_source.replace("age: I32?", "age: I32?  mail: String?")
        >>> graph.schema.apply(wider).applied
        True

        Args:
            schema: Schema text, or the path of a `.pg` file.
            allow_data_loss: Make every drop hard: history loses the data too.
            name: What messages call the text.
            expected_head: Refuse unless this commit is main's head.
            operation_id: Your own id for this change: repeating it returns the first outcome.
            message: Message of the commit.
            actor: Overrides the handle's actor.

        Raises `BadRequestError` for a change no step describes, `DataError` naming the rows that
        stand against it, and `ConflictError` while there are branches besides main.
        """
        self._acting.check_writable()
        self._acting.permit(Action.SCHEMA_APPLY, target_branch=MAIN, actor=actor)
        # A refusal names rows that stand against the change.
        self._acting.permit(Action.READ, branch=MAIN, actor=actor)
        text, label = schema_text(schema)
        desired = self._engine.schemas.catalog(text, name=name or label)
        self._engine.accepted_schema()
        request = self._acting.request(
            self._main,
            actor=actor,
            expected_head=expected_head,
            operation_id=operation_id,
            message=message,
        )
        outcome = self._apply(actor).run(text, desired, request, allow_data_loss=allow_data_loss)
        self._engine.accepted_schema()
        if outcome.commit is not None:
            self._acting.wrote(self._main, outcome.commit)
        version = self._main.manifest.capture(fresh=False).version
        return self._change(outcome.review, version, outcome.commit)

    def describe(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> SchemaDescription:
        """Return the types of a state as data: of the newest one, or of one in the past.

        >>> [item.name for item in graph.schema.describe().types]
        ['Person', 'Task', 'Owns']
        """
        at = At(branch=branch, commit=commit, version=version, tag=tag)
        state, schema = self._schema_at(at)
        is_accepted = schema.ir_hash() == self._engine.accepted_schema().ir_hash()
        return SchemaDescription(
            graph_commit_id=state.head.graph_commit_id,
            schema_hash=state.head.schema_hash,
            schema_source=self._engine.contract.source if is_accepted else None,
            types=describe_types(schema.catalog),
            interfaces=tuple(schema.catalog.interfaces),
        )

    def draw(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> Drawing:
        """Draw the types of a state and what connects them, as SVG and as Mermaid text.

        >>> graph.schema.draw().mermaid.splitlines()[-1]
        '    Person --> Task : Owns'
        """
        return draw_schema(self.describe(branch=branch, commit=commit, version=version, tag=tag))

    def lint(
        self,
        source: str,
        *,
        language: Language = "gq",
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        tag: str | None = None,
    ) -> LintReport:
        """Check a text and run nothing: queries (`gq`) against a state's types, or a schema (`pg`).

        >>> graph.schema.lint(TASKS).ok
        True

        Errors are findings of the report; none is raised.
        """
        if language not in ("gq", "pg"):
            raise BadRequestError(f"language must be gq or pg, not {language!r}")
        _, schema = self._schema_at(At(branch=branch, commit=commit, version=version, tag=tag))
        if language == "pg":
            return lint_schema_text(source)
        return lint_text(source, schema.catalog)

    def _schema_at(self, at: At) -> tuple[BranchState, AcceptedSchema]:
        _line, state = resolve(self._acting.readable, at)
        return state, self._engine.schema_of(state.head.schema_hash)

    def _change(
        self, review: Review, version: int, commit: GraphCommit | None = None
    ) -> SchemaChange:
        return SchemaChange(
            uri=self._engine.uri,
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

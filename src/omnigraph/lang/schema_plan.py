"""Plans how a graph gets from its accepted schema to a desired one.

Planning is pure: it resolves renames, compares the two catalogs and allocates identities. Applying
the steps, and checking that the graph may be migrated at all, happens elsewhere.
"""

from __future__ import annotations

from msgspec import Struct

from omnigraph.catalog import AcceptedSchema, Catalog, shape_hash
from omnigraph.catalog.identity import Differences
from omnigraph.catalog.shape import Json
from omnigraph.errors import InternalError
from omnigraph.lang.schema_compare import REBUILD, Comparison
from omnigraph.lang.schema_resolve import resolve
from omnigraph.lang.schema_steps import DropMode, Step, UnsupportedChange


class SchemaPlan(Struct, frozen=True, kw_only=True):
    """The steps from the accepted schema to `desired`, in the order people should read them.

    `notes` are findings that change nothing, such as rename hints without effect. `desired` carries
    the identities its declarations get; it must not be accepted unless the plan is supported.
    `differ` says which types are not the same in both.
    """

    supported: bool
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    differ: Differences
    desired: AcceptedSchema

    @property
    def is_empty(self) -> bool:
        """Whether the two schemas are the same."""
        return not self.steps

    @property
    def refusal(self) -> UnsupportedChange | None:
        """The first unsupported change, None when the plan can be applied."""
        return next((step for step in self.steps if isinstance(step, UnsupportedChange)), None)

    def to_json(self) -> Json:
        """Return the plan as plain JSON data."""
        return {
            "supported": self.supported,
            "steps": [step.to_json() for step in self.steps],
            "notes": list(self.notes),
        }

    def render(self) -> str:
        """Return text for people: the verdict, one line per step, one per note."""
        rows = [f"supported: {'yes' if self.supported else 'no'}"]
        rows.extend(step.render() for step in self.steps)
        if self.is_empty:
            rows.append("no changes")
        rows.extend(f"note: {note}" for note in self.notes)
        return "\n".join(rows)


def plan_schema(
    accepted: AcceptedSchema, desired: Catalog, *, allow_data_loss: bool = False
) -> SchemaPlan:
    """Plan the change to `desired`. Raises `InternalError` when accepted identities are unsound.

    Args:
        accepted: Schema the graph has.
        desired: Schema it should have.
        allow_data_loss: Plan every drop as hard: history loses the data too.
    """
    if (problem := accepted.identity_problem) is not None:
        raise InternalError(problem)
    resolution = resolve(accepted, desired)
    comparison = Comparison(
        accepted=accepted.catalog,
        desired=desired,
        resolution=resolution,
        mode=DropMode.HARD if allow_data_loss else DropMode.SOFT,
    )
    steps = tuple(comparison.steps())
    if not steps and accepted.shape_hash != shape_hash(desired):
        reason = f"the schemas differ in a way no step describes; {REBUILD}"
        steps = (UnsupportedChange(entity="schema", reason=reason),)
    return SchemaPlan(
        supported=not any(isinstance(step, UnsupportedChange) for step in steps),
        steps=steps,
        notes=resolution.notes,
        differ=resolution.differ,
        desired=accepted.succeeded_by(desired, resolution.differ, resolution.origins),
    )

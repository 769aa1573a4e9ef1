"""Planned and applied changes of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omnigraph.values.commits import GraphCommit
from omnigraph.values.value import Value

_DROPS = ("drop_type", "drop_property")


class SchemaChange(Value, frozen=True, kw_only=True, rename={"text": "render"}):
    """A planned or applied change of the schema.

    Every step says with `affected_rows` how many stored rows it changes or removes. `problems`
    names the rows that stand against the change; while there are any it cannot be applied.
    """

    published_as: ClassVar[str] = "SchemaApplyOutput"
    derived: ClassVar[Mapping[str, str]] = {
        "graph_manifest_version": "manifest_version",
        "applied": "applied",
        "step_count": "step_count",
    }
    hidden: ClassVar[frozenset[str]] = frozenset({"text", "plan"})

    uri: str
    supported: bool
    manifest_version: int = 0
    steps: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()
    problems: tuple[Mapping[str, Any], ...] = ()
    commit: GraphCommit | None = None
    text: str = ""
    plan: Any = None
    """The plan as the compiler made it; None for a change that a server told of."""

    @property
    def applied(self) -> bool:
        """Whether a commit was made."""
        return self.commit is not None

    @property
    def step_count(self) -> int:
        """How many steps there are."""
        return len(self.steps)

    @property
    def rows(self) -> tuple[int, ...]:
        """How many stored rows each step changes or removes."""
        return tuple(int(step["affected_rows"]) for step in self.steps)

    @property
    def is_empty(self) -> bool:
        """Whether the graph has that schema already."""
        return not self.steps

    @property
    def drops(self) -> bool:
        """Whether a type or property goes away."""
        return any(step["kind"] in _DROPS for step in self.steps)

    def render(self) -> str:
        """Return text for people: the verdict, a line per step with its rows, then problems."""
        return self.text

"""What a run of a pipeline did, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from omnigraph.values.value import Value


class StepOutcome(StrEnum):
    """How a step of a run ended."""

    DONE = "done"
    DONE_BEFORE = "done_before"
    """An earlier call of the same run did it."""
    NOTHING = "nothing_to_do"
    FAILED = "failed"


class PipelineStep(Value, frozen=True, kw_only=True):
    """One step of a run. `parts` are the stages of a load on Spark, with their seconds."""

    optional: ClassVar[frozenset[str]] = frozenset(
        {"rows", "rows_per_s", "error", "parts", "detail"}
    )

    name: str
    outcome: StepOutcome
    seconds: float
    rows: int | None = None
    rows_per_s: float | None = None
    detail: str | None = None
    error: str | None = None
    parts: tuple[Mapping[str, Any], ...] = ()


class PipelineReport(Value, frozen=True, kw_only=True):
    """A run of a pipeline. `rows` has, by type, how many rows there were before and after."""

    optional: ClassVar[frozenset[str]] = frozenset(
        {"changed", "commit", "merge_commit", "tag", "error"}
    )

    pipeline: str
    run_id: str
    uri: str
    branch: str
    ok: bool
    dry_run: bool = False
    rows_in: int = 0
    rejected: int = 0
    rows: Mapping[str, Mapping[str, int]] = {}
    changed: Mapping[str, Mapping[str, int]] | None = None
    commit: str | None = None
    merge_commit: str | None = None
    merged_into: str | None = None
    tag: str | None = None
    seconds: float = 0.0
    steps: tuple[PipelineStep, ...] = ()
    error: str | None = None

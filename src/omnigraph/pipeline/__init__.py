"""Declared pipelines: sources, mapping, checks and what follows, in one file."""

from __future__ import annotations

from omnigraph.pipeline.report import page, text
from omnigraph.pipeline.run import check_pipeline, planned_steps, run_pipeline
from omnigraph.pipeline.spec import Pipeline, read_pipeline
from omnigraph.values.pipelines import PipelineReport, PipelineStep, StepOutcome

__all__ = [
    "Pipeline",
    "PipelineReport",
    "PipelineStep",
    "StepOutcome",
    "check_pipeline",
    "page",
    "planned_steps",
    "read_pipeline",
    "run_pipeline",
    "text",
]

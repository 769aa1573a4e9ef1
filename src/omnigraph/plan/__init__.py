"""Plans: what a query means, resolved and typed, without saying how an engine runs it."""

from __future__ import annotations

from omnigraph.plan.explain import explain, expression_text
from omnigraph.plan.expression import Expression, Parameter
from omnigraph.plan.mutation import MutationPlan
from omnigraph.plan.read import ReadPlan

__all__ = ["Expression", "MutationPlan", "Parameter", "ReadPlan", "explain", "expression_text"]

"""Text to data: the compilers of `.pg` schemas and `.gq` queries, schema planning and lint.

Pure: no storage, no Arrow. Everything raises `CompileError` with spans for bad text.
"""

from __future__ import annotations

from omnigraph.lang.lint import LintReport, describe_operation, lint_queries
from omnigraph.lang.parameters import bind_parameters
from omnigraph.lang.queries import CompiledQuery, compile_queries, compile_query
from omnigraph.lang.schema import CompiledSchema, compile_schema

__all__ = [
    "CompiledQuery",
    "CompiledSchema",
    "LintReport",
    "bind_parameters",
    "compile_queries",
    "compile_query",
    "compile_schema",
    "describe_operation",
    "lint_queries",
]

"""Findings about query and schema text, in the form programs take them."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog import Catalog
from omnigraph.errors import CompileError
from omnigraph.lang import compile_schema, lint_queries
from omnigraph.lang.lint import QueryReport, describe_operation
from omnigraph.lang.result_columns import column_types
from omnigraph.lang.source import Diagnostic
from omnigraph.plan import ReadPlan
from omnigraph.values.inspection import LintedQuery, LintReport

_NAME = "<text>"


def lint_text(source: str, catalog: Catalog) -> LintReport:
    """Return every finding about queries."""
    report = lint_queries(source, catalog, name=_NAME)
    errors = [*report.parse_errors, *(item for query in report.queries for item in query.errors)]
    # What stands at a place is a diagnostic; a finding is about the text or a query as a whole.
    findings = () if report.parse_errors else report.findings
    return LintReport(
        ok=report.ok,
        diagnostics=_told(errors),
        queries=tuple(map(_query, report.queries)),
        findings=tuple(item.to_json() for item in findings),
    )


def lint_schema_text(source: str) -> LintReport:
    """Return every finding about a schema."""
    try:
        compiled = compile_schema(source, name=_NAME)
    except CompileError as error:
        diagnostics = [item for item in error.diagnostics if isinstance(item, Diagnostic)]
        return LintReport(ok=False, diagnostics=_told(diagnostics))
    return LintReport(ok=True, diagnostics=_told(compiled.warnings))


def _query(report: QueryReport) -> LintedQuery:
    plan = None if report.compiled is None else report.compiled.plan
    if plan is None:
        return LintedQuery(name=report.name, mutation=report.mutation, ok=False)
    parameters = describe_operation(plan)["parameters"]
    return LintedQuery(
        name=report.name,
        mutation=report.mutation,
        ok=True,
        parameters=tuple(parameters) if isinstance(parameters, list) else (),
        columns=column_types(plan) if isinstance(plan, ReadPlan) else (),
    )


def _told(diagnostics: Iterable[Diagnostic]) -> tuple[dict[str, object], ...]:
    hidden = {"file"}
    return tuple(
        {key: value for key, value in item.to_json().items() if key not in hidden}
        for item in diagnostics
    )

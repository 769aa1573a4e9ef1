"""Checks a query file against a schema and describes what each query does."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.catalog import Catalog, PropertyType, Scalar
from omnigraph.errors import CompileError
from omnigraph.lang.gq_ast import QueryNode
from omnigraph.lang.queries import CompiledQuery, compile_query_node, parse_file
from omnigraph.lang.source import Diagnostic, Severity
from omnigraph.plan import MutationPlan, ReadPlan
from omnigraph.plan.mutation import InsertNode, Update

PARSE_FINDING = "Q000"
UNSET_FINDING = "L201"
DUPLICATE_QUERY_FINDING = "L203"
REPLACING_INSERT_FINDING = "L204"
_KINDS = {
    Scalar.STRING: "string",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.BLOB: "blob",
    Scalar.VECTOR: "vector",
    Scalar.OBJECT: "object",
}


class Finding(Struct, frozen=True, kw_only=True):
    """Something worth knowing about a file or a query."""

    severity: Severity
    code: str | None
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the finding as plain JSON data; absent fields are left out."""
        body: dict[str, object] = {
            "severity": str(self.severity),
            "code": self.code,
            "message": self.message,
        }
        if self.type_name is not None:
            body["type_name"] = self.type_name
        if self.property is not None:
            body["property"] = self.property
        if self.query_names:
            body["query_names"] = list(self.query_names)
        return body


class QueryReport(Struct, frozen=True, kw_only=True):
    """Verdict on one query."""

    name: str
    mutation: bool
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[str, ...] = ()
    compiled: CompiledQuery | None = None

    def to_json(self) -> dict[str, object]:
        """Return the verdict as plain JSON data."""
        body: dict[str, object] = {
            "name": self.name,
            "kind": "mutation" if self.mutation else "read",
            "status": "error" if self.errors else "ok",
        }
        if self.warnings:
            body["warnings"] = list(self.warnings)
        if self.errors:
            body["error"] = "; ".join(_error_text(item) for item in self.errors)
            body["diagnostics"] = [item.to_json() for item in self.errors]
        if self.compiled is not None:
            body["operation"] = describe_operation(self.compiled.plan)
        return body


class LintReport(Struct, frozen=True, kw_only=True):
    """Verdict on a file."""

    query_path: str
    queries: tuple[QueryReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    parse_errors: tuple[Diagnostic, ...] = field(default=())

    def count(self, severity: Severity) -> int:
        """Count findings of a severity; type errors of queries count as errors."""
        total = sum(item.severity is severity for item in self.findings)
        if severity is Severity.ERROR:
            total += sum(len(query.errors) for query in self.queries)
        return total

    def without(self, code: str) -> LintReport:
        """Return the report without the findings of one code."""
        return replace(self, findings=tuple(f for f in self.findings if f.code != code))

    @property
    def ok(self) -> bool:
        """Whether the file has no error."""
        return self.count(Severity.ERROR) == 0

    def to_json(self) -> dict[str, object]:
        """Return the report as plain JSON data (the caller adds the schema source)."""
        return {
            "status": "ok" if self.ok else "error",
            "query_path": self.query_path,
            "queries_processed": len(self.queries),
            "errors": self.count(Severity.ERROR),
            "warnings": self.count(Severity.WARNING),
            "infos": self.count(Severity.INFO),
            "results": [item.to_json() for item in self.queries],
            "findings": [item.to_json() for item in self.findings],
        }


def lint_queries(text: str, catalog: Catalog, *, name: str) -> LintReport:
    """Lint a `.gq` text. A text that does not parse gives parse findings and nothing else."""
    try:
        source, queries = parse_file(text, name=name)
    except CompileError as error:
        parse_errors = tuple(d for d in error.diagnostics if isinstance(d, Diagnostic))
        findings = tuple(
            Finding(severity=Severity.ERROR, code=PARSE_FINDING, message=_place(item))
            for item in parse_errors
        )
        return LintReport(query_path=name, findings=findings, parse_errors=parse_errors)
    reports: list[QueryReport] = []
    findings_found: list[Finding] = []
    for query in queries:
        compiled, errors = compile_query_node(query, source, catalog)
        report, warnings = _report(query, compiled, errors)
        reports.append(report)
        findings_found += warnings
    findings_found += _unset_properties(reports, catalog)
    findings_found += _replacing_inserts(reports, catalog)
    findings_found += _repeated_names(queries)
    return LintReport(
        query_path=name,
        queries=tuple(reports),
        findings=tuple(sorted(findings_found, key=_finding_order)),
    )


def _report(
    query: QueryNode, compiled: CompiledQuery | None, errors: list[Diagnostic]
) -> tuple[QueryReport, list[Finding]]:
    findings: list[Finding] = []
    if query.statements and not query.parameters:
        findings.append(
            Finding(
                severity=Severity.WARNING,
                code=None,
                message=f"mutation '{query.name}' has no parameters: hardcoded mutation",
                query_names=(query.name,),
            )
        )
    report = QueryReport(
        name=query.name,
        mutation=query.read is None,
        errors=tuple(errors),
        warnings=tuple(item.message for item in findings),
        compiled=compiled,
    )
    return report, findings


def _unset_properties(reports: Iterable[QueryReport], catalog: Catalog) -> list[Finding]:
    """Find nullable properties of updated node types that no update of the file sets."""
    updated: dict[str, set[str]] = {}
    names: dict[str, set[str]] = {}
    for report in reports:
        plan = report.compiled.plan if report.compiled is not None else None
        if not isinstance(plan, MutationPlan):
            continue
        for statement in plan.statements:
            if isinstance(statement, Update) and not statement.is_edge:
                assigned = {item.property for item in statement.assignments}
                updated.setdefault(statement.type_name, set()).update(assigned)
                names.setdefault(statement.type_name, set()).add(report.name)
    return [
        Finding(
            severity=Severity.WARNING,
            code=UNSET_FINDING,
            message=f"{type_name}.{declared.name} exists in schema but no update query sets it",
            type_name=type_name,
            property=declared.name,
            query_names=tuple(sorted(names[type_name])),
        )
        for type_name, assigned in updated.items()
        for declared in catalog.nodes[type_name].properties.values()
        if declared.type.nullable
        and declared.name not in assigned
        and declared.name not in catalog.nodes[type_name].key
        and declared.embedding is None
    ]


def _replacing_inserts(reports: Iterable[QueryReport], catalog: Catalog) -> list[Finding]:
    """Find inserts that would drop values of a node which has their key already."""
    query_names: dict[tuple[str, str], set[str]] = {}
    for report in reports:
        plan = report.compiled.plan if report.compiled is not None else None
        for item in plan.statements if isinstance(plan, MutationPlan) else ():
            if not isinstance(item, InsertNode) or item.must_be_new:
                continue
            node = catalog.nodes[item.type_name]
            named = {assignment.property for assignment in item.assignments}
            left_out = [name for name in node.properties if name not in named]
            if node.key and left_out:
                query_names.setdefault((node.name, ", ".join(left_out)), set()).add(report.name)
    return [
        Finding(
            severity=Severity.WARNING,
            code=REPLACING_INSERT_FINDING,
            message=f"insert of {type_name} resets {names} of a node that has its key already; "
            "write `insert new` to refuse it, `upsert` to keep them",
            type_name=type_name,
            query_names=tuple(sorted(queries)),
        )
        for (type_name, names), queries in query_names.items()
    ]


def _repeated_names(queries: tuple[QueryNode, ...]) -> list[Finding]:
    names = [query.name for query in queries]
    return [
        Finding(
            severity=Severity.WARNING,
            code=DUPLICATE_QUERY_FINDING,
            message=f"query '{name}' is defined more than once; the first one is used",
            query_names=(name,),
        )
        for name in sorted({item for item in names if names.count(item) > 1})
    ]


def _finding_order(item: Finding) -> tuple[int, str, str, str]:
    rank = [Severity.ERROR, Severity.WARNING, Severity.INFO].index(item.severity)
    return rank, item.type_name or "", item.property or "", item.message


def _place(item: Diagnostic) -> str:
    line, column = item.position
    return f"{item.source.name}:{line}:{column}: {item.message}"


def _error_text(item: Diagnostic) -> str:
    line, column = item.position
    return f"type error: {item.code}: {item.message} (line {line}, column {column})"


def describe_type(declared_type: PropertyType) -> dict[str, object]:
    """Describe a type for clients: kind, element kind or dimension, nullability."""
    kind = _KINDS[declared_type.scalar]
    described: dict[str, object] = {"kind": "list" if declared_type.is_list else kind}
    if declared_type.is_list:
        described["item_kind"] = kind
    if declared_type.scalar is Scalar.VECTOR:
        described["vector_dim"] = declared_type.vector_dim
    described["nullable"] = declared_type.nullable
    return described


def describe_operation(plan: ReadPlan | MutationPlan) -> dict[str, object]:
    """Describe what a query returns, reads and writes."""
    result: list[dict[str, object]] = []
    writes: list[dict[str, object]] = []
    if isinstance(plan, ReadPlan):
        result = [
            {"name": column.name, **describe_type(column.type)}
            for column in plan.columns
            if not column.hidden
        ]
    else:
        writes = _types(plan.writes_nodes, plan.writes_edges)
    return {
        "parameters": [{"name": p.name, **describe_type(p.type)} for p in plan.parameters],
        "result": result,
        "reads": _types(plan.reads_nodes, plan.reads_edges),
        "writes": writes,
    }


def _types(nodes: tuple[str, ...], edges: tuple[str, ...]) -> list[dict[str, object]]:
    kinds = [("node", name) for name in nodes] + [("edge", name) for name in edges]
    return [{"kind": kind, "type_name": name} for kind, name in kinds]

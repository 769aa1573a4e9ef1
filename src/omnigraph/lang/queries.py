"""The door to the query compiler."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.catalog import Catalog, PropertyType
from omnigraph.errors import BadRequestError, CompileError, NotFoundError
from omnigraph.lang.gq_ast import QueryNode
from omnigraph.lang.gq_mutation import check_mutation
from omnigraph.lang.gq_parser import parse_queries
from omnigraph.lang.gq_read import check_read
from omnigraph.lang.source import Diagnostic, Diagnostics, SourceText, did_you_mean
from omnigraph.plan import MutationPlan, ReadPlan

RESERVED_PARAMETER = "__nanograph_now"


class CompiledQuery(Struct, frozen=True, kw_only=True):
    """A query that compiled."""

    name: str
    plan: ReadPlan | MutationPlan
    description: str | None = None
    instruction: str | None = None

    @property
    def is_mutation(self) -> bool:
        """Whether running it writes."""
        return isinstance(self.plan, MutationPlan)


def parse_file(text: str, *, name: str = "<query>") -> tuple[SourceText, tuple[QueryNode, ...]]:
    """Parse `.gq` text. Raises `CompileError` with one syntax error per broken query."""
    source = SourceText(name, text)
    diagnostics = Diagnostics(source)
    queries = parse_queries(source, diagnostics)
    diagnostics.raise_errors()
    return source, queries


def compile_query_node(
    query: QueryNode, source: SourceText, catalog: Catalog
) -> tuple[CompiledQuery | None, list[Diagnostic]]:
    """Typecheck one parsed query; return it (None on error) and every error found."""
    diagnostics = Diagnostics(source)
    parameters = _parameters(query, diagnostics)
    plan: ReadPlan | MutationPlan | None
    if query.read is not None:
        plan = check_read(query, query.read, catalog, parameters, diagnostics)
    else:
        plan = check_mutation(query, catalog, parameters, diagnostics)
    errors = diagnostics.errors
    if errors or plan is None:
        return None, errors
    compiled = CompiledQuery(
        name=query.name,
        plan=plan,
        description=query.description,
        instruction=query.instruction,
    )
    return compiled, errors


def _parameters(query: QueryNode, diagnostics: Diagnostics) -> dict[str, PropertyType]:
    parameters: dict[str, PropertyType] = {}
    for item in query.parameters:
        if item.name == RESERVED_PARAMETER:
            diagnostics.error("T00", item.span, f"parameter name `${item.name}` is reserved")
        elif item.name in parameters:
            diagnostics.error("T00", item.span, f"parameter `${item.name}` is declared twice")
        parameters[item.name] = item.type
    return parameters


def compile_queries(
    text: str, catalog: Catalog, *, name: str = "<query>"
) -> tuple[CompiledQuery, ...]:
    """Compile every query of a `.gq` text. Raises `CompileError` with every error found."""
    source, queries = parse_file(text, name=name)
    compiled_queries: list[CompiledQuery] = []
    errors: list[Diagnostic] = []
    for query in queries:
        compiled, problems = compile_query_node(query, source, catalog)
        errors += problems
        if compiled is not None:
            compiled_queries.append(compiled)
    if errors:
        raise CompileError(errors)
    return tuple(compiled_queries)


def compile_query(
    text: str, catalog: Catalog, *, select: str | None = None, name: str = "<query>"
) -> CompiledQuery:
    """Compile the one query of a text, or the one called `select`.

    Other queries of the text are parsed but not typechecked. Raises `CompileError`,
    `NotFoundError` for an unknown name and `BadRequestError` when a name is needed.
    """
    source, queries = parse_file(text, name=name)
    compiled, errors = compile_query_node(select_query(queries, select), source, catalog)
    if compiled is None:
        raise CompileError(errors)
    return compiled


def select_query(queries: tuple[QueryNode, ...], select: str | None) -> QueryNode:
    """Pick a query by name; without a name the text must hold exactly one."""
    if select is None:
        if len(queries) == 1:
            return queries[0]
        names = ", ".join(query.name for query in queries)
        raise BadRequestError(
            "the text holds no query" if not queries else f"name one of the queries: {names}"
        )
    for query in queries:
        if query.name == select:
            return query
    known = [query.name for query in queries]
    hint = did_you_mean(select, known) or f"there are: {', '.join(known[:8])}"
    raise NotFoundError(
        f"no query named '{select}'", hint=hint if known else "the text holds no query"
    )

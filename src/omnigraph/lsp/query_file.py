"""A `.gq` file as an editor asks about it, beside the schema its queries are written for."""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct

from omnigraph.catalog import Catalog
from omnigraph.errors import BadRequestError
from omnigraph.lang.gq_ast import QueryNode
from omnigraph.lang.gq_parser import parse_queries
from omnigraph.lang.lexer import Kind, Token, tokens_so_far
from omnigraph.lang.lint import UNSET_FINDING, lint_queries
from omnigraph.lang.queries import compile_query_node
from omnigraph.lang.source import Diagnostics, SourceText, Span
from omnigraph.lang.words import QUERY_ANNOTATIONS
from omnigraph.lsp.answers import Edit, Help, Place, Problem
from omnigraph.lsp.describing import (
    QUERY_WORDS,
    described,
    entity_text,
    property_text,
    scalar_text,
    type_text,
)
from omnigraph.lsp.half_typed import Cursor, cursor_at, guessed_types, written_type
from omnigraph.lsp.schema_file import SchemaFile, as_problem
from omnigraph.lsp.symbols import Symbol, SymbolKind, symbol_at, symbols_of

STARTS = ("query",)
_NAME = re.compile(r"\$?([a-z_][A-Za-z0-9_]*)\Z")


class QueryFile(Struct, frozen=True, dict=True):
    """The text of a query file and its schema, if one was found."""

    path: str
    text: str
    schema: SchemaFile | None = None

    @property
    def catalog(self) -> Catalog | None:
        """The types of the schema."""
        return None if self.schema is None else self.schema.catalog

    @cached_property
    def _parsed(self) -> tuple[tuple[QueryNode, ...], Diagnostics]:
        diagnostics = Diagnostics(SourceText(self.path, self.text))
        return parse_queries(diagnostics.source, diagnostics), diagnostics

    @property
    def queries(self) -> tuple[QueryNode, ...]:
        """The queries that can be read."""
        return self._parsed[0]

    # ---- problems -------------------------------------------------------------------------

    @cached_property
    def problems(self) -> list[Problem]:
        """Errors of the syntax and, if there is a schema without errors, of types; findings."""
        queries, diagnostics = self._parsed
        problems = [as_problem(item) for item in diagnostics.errors]
        if self.schema is None or self.schema.has_errors:
            return problems
        for query in queries:
            _, errors = compile_query_node(query, diagnostics.source, self.schema.catalog)
            problems += [as_problem(item) for item in errors]
        if not diagnostics.errors:
            problems += self._findings(self.schema.catalog)
        return sorted(problems, key=lambda item: item.span.start)

    def _findings(self, catalog: Catalog) -> list[Problem]:
        """Return what lint says of whole queries, at their names."""
        report = lint_queries(self.text, catalog, name=self.path).without(UNSET_FINDING)
        return [
            Problem(
                span=query.name_span,
                message=finding.message,
                severity=finding.severity,
                code=finding.code,
            )
            for finding in report.findings
            for query in self.queries
            if query.name in finding.query_names
        ]

    # ---- names ----------------------------------------------------------------------------

    def query_at(self, offset: int) -> QueryNode | None:
        """Return the query an offset lies in, if it can be read."""
        spans = (q for q in self.queries if q.span.start <= offset <= q.span.end)
        return next(spans, None)

    def _symbol(self, offset: int) -> tuple[Symbol, Span] | None:
        query = self.query_at(offset)
        return None if query is None else symbol_at(symbols_of(query, self.catalog), offset)

    def variable_type(self, name: str, offset: int, cursor: Cursor) -> str | None:
        """Return the node or edge type of a variable near an offset; half-typed text is guessed."""
        catalog = self.catalog
        if catalog is None:
            return None
        query = self.query_at(offset)
        if query is not None:
            near = [s for s in symbols_of(query, catalog) if s.name == name and _is_bound(s)]
            used = [s for s in near if any(p.start <= offset <= p.end + 1 for p in s.spans)]
            if used or near:
                return (used or near)[0].type_name
        return guessed_types([*cursor.before, *cursor.following], catalog).get(name)

    # ---- what stands at a place -----------------------------------------------------------

    def _place(self, offset: int) -> tuple[Token, Cursor] | None:
        """Return the token at an offset and what stands before it."""
        tokens, _ = tokens_so_far(self.text)
        touching = [token for token in tokens if token.start <= offset <= token.end]
        touching.sort(key=lambda token: token.kind is Kind.PUNCT)
        if not touching:
            return None
        cursor = cursor_at(self.text, touching[0].start, STARTS)
        return None if cursor is None else (touching[0], cursor)

    def _owner(self, token: Token, cursor: Cursor) -> str | None:
        """Return the type that a word is a property of, if it is one."""
        if cursor.back(1).text == "." and cursor.back(2).kind is Kind.VARIABLE:
            return self.variable_type(cursor.back(2).text, cursor.back(2).start, cursor)
        following = cursor.following[1].text if len(cursor.following) > 1 else ""
        if cursor.frame.head == "values" and following == ":":
            return cursor.frame.type_name
        writes = cursor.frames and cursor.frames[0].head == "body"
        if writes and cursor.back(1).text != "as" and token.text not in QUERY_WORDS:
            return written_type(cursor.before)
        return None

    def _edge_word(self, token: Token, cursor: Cursor) -> str | None:
        """Return the edge type that a word follows, if it does."""
        catalog = self.catalog
        if catalog is None or token.kind is not Kind.IDENT or not names_edge(cursor):
            return None
        edge = catalog.edge_by_word(token.text)
        return None if edge is None else edge.name

    # ---- answers --------------------------------------------------------------------------

    def hover(self, offset: int) -> Help | None:
        """Return help on what stands at an offset."""
        place = self._place(offset)
        if place is None:
            return None
        token, cursor = place
        text = self._help(token, cursor)
        return None if text is None else Help(text=text, span=token.span)

    def _help(self, token: Token, cursor: Cursor) -> str | None:
        catalog = self.catalog
        if token.kind is Kind.VARIABLE:
            return self._variable_help(token, cursor)
        if token.kind is Kind.TYPE_NAME:
            known = None if catalog is None else type_text(catalog, token.text)
            return known or scalar_text(token.text)
        if token.kind is not Kind.IDENT:
            return None
        owner = self._owner(token, cursor)
        entity = None if owner is None or catalog is None else catalog.find_entity(owner)
        if entity is not None and (text := property_text(entity, token.text)) is not None:
            return text
        edge = self._edge_word(token, cursor)
        if edge is not None and catalog is not None:
            return entity_text(catalog.edges[edge])
        if cursor.back(1).text == "@":
            return described(f"@{token.text}", QUERY_ANNOTATIONS.get(token.text))
        if cursor.back(1).text in (".", "as", "query") or token.text not in QUERY_WORDS:
            return self._query_help(token)
        return described(token.text, QUERY_WORDS[token.text])

    def _query_help(self, token: Token) -> str | None:
        for query in self.queries:
            if query.name_span == token.span:
                given = ", ".join(f"${item.name}: {item.type}" for item in query.parameters)
                return described(
                    f"query {query.name}({given})", query.description, query.instruction
                )
        return None

    def _variable_help(self, token: Token, cursor: Cursor) -> str | None:
        usage = self._symbol(token.start)
        if usage is not None and usage[0].kind is SymbolKind.PARAMETER:
            return described(f"${token.text}: {usage[0].type_name}", "A parameter of the query.")
        if usage is not None and usage[0].kind is SymbolKind.PATH:
            about = f"A path: `length(${token.text})` hops, the ids `nodes(${token.text})`."
            return described(f"${token.text}", about)
        type_name = self.variable_type(token.text, token.start, cursor)
        if type_name is None or self.catalog is None:
            return None
        entity = self.catalog.find_entity(type_name)
        return described(
            f"${token.text}: {type_name}", None if entity is None else entity_text(entity)
        )

    def definition(self, offset: int) -> Place | None:
        """Return where what stands at an offset is introduced, here or in the schema."""
        place = self._place(offset)
        if place is None:
            return None
        token, cursor = place
        if token.kind is Kind.VARIABLE:
            usage = self._symbol(token.start)
            return None if usage is None else Place(path=None, span=usage[0].spans[0])
        if self.schema is None:
            return None
        if token.kind is Kind.TYPE_NAME:
            return self.schema.type_place(token.text)
        if token.kind is not Kind.IDENT:
            return None
        owner = self._owner(token, cursor)
        if owner is not None:
            return self.schema.property_place(owner, token.text)
        edge = self._edge_word(token, cursor)
        return None if edge is None else self.schema.type_place(edge)

    # ---- rename ---------------------------------------------------------------------------

    def renamable(self, offset: int) -> Span:
        """Return what a rename at an offset would rename. Raises `BadRequestError` if nothing."""
        place = self._place(offset)
        if place is None or place[0].kind is not Kind.VARIABLE:
            raise BadRequestError("only variables and parameters of a query can be renamed here")
        token = place[0]
        if token.text == "_":
            raise BadRequestError("`$_` names nothing, so it cannot be renamed")
        if self.query_at(offset) is None:
            raise BadRequestError("the query has a syntax error; fix it first")
        if self._symbol(token.start) is None:
            raise BadRequestError(f"`${token.text}` is not introduced in this query")
        return token.span

    def rename(self, offset: int, new_name: str) -> list[Edit]:
        """Return the edits that rename a variable or parameter. Raises `BadRequestError`."""
        span = self.renamable(offset)
        query = self.query_at(offset)
        usage = self._symbol(span.start)
        name = _NAME.match(new_name)
        if name is None or name.group(1) == "_":
            raise BadRequestError(
                f"{new_name!r} is not a variable name: `$` and a lower-case name, such as `$p`"
            )
        if query is None or usage is None or usage[0].name == name.group(1):
            return []
        taken = {symbol.name for symbol in symbols_of(query, self.catalog)}
        if name.group(1) in taken:
            raise BadRequestError(f"query {query.name} has a `${name.group(1)}` already")
        return [Edit(span=place, text=f"${name.group(1)}") for place in usage[0].spans]


def names_edge(cursor: Cursor) -> bool:
    """Whether the word at a cursor may name an edge: `$a knows`, `<knows`, `$w:(knows|likes`."""
    last, before = cursor.back(1), cursor.back(2)
    if last.text == "(":
        return before.kind is Kind.VARIABLE or before.text == ":"
    return last.kind is Kind.VARIABLE or last.text in ("<", ":", "|")


def _is_bound(symbol: Symbol) -> bool:
    return symbol.kind is not SymbolKind.PARAMETER

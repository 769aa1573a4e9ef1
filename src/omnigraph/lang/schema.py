"""The door to the schema compiler."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.catalog import Catalog
from omnigraph.lang.pg_ast import SchemaSyntax
from omnigraph.lang.pg_check import check_schema
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.pg_properties import check_language, refuse_literal_name
from omnigraph.lang.source import Diagnostic, Diagnostics, SourceText


class CompiledSchema(Struct, frozen=True, kw_only=True):
    """A schema that compiled: its catalog, its syntax as written, and warnings."""

    source: SourceText
    syntax: SchemaSyntax
    catalog: Catalog
    warnings: tuple[Diagnostic, ...] = ()


def compile_schema(text: str, *, name: str = "<schema>", stored: bool = False) -> CompiledSchema:
    """Compile `.pg` text. Raises `CompileError` with every error found.

    Args:
        text: Schema source.
        name: What messages call it, usually its path.
        stored: Whether a graph has it already; what earlier releases took is fine then.
    """
    source = SourceText(name, text)
    diagnostics = Diagnostics(source)
    syntax = parse_schema(source, diagnostics)
    # Checking a partial parse would report types as missing that merely failed to parse.
    diagnostics.raise_errors()
    if not stored:
        check_as_new(syntax, diagnostics)
    catalog = check_schema(syntax, diagnostics)
    diagnostics.raise_errors()
    return CompiledSchema(
        source=source, syntax=syntax, catalog=catalog, warnings=tuple(diagnostics.warnings)
    )


def check_as_new(syntax: SchemaSyntax, diagnostics: Diagnostics) -> None:
    """Check what a new text must follow, but one that a graph has already need not."""
    for item in syntax.declarations:
        for declared in item.properties:
            refuse_literal_name(declared, item.kind, item.name.text, diagnostics)
            check_language(declared, item.kind, item.name.text, diagnostics)

"""The door to the schema compiler."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog import Catalog
from omnigraph.lang.pg_ast import SchemaSyntax
from omnigraph.lang.pg_check import check_schema
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.source import Diagnostic, Diagnostics, SourceText


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSchema:
    """A schema that compiled: its catalog, its syntax as written, and warnings."""

    source: SourceText
    syntax: SchemaSyntax
    catalog: Catalog
    warnings: tuple[Diagnostic, ...] = ()


def compile_schema(text: str, *, name: str = "<schema>") -> CompiledSchema:
    """Compile `.pg` text. Raises `CompileError` with every error found.

    Args:
        text: Schema source.
        name: What messages call it, usually its path.
    """
    source = SourceText(name, text)
    diagnostics = Diagnostics(source)
    syntax = parse_schema(source, diagnostics)
    # Checking a partial parse would report types as missing that merely failed to parse.
    diagnostics.raise_errors()
    catalog = check_schema(syntax, diagnostics)
    diagnostics.raise_errors()
    return CompiledSchema(
        source=source, syntax=syntax, catalog=catalog, warnings=tuple(diagnostics.warnings)
    )

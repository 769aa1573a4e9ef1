"""Reads schemas of which most declarations were read before: only the others are compiled.

A text is cut into pieces, each up to the end of a body. What a piece declares depends on its own
text, except for what nodes take from interfaces and for the names others refer to; these are
looked at in every text. Whatever is wrong with a text is left to the compiler, which is handed the
whole of it and says where.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from omnigraph.bounded import BoundedCache
from omnigraph.catalog import Catalog, EdgeType, InterfaceType, NodeType, TypeKind
from omnigraph.lang.pg_ast import DeclarationSyntax
from omnigraph.lang.pg_check import (
    Drafts,
    by_name,
    check_edge,
    check_node,
    check_properties,
    interface_type,
)
from omnigraph.lang.pg_parser import parse_schema
from omnigraph.lang.schema import check_as_new, compile_schema
from omnigraph.lang.source import Diagnostics, SourceText
from omnigraph.limits import SCHEMA_CHARS_KEPT_MAX, SOURCE_CHARS_MAX

# Up to the end of a body, else all the rest. Braces in strings and comments are none; the lexer
# takes both from the left, as this does.
_PIECE = re.compile(
    r"""(?: [^"/}]++ | "[^"\\]*+(?:\\.[^"\\]*+)*+" | //[^\n]*+ | /\*.*?\*/ )*+ \} | .+""",
    re.VERBOSE | re.DOTALL,
)


class _Interface(Struct, frozen=True):
    type: InterfaceType
    drafts: Drafts


class _Implementing:
    """A node type that takes properties from interfaces."""

    def __init__(self, syntax: DeclarationSyntax) -> None:
        self._syntax = syntax
        self._made: tuple[list[Drafts], NodeType] | None = None

    def under(self, interfaces: Mapping[str, _Interface]) -> NodeType | None:
        """Return the type as these interfaces make it, None if something is wrong with it."""
        names = [name.text for name in self._syntax.implements]
        if not all(name in interfaces for name in names):
            return None
        contracts = [interfaces[name].drafts for name in names]
        made = self._made
        if made is not None and all(map(operator.is_, made[0], contracts)):
            return made[1]
        diagnostics = _diagnostics("")
        node = check_node(self._syntax, dict(zip(names, contracts, strict=True)), diagnostics)
        if diagnostics.has_errors():
            return None
        self._made = contracts, node
        return node


class _Piece(Struct, frozen=True, kw_only=True):
    """What a piece of text declares; nothing is wrong with it by itself.

    `is_current` if it also follows the rules that only new texts must follow.
    """

    is_current: bool
    interfaces: tuple[_Interface, ...]
    nodes: tuple[NodeType, ...]
    implementing: tuple[_Implementing, ...]
    edges: tuple[EdgeType, ...]


class SchemaReader:
    """Compiles schemas and remembers their declarations. Safe to share between threads."""

    def __init__(self, chars_max: int = SCHEMA_CHARS_KEPT_MAX) -> None:
        self._known: BoundedCache[str, _Piece] = BoundedCache(chars_max)

    @property
    def chars_kept(self) -> int:
        """Characters of the declarations that are known."""
        return self._known.weight

    def catalog(self, text: str, *, name: str = "<schema>", stored: bool = False) -> Catalog:
        """Return the catalog of a text. The same as `compile_schema` in all it returns and raises.

        Types that were read before are the same values, not only equal ones.
        """
        catalog = self._joined(text, stored=stored)
        if catalog is None:
            catalog = compile_schema(text, name=name, stored=stored).catalog
        return catalog

    def _joined(self, text: str, *, stored: bool) -> Catalog | None:
        if len(text) > SOURCE_CHARS_MAX:
            return None
        pieces: list[_Piece] = []
        texts = pieces_of(text)
        for piece, known in zip(texts, self._known.get_all(texts), strict=True):
            declared = known or _read(piece)
            if declared is None or not (stored or declared.is_current):
                return None
            if known is None:
                self._known.put(piece, declared, len(piece))
            pieces.append(declared)
        return _catalog(pieces)


def pieces_of(text: str) -> list[str]:
    """Return a text in pieces that each end with a body; what follows the last is one, too."""
    return _PIECE.findall(text)


def _read(text: str) -> _Piece | None:
    """Return what a piece declares, None if something is wrong with it."""
    diagnostics = _diagnostics(text)
    syntax = parse_schema(diagnostics.source, diagnostics)
    if diagnostics.has_errors():
        return None
    interfaces: list[_Interface] = []
    nodes: list[NodeType] = []
    implementing: list[_Implementing] = []
    edges: list[EdgeType] = []
    for item in syntax.declarations:
        match item.kind:
            case TypeKind.INTERFACE:
                drafts = check_properties(item, diagnostics)
                interfaces.append(_Interface(interface_type(item.name.text, drafts), drafts))
            case TypeKind.NODE if item.implements:
                implementing.append(_Implementing(item))
            case TypeKind.NODE:
                nodes.append(check_node(item, {}, diagnostics))
            case TypeKind.EDGE:
                ends = [end.text for end in (item.source, item.target) if end is not None]
                edges.append(check_edge(item, ends, diagnostics))
    if diagnostics.has_errors():
        return None
    check_as_new(syntax, diagnostics)
    return _Piece(
        is_current=not diagnostics.has_errors(),
        interfaces=tuple(interfaces),
        nodes=tuple(nodes),
        implementing=tuple(implementing),
        edges=tuple(edges),
    )


def _catalog(pieces: Sequence[_Piece]) -> Catalog | None:
    """Return what pieces declare together, None if something is wrong with it."""
    interfaces = [item for piece in pieces for item in piece.interfaces]
    contracts = {item.type.name: item for item in interfaces}
    nodes = [item for piece in pieces for item in piece.nodes]
    for implementing in [item for piece in pieces for item in piece.implementing]:
        node = implementing.under(contracts)
        if node is None:
            return None
        nodes.append(node)
    known = {item.name: item for item in nodes}
    edges = [item for piece in pieces for item in piece.edges]
    # Names of edges must differ by more than their case.
    words = {item.name.lower() for item in edges}
    if (len(contracts), len(known), len(words)) != (len(interfaces), len(nodes), len(edges)):
        return None
    if not all(item.source in known and item.target in known for item in edges):
        return None
    return Catalog(
        interfaces=by_name({name: item.type for name, item in contracts.items()}),
        nodes=by_name(known),
        edges=by_name({item.name: item for item in edges}),
    )


def _diagnostics(text: str) -> Diagnostics:
    return Diagnostics(SourceText("", text))

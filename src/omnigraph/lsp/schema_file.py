"""A `.pg` file as an editor asks about it."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from omnigraph.catalog import Catalog, TypeKind
from omnigraph.errors import CompileError
from omnigraph.lang.lexer import Kind, Token, tokens_so_far
from omnigraph.lang.pg_ast import DeclarationSyntax, SchemaSyntax
from omnigraph.lang.pg_check import check_schema
from omnigraph.lang.pg_parser import DECLARATION_WORDS, parse_schema
from omnigraph.lang.schema import compile_schema
from omnigraph.lang.source import Diagnostic, Diagnostics, SourceText, Span
from omnigraph.lang.words import (
    SCALARS,
    SCHEMA_ANNOTATIONS,
    SCHEMA_CONSTRAINTS,
    SCHEMA_KEYWORDS,
)
from omnigraph.lsp.answers import Completions, Help, Item, ItemKind, Place, Problem
from omnigraph.lsp.describing import described, property_text, type_text
from omnigraph.lsp.half_typed import Cursor, cursor_at, open_frames

ON_PROPERTIES = (
    *("key", "unique", "index", "language", "default", "embed", "description", "rename_from"),
)
ON_TYPES = ("description", "instruction", "rename_from")
NO_ELEMENTS = ("Blob", "Vector")
"""Types that lists cannot hold."""
BODY_RULES = ("key", "unique", "index", "range", "check")


class SchemaFile(Struct, frozen=True, dict=True):
    """The text of a schema, and what the compiler makes of it."""

    path: str
    text: str

    @cached_property
    def problems(self) -> list[Problem]:
        """Every error and warning of the compiler."""
        try:
            diagnostics = list(compile_schema(self.text, name=self.path).warnings)
        except CompileError as error:
            diagnostics = [item for item in error.diagnostics if isinstance(item, Diagnostic)]
        return [as_problem(item) for item in diagnostics]

    @property
    def has_errors(self) -> bool:
        """Whether the schema does not compile."""
        return any(item.severity == "error" for item in self.problems)

    @cached_property
    def _read(self) -> tuple[SchemaSyntax, Catalog]:
        """What can be read of the text, with or without errors."""
        diagnostics = Diagnostics(SourceText(self.path, self.text))
        syntax = parse_schema(diagnostics.source, diagnostics)
        return syntax, check_schema(syntax, diagnostics)

    @property
    def catalog(self) -> Catalog:
        """The types that can be read of the text."""
        return self._read[1]

    # ---- definitions ----------------------------------------------------------------------

    def declaration(self, name: str) -> DeclarationSyntax | None:
        """Return how a type is declared."""
        items = self._read[0].declarations
        return next((item for item in items if item.name.text == name), None)

    def type_place(self, name: str) -> Place | None:
        """Return where a type is declared."""
        declaration = self.declaration(name)
        return None if declaration is None else Place(path=self.path, span=declaration.name.span)

    def property_place(self, type_name: str, name: str) -> Place | None:
        """Return where a property is declared, in the type or in an interface it implements."""
        owner = self.declaration(type_name)
        if owner is None:
            return None
        for item in owner.properties:
            if item.name.text == name:
                return Place(path=self.path, span=item.name.span)
        places = (self.property_place(item.text, name) for item in owner.implements)
        return next((place for place in places if place is not None), None)

    def definition(self, offset: int) -> Place | None:
        """Return where what stands at an offset is declared."""
        token, before, owner = self._token(offset)
        if token is None:
            return None
        if token.kind is Kind.TYPE_NAME:
            return self.type_place(token.text)
        if token.kind is Kind.IDENT and owner is not None and before is not None:
            return self.property_place(owner, token.text) if before.text in "(,{" else None
        return None

    def _token(self, offset: int) -> tuple[Token | None, Token | None, str | None]:
        """Return the token at an offset, the one before it, and the type it stands in."""
        tokens, _ = tokens_so_far(self.text)
        index = next((n for n, t in enumerate(tokens) if t.start <= offset <= t.end), None)
        if index is None:
            return None, None, None
        # Of two tokens that touch, the word is meant.
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if tokens[index].kind is Kind.PUNCT and following is not None:
            index += following.start <= offset
        cursor = cursor_at(self.text, tokens[index].start, DECLARATION_WORDS)
        frames = [] if cursor is None else open_frames(cursor.before)
        owner = frames[0].type_name if frames else None
        return tokens[index], tokens[index - 1] if index else None, owner

    # ---- help -----------------------------------------------------------------------------

    def hover(self, offset: int) -> Help | None:
        """Return help on what stands at an offset."""
        token, before, owner = self._token(offset)
        if token is None:
            return None
        text: str | None = None
        if token.kind is Kind.TYPE_NAME:
            text = type_text(self.catalog, token.text)
        elif token.kind is Kind.IDENT and before is not None and before.text == "@":
            words = SCHEMA_CONSTRAINTS | SCHEMA_ANNOTATIONS
            text = described(f"@{token.text}", words.get(token.text))
        elif token.kind is Kind.IDENT:
            entity = None if owner is None else self.catalog.find_entity(owner)
            text = None if entity is None else property_text(entity, token.text)
            if text is None and token.text in SCHEMA_KEYWORDS:
                text = described(token.text, SCHEMA_KEYWORDS[token.text])
        return None if text is None else Help(text=text, span=token.span)

    # ---- completion -----------------------------------------------------------------------

    def completions(self, offset: int) -> Completions:
        """Return how the text may go on at an offset."""
        cursor = cursor_at(self.text, offset, DECLARATION_WORDS)
        if cursor is None:
            return Completions(span=Span(offset, offset))
        return Completions(span=cursor.span, items=tuple(self._items(cursor)))

    def _items(self, cursor: Cursor) -> list[Item]:
        last, frame = cursor.back(1), cursor.frame
        if last.text == "@":
            return _annotations(cursor)
        if frame.opener == "(":
            return self._arguments(cursor)
        if frame.opener == "[":
            return [item for item in _scalars() if item.label not in NO_ELEMENTS]
        if frame.head == "body":
            return [*_scalars(), *_words("enum")] if last.text == ":" else []
        if last.text in ("->", ":") or (last.text == "," and "implements" not in _texts(cursor)):
            return self._types(TypeKind.NODE)
        if last.text in ("implements", ","):
            return self._types(TypeKind.INTERFACE)
        if cursor.back(2).text == "node":
            return _words("implements")
        begins = last.text in ("", "}") or _is_done(cursor)
        return _words("node", "edge", "interface") if begins else []

    def _types(self, kind: TypeKind) -> list[Item]:
        types = [item for item in self._read[0].declarations if item.kind is kind]
        return [Item(label=item.name.text, kind=ItemKind.TYPE, detail=str(kind)) for item in types]

    def _arguments(self, cursor: Cursor) -> list[Item]:
        """Return the properties that a constraint or an annotation may name."""
        owner = cursor.frame.type_name
        declared = None if owner is None else self.declaration(owner)
        if cursor.frame.head not in ("key", "unique", "index", "range", "check", "embed"):
            return []
        names = {} if declared is None else {p.name.text: str(p.type) for p in declared.properties}
        names |= _declared_so_far(cursor) if declared is None else {}
        return [
            Item(label=name, kind=ItemKind.PROPERTY, detail=kind) for name, kind in names.items()
        ]


def as_problem(item: Diagnostic) -> Problem:
    """Return a finding of the compiler as something to underline."""
    message = item.message if item.hint is None else f"{item.message}\nhelp: {item.hint}"
    return Problem(span=item.span, message=message, severity=item.severity, code=item.code)


def _texts(cursor: Cursor) -> list[str]:
    return [token.text for token in cursor.before]


def _is_done(cursor: Cursor) -> bool:
    """Whether an edge without a body may be over: `edge E: A -> B`."""
    return cursor.back(2).text == "->" or cursor.back(1).text == ")"


def _declared_so_far(cursor: Cursor) -> dict[str, str]:
    """Return the properties of a declaration that does not parse, and how their types begin."""
    tokens = cursor.before
    return {
        token.text: tokens[index + 2].text
        for index, token in enumerate(tokens[:-2])
        if token.kind is Kind.IDENT and tokens[index + 1].text == ":"
    }


def _annotations(cursor: Cursor) -> list[Item]:
    texts = SCHEMA_CONSTRAINTS | SCHEMA_ANNOTATIONS
    names: tuple[str, ...]
    if cursor.frame.head != "body":
        names = (*ON_TYPES, "card") if cursor.before[0].text == "edge" else ON_TYPES
    else:
        # A constraint begins a line of its own or stands behind a property.
        names = tuple(dict.fromkeys((*ON_PROPERTIES, *BODY_RULES)))
    return [Item(label=name, kind=ItemKind.ANNOTATION, detail=texts[name]) for name in names]


def _scalars() -> list[Item]:
    return [Item(label=name, kind=ItemKind.TYPE, detail=text) for name, text in SCALARS.items()]


def _words(*words: str) -> list[Item]:
    return [Item(label=w, kind=ItemKind.KEYWORD, detail=SCHEMA_KEYWORDS[w]) for w in words]

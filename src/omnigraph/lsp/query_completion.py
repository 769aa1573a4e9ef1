"""How a half-typed query may go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.catalog import Catalog, EdgeType
from omnigraph.catalog.model import Entity
from omnigraph.lang.gq_expressions import AGGREGATES, WORD_OPERATORS
from omnigraph.lang.gq_parser import VERBS
from omnigraph.lang.lexer import Kind
from omnigraph.lang.source import Span
from omnigraph.lang.words import (
    QUERY_ANNOTATIONS,
    QUERY_CONSTANTS,
    QUERY_FUNCTIONS,
    QUERY_KEYWORDS,
    SCALARS,
)
from omnigraph.lsp.answers import Completions, Item, ItemKind
from omnigraph.lsp.describing import (
    description,
    edge_word,
    entity_head,
    implicit_properties,
)
from omnigraph.lsp.half_typed import Cursor, cursor_at, written_type
from omnigraph.lsp.query_file import STARTS, QueryFile, names_edge

# What may follow a section of a query, by the section.
_AFTER = {
    "match": ("return",),
    "return": ("order", "limit", "offset"),
    "order": ("limit", "offset"),
    "values": ("where", *VERBS),
    "": ("match", *VERBS),
}


def completions(file: QueryFile, offset: int) -> Completions:
    """Return how a query file may go on at an offset."""
    cursor = cursor_at(file.text, offset, STARTS)
    if cursor is None:
        return Completions(span=Span(offset, offset))
    return Completions(span=cursor.span, items=tuple(_Completer(file, cursor).items()))


class _Completer:
    def __init__(self, file: QueryFile, cursor: Cursor) -> None:
        self._file = file
        self._cursor = cursor
        self._catalog = file.catalog or Catalog()

    def items(self) -> Iterable[Item]:
        cursor = self._cursor
        last, frame = cursor.back(1), cursor.frame
        if last.text == "." and cursor.back(2).kind is Kind.VARIABLE:
            return self._properties_of_variable()
        if last.text == "@":
            return _words(QUERY_ANNOTATIONS, ItemKind.ANNOTATION)
        if not cursor.frames:
            return _keywords("query") if last.text in ("", "}") else []
        if frame.head == "parameters" or (frame.opener == "[" and len(cursor.frames) == 2):
            return _words(SCALARS, ItemKind.TYPE) if last.text in (":", "[") else []
        if cursor.word.startswith("$"):
            return self._names()
        if last.text == ":" and cursor.back(2).kind is Kind.VARIABLE and frame.is_pattern:
            return self._edges() if cursor.back(3).kind is Kind.VARIABLE else self._node_types()
        if last.text == "|" or (last.text == "(" and names_edge(cursor)):
            return self._edges()
        if frame.head == "values" and last.text != ":":
            return self._assignable()
        if frame.head == "body":
            return self._sections()
        if frame.is_pattern:
            return self._clauses()
        return self._expression()

    # ---- names ----------------------------------------------------------------------------

    def _names(self) -> list[Item]:
        """Return the variables and parameters of the query."""
        tokens = [*self._cursor.before, *self._cursor.following]
        declared = self._parameters()
        items = [
            Item(label=f"${name}", kind=ItemKind.PARAMETER, detail=kind)
            for name, kind in declared.items()
        ]
        typed = {t.text for t in tokens if t.kind is Kind.VARIABLE and t.text not in ("", "_")}
        # The word at the cursor is being typed; it is a name only where it stands elsewhere too.
        word = self._cursor.word.removeprefix("$")
        if sum(t.kind is Kind.VARIABLE and t.text == word for t in tokens) < 2:
            typed.discard(word)
        for name in sorted(typed - set(declared)):
            kind = self._file.variable_type(name, self._cursor.span.start, self._cursor)
            items.append(Item(label=f"${name}", kind=ItemKind.VARIABLE, detail=kind))
        return items

    def _parameters(self) -> dict[str, str]:
        parameters: dict[str, str] = {}
        tokens = self._cursor.before
        for index, token in enumerate(tokens):
            if token.text == ")":
                break
            if token.kind is Kind.VARIABLE and index + 2 < len(tokens):
                parameters[token.text] = tokens[index + 2].text
        return parameters

    def _entity(self, name: str | None) -> Entity | None:
        return None if name is None else self._catalog.find_entity(name)

    def _properties_of_variable(self) -> list[Item]:
        variable = self._cursor.back(2)
        name = self._file.variable_type(variable.text, variable.start, self._cursor)
        entity = self._entity(name)
        return [] if entity is None else _properties(entity, implicit_properties(entity))

    def _assignable(self) -> list[Item]:
        """Return the properties that braces may name: of a binding, or of a written row."""
        entity = self._entity(self._cursor.frame.type_name)
        if entity is None:
            return []
        binding = any(frame.is_pattern for frame in self._cursor.frames)
        ends = {"from": "String", "to": "String"} if isinstance(entity, EdgeType) else {}
        return _properties(entity, {"id": "String"} if binding else ends, suffix=": ")

    def _node_types(self) -> list[Item]:
        return [_type(item) for item in self._catalog.nodes.values()]

    def _all_types(self) -> list[Item]:
        return [_type(item) for item in self._catalog.entities()]

    def _edges(self, node_type: str | None = None) -> list[Item]:
        edges = tuple(self._catalog.edges.values())
        if node_type is not None:
            edges = self._catalog.incident_edges(node_type)
        return [
            Item(label=edge_word(edge), kind=ItemKind.EDGE, detail=entity_head(edge))
            for edge in edges
        ]

    # ---- places ---------------------------------------------------------------------------

    def _sections(self) -> list[Item]:
        """Return what may stand directly in the braces of a query."""
        cursor = self._cursor
        last, closed = cursor.back(1), cursor.frame.closed
        if last.text in (*VERBS, "new"):
            return [*self._all_types(), *(_keywords("new") if last.text == "insert" else [])]
        if last.text == "return":
            return _keywords("distinct")
        if last.kind is Kind.TYPE_NAME:
            return _keywords("set" if cursor.back(2).text == "update" else "where")
        if last.text in ("limit", "offset"):
            return self._names()
        if last.text == "}" or last.text == "{":
            return _keywords(*_AFTER.get(closed if last.text == "}" else "", ()))
        if "where" in [token.text for token in cursor.before]:
            return self._where()
        if cursor.back(2).text in ("limit", "offset"):
            return _keywords("limit", "offset")
        return []

    def _where(self) -> list[Item]:
        entity = self._entity(written_type(self._cursor.before))
        ends = {"from": "String", "to": "String"} if isinstance(entity, EdgeType) else {}
        properties = [] if entity is None else _properties(entity, {"id": "String"} | ends)
        return [*properties, *self._names(), *_operators(), *_keywords("not", *VERBS)]

    def _clauses(self) -> list[Item]:
        """Return what may stand in a pattern."""
        last = self._cursor.back(1)
        if last.kind is Kind.VARIABLE:
            kind = self._file.variable_type(last.text, last.start, self._cursor)
            known = kind if kind in self._catalog.nodes else None
            return [*self._edges(known), *_operators()]
        if last.text == "<":
            return [*self._edges(), *self._expression()]
        return [*self._expression(), *_keywords("not", "optional"), *_operators()]

    def _expression(self) -> list[Item]:
        items = [*self._names(), *_functions(), *_words(QUERY_CONSTANTS, ItemKind.KEYWORD)]
        head = self._cursor.frame.head
        if head == "return":
            items += _keywords("as")
        elif head == "order":
            items += _keywords("asc", "desc")
        elif head in AGGREGATES:
            items += _keywords("distinct")
        owner = written_type(self._cursor.before)
        entity = self._entity(owner)
        return items if entity is None else [*_properties(entity, {}), *items]


def _properties(entity: Entity, implicit: Mapping[str, str], *, suffix: str = "") -> list[Item]:
    items = [
        Item(
            label=item.name,
            kind=ItemKind.PROPERTY,
            detail=" - ".join(filter(None, (str(item.type), description(item.annotations)))),
            text=f"{item.name}{suffix}",
        )
        for item in entity.properties.values()
    ]
    return items + [
        Item(label=name, kind=ItemKind.PROPERTY, detail=kind, text=f"{name}{suffix}")
        for name, kind in implicit.items()
    ]


def _type(entity: Entity) -> Item:
    return Item(label=entity.name, kind=ItemKind.TYPE, detail=entity_head(entity))


def _words(texts: Mapping[str, str], kind: ItemKind) -> list[Item]:
    return [Item(label=word, kind=kind, detail=text) for word, text in texts.items()]


def _keywords(*words: str) -> list[Item]:
    return [Item(label=w, kind=ItemKind.KEYWORD, detail=QUERY_KEYWORDS[w]) for w in words]


def _operators() -> list[Item]:
    return _keywords(*WORD_OPERATORS, "is", "and", "or")


def _functions() -> list[Item]:
    items = _words(QUERY_FUNCTIONS, ItemKind.FUNCTION)
    return [*items, *_keywords("exists", "not")]

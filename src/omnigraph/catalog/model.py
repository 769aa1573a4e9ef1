"""Node, edge and interface types with their properties and constraints."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property

from msgspec import Struct, field

from omnigraph.catalog.languages import ENGLISH, LANGUAGES
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.errors import NotFoundError
from omnigraph.wording import names_hint

LiteralValue = (
    str | int | float | bool | datetime.date | datetime.datetime | None | tuple["LiteralValue", ...]
)
"""A constant in schema or query text. Dates are `date`, instants `datetime` in UTC."""


class TypeKind(StrEnum):
    """Kind of a schema declaration."""

    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"


class Annotation(Struct, frozen=True, kw_only=True):
    """An annotation kept verbatim: name, positional value as text, keyword values as text."""

    name: str
    value: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def sort_key(self) -> tuple[str, bool, str, tuple[tuple[str, str], ...]]:
        """Canonical order: by name, without a value first, by value, by keyword values."""
        return self.name, self.value is not None, self.value or "", self.arguments


class Embedding(Struct, frozen=True, kw_only=True):
    """Declares that a vector property is the embedding of `source`, made by `model` if named."""

    source: str
    model: str | None = None


class UniqueConstraint(Struct, frozen=True, kw_only=True):
    """No two rows share the tuple of these columns (rows with a null component are exempt)."""

    columns: tuple[str, ...]


class IndexConstraint(Struct, frozen=True, kw_only=True):
    """Asks for an index on each of these columns. Never changes a result."""

    columns: tuple[str, ...]


class RangeConstraint(Struct, frozen=True, kw_only=True):
    """Inclusive numeric bounds; an absent bound is open.

    A whole number that an integer can spell is an `int`, so equal bounds look equal.
    """

    property: str
    low: int | float | None
    high: int | float | None


class CheckConstraint(Struct, frozen=True, kw_only=True):
    """The string must contain a match of an RE2 pattern (anchor it with ^ and $ if needed)."""

    property: str
    pattern: str


class Cardinality(Struct, frozen=True, kw_only=True):
    """Number of edges of one type per source node; `maximum` None means unbounded."""

    minimum: int = 0
    maximum: int | None = None

    def __str__(self) -> str:
        """Spell it as `@card` does."""
        return f"{self.minimum}..{'' if self.maximum is None else self.maximum}"


class Property(Struct, frozen=True, kw_only=True):
    """One property of a type.

    `annotations` holds what is kept verbatim (description and unknown ones); `default` fills
    absent values on insert and load, `has_default` tells a null default from none.
    `rename_from` is a migration hint and no part of the shape.
    """

    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...] = ()
    embedding: Embedding | None = None
    default: LiteralValue = None
    has_default: bool = False
    rename_from: str | None = None
    declared_directly: bool = True
    satisfies: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether a row must have a value, and input must give it."""
        return not self.type.nullable

    @property
    def language(self) -> str:
        """The language of its text, by which words are found."""
        for item in self.annotations:
            # Graphs of earlier releases may have an annotation of this name with any value.
            if item.name == "language" and item.value in LANGUAGES:
                return item.value
        return ENGLISH


def _have_hints(properties: Mapping[str, Property]) -> bool:
    return any(item.rename_from is not None for item in properties.values())


class EntityType(Struct, frozen=True, kw_only=True, dict=True):
    """What nodes and edges have in common. Properties are sorted by name."""

    name: str
    properties: Mapping[str, Property]
    uniques: tuple[UniqueConstraint, ...] = ()
    indexes: tuple[IndexConstraint, ...] = ()
    ranges: tuple[RangeConstraint, ...] = ()
    checks: tuple[CheckConstraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None

    @cached_property
    def has_hints(self) -> bool:
        """Whether it says of itself or of a property what it was called before."""
        return self.rename_from is not None or _have_hints(self.properties)

    @property
    def kind(self) -> TypeKind:
        """Node or edge."""
        return TypeKind.EDGE if isinstance(self, EdgeType) else TypeKind.NODE

    @property
    def table_key(self) -> str:
        """Name of the type's table in manifests and messages: `node:T` or `edge:T`."""
        # Asked for many times per write: spelled out, without the enumeration.
        return f"edge:{self.name}" if isinstance(self, EdgeType) else f"node:{self.name}"

    @property
    def implicit_columns(self) -> tuple[str, ...]:
        """Stored columns no property declares."""
        return ("id", "src", "dst") if isinstance(self, EdgeType) else ("id",)


class NodeType(EntityType, frozen=True, kw_only=True, dict=True):
    """A node type. `key` lists the key columns sorted by name, empty when there is no key."""

    key: tuple[str, ...] = ()
    implements: tuple[str, ...] = ()


class EdgeType(EntityType, frozen=True, kw_only=True, dict=True):
    """An edge type between two node types."""

    source: str
    target: str
    cardinality: Cardinality = field(default_factory=Cardinality)

    @property
    def unique_pair(self) -> bool:
        """Whether at most one edge of this type joins a pair of nodes."""
        return any(set(item.columns) <= {"src", "dst"} for item in self.uniques)


Entity = NodeType | EdgeType
"""A type that has a table."""


class InterfaceType(Struct, frozen=True, kw_only=True, dict=True):
    """A property contract that node types implement. Not queryable.

    `flags` names, for each property that has any, the one-column constraints (`index`, `key`,
    `unique`, sorted) of a node type that takes the property from here.
    """

    name: str
    properties: Mapping[str, Property]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def has_hints(self) -> bool:
        """Whether it says of a property what it was called before."""
        return _have_hints(self.properties)


DeclaredType = InterfaceType | NodeType | EdgeType
"""What a schema declares."""


class Catalog(Struct, frozen=True, kw_only=True):
    """A whole schema. Every mapping is sorted by name."""

    interfaces: Mapping[str, InterfaceType] = field(default_factory=dict)
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    edges: Mapping[str, EdgeType] = field(default_factory=dict)

    def types(self, kind: TypeKind) -> Mapping[str, DeclaredType]:
        """Return the types of one kind by name."""
        match kind:
            case TypeKind.INTERFACE:
                return self.interfaces
            case TypeKind.NODE:
                return self.nodes
            case TypeKind.EDGE:
                return self.edges

    def entities(self) -> Iterator[Entity]:
        """Yield node types, then edge types, each by name."""
        yield from self.nodes.values()
        yield from self.edges.values()

    def find_entity(self, name: str) -> Entity | None:
        """Return the node or edge type of a name, None when there is none."""
        return self.nodes.get(name) or self.edges.get(name)

    def entity_named(self, name: str) -> Entity:
        """Return the node or edge type of a name. Raises `NotFoundError`."""
        entity = self.find_entity(name)
        if entity is None:
            hint = names_hint(name, [item.name for item in self.entities()])
            raise NotFoundError(f"unknown type '{name}'", hint=hint)
        return entity

    def entity_of_table(self, table_key: str) -> Entity:
        """Return the type of a table that belongs to this schema."""
        kind, _, name = table_key.partition(":")
        return self.edges[name] if kind == TypeKind.EDGE else self.nodes[name]

    def edge_by_word(self, word: str) -> EdgeType | None:
        """Return the edge type a traversal word names, whatever its case."""
        folded = word.lower()
        return next((edge for edge in self.edges.values() if edge.name.lower() == folded), None)

    def incident_edges(self, node_name: str) -> tuple[EdgeType, ...]:
        """Return the edge types that start or end at a node type, by name."""
        return tuple(e for e in self.edges.values() if node_name in (e.source, e.target))


def index_kind(property_type: PropertyType) -> str | None:
    """Return the kind of index a column of this type gets, None when it can have none."""
    if property_type.scalar is Scalar.BLOB:
        return None
    if property_type.scalar is Scalar.VECTOR:
        return "vector"
    if property_type.is_list:
        return "label_list"
    if property_type.scalar is Scalar.STRING and not property_type.enum_values:
        return "inverted"
    return "btree"

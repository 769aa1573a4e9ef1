"""Types and properties as Markdown, and the words of the languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.catalog.languages import ENGLISH
from omnigraph.catalog.model import Annotation, Entity
from omnigraph.lang.words import (
    QUERY_CONSTANTS,
    QUERY_FUNCTIONS,
    QUERY_KEYWORDS,
    SCALARS,
)

PROPERTIES_SHOWN_MAX = 20
QUERY_WORDS: Mapping[str, str] = QUERY_KEYWORDS | QUERY_CONSTANTS | QUERY_FUNCTIONS
IMPLICIT_OF_NODES = {"id": "String"}
IMPLICIT_OF_EDGES = {"id": "String", "from": "String", "to": "String"}


def described(code: str, *sentences: str | None) -> str:
    """Return a line of code and what there is to say about it."""
    return "\n\n".join([f"```\n{code}\n```", *(text for text in sentences if text)])


def description(annotations: Iterable[Annotation]) -> str | None:
    """Return what `@description` says."""
    return next((item.value for item in annotations if item.name == "description"), None)


def entity_head(entity: Entity) -> str:
    """Return how the declaration of a type begins."""
    if isinstance(entity, EdgeType):
        return f"edge {entity.name}: {entity.source} -> {entity.target}"
    implemented = f" implements {', '.join(entity.implements)}" if entity.implements else ""
    return f"node {entity.name}{implemented}"


def entity_text(entity: Entity) -> str:
    """Return a type with its properties."""
    rows = [f"    {property_line(entity, item)}" for item in entity.properties.values()]
    if len(rows) > PROPERTIES_SHOWN_MAX:
        left = len(rows) - PROPERTIES_SHOWN_MAX
        rows = [*rows[:PROPERTIES_SHOWN_MAX], f"    // and {left} more"]
    body = "\n".join(["{", *rows, "}"]) if rows else ""
    return described(f"{entity_head(entity)} {body}".rstrip(), description(entity.annotations))


def property_line(entity: Entity, item: Property) -> str:
    """Return the declaration of a property, as far as it fits a line."""
    marks = []
    if isinstance(entity, NodeType) and item.name in entity.key:
        marks.append("@key")
    marks += ["@unique" for rule in entity.uniques if rule.columns == (item.name,)]
    marks += ["@index" for rule in entity.indexes if rule.columns == (item.name,)]
    if item.embedding is not None:
        marks.append(f"@embed({item.embedding.source})")
    if item.language != ENGLISH:
        marks.append(f"@language({item.language})")
    return " ".join([f"{item.name}: {item.type}", *marks])


def property_text(entity: Entity, name: str) -> str | None:
    """Return a property of a type, None if it has no such one."""
    item = entity.properties.get(name)
    if item is not None:
        return described(
            f"{entity.name}.{property_line(entity, item)}", description(item.annotations)
        )
    implicit = implicit_properties(entity).get(name)
    return None if implicit is None else described(f"{entity.name}.{name}: {implicit}")


def implicit_properties(entity: Entity) -> Mapping[str, str]:
    """Return what can be read of a type though it is not declared."""
    return IMPLICIT_OF_EDGES if isinstance(entity, EdgeType) else IMPLICIT_OF_NODES


def edge_word(edge: EdgeType) -> str:
    """Return the word that follows an edge type in a query."""
    return edge.name[:1].lower() + edge.name[1:]


def interface_text(catalog: Catalog, name: str) -> str | None:
    """Return an interface with its properties, None if there is no such one."""
    interface = catalog.interfaces.get(name)
    if interface is None:
        return None
    rows = [f"    {item.name}: {item.type}" for item in interface.properties.values()]
    return described("\n".join([f"interface {name} {{", *rows, "}"]))


def type_text(catalog: Catalog, name: str) -> str | None:
    """Return any type of a schema, or a scalar, None if there is no such one."""
    entity = catalog.find_entity(name)
    if entity is not None:
        return entity_text(entity)
    return interface_text(catalog, name) or scalar_text(name)


def scalar_text(name: str) -> str | None:
    """Return what a scalar type is, None if there is no such one."""
    return described(name, SCALARS[name]) if name in SCALARS else None

"""Describes a schema for programs and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.catalog import Catalog, EdgeType, Entity, NodeType, Property, Scalar
from omnigraph.values.inspection import PropertyInfo, TypeInfo

_NAMING = ("name", "title", "label")
_DESCRIPTION = "description"


def describe_types(catalog: Catalog) -> tuple[TypeInfo, ...]:
    """Return every type of a schema, nodes before edges."""
    return tuple(_type(entity) for entity in catalog.entities())


def label_property(entity: Entity) -> str:
    """Return the property that names an entity to people; `id` where none does."""
    for name in _NAMING:
        declared = entity.properties.get(name)
        if declared is not None and declared.type.is_text:
            return name
    if isinstance(entity, NodeType) and len(entity.key) == 1:
        return entity.key[0]
    return "id"


def label_of(entity: Entity, data: Mapping[str, object]) -> str:
    """Return what to call an entity; its id if it has no name."""
    label = data.get(label_property(entity))
    return str(data["id"] if label is None or label == "" else label)


def _type(entity: Entity) -> TypeInfo:
    is_edge = isinstance(entity, EdgeType)
    return TypeInfo(
        name=entity.name,
        kind="edge" if is_edge else "node",
        properties=tuple(_property(entity, item) for item in entity.properties.values()),
        key=entity.key if isinstance(entity, NodeType) else (),
        label=label_property(entity),
        implements=entity.implements if isinstance(entity, NodeType) else (),
        constraints=tuple(_constraints(entity)),
        source=entity.source if isinstance(entity, EdgeType) else None,
        target=entity.target if isinstance(entity, EdgeType) else None,
        cardinality=str(entity.cardinality) if isinstance(entity, EdgeType) else None,
    )


def _property(entity: Entity, item: Property) -> PropertyInfo:
    described = (note.value for note in item.annotations if note.name == _DESCRIPTION)
    return PropertyInfo(
        name=item.name,
        type=str(item.type),
        scalar=str(item.type.scalar),
        nullable=item.type.nullable,
        is_list=item.type.is_list,
        enum_values=item.type.enum_values,
        vector_dim=item.type.vector_dim if item.type.scalar is Scalar.VECTOR else 0,
        key=isinstance(entity, NodeType) and item.name in entity.key,
        unique=any(constraint.columns == (item.name,) for constraint in entity.uniques),
        indexed=any(item.name in index.columns for index in entity.indexes),
        description=next(described, None),
    )


def _constraints(entity: Entity) -> Iterable[str]:
    for unique in entity.uniques:
        if len(unique.columns) > 1:
            yield f"@unique({', '.join(unique.columns)})"
    for bounds in entity.ranges:
        low, high = ("" if edge is None else str(edge) for edge in (bounds.low, bounds.high))
        yield f"@range({bounds.property}, {low}..{high})"
    for check in entity.checks:
        yield f'@check({check.property}, "{check.pattern}")'

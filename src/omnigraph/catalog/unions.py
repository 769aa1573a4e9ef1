"""Edge types taken together: what a traversal over any of several types follows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from omnigraph.catalog.model import EdgeType, Property
from omnigraph.catalog.types import PropertyType


class EdgeUnion(EdgeType, frozen=True, kw_only=True):
    """Edges of several types that join the same two node types, as edges of one type.

    It has no table. Its properties are those that all members have with one type. A member that
    goes from `target` to `source` is read backwards. Ids are unique within a member only.
    """

    members: tuple[EdgeType, ...]

    def is_turned(self, member: EdgeType) -> bool:
        """Whether a member goes the other way than the union."""
        return member.source != self.source


def members_of(edge: EdgeType) -> tuple[EdgeType, ...]:
    """Return the types that have a table: the members of a union, else the type itself."""
    return edge.members if isinstance(edge, EdgeUnion) else (edge,)


def united(edges: Sequence[EdgeType]) -> EdgeType:
    """Return one type for all edges of several; a single one stays what it is."""
    first = edges[0]
    if len(edges) == 1:
        return first
    properties: dict[str, Property] = {}
    for name in first.properties:
        variants = [edge.properties.get(name) for edge in edges]
        kind = _common_type([item.type for item in variants if item is not None])
        if None not in variants and kind is not None:
            properties[name] = Property(name=name, type=kind)
    return EdgeUnion(
        name="|".join(edge.name for edge in edges),
        properties=properties,
        source=first.source,
        target=first.target,
        members=tuple(edges),
    )


def _common_type(types: Sequence[PropertyType]) -> PropertyType | None:
    """Return the type of values of any of the types; None where there is no single one.

    One that may be null makes all of them nullable; enums that differ are texts.
    """
    nullable = any(item.nullable for item in types)
    plain = {replace(item, nullable=nullable) for item in types}
    if len(plain) > 1:
        plain = {replace(item, enum_values=()) for item in plain}
    return plain.pop() if len(plain) == 1 else None

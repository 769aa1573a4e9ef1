"""Stable identities: numbers that follow types and properties through renames.

One counter per graph serves type ids, property ids and table incarnations. A number is never
given twice, not even after a drop, so a dropped and re-added name is a new thing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from omnigraph.catalog.model import Catalog, TypeKind

TypeName = tuple[TypeKind, str]


class Identities(Struct, frozen=True, kw_only=True):
    """Ids of every type, property (by type id and name) and table incarnation (by type id)."""

    next_identity_id: int = 1
    types: Mapping[TypeName, int] = field(default_factory=dict)
    properties: Mapping[tuple[int, str], int] = field(default_factory=dict)
    incarnations: Mapping[int, int] = field(default_factory=dict)

    def type_id(self, kind: TypeKind, name: str) -> int:
        """Return the id of a declared type."""
        return self.types[(kind, name)]

    def property_id(self, type_id: int, name: str) -> int:
        """Return the id of a property of a type."""
        return self.properties[(type_id, name)]


class Origins(Struct, frozen=True, kw_only=True):
    """Which accepted declaration each desired one continues; what is absent is new."""

    types: Mapping[TypeName, str] = field(default_factory=dict)
    properties: Mapping[tuple[TypeKind, str, str], str] = field(default_factory=dict)


def declared_types(catalog: Catalog) -> list[TypeName]:
    """List every type: interfaces, nodes, edges, each by name. This order allocates ids."""
    return (
        [(TypeKind.INTERFACE, name) for name in catalog.interfaces]
        + [(TypeKind.NODE, name) for name in catalog.nodes]
        + [(TypeKind.EDGE, name) for name in catalog.edges]
    )


def properties_of(catalog: Catalog, kind: TypeKind, name: str) -> tuple[str, ...]:
    """Return the property names of a type, sorted."""
    owner: Mapping[str, object]
    if kind is TypeKind.INTERFACE:
        owner = catalog.interfaces[name].properties
    elif kind is TypeKind.NODE:
        owner = catalog.nodes[name].properties
    else:
        owner = catalog.edges[name].properties
    return tuple(owner)


def allocate(catalog: Catalog, accepted: Identities, origins: Origins) -> Identities:
    """Give every declaration of `catalog` its id: the one it continues, else a new one.

    New ids go to types first, then properties by (type id, name), then table incarnations by
    type id, so the same schema always gets the same numbers.
    """
    counter = accepted.next_identity_id
    types: dict[TypeName, int] = {}
    for kind, name in declared_types(catalog):
        origin = origins.types.get((kind, name))
        if origin is not None:
            types[(kind, name)] = accepted.types[(kind, origin)]
        else:
            types[(kind, name)] = counter
            counter += 1

    by_id = sorted((number, type_name) for type_name, number in types.items())
    properties: dict[tuple[int, str], int] = {}
    for number, (kind, name) in by_id:
        for prop in properties_of(catalog, kind, name):
            origin = origins.properties.get((kind, name, prop))
            if origin is not None:
                properties[(number, prop)] = accepted.properties[(number, origin)]
            else:
                properties[(number, prop)] = counter
                counter += 1

    incarnations: dict[int, int] = {}
    for number, (kind, _name) in by_id:
        if kind is TypeKind.INTERFACE:
            continue
        known = accepted.incarnations.get(number)
        if known is None:
            known, counter = counter, counter + 1
        incarnations[number] = known
    return Identities(
        next_identity_id=counter,
        types=types,
        properties=properties,
        incarnations=incarnations,
    )

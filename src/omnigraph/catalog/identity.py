"""Stable identities: numbers that follow types and properties through renames.

One counter per graph serves type ids, property ids and table incarnations. A number is never
given twice, not even after a drop, so a dropped and re-added name is a new thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from operator import attrgetter
from typing import Final

from msgspec import Struct, field

from omnigraph.catalog.json_text import lines_of
from omnigraph.catalog.model import Catalog, TypeKind

TypeName = tuple[TypeKind, str]
IDENTITY_DEPTH: Final = 2
"""How many lists and objects there are around an identity in the durable form of a schema."""


class TypeIdentity(Struct, frozen=True, kw_only=True, dict=True):
    """The numbers of one type: its own, that of its table, and those of its properties by name.

    Interfaces have no table.
    """

    kind: TypeKind
    name: str
    type_id: int
    incarnation: int | None = None
    properties: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def lines(self) -> str:
        """Its record in the durable form of a schema; made once, since many schemas share it."""
        return lines_of(
            {
                "kind": str(self.kind),
                "name": self.name,
                "type_id": self.type_id,
                "incarnation": self.incarnation,
                "properties": dict(sorted(self.properties.items())),
            },
            depth=IDENTITY_DEPTH,
        )


class Identities(Struct, frozen=True, kw_only=True):
    """The identity of every type, and the number that is given next."""

    next_identity_id: int = 1
    types: Mapping[TypeName, TypeIdentity] = field(default_factory=dict)

    def of(self, kind: TypeKind, name: str) -> TypeIdentity:
        """Return the identity of a declared type."""
        return self.types[(kind, name)]

    def by_number(self) -> list[TypeIdentity]:
        """Return the identities in the order of their type ids."""
        return sorted(self.types.values(), key=attrgetter("type_id"))

    def spent(self) -> list[int]:
        """Return every number that is in use."""
        numbers: list[int] = []
        for item in self.types.values():
            numbers.append(item.type_id)
            numbers.extend(item.properties.values())
            if item.incarnation is not None:
                numbers.append(item.incarnation)
        return numbers


class Differences(Struct, frozen=True, kw_only=True):
    """Where two catalogs differ: the types that `changed` or are new, and those that are `gone`.

    Both are in the order of `declared_types`. A type with a hint what it was called before counts
    as changed. One that is not listed has its name, its properties and its rules in both.
    """

    changed: tuple[TypeName, ...] = ()
    gone: tuple[TypeName, ...] = ()


class Origins(Struct, frozen=True, kw_only=True):
    """Which accepted declaration each changed one continues; what is absent is new."""

    types: Mapping[TypeName, str] = field(default_factory=dict)
    properties: Mapping[tuple[TypeKind, str, str], str] = field(default_factory=dict)


def declared_types(catalog: Catalog) -> tuple[TypeName, ...]:
    """List every type: interfaces, nodes, edges, each by name. This order allocates ids."""
    return tuple((kind, name) for kind in TypeKind for name in catalog.types(kind))


def differences(accepted: Catalog, desired: Catalog) -> Differences:
    """Return where two catalogs differ."""
    changed: list[TypeName] = []
    gone: list[TypeName] = []
    for kind in TypeKind:
        old, new = accepted.types(kind), desired.types(kind)
        # Most types of a large schema are the very same values, which is told fastest this way.
        same = set(map(id, old.values()))
        others = [item for item in new.values() if id(item) not in same or item.has_hints]
        changed += [
            (kind, item.name) for item in others if item.has_hints or item != old.get(item.name)
        ]
        gone += [(kind, name) for name in sorted(old.keys() - new.keys())]
    return Differences(changed=tuple(changed), gone=tuple(gone))


def allocate(
    catalog: Catalog, accepted: Identities, differ: Differences, origins: Origins
) -> Identities:
    """Give every declaration of `catalog` its id: the one it continues, else a new one.

    New ids go to types first, then properties by (type id, name), then table incarnations by
    type id, so the same schema always gets the same numbers.
    """
    counter = accepted.next_identity_id
    continued: dict[int, TypeIdentity] = {}
    changed: list[tuple[int, TypeName]] = []
    for type_name in differ.changed:
        if (origin := origins.types.get(type_name)) is not None:
            known = accepted.types[(type_name[0], origin)]
            continued[known.type_id] = known
            changed.append((known.type_id, type_name))
        else:
            changed.append((counter, type_name))
            counter += 1
    changed.sort()

    properties: dict[int, dict[str, int]] = {}
    for number, (kind, name) in changed:
        numbers = properties[number] = {}
        for prop in catalog.types(kind)[name].properties:
            origin = origins.properties.get((kind, name, prop))
            if origin is not None:
                numbers[prop] = continued[number].properties[origin]
            else:
                numbers[prop] = counter
                counter += 1

    types = dict(accepted.types)
    for type_name in differ.gone:
        del types[type_name]
    for number, (kind, name) in changed:
        before = continued.get(number)
        incarnation = None if before is None else before.incarnation
        if incarnation is None and kind is not TypeKind.INTERFACE:
            incarnation, counter = counter, counter + 1
        types[(kind, name)] = TypeIdentity(
            kind=kind,
            name=name,
            type_id=number,
            incarnation=incarnation,
            properties=properties[number],
        )
    return Identities(next_identity_id=counter, types=types)

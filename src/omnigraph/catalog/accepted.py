"""The accepted schema of a graph: catalog plus identities, and its durable JSON form."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property

from msgspec import Struct

from omnigraph.catalog.identity import (
    Differences,
    Identities,
    Origins,
    TypeIdentity,
    TypeName,
    allocate,
    declared_types,
    differences,
)
from omnigraph.catalog.json_text import list_of, object_of
from omnigraph.catalog.model import Catalog, NodeType, TypeKind
from omnigraph.catalog.shape import Json, shape_hash, shape_lines

IR_VERSION = 2


class AcceptedSchema(Struct, frozen=True, kw_only=True, dict=True):
    """A catalog with the identity domain it lives in (a ULID minted when the graph was made)."""

    domain: str
    catalog: Catalog
    identities: Identities

    @cached_property
    def shape_hash(self) -> str:
        """Hash of the catalog's canonical shape."""
        return shape_hash(self.catalog)

    def table_identity(self, kind: TypeKind, name: str) -> tuple[int, int]:
        """Return (type id, incarnation) of a node or edge type: the name of its table."""
        identity = self.identities.of(kind, name)
        if identity.incarnation is None:
            raise LookupError(f"{kind} {name} has no table")
        return identity.type_id, identity.incarnation

    def key_order(self, node: NodeType) -> tuple[str, ...]:
        """Return key columns in the order composite ids use: by stable property id."""
        numbers = self.identities.of(TypeKind.NODE, node.name).properties
        return tuple(sorted(node.key, key=numbers.__getitem__))

    def succeeded_by(
        self, catalog: Catalog, differ: Differences, origins: Origins
    ) -> AcceptedSchema:
        """Return the schema with another catalog, told where it differs and what continues what."""
        identities = allocate(catalog, self.identities, differ, origins)
        schema = AcceptedSchema(domain=self.domain, catalog=catalog, identities=identities)
        if self.identity_problem is None:
            # Numbers that are not taken over come from the counter: nothing is there to be found.
            schema.__dict__["identity_problem"] = None
        return schema

    @cached_property
    def identity_problem(self) -> str | None:
        """What is wrong with the identities; None if every declaration has one, spent only once."""
        identities = self.identities
        if identities.types.keys() != set(declared_types(self.catalog)):
            return "accepted identities and accepted catalog list different types"
        for (kind, name), identity in identities.types.items():
            if identity.properties.keys() != self.catalog.types(kind)[name].properties.keys():
                return (
                    "accepted identities and accepted catalog list different properties of "
                    f"{kind}:{name}"
                )
            if (identity.incarnation is None) != (kind is TypeKind.INTERFACE):
                return f"{kind}:{name} has no table incarnation of its own"
        spent = identities.spent()
        if len(set(spent)) != len(spent):
            return "an accepted identity is used twice"
        if any(not 1 <= number < identities.next_identity_id for number in spent):
            return f"an accepted identity lies outside 1..{identities.next_identity_id - 1}"
        return None

    @cached_property
    def ir(self) -> bytes:
        """The durable form, stable to the byte: shape plus every identity, as JSON."""
        members = {
            "ir_version": [json.dumps(IR_VERSION)],
            "domain": [json.dumps(self.domain, ensure_ascii=False)],
            "next_identity_id": [json.dumps(self.identities.next_identity_id)],
            "shape_hash": [json.dumps(self.shape_hash)],
            "identities": list_of([item.lines for item in self.identities.by_number()], depth=1),
            "shape": shape_lines(self.catalog),
        }
        return "".join([*object_of(members, depth=0), "\n"]).encode()

    def ir_text(self) -> str:
        """Return the durable form as text."""
        return self.ir.decode()

    def ir_hash(self) -> str:
        """Return `sha256:<hex>` of the durable form."""
        return self._ir_hash

    @cached_property
    def _ir_hash(self) -> str:
        return "sha256:" + hashlib.sha256(self.ir).hexdigest()


def accept_initial(catalog: Catalog, *, domain: str) -> AcceptedSchema:
    """Accept the first schema of a graph: every declaration gets a new identity."""
    return AcceptedSchema(
        domain=domain,
        catalog=catalog,
        identities=allocate(catalog, Identities(), differences(Catalog(), catalog), Origins()),
    )


def identities_from_json(fields: Json) -> Identities:
    """Rebuild identities from the durable form written by `AcceptedSchema.ir`."""
    types: dict[TypeName, TypeIdentity] = {}
    entries = fields["identities"]
    if not isinstance(entries, list):
        raise ValueError("identities must be a list")
    for entry in entries:
        kind, name, incarnation = TypeKind(entry["kind"]), str(entry["name"]), entry["incarnation"]
        types[(kind, name)] = TypeIdentity(
            kind=kind,
            name=name,
            type_id=int(entry["type_id"]),
            incarnation=None if incarnation is None else int(incarnation),
            properties={prop: int(number) for prop, number in entry["properties"].items()},
        )
    next_id = fields["next_identity_id"]
    if not isinstance(next_id, int):
        raise ValueError("next_identity_id must be an integer")
    return Identities(next_identity_id=next_id, types=types)

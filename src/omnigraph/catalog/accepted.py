"""The accepted schema of a graph: catalog plus identities, and its durable JSON form."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property

import msgspec
from msgspec import Struct

from omnigraph.catalog.identity import Identities, Origins, allocate
from omnigraph.catalog.model import Catalog, NodeType, TypeKind
from omnigraph.catalog.shape import Json, hash_of, shape_json

IR_VERSION = 2


class AcceptedSchema(Struct, frozen=True, kw_only=True, dict=True):
    """A catalog with the identity domain it lives in (a ULID minted when the graph was made)."""

    domain: str
    catalog: Catalog
    identities: Identities

    @property
    def shape_hash(self) -> str:
        """Hash of the catalog's canonical shape."""
        return self._forms[0]

    def table_identity(self, kind: TypeKind, name: str) -> tuple[int, int]:
        """Return (type id, incarnation) of a node or edge type: the name of its table."""
        type_id = self.identities.type_id(kind, name)
        return type_id, self.identities.incarnations[type_id]

    def key_order(self, node: NodeType) -> tuple[str, ...]:
        """Return key columns in the order composite ids use: by stable property id."""
        type_id = self.identities.type_id(TypeKind.NODE, node.name)
        return tuple(sorted(node.key, key=lambda c: self.identities.property_id(type_id, c)))

    def ir_json(self) -> Json:
        """Return the durable form: shape plus every identity."""
        shape = shape_json(self.catalog)
        return self._ir(shape, hash_of(shape))

    def _ir(self, shape: Json, shape_hash: str) -> Json:
        ids = self.identities
        properties: dict[int, dict[str, int]] = {}
        for (owner, prop), prop_id in sorted(ids.properties.items()):
            properties.setdefault(owner, {})[prop] = prop_id
        return {
            "ir_version": IR_VERSION,
            "domain": self.domain,
            "next_identity_id": ids.next_identity_id,
            "shape_hash": shape_hash,
            "identities": [
                {
                    "kind": str(kind),
                    "name": name,
                    "type_id": number,
                    "incarnation": ids.incarnations.get(number),
                    "properties": properties.get(number, {}),
                }
                for (kind, name), number in sorted(ids.types.items(), key=lambda item: item[1])
            ],
            "shape": shape,
        }

    def ir_text(self) -> str:
        """Return the durable form as text, stable to the byte."""
        return self._forms[1]

    @cached_property
    def _forms(self) -> tuple[str, str]:
        """The hash of the shape and the durable text, which are made of the same data."""
        shape = shape_json(self.catalog)
        shape_hash = hash_of(shape)
        # The same as `indent=1`, which the standard library writes many times slower.
        text = json.dumps(self._ir(shape, shape_hash), ensure_ascii=False)
        return shape_hash, msgspec.json.format(text, indent=1) + "\n"

    def ir_hash(self) -> str:
        """Return `sha256:<hex>` of the durable text."""
        return self._ir_hash

    @cached_property
    def _ir_hash(self) -> str:
        return "sha256:" + hashlib.sha256(self.ir_text().encode()).hexdigest()


def accept_initial(catalog: Catalog, *, domain: str) -> AcceptedSchema:
    """Accept the first schema of a graph: every declaration gets a new identity."""
    return AcceptedSchema(
        domain=domain,
        catalog=catalog,
        identities=allocate(catalog, Identities(), Origins()),
    )


def identities_from_json(found: Json) -> Identities:
    """Rebuild identities from the durable form written by `AcceptedSchema.ir_json`."""
    types: dict[tuple[TypeKind, str], int] = {}
    properties: dict[tuple[int, str], int] = {}
    incarnations: dict[int, int] = {}
    entries = found["identities"]
    if not isinstance(entries, list):
        raise ValueError("identities must be a list")
    for entry in entries:
        number = int(entry["type_id"])
        types[(TypeKind(entry["kind"]), str(entry["name"]))] = number
        if entry["incarnation"] is not None:
            incarnations[number] = int(entry["incarnation"])
        for prop, prop_id in entry["properties"].items():
            properties[(number, prop)] = int(prop_id)
    next_id = found["next_identity_id"]
    if not isinstance(next_id, int):
        raise ValueError("next_identity_id must be an integer")
    return Identities(
        next_identity_id=next_id, types=types, properties=properties, incarnations=incarnations
    )

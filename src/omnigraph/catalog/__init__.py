"""The accepted schema as pure data: types, properties, constraints, stable identities.

Nothing here reads text or storage. Everything is immutable and ordered by name, so equal schemas
are equal values whatever the order of their source.
"""

from __future__ import annotations

from omnigraph.catalog.accepted import AcceptedSchema, accept_initial
from omnigraph.catalog.identity import Identities
from omnigraph.catalog.model import (
    Annotation,
    Cardinality,
    Catalog,
    CheckConstraint,
    EdgeType,
    Embedding,
    Entity,
    EntityType,
    IndexConstraint,
    InterfaceType,
    NodeType,
    Property,
    RangeConstraint,
    TypeKind,
    UniqueConstraint,
)
from omnigraph.catalog.shape import shape_hash
from omnigraph.catalog.types import (
    FLOATS,
    INTEGERS,
    NUMERICS,
    TEMPORALS,
    PropertyType,
    Scalar,
    scalar_range,
)
from omnigraph.catalog.unions import EdgeUnion, members_of, united

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NUMERICS",
    "TEMPORALS",
    "AcceptedSchema",
    "Annotation",
    "Cardinality",
    "Catalog",
    "CheckConstraint",
    "EdgeType",
    "EdgeUnion",
    "Embedding",
    "Entity",
    "EntityType",
    "Identities",
    "IndexConstraint",
    "InterfaceType",
    "NodeType",
    "Property",
    "PropertyType",
    "RangeConstraint",
    "Scalar",
    "TypeKind",
    "UniqueConstraint",
    "accept_initial",
    "members_of",
    "scalar_range",
    "shape_hash",
    "united",
]

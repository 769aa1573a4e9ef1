"""Canonical shape of a schema and its hash.

Two sources with the same shape describe the same graph: comments, declaration order, the spelling
of one-column constraints (`x: T @unique` or `@unique(x)`) and rename hints do not count.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from omnigraph.catalog.json_text import Parts, lines_of, list_of, object_of
from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    DeclaredType,
    EdgeType,
    Entity,
    InterfaceType,
    LiteralValue,
    NodeType,
    Property,
    TypeKind,
)
from omnigraph.catalog.types import PropertyType

Json = dict[str, object]
_KEPT: Final = "shape texts"


class TypeTexts(Struct, frozen=True, kw_only=True):
    """The shape of one type as JSON text: without white space, and as in the durable form."""

    compact: str
    lines: str


def shape_lines(catalog: Catalog) -> Parts:
    """Return the canonical shape as it stands in the durable form of a schema."""
    sections = {
        f"{kind}s": list_of([item.lines for item in _texts(catalog.types(kind))], depth=2)
        for kind in TypeKind
    }
    return object_of(sections, depth=1)


def shape_hash(catalog: Catalog) -> str:
    """Return `sha256:<hex>` of the shape as JSON text without white space."""
    sections = [
        f'"{kind}s":[{",".join([item.compact for item in _texts(catalog.types(kind))])}]'
        for kind in TypeKind
    ]
    text = "{" + ",".join(sections) + "}"
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _texts(types: Mapping[str, DeclaredType]) -> list[TypeTexts]:
    return [item.__dict__.get(_KEPT) or _written(item) for item in types.values()]


def _written(item: DeclaredType) -> TypeTexts:
    """Write the shape of a type. This is done once: it never changes, and schemas share it."""
    shape = _type_shape(item)
    compact = json.dumps(shape, separators=(",", ":"), ensure_ascii=False)
    texts = TypeTexts(compact=compact, lines=lines_of(shape, depth=3))
    item.__dict__[_KEPT] = texts
    return texts


def _type_shape(item: DeclaredType) -> Json:
    match item:
        case InterfaceType():
            return _interface(item)
        case NodeType():
            return _node(item)
        case EdgeType():
            return _edge(item)


def literal_json(value: LiteralValue) -> object:
    """Return a literal as JSON; temporal values become tagged text so types stay apart."""
    if isinstance(value, datetime.datetime):
        return {"datetime": value.isoformat(timespec="milliseconds")}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    if isinstance(value, tuple):
        return [literal_json(item) for item in value]
    return value


def type_json(value: PropertyType) -> Json:
    """Return a property type as JSON."""
    body: Json = {"scalar": str(value.scalar), "nullable": value.nullable}
    if value.is_list:
        body["list"] = True
    if value.enum_values:
        body["enum"] = list(value.enum_values)
    if value.vector_dim:
        body["dim"] = value.vector_dim
    return body


def annotations_json(annotations: Iterable[Annotation]) -> list[Json]:
    """Return annotations as JSON, in canonical order."""
    ordered = sorted(annotations, key=lambda item: item.sort_key)
    return [
        {"name": item.name, "value": item.value, "arguments": dict(sorted(item.arguments))}
        for item in ordered
    ]


def _property(item: Property) -> Json:
    body: Json = {"name": item.name, "type": type_json(item.type)}
    if item.annotations:
        body["annotations"] = annotations_json(item.annotations)
    if item.embedding is not None:
        body["embed"] = {"source": item.embedding.source, "model": item.embedding.model}
    if item.has_default:
        body["default"] = literal_json(item.default)
    body["declared_directly"] = item.declared_directly
    if item.satisfies:
        body["satisfies"] = list(item.satisfies)
    return body


def _constraints(item: Entity) -> list[Json]:
    constraints: list[Json] = []
    if isinstance(item, NodeType) and item.key:
        constraints.append({"key": list(item.key)})
    constraints.extend({"unique": list(c.columns)} for c in item.uniques)
    constraints.extend({"index": list(c.columns)} for c in item.indexes)
    constraints.extend(
        {"range": {"property": c.property, "low": c.low, "high": c.high}} for c in item.ranges
    )
    constraints.extend(
        {"check": {"property": c.property, "pattern": c.pattern}} for c in item.checks
    )
    return constraints


def _interface(item: InterfaceType) -> Json:
    properties: list[Json] = []
    for name, declared in item.properties.items():
        flags = item.flags.get(name)
        properties.append(_property(declared) | ({"constraints": list(flags)} if flags else {}))
    return {"name": item.name, "properties": properties}


def _node(item: NodeType) -> Json:
    return {
        "name": item.name,
        "implements": list(item.implements),
        "annotations": annotations_json(item.annotations),
        "properties": [_property(p) for p in item.properties.values()],
        "constraints": _constraints(item),
    }


def _edge(item: EdgeType) -> Json:
    return {
        "name": item.name,
        "source": item.source,
        "target": item.target,
        "cardinality": str(item.cardinality),
        "annotations": annotations_json(item.annotations),
        "properties": [_property(p) for p in item.properties.values()],
        "constraints": _constraints(item),
    }

"""Schemas of the published interface, made from the declarations of values and requests."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from omnigraph.values.requests import Request
from omnigraph.values.value import Form, Json, Value, members

T = TypeVar("T")
REF = "#/components/schemas/{name}"


def schema_name(kind: type[Value] | type[Request]) -> str:
    """Return the name a class has in the published interface."""
    return (issubclass(kind, Value) and vars(kind).get("published_as")) or kind.__name__


def ref(kind: type[Value] | type[Request]) -> dict[str, str]:
    """Return what stands for the schema of a class."""
    return {"$ref": REF.format(name=schema_name(kind))}


def components(kinds: Iterable[type[Value] | type[Request]]) -> dict[str, Json]:
    """Return the schemas of classes and of all they hold, by name."""
    shapes = [shape(kind) if issubclass(kind, Value) else kind for kind in kinds]
    _refs, schemas = msgspec.json.schema_components(shapes, ref_template=REF)
    return dict(sorted(schemas.items()))


def referenced(document: object) -> dict[str, Json]:
    """Return the schemas a document refers to, and those they refer to."""
    kinds: list[type[Value] | type[Request]] = [*_kinds(Value), *_kinds(Request)]
    known = {schema_name(kind): kind for kind in kinds}
    return components(known[name] for name in sorted(_names(document)))


def _kinds(kind: type[T]) -> Iterator[type[T]]:
    for child in kind.__subclasses__():
        yield child
        yield from _kinds(child)


def _names(part: object) -> set[str]:
    if isinstance(part, dict):
        own = {str(part["$ref"]).rpartition("/")[2]} if "$ref" in part else set()
        return own.union(*map(_names, part.values()))
    return set().union(*map(_names, part)) if isinstance(part, list) else set()


@functools.cache
def shape(cls: type[Value]) -> type[msgspec.Struct]:
    """Return the JSON form of a value as a Struct of its own."""
    fields: list[tuple[str, type] | tuple[str, type, object]] = []
    names = {}
    for number, item in enumerate(members(cls)):
        kind = _plain_type(item.kind)
        names[f"f{number}"] = item.name
        if item.may_be_left_out:
            fields.append((f"f{number}", kind | msgspec.UnsetType, msgspec.UNSET))
        else:
            fields.append((f"f{number}", kind))
    return msgspec.defstruct(
        schema_name(cls),
        fields,
        rename=names,
        kw_only=True,
        namespace={"__doc__": inspect.getdoc(cls)},
    )


def _plain_type(kind: object) -> Any:  # noqa: ANN401  # any type there is
    """Return a type with the JSON forms of values in their places."""
    if isinstance(kind, type) and issubclass(kind, Value):
        return shape(kind)
    if isinstance(kind, type) and issubclass(kind, Form):
        return _plain_type(kind.wire)
    origin, arguments = get_origin(kind), [_plain_type(item) for item in get_args(kind)]
    if origin in (Union, UnionType):
        return functools.reduce(operator.or_, arguments)
    if origin is None or origin is Annotated or get_args(kind) == tuple(arguments):
        return kind
    return origin[tuple(arguments)]

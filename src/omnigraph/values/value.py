"""What every public value is: one declaration, and what follows from it.

A value is a frozen Struct. Its fields, in the order and under the names declared there, are its
JSON form. From the same declaration come the decoder and the schema of the published interface.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from omnigraph.errors import StorageError

T = TypeVar("T")
Json = dict[str, Any]
_PLAIN = frozenset({str, int, float, bool, types.NoneType})


class _AnyInstance(type):
    """Lets a form stand for the Python type it is decoded to."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


class Form(metaclass=_AnyInstance):
    """How a field travels whose Python type is not its JSON type; `form` makes one.

    Type checkers see the Python type under the name of the form; at run time the form is what the
    field is declared as.
    """

    wire: ClassVar[object]
    """The JSON type."""
    send: ClassVar[Callable[[Any], object]]
    """Returns a value as JSON data."""
    read: ClassVar[Callable[[Any], object]]
    """Returns the value of JSON data."""


def form(
    wire: object, *, send: Callable[[Any], object], read: Callable[[Any], object]
) -> type[Form]:
    """Return how a field is sent and read."""
    body = {"wire": wire, "send": staticmethod(send), "read": staticmethod(read)}
    return types.new_class("Form", (Form,), exec_body=lambda namespace: namespace.update(body))


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A public value. Subclasses say with class variables what the fields alone do not tell."""

    published_as: ClassVar[str] = ""
    """Name of its schema, if that is not the name of the class."""
    derived: ClassVar[Mapping[str, str]] = {}
    """Members of the JSON form made from an attribute: after that field, or after all fields."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Members of the JSON form that are left out: a field with its default, what is None."""
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields that are no part of the JSON form."""

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        own = _writer(type(self))
        body = dict(zip(own.names, own.values(self)))  # noqa: B905 - both are of the same class
        for name, default in own.optional:
            if body[name] is default or body[name] == default:
                del body[name]
        for name, send in own.sent:
            if name in body:
                body[name] = send(body[name])
        return body

    @classmethod
    def from_json(cls, body: object) -> Self:
        """Return the value a server or a file speaks of; members it does not know are ignored.

        Raises `StorageError`.
        """
        return decode(body, cls)


class Member(msgspec.Struct, frozen=True):
    """One member of a JSON form, and the attribute it shows."""

    name: str
    attribute: str
    kind: object
    default: object = None
    may_be_left_out: bool = False


@functools.cache
def members(cls: type[Value]) -> tuple[Member, ...]:
    """Return the JSON form of a class, in the order of its members."""
    derived = dict(cls.derived)
    fields: list[Member] = []
    for item in msgspec.structs.fields(cls):
        if item.name in cls.hidden:
            continue
        default = None if item.default is msgspec.NODEFAULT else item.default
        twins = [name for name, attribute in derived.items() if attribute == item.name]
        for name in (item.encode_name, *twins):
            fields.append(Member(name, item.name, item.type, default, name in cls.optional))
            derived.pop(name, None)
    for name, attribute in derived.items():
        kind = get_type_hints(getattr(cls, attribute).fget)["return"]
        fields.append(Member(name, attribute, kind, None, name in cls.optional))
    return tuple(fields)


class _Writer(msgspec.Struct, frozen=True):
    """How values of a class are written: many are, so it is worked out once."""

    names: tuple[str, ...]
    values: Callable[[Value], tuple[object, ...]]
    optional: tuple[tuple[str, object], ...]
    sent: tuple[tuple[str, Callable[[Any], object]], ...]


@functools.cache
def _writer(cls: type[Value]) -> _Writer:
    shown = members(cls)
    values = operator.attrgetter(*(item.attribute for item in shown))
    return _Writer(
        names=tuple(item.name for item in shown),
        values=values if len(shown) > 1 else lambda value: (values(value),),
        optional=tuple((item.name, item.default) for item in shown if item.may_be_left_out),
        sent=tuple((i.name, _send(i.kind)) for i in shown if not _is_plain(i.kind)),
    )


def _send(kind: object) -> Callable[[Any], object]:
    """Return what makes JSON data of values of a type."""
    if isinstance(kind, type) and issubclass(kind, Form):
        return kind.send
    if isinstance(kind, type) and issubclass(kind, Value):
        return _written
    options = [item for item in get_args(kind) if item is not types.NoneType]
    if get_origin(kind) in (Union, types.UnionType) and len(options) == 1:
        send = dict if get_origin(options[0]) is Mapping else _send(options[0])
        return lambda value: None if value is None else send(value)
    return plain


def _written(value: Value) -> dict[str, object]:
    return value.to_json()


def _is_plain(kind: object) -> bool:
    """Whether values of a type are JSON data as they are."""
    if get_origin(kind) is Literal:
        return True
    if get_origin(kind) is Annotated:
        return _is_plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return all(map(_is_plain, get_args(kind)))
    return kind in _PLAIN


def plain(value: object) -> object:
    """Return something as JSON data. What a mapping holds is JSON data already."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return dict(value)  # type: ignore[call-overload]  # mypy does not follow `kind is dict`
    if isinstance(value, Value):
        return value.to_json()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value.value if isinstance(value, Enum) else value


def decode(body: object, kind: type[T]) -> T:
    """Return the value JSON data stands for. Raises `StorageError` for other data."""
    try:
        return msgspec.convert(body, kind, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"an answer is not of the expected form: {error}",
            hint="check the address, and that the server is not older than the client",
        ) from error


def _read(kind: type, data: object) -> object:
    if not issubclass(kind, Form):
        raise TypeError(f"{kind} has no JSON form")
    return kind.read(msgspec.convert(data, kind.wire, dec_hook=_read))

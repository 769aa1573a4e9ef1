"""What every public value is: one declaration, and what follows from it.

A value is a frozen Struct. Its fields, in the order and under the names declared there, are its
JSON form. From the same declaration come the decoder and the schema of the published interface.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import msgspec

from omnigraph.errors import StorageError

T = TypeVar("T")
Json = dict[str, Any]


class _AnyInstance(type):
    """Lets a form stand for the Python type it is decoded to."""

    def __instancecheck__(cls, value: object) -> bool:
        return True


class Form(metaclass=_AnyInstance):
    """How a field travels whose Python type is not its JSON type.

    Type checkers see the Python type under the name of the form; at run time the form is what the
    field is declared as.
    """

    wire: ClassVar[Any]
    """The JSON type."""
    send: ClassVar[Callable[[Any], object]]
    """Returns a value as JSON data."""
    read: ClassVar[Callable[[Any], object]]
    """Returns the value of JSON data."""


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
        found: dict[str, object] = {}
        for item in members(type(self)):
            value = getattr(self, item.attribute)
            if item.may_be_left_out and value == item.default:
                continue
            found[item.name] = item.send(value)
        return found

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
    kind: Any
    send: Callable[[Any], object]
    default: Any = None
    may_be_left_out: bool = False


@functools.cache
def members(cls: type[Value]) -> tuple[Member, ...]:
    """Return the JSON form of a class, in the order of its members."""
    fields = [item for item in msgspec.structs.fields(cls) if item.name not in cls.hidden]
    derived = dict(cls.derived)
    found: list[Member] = []
    for item in fields:
        default = None if item.default is msgspec.NODEFAULT else item.default
        found.append(_member(cls, item.encode_name, item.name, item.type, default))
        twins = [name for name, attribute in derived.items() if attribute == item.name]
        found += [_member(cls, name, item.name, item.type, default) for name in twins]
        for name in twins:
            del derived[name]
    for name, attribute in derived.items():
        kind = get_type_hints(getattr(cls, attribute).fget)["return"]
        found.append(_member(cls, name, attribute, kind, None))
    return tuple(found)


def _member(cls: type[Value], name: str, attribute: str, kind: object, default: object) -> Member:
    return Member(
        name=name,
        attribute=attribute,
        kind=kind,
        send=kind.send if isinstance(kind, type) and issubclass(kind, Form) else plain,
        default=default,
        may_be_left_out=name in cls.optional,
    )


def plain(value: object) -> object:
    """Return something as JSON data. What a mapping holds is JSON data already."""
    if isinstance(value, Value):
        return value.to_json()
    if isinstance(value, list | tuple):
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

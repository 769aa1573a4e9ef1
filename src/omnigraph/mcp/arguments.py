"""Arguments of tools: what JSON Schema says of them, and how they become values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from omnigraph.catalog import INTEGERS, PropertyType, Scalar
from omnigraph.cluster import StoredQuery
from omnigraph.errors import BadRequestError

T = TypeVar("T")
_TYPES: dict[Scalar, dict[str, object]] = {
    Scalar.STRING: {"type": "string"},
    Scalar.BLOB: {"type": "string"},
    Scalar.BOOL: {"type": "boolean"},
    Scalar.I32: {"type": "integer"},
    Scalar.U32: {"type": "integer", "minimum": 0},
    Scalar.I64: {"type": ["integer", "string"], "pattern": "^-?[0-9]+$"},
    Scalar.U64: {"type": ["integer", "string"], "pattern": "^[0-9]+$"},
    Scalar.F32: {"type": "number"},
    Scalar.F64: {"type": "number"},
    Scalar.DATE: {"type": "string", "format": "date"},
    Scalar.DATETIME: {"type": "string", "format": "date-time"},
}


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call; asking for one of the wrong kind is the caller's mistake."""

    tool: str
    values: Mapping[str, object]
    schema: Mapping[str, Any]

    def __post_init__(self) -> None:
        known = self.schema["properties"]
        unknown = sorted(set(self.values) - set(known))
        if unknown:
            raise BadRequestError(
                f"{self.tool} takes no {', '.join(unknown)}",
                hint=f"it takes {', '.join(known) or 'nothing'}",
            )
        for name in self.schema.get("required", ()):
            if name not in self.values:
                raise BadRequestError(f"{self.tool} needs {name}")

    def text(self, name: str) -> str:
        """Return a text that must be there."""
        text = self.maybe_text(name)
        if text is None:
            raise BadRequestError(f"{self.tool} needs {name}")
        return text

    def maybe_text(self, name: str) -> str | None:
        """Return a text, None when it is left out."""
        return self._typed(name, str, "a text")

    def maybe_int(self, name: str, *, low: int, high: int) -> int | None:
        """Return a number within bounds, None when it is left out."""
        number = self._typed(name, int, "a number")
        if number is not None and not low <= number <= high:
            raise BadRequestError(f"{name} of {self.tool} must be {low} to {high}, not {number}")
        return number

    def mapping(self, name: str) -> Mapping[str, object]:
        """Return an object, empty when it is left out."""
        return self._typed(name, dict, "an object") or {}

    def rows(self, name: str) -> list[Mapping[str, object]]:
        """Return a list of objects."""
        rows = self._typed(name, list, "a list") or []
        if not all(isinstance(item, dict) for item in rows):
            raise BadRequestError(f"{name} of {self.tool} must be a list of objects")
        return list(rows)

    def without(self, names: Iterable[str]) -> Arguments:
        """Return the options of a stored query: what is not one of its parameters."""
        hidden = set(names)
        values = {name: value for name, value in self.values.items() if name not in hidden}
        return Arguments(self.tool, values, {"properties": self.schema["properties"]})

    def _typed(self, name: str, kind: type[T], words: str) -> T | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise BadRequestError(f"{name} of {self.tool} must be {words}")
        return value


def parameters_schema(
    query: StoredQuery, extra: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Return JSON Schema for the parameters of a query, and for options that it has no name for."""
    properties: dict[str, object] = {item.name: _schema(item.type) for item in query.parameters}
    for name, value in extra.items():
        properties.setdefault(name, dict(value))
    required = [item.name for item in query.parameters if not item.type.nullable]
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return schema | ({"required": required} if required else {})


def _schema(kind: PropertyType) -> dict[str, object]:
    if kind.is_list:
        schema: dict[str, object] = {"type": "array", "items": _schema(kind.element)}
    elif kind.scalar is Scalar.VECTOR:
        size = kind.vector_dim
        schema = {"type": "array", "items": {"type": "number"}, "minItems": size, "maxItems": size}
    else:
        schema = dict(_TYPES[kind.scalar])
    if kind.nullable:
        types = schema["type"]
        schema["type"] = [*(types if isinstance(types, list) else [types]), "null"]
    return schema


def bound(query: StoredQuery, args: Arguments) -> dict[str, object]:
    """Return the values of a query's parameters; whole numbers may travel as text."""
    values: dict[str, object] = {}
    for item in query.parameters:
        if item.name in args.values:
            values[item.name] = _value(item.type, args.values[item.name], item.name)
    return values


def _value(kind: PropertyType, value: object, name: str) -> object:
    if kind.is_list and isinstance(value, list):
        return [_value(kind.element, item, name) for item in value]
    if kind.scalar in INTEGERS and isinstance(value, str):
        try:
            return int(value)
        except ValueError as error:
            raise BadRequestError(f"${name} must be a whole number, not {value!r}") from error
    return value

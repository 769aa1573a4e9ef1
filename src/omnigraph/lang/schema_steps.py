"""The steps of a schema plan: one value per kind of change, with its JSON and its text for people.

Names in a step are those of the desired schema, except where a step speaks of what goes away: the
`from` of a rename and everything dropped. What applying a step costs is the applier's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Final

from msgspec import Struct

from omnigraph.catalog import (
    Annotation,
    Cardinality,
    CheckConstraint,
    IndexConstraint,
    Property,
    PropertyType,
    RangeConstraint,
    TypeKind,
    UniqueConstraint,
)
from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.shape import Json, annotations_json, literal_json, type_json
from omnigraph.lang.source import Severity


class Tier(StrEnum):
    """How a change treats stored data."""

    SAFE = "safe"
    VALIDATED = "validated"
    DESTRUCTIVE = "destructive"


class LintCode(Struct, frozen=True, kw_only=True):
    """A stable code for a kind of schema change. Reserved codes are never emitted."""

    code: str
    tier: Tier
    meaning: str
    severity: Severity = Severity.ERROR
    reserved: bool = False


REQUIRED_WITHOUT_BACKFILL: Final = "OG-MF-103"
PROPERTY_TYPE_CHANGE: Final = "OG-MF-106"

LINT_CODES: Final[Mapping[str, LintCode]] = {
    code: LintCode(code=code, tier=tier, meaning=meaning, reserved=reserved)
    for code, tier, meaning, reserved in (
        ("OG-DS-101", Tier.DESTRUCTIVE, "graph is dropped", True),
        ("OG-DS-102", Tier.DESTRUCTIVE, "node type is dropped", True),
        ("OG-DS-103", Tier.DESTRUCTIVE, "edge type is dropped", True),
        ("OG-DS-104", Tier.DESTRUCTIVE, "property is dropped", True),
        ("OG-DS-105", Tier.DESTRUCTIVE, "vector property is dropped", True),
        (REQUIRED_WITHOUT_BACKFILL, Tier.VALIDATED, "required property without backfill", False),
        ("OG-MF-104", Tier.VALIDATED, "nullable property becomes required", True),
        (PROPERTY_TYPE_CHANGE, Tier.DESTRUCTIVE, "property type changes", False),
    )
}


Constraint = UniqueConstraint | IndexConstraint | RangeConstraint | CheckConstraint
"""A rule of a type other than its key."""


def constraint_text(rule: Constraint) -> str:
    """Spell a constraint as source text does."""
    match rule:
        case UniqueConstraint():
            return f"@unique({', '.join(rule.columns)})"
        case IndexConstraint():
            return f"@index({', '.join(rule.columns)})"
        case RangeConstraint():
            low, high = ("" if side is None else side for side in (rule.low, rule.high))
            return f"@range({rule.property}, {low}..{high})"
        case CheckConstraint():
            return f'@check({rule.property}, "{rule.pattern}")'


def constraint_json(rule: Constraint) -> Json:
    """Return a constraint as plain JSON data, under its name."""
    match rule:
        case UniqueConstraint():
            return {"Unique": list(rule.columns)}
        case IndexConstraint():
            return {"Index": list(rule.columns)}
        case RangeConstraint():
            return {"Range": {"property": rule.property, "low": rule.low, "high": rule.high}}
        case CheckConstraint():
            return {"Check": {"property": rule.property, "pattern": rule.pattern}}


class DropMode(StrEnum):
    """Whether history keeps what is dropped (until cleanup) or loses it at once."""

    SOFT = "soft"
    HARD = "hard"


def entity_name(kind: TypeKind, type_name: str, property_name: str | None = None) -> str:
    """Name a declaration the way refusals and notes do: `node:T` or `node:T.p`."""
    suffix = "" if property_name is None else f".{property_name}"
    return f"{kind}:{type_name}{suffix}"


def literal_text(value: LiteralValue) -> str:
    """Spell a default value for people."""
    literal = literal_json(value)
    if isinstance(literal, dict):
        literal = next(iter(literal.values()))
    return json.dumps(literal, ensure_ascii=False)


class AddType(Struct, frozen=True, kw_only=True):
    """A new type with a new identity; nodes and edges get an empty table."""

    kind: ClassVar[str] = "add_type"
    type_kind: TypeKind
    name: str

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return {"kind": self.kind, "type_kind": str(self.type_kind), "name": self.name}

    def render(self) -> str:
        """Return one line for people."""
        return f"add {self.type_kind} type '{self.name}'"


class RenameType(Struct, frozen=True, kw_only=True):
    """A type keeps its identity and table under another name. No data is rewritten."""

    kind: ClassVar[str] = "rename_type"
    type_kind: TypeKind
    old_name: str
    new_name: str

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return {
            "kind": self.kind,
            "type_kind": str(self.type_kind),
            "from": self.old_name,
            "to": self.new_name,
        }

    def render(self) -> str:
        """Return one line for people."""
        return f"rename {self.type_kind} type '{self.old_name}' -> '{self.new_name}'"


class DropType(Struct, frozen=True, kw_only=True):
    """A node or edge type leaves the schema, and its rows with it."""

    kind: ClassVar[str] = "drop_type"
    type_kind: TypeKind
    name: str
    mode: DropMode

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return {
            "kind": self.kind,
            "type_kind": str(self.type_kind),
            "name": self.name,
            "mode": str(self.mode),
        }

    def render(self) -> str:
        """Return one line for people."""
        return f"drop {self.type_kind} type '{self.name}' ({self.mode} mode)"


class UpdateTypeMetadata(Struct, frozen=True, kw_only=True):
    """`@description` or `@instruction` of a type changed; `annotations` is the new list."""

    kind: ClassVar[str] = "update_type_metadata"
    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return {
            "kind": self.kind,
            "type_kind": str(self.type_kind),
            "name": self.name,
            "annotations": annotations_json(self.annotations),
        }

    def render(self) -> str:
        """Return one line for people."""
        return f"update metadata of {self.type_kind} type '{self.name}'"


class _OfType(Struct, frozen=True, kw_only=True):
    """What every step on one part of a type carries."""

    kind: ClassVar[str]
    type_kind: TypeKind
    type_name: str

    def _json(self, **fields: object) -> Json:
        return {
            "kind": self.kind,
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            **fields,
        }

    def _line(self, what: str) -> str:
        return f"{what} on {self.type_kind} '{self.type_name}'"


class AddProperty(_OfType, frozen=True, kw_only=True):
    """A new property.

    Existing rows of a required property are filled with its default; those of a nullable one stay
    null even when it has a default, which then serves later inserts only.
    """

    kind: ClassVar[str] = "add_property"
    property_name: str
    property_type: PropertyType
    default: LiteralValue = None
    has_default: bool = False

    @classmethod
    def of(cls, type_kind: TypeKind, type_name: str, added: Property) -> AddProperty:
        """Make the step that adds a property to a type."""
        return cls(
            type_kind=type_kind,
            type_name=type_name,
            property_name=added.name,
            property_type=added.type,
            default=added.default,
            has_default=added.has_default,
        )

    def to_json(self) -> Json:
        """Return the step as plain JSON data; `default` is there only when one is declared."""
        body = self._json(
            property_name=self.property_name, property_type=type_json(self.property_type)
        )
        if self.has_default:
            body["default"] = literal_json(self.default)
        return body

    def render(self) -> str:
        """Return one line for people."""
        detail = str(self.property_type)
        if self.has_default and self.property_type.nullable:
            text = literal_text(self.default)
            detail += f", default {text}; existing rows get null"
        elif self.has_default:
            detail += f", existing rows get {literal_text(self.default)}"
        return self._line(f"add property '{self.type_name}.{self.property_name}' ({detail})")


class RenameProperty(_OfType, frozen=True, kw_only=True):
    """A property keeps its identity and values under another name."""

    kind: ClassVar[str] = "rename_property"
    old_name: str
    new_name: str

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(**{"from": self.old_name, "to": self.new_name})

    def render(self) -> str:
        """Return one line for people."""
        owner = self.type_name
        return self._line(f"rename property '{owner}.{self.old_name}' -> '{owner}.{self.new_name}'")


class DropProperty(_OfType, frozen=True, kw_only=True):
    """A property leaves its type, and with it the constraints (but no key) that name it."""

    kind: ClassVar[str] = "drop_property"
    property_name: str
    mode: DropMode

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(property_name=self.property_name, mode=str(self.mode))

    def render(self) -> str:
        """Return one line for people."""
        name = f"{self.type_name}.{self.property_name}"
        return self._line(f"drop property '{name}' ({self.mode} mode)")


class ExtendEnum(_OfType, frozen=True, kw_only=True):
    """An enum gains values and loses none. Metadata only."""

    kind: ClassVar[str] = "extend_enum"
    property_name: str
    added_values: tuple[str, ...]

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(property_name=self.property_name, added_values=list(self.added_values))

    def render(self) -> str:
        """Return one line for people."""
        added = ", ".join(f"+{value}" for value in self.added_values)
        return self._line(f"extend enum '{self.type_name}.{self.property_name}' ({added})")


class ChangeDefault(_OfType, frozen=True, kw_only=True):
    """A `@default` was added, changed or removed. Metadata only: stored rows keep their values."""

    kind: ClassVar[str] = "change_default"
    property_name: str
    old: LiteralValue = None
    new: LiteralValue = None
    had_default: bool
    has_default: bool

    def to_json(self) -> Json:
        """Return the step as plain JSON data; an absent side is left out."""
        body = self._json(property_name=self.property_name)
        if self.had_default:
            body["from"] = literal_json(self.old)
        if self.has_default:
            body["to"] = literal_json(self.new)
        return body

    def render(self) -> str:
        """Return one line for people."""
        old = literal_text(self.old) if self.had_default else "none"
        new = literal_text(self.new) if self.has_default else "none"
        name = f"{self.type_name}.{self.property_name}"
        return self._line(f"change default of '{name}' ({old} -> {new})")


class ChangeLanguage(_OfType, frozen=True, kw_only=True):
    """The `@language` of a text changed. Metadata only: its words are found anew when searched."""

    kind: ClassVar[str] = "change_language"
    property_name: str
    old: str
    new: str

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(property_name=self.property_name, **{"from": self.old, "to": self.new})

    def render(self) -> str:
        """Return one line for people."""
        name = f"{self.type_name}.{self.property_name}"
        return self._line(f"change language of '{name}' ({self.old} -> {self.new})")


class UpdatePropertyMetadata(_OfType, frozen=True, kw_only=True):
    """`@description` of a property changed; `annotations` is the new list. Metadata only."""

    kind: ClassVar[str] = "update_property_metadata"
    property_name: str
    annotations: tuple[Annotation, ...]

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(
            property_name=self.property_name, annotations=annotations_json(self.annotations)
        )

    def render(self) -> str:
        """Return one line for people."""
        return self._line(f"update metadata of property '{self.type_name}.{self.property_name}'")


class AddConstraint(_OfType, frozen=True, kw_only=True):
    """A rule from now on: stored rows must satisfy it already. An index is built by maintenance."""

    kind: ClassVar[str] = "add_constraint"
    constraint: Constraint

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(constraint=constraint_json(self.constraint))

    def render(self) -> str:
        """Return one line for people."""
        return self._line(f"add constraint {constraint_text(self.constraint)}")


class DropConstraint(_OfType, frozen=True, kw_only=True):
    """A rule no longer holds; its columns carry their new names. Metadata only."""

    kind: ClassVar[str] = "drop_constraint"
    constraint: Constraint

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(constraint=constraint_json(self.constraint))

    def render(self) -> str:
        """Return one line for people."""
        return self._line(f"drop constraint {constraint_text(self.constraint)}")


class ChangeNullability(_OfType, frozen=True, kw_only=True):
    """A property becomes required or nullable.

    Where it becomes required, stored nulls are filled with its default; without one there must be
    none.
    """

    kind: ClassVar[str] = "change_nullability"
    property_name: str
    required: bool
    default: LiteralValue = None
    has_default: bool = False

    def to_json(self) -> Json:
        """Return the step as plain JSON data; `default` is there only when it fills nulls."""
        body = self._json(property_name=self.property_name, required=self.required)
        if self.required and self.has_default:
            body["default"] = literal_json(self.default)
        return body

    def render(self) -> str:
        """Return one line for people."""
        name = f"'{self.type_name}.{self.property_name}'"
        if not self.required:
            return self._line(f"make property {name} nullable")
        filled = f" (nulls become {literal_text(self.default)})" if self.has_default else ""
        return self._line(f"make property {name} required{filled}")


class WidenProperty(_OfType, frozen=True, kw_only=True):
    """A property gets a type that holds every value of the old one. No value changes."""

    kind: ClassVar[str] = "widen_property"
    property_name: str
    old: PropertyType
    new: PropertyType

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        ends = {"from": type_json(self.old), "to": type_json(self.new)}
        return self._json(property_name=self.property_name, **ends)

    def render(self) -> str:
        """Return one line for people."""
        name = f"{self.type_name}.{self.property_name}"
        return self._line(f"widen property '{name}' ({self.old} -> {self.new})")


class ChangeCardinality(_OfType, frozen=True, kw_only=True):
    """`@card` of an edge type changed: stored edges must satisfy the new bounds already."""

    kind: ClassVar[str] = "change_cardinality"
    old: Cardinality
    new: Cardinality

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        return self._json(**{"from": str(self.old), "to": str(self.new)})

    def render(self) -> str:
        """Return one line for people."""
        return self._line(f"change @card from {self.old} to {self.new}")


class UnsupportedChange(Struct, frozen=True, kw_only=True):
    """A difference no plan can carry out; the reason says what to do instead."""

    kind: ClassVar[str] = "unsupported_change"
    entity: str
    reason: str
    code: str | None = None

    @property
    def message(self) -> str:
        """The reason, prefixed with its code: what applying the plan fails with."""
        return self.reason if self.code is None else f"[{self.code}] {self.reason}"

    def to_json(self) -> Json:
        """Return the step as plain JSON data."""
        body: Json = {"kind": self.kind, "entity": self.entity, "reason": self.reason}
        if self.code is not None:
            body["code"] = self.code
        return body

    def render(self) -> str:
        """Return one line for people."""
        label = "" if self.code is None else f" [{self.code}, {LINT_CODES[self.code].tier}]"
        return f"unsupported change on {self.entity}{label}: {self.reason}"


Step = (
    AddType
    | RenameType
    | DropType
    | UpdateTypeMetadata
    | AddProperty
    | RenameProperty
    | DropProperty
    | ExtendEnum
    | ChangeDefault
    | ChangeLanguage
    | UpdatePropertyMetadata
    | AddConstraint
    | DropConstraint
    | ChangeNullability
    | WidenProperty
    | ChangeCardinality
    | UnsupportedChange
)
"""One change of a plan."""

"""Property types: scalars, enums, lists and vectors, and what can be asked of them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from omnigraph.limits import I32_MAX, I32_MIN, I64_MAX, I64_MIN, U32_MAX, U64_MAX


class Scalar(StrEnum):
    """Element type of a property; the value is its spelling in source text."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"
    VECTOR = "Vector"
    OBJECT = "Object"
    """A whole node or edge: the type of a result column, never of a property."""


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMERICS = INTEGERS | FLOATS
TEMPORALS = frozenset({Scalar.DATE, Scalar.DATETIME})

_RANGES = {
    Scalar.I32: (I32_MIN, I32_MAX),
    Scalar.I64: (I64_MIN, I64_MAX),
    Scalar.U32: (0, U32_MAX),
    Scalar.U64: (0, U64_MAX),
}


def scalar_range(scalar: Scalar) -> tuple[int, int]:
    """Return the smallest and largest value of an integer scalar."""
    return _RANGES[scalar]


class PropertyType(Struct, frozen=True, kw_only=True):
    """Type of a property, parameter or expression.

    `enum_values` is sorted and only set with `Scalar.STRING`; `vector_dim` only with
    `Scalar.VECTOR`, `fields` only with `Scalar.OBJECT`. `is_list` makes it a list of `scalar`.
    """

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] = ()
    vector_dim: int = 0
    fields: tuple[tuple[str, PropertyType], ...] = ()

    @property
    def is_scalar(self) -> bool:
        """Whether a value is one comparable scalar (no list, vector, blob or object)."""
        parts = (Scalar.VECTOR, Scalar.BLOB, Scalar.OBJECT)
        return not self.is_list and self.scalar not in parts

    @property
    def is_numeric(self) -> bool:
        """Whether a value is one number."""
        return not self.is_list and self.scalar in NUMERICS

    @property
    def is_integer(self) -> bool:
        """Whether a value is one integer."""
        return not self.is_list and self.scalar in INTEGERS

    @property
    def is_text(self) -> bool:
        """Whether a value is one string (enums included)."""
        return not self.is_list and self.scalar is Scalar.STRING

    @property
    def element(self) -> PropertyType:
        """Type of one list element."""
        return replace(self, is_list=False, nullable=False)

    def as_nullable(self, *, nullable: bool = True) -> PropertyType:
        """Return this type with the given nullability."""
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def __str__(self) -> str:
        """Spell the type as source text does: `I32?`, `[String]`, `enum(a, b)?`, `Vector(8)`."""
        if self.enum_values:
            core = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            core = f"Vector({self.vector_dim})"
        else:
            core = str(self.scalar)
        if self.is_list:
            core = f"[{core}]"
        return core + ("?" if self.nullable else "")

    def compatible_with(self, other: PropertyType) -> bool:
        """Whether values of the two types can be compared or assigned, ignoring nullability."""
        if self.is_list != other.is_list:
            return False
        if self.scalar is Scalar.VECTOR or other.scalar is Scalar.VECTOR:
            return self.scalar is other.scalar and self.vector_dim == other.vector_dim
        if self.scalar is other.scalar:
            return True
        return self.scalar in NUMERICS and other.scalar in NUMERICS

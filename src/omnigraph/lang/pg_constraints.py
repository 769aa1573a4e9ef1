"""Checks the constraints of one node or edge type and normalises them.

`x: T @unique` and `@unique(x)` are the same constraint: both end as one sorted column tuple.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from omnigraph.catalog import (
    CheckConstraint,
    IndexConstraint,
    PropertyType,
    RangeConstraint,
    Scalar,
    TypeKind,
    UniqueConstraint,
)
from omnigraph.lang.pg_ast import Argument, Bounds, ConstraintSyntax, Word
from omnigraph.lang.pg_properties import DraftProperty
from omnigraph.lang.regex import pattern_problem
from omnigraph.lang.source import Diagnostics, Span, did_you_mean
from omnigraph.limits import U64_MAX

PSEUDO_COLUMNS = ("src", "dst")


class DraftConstraints(Struct):
    """Constraints found so far."""

    keys: list[tuple[str, ...]]
    uniques: set[tuple[str, ...]]
    indexes: set[tuple[str, ...]]
    ranges: list[RangeConstraint]
    checks: list[CheckConstraint]

    def sorted_uniques(self) -> tuple[UniqueConstraint, ...]:
        """Return the unique constraints in canonical order."""
        return tuple(UniqueConstraint(columns=c) for c in sorted(self.uniques))

    def sorted_indexes(self) -> tuple[IndexConstraint, ...]:
        """Return the index declarations in canonical order."""
        return tuple(IndexConstraint(columns=c) for c in sorted(self.indexes))

    def sorted_ranges(self) -> tuple[RangeConstraint, ...]:
        """Return the range constraints in canonical order, duplicates removed."""
        return tuple(sorted(set(self.ranges), key=_range_order))

    def sorted_checks(self) -> tuple[CheckConstraint, ...]:
        """Return the check constraints in canonical order, duplicates removed."""
        return tuple(sorted(set(self.checks), key=lambda c: (c.property, c.pattern)))


def _range_order(item: RangeConstraint) -> tuple[str, int | float, int | float]:
    low = -math.inf if item.low is None else item.low
    return item.property, low, math.inf if item.high is None else item.high


def _canonical(bound: int | float | None) -> int | float | None:
    # Beyond the largest integer literal there is only one spelling, so the float may stay.
    if isinstance(bound, float) and bound.is_integer() and abs(bound) <= U64_MAX:
        return int(bound)
    return bound


class ConstraintChecker:
    """Checks the constraints of one type against its properties."""

    def __init__(
        self,
        kind: TypeKind,
        owner: str,
        properties: Mapping[str, DraftProperty],
        diagnostics: Diagnostics,
    ) -> None:
        self._kind = kind
        self._owner = owner
        self._properties = properties
        self._diagnostics = diagnostics
        self._found = DraftConstraints(keys=[], uniques=set(), indexes=set(), ranges=[], checks=[])

    def check(self, syntax: tuple[ConstraintSyntax, ...]) -> DraftConstraints:
        """Collect property flags and body constraints; problems go to the diagnostics."""
        for name, draft in self._properties.items():
            if "key" in draft.flags and self._kind is not TypeKind.EDGE:
                self._key((name,), draft.span)
            if "unique" in draft.flags:
                self._found.uniques.add((name,))
            if "index" in draft.flags:
                self._found.indexes.add((name,))
        for item in syntax:
            self._body_constraint(item)
        if len(self._found.keys) > 1:
            self._diagnostics.error(
                "S08",
                self._last_key_span,
                f"node type {self._owner} has multiple @key constraints; only one is supported",
                hint="for a composite key write one `@key(a, b)` in the body",
            )
        return self._found

    def _body_constraint(self, item: ConstraintSyntax) -> None:
        word = item.name.text
        if self._kind is TypeKind.EDGE and word in ("key", "range", "check"):
            code = {"key": "S08", "range": "S10", "check": "S11"}[word]
            self._diagnostics.error(
                code, item.span, f"@{word} is not supported on edge {self._owner}"
            )
        elif word == "range":
            self._range(item)
        elif word == "check":
            self._check(item)
        else:
            self._columns_constraint(item)

    def _columns_constraint(self, item: ConstraintSyntax) -> None:
        word = item.name.text
        columns: set[str] = set()
        valid = True
        for argument in item.arguments:
            name = self._column(argument, word)
            if name is None or not self._column_allowed(name, word, argument.span):
                valid = False
            else:
                columns.add(name)
        if not valid:
            return
        ordered = tuple(sorted(columns))
        if word == "key":
            self._key(ordered, item.span)
        elif word == "unique":
            self._found.uniques.add(ordered)
        else:
            self._found.indexes.add(ordered)

    def _column(self, argument: Argument | Bounds, word: str) -> str | None:
        if isinstance(argument, Bounds) or not isinstance(argument.value, Word):
            self._diagnostics.error(
                "S07", argument.span, f"@{word} on {self._owner} takes property names"
            )
            return None
        name = argument.value.text
        pseudo = self._kind is TypeKind.EDGE and name in PSEUDO_COLUMNS
        if pseudo or name in self._properties:
            return name
        candidates = list(self._properties)
        if self._kind is TypeKind.EDGE:
            candidates += PSEUDO_COLUMNS
        endpoint = {"from": "src", "to": "dst"}.get(name)
        self._diagnostics.error(
            "S07",
            argument.span,
            f"@{word} on {self._owner} references unknown property '{name}'",
            hint=f"the endpoints are called src and dst here: `{endpoint}`"
            if endpoint and self._kind is TypeKind.EDGE
            else did_you_mean(name, candidates),
        )
        return None

    def _column_allowed(self, name: str, word: str, span: Span) -> bool:
        draft = self._properties.get(name)
        if draft is None:
            return True
        property_type, where = draft.checked.type, f"{self._owner}.{name}"
        problem: str | None = None
        if property_type.scalar is Scalar.BLOB:
            problem = "blob"
        elif property_type.scalar is Scalar.VECTOR and word != "index":
            problem = "vector"
        elif property_type.is_list and word != "index":
            problem = "list"
        if problem is None:
            return True
        self._diagnostics.error(
            "S08" if word == "key" else "S09",
            span,
            f"@{word} is not supported on {problem} property {where}",
        )
        return False

    def _key(self, columns: tuple[str, ...], span: Span) -> None:
        self._last_key_span = span
        self._found.keys.append(columns)
        for name in columns:
            draft = self._properties[name]
            where = f"{self._owner}.{name}"
            if draft.checked.type.nullable:
                required = draft.checked.type.as_nullable(nullable=False)
                self._diagnostics.error(
                    "S08",
                    span,
                    f"@key property {where} cannot be nullable",
                    hint=f"declare it as `{name}: {required}`",
                )
            if draft.checked.has_default and "key" not in draft.flags:
                self._diagnostics.error("S15", span, f"key property {where} has a @default")

    def _property_and_argument(
        self, item: ConstraintSyntax, second: str
    ) -> tuple[str, PropertyType, Argument | Bounds] | None:
        word, first = item.name.text, item.arguments[0]
        is_name = isinstance(first, Argument) and isinstance(first.value, Word)
        if len(item.arguments) != 2 or not is_name:
            self._diagnostics.error(
                "S10" if word == "range" else "S11",
                item.span,
                f"@{word} requires property name and {second}",
                hint="@range(age, 0..150)" if word == "range" else '@check(code, "^[A-Z]+$")',
            )
            return None
        name = self._column(first, word)
        if name is None:
            return None
        return name, self._properties[name].checked.type, item.arguments[1]

    def _range(self, item: ConstraintSyntax) -> None:
        named = self._property_and_argument(item, "bounds")
        if named is None:
            return
        name, declared, bounds = named
        where = f"{self._owner}.{name}"
        if not isinstance(bounds, Bounds):
            self._diagnostics.error(
                "S10", bounds.span, f"@range on {where}: expected range bounds such as 0..10"
            )
        elif not declared.is_numeric:
            self._diagnostics.error(
                "S10", item.span, f"@range on {where} requires a numeric type, got {declared}"
            )
        elif bounds.low is not None and bounds.high is not None and bounds.low > bounds.high:
            self._diagnostics.error(
                "S10", bounds.span, f"@range on {where}: {bounds.low} is above {bounds.high}"
            )
        else:
            self._found.ranges.append(
                RangeConstraint(
                    property=name, low=_canonical(bounds.low), high=_canonical(bounds.high)
                )
            )

    def _check(self, item: ConstraintSyntax) -> None:
        named = self._property_and_argument(item, "pattern")
        if named is None:
            return
        name, declared, argument = named
        where = f"{self._owner}.{name}"
        if isinstance(argument, Bounds) or not isinstance(argument.value, str):
            self._diagnostics.error(
                "S11", argument.span, f"@check on {where}: expected string argument"
            )
        elif not declared.is_text:
            self._diagnostics.error(
                "S11", item.span, f"@check on {where} requires String type, got {declared}"
            )
        elif problem := pattern_problem(argument.value):
            self._diagnostics.error(
                "S11",
                argument.span,
                f"@check on {where}: invalid regular expression: {problem}",
                hint="the dialect is RE2: linear time, no look-around, no back-references",
            )
        else:
            self._found.checks.append(CheckConstraint(property=name, pattern=argument.value))

"""Checks the parameter values of a call before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.values import convert
from omnigraph.errors import BadRequestError
from omnigraph.plan import Parameter

ParameterValues = dict[str, LiteralValue]


def bind_parameters(
    declared: tuple[Parameter, ...], values: Mapping[str, object] | None
) -> ParameterValues:
    """Return a typed value for every declared parameter; keys nobody declared are ignored.

    Raises `BadRequestError` naming every parameter that is missing, null or of the wrong type.
    """
    if values is not None and not isinstance(values, Mapping):
        raise BadRequestError("parameters must be an object of names and values")
    given = values or {}
    found: ParameterValues = {}
    problems: list[str] = []
    for item in declared:
        value = given.get(item.name)
        try:
            if value is None:
                _check_null(item, present=item.name in given)
            found[item.name] = None if value is None else convert(value, item.type)
        except ValueError as error:
            problems.append(f"parameter '{item.name}': {error}")
    if problems:
        raise BadRequestError("; ".join(problems))
    return found


def _check_null(item: Parameter, *, present: bool) -> None:
    if item.type.nullable:
        return
    if present:
        raise ValueError("null is not accepted for non-nullable parameter")
    raise ValueError(f"not provided, expected {item.type}")

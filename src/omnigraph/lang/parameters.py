"""Checks the parameter values of a call before anything runs."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.catalog.model import LiteralValue
from omnigraph.catalog.values import convert
from omnigraph.errors import BadRequestError
from omnigraph.lang.source import did_you_mean
from omnigraph.plan import Parameter

ParameterValues = dict[str, LiteralValue]


def bind_parameters(
    declared: tuple[Parameter, ...], values: Mapping[str, object] | None
) -> ParameterValues:
    """Return a typed value for every declared parameter.

    Raises `BadRequestError` naming every parameter that is missing, null or of the wrong type, and
    every name the query does not declare: a misspelt optional one would drop its filter silently.
    """
    if values is not None and not isinstance(values, Mapping):
        raise BadRequestError("parameters must be an object of names and values")
    given = values or {}
    typed_values: ParameterValues = {}
    problems: list[str] = []
    for item in declared:
        value = given.get(item.name)
        try:
            if value is None:
                _check_null(item, present=item.name in given)
            typed_values[item.name] = None if value is None else convert(value, item.type)
        except ValueError as error:
            typed_values[item.name] = None
            problems.append(f"parameter '{item.name}': {error}")
    problems += [_unknown(str(name), declared) for name in given if name not in typed_values]
    if problems:
        raise BadRequestError("; ".join(problems))
    return typed_values


def _check_null(item: Parameter, *, present: bool) -> None:
    if item.type.nullable:
        return
    if present:
        raise ValueError("null is not accepted for non-nullable parameter")
    raise ValueError(f"not provided, expected {item.type}")


def _unknown(name: str, declared: tuple[Parameter, ...]) -> str:
    names = [item.name for item in declared]
    meant = did_you_mean(name, names)
    if meant is None:
        listed = ", ".join(names)
        meant = f"it declares {listed}" if names else "it declares no parameters"
    return f"parameter '{name}': the query declares no such parameter; {meant}"

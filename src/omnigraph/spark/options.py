"""Options of the Spark formats: a name that is none is an error, and secrets are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.errors import BadRequestError
from omnigraph.wording import did_you_mean


def checked(options: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Return options by their names in lower case, which is how Spark hands them on."""
    names = {name.lower(): name for name in known}
    values: dict[str, str] = {}
    for given, value in options.items():
        name = given.lower()
        if "secret" in name or name.startswith(("aws_", "storage")):
            # Spark shows options in plans and logs.
            raise BadRequestError(
                f"'{given}' must not be an option: Spark shows options in plans and logs",
                hint="set AWS_* variables for Spark, or use omnigraph.spark.read",
            )
        if name not in names:
            # In the message itself: Spark shows nothing else of an error.
            raise BadRequestError(f"unknown option '{given}': {_hint(name, names)}")
        values[name] = value
    return values


def _hint(name: str, names: Mapping[str, str]) -> str:
    known = sorted(names.values())
    return did_you_mean(name, known) or f"there are {', '.join(known)}"


def needed(options: Mapping[str, str], name: str) -> str:
    """Return the value of an option that must be given."""
    value = options.get(name.lower())
    if not value:
        raise BadRequestError(f"the option '{name}' is missing")
    return value


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """Return the value of an option that is a whole number from 1 on."""
    value = options.get(name.lower())
    if value is None:
        return default
    if not value.isdigit() or int(value) < 1:
        raise BadRequestError(f"{name} must be a number from 1 on, not '{value}'")
    return int(value)


def listed(options: Mapping[str, str], name: str) -> list[str]:
    """Return the values of an option that are separated by commas."""
    text = options.get(name.lower()) or ""
    return [item.strip() for item in text.split(",") if item.strip()]

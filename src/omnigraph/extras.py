"""Packages that are not always installed."""

from __future__ import annotations

import importlib
from typing import Any

from omnigraph.errors import BadRequestError


def needed(package: str, purpose: str, *, extra: str | None = None) -> Any:  # noqa: ANN401
    """Import a package, or say in a sentence how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        named = package if extra is None else f"'omnigraph[{extra}]'"
        raise BadRequestError(
            f"{purpose} needs {package}, which is not installed", hint=f"pip install {named}"
        ) from error

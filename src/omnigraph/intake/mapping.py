"""Mapping files: which files hold the rows of which type, and what their columns are called."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.store import is_object, open_file

MAPPING_FILE = "mapping.toml"
"""What a mapping is called that speaks for the folder it lies in."""
_MEMBERS = ("data", "columns", "from", "to", "null")


def read_mapping(path: str) -> dict[str, dict[str, Any]]:
    """Return, for each type, the arguments of its `Rows`; paths are those beside the file."""
    try:
        with open_file(path) as handle:
            found = tomllib.load(handle)
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"{path} is no TOML file: {error}") from error
    return {name: _arguments(path, name, given) for name, given in found.items()}


def _arguments(path: str, name: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or "data" not in given or set(given) - set(_MEMBERS):
        raise BadRequestError(
            f"{path}: [{name}] needs 'data' and may have 'columns', 'from', 'to' and 'null'"
        )
    files = [given["data"]] if isinstance(given["data"], str) else list(given["data"])
    return {
        "data": [_beside(path, str(item)) for item in files],
        "columns": dict(given.get("columns", {})),
        "from_col": str(given.get("from", "from")),
        "to_col": str(given.get("to", "to")),
        "null": str(given.get("null", "")),
    }


def _beside(path: str, name: str) -> str:
    if is_object(name):
        return name
    if is_object(path):
        return f"{path.rpartition('/')[0]}/{name}"
    return os.path.join(os.path.dirname(os.path.abspath(path)), name)

"""Mapping files: which files hold rows of which types, and what becomes of their columns."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.errors import BadRequestError, NotFoundError
from omnigraph.intake.declared import Path, Rows
from omnigraph.store import is_object, open_file
from omnigraph.wording import did_you_mean, or_meant

MAPPING_FILE = "mapping.toml"
"""What a mapping is called that speaks for the folder it lies in."""

_TEXT = ("where", "from", "to", "duplicates", "delimiter", "quote", "op", "seq", "type", "source")
_TABLES = ("columns", "compute", "constants")
_LISTS = ("data", "null", "header")
_FILE = ("data", "delimiter", "quote", "null", "header")
_FIELDS = (*_LISTS, *_TABLES, *_TEXT, "ignore")
_NAMES = {"from": "from_col", "to": "to_col", "op": "op_col", "seq": "seq_col"}


def read_mapping(path: Path) -> list[Path | Rows]:
    """Return what a mapping file names, as `Graph.bulk` takes it.

    Its paths are relative to its own folder.

    >>> lines = ["[[Task]]", 'data = "tasks.csv"']
    >>> with open("map.toml", "w") as file:
    ...     print(*lines, sep=chr(10), file=file)
    >>> [rows.type for rows in og.read_mapping("map.toml")]
    ['Task']
    """
    name = os.fspath(path)
    try:
        with open_file(name) as handle:
            mapping = tomllib.load(handle)
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {name}") from None
    except OSError as error:
        raise BadRequestError(f"cannot read {name}: {error.strerror or error}") from error
    except ValueError as error:
        # Also what is no UTF-8, and numbers too long to be read.
        raise BadRequestError(f"{name} is not a TOML file: {error}") from error
    return mapped(mapping, name, folder_of(name))


def folder_of(name: str) -> str:
    """Return the folder that a file lies in, or what comes before the name of an object."""
    return name.rpartition("/")[0] if is_object(name) else os.path.dirname(os.path.abspath(name))


def beside(folder: str, name: str) -> str:
    """Return where a file is that is named relative to a folder, which may lie in a bucket."""
    if is_object(name):
        return name
    return f"{folder}/{name}" if is_object(folder) else os.path.join(folder, name)


def mapped(tables: Mapping[str, object], name: str, folder: str) -> list[Path | Rows]:
    """Return what the tables of a mapping name; `name` is for messages, paths are in `folder`."""
    reader = _Reader(name, folder, tables.get("sources", {}))
    sources: list[Path | Rows] = []
    for key, given in tables.items():
        if key == "sources":
            continue
        if key == "envelopes":
            sources += reader.files("envelopes", given)
        elif key == "rows":
            sources += [reader.rows("rows", None, item) for item in reader.tables(key, given)]
        else:
            sources += [reader.rows(key, key, item) for item in reader.tables(key, given)]
    if not sources:
        raise BadRequestError(f"{name} names nothing to load")
    return sources


class _Reader:
    def __init__(self, name: str, folder: str, sources: object) -> None:
        self._name = name
        self._folder = folder
        if not isinstance(sources, Mapping):
            raise BadRequestError(f"{name}: 'sources' has a table for each source")
        self._sources = sources
        for key, given in sources.items():
            if "data" not in self._checked(f"sources.{key}", given, _FILE):
                raise BadRequestError(f"{name}: [sources.{key}] needs 'data'")

    def tables(self, key: str, given: object) -> Sequence[object]:
        """Return one table, or several of the same name."""
        return given if isinstance(given, list) else [given]

    def rows(self, where: str, type_name: str | None, given: object) -> Rows:
        """Return one table as rows of a type."""
        merged = dict(self._checked(where, given, _FIELDS))
        source = merged.pop("source", None)
        if (source is None) == ("data" not in merged):
            raise BadRequestError(f"{self._name}: [{where}] needs either 'data' or 'source'")
        if source is not None:
            if source not in self._sources:
                raise BadRequestError(
                    f"{self._name}: [{where}] names the source '{source}', which is not there"
                    f"{or_meant(str(source), self._sources)}"
                )
            merged = {**self._sources[source], **merged}
        if type_name is not None and "type" in merged:
            raise BadRequestError(f"{self._name}: [{where}] is a type already")
        if type_name is None and "type" not in merged:
            raise BadRequestError(f"{self._name}: [[{where}]] needs 'type'")
        merged["data"] = self.files(f"[{where}] data", merged["data"])
        fields: dict[str, Any] = {"type": type_name}
        fields |= {_NAMES.get(str(key), str(key)): value for key, value in merged.items()}
        return Rows(**fields)

    def files(self, where: str, given: object) -> list[str]:
        """Return paths; they are relative to the mapping file."""
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise BadRequestError(f"{self._name}: {where} is a path, or a list of paths")
        return [beside(self._folder, item) for item in listed]

    def _checked(self, where: str, given: object, known: Sequence[str]) -> Mapping[str, object]:
        """Return a table, all of whose fields are known and as they should be."""
        name = self._name
        if not isinstance(given, Mapping):
            raise BadRequestError(f"{name}: '{where}' is not a table: write [{where}]")
        for key, value in given.items():
            if key not in known:
                meant = did_you_mean(key, known) or f"known are {', '.join(known)}"
                raise BadRequestError(f"{name}: [{where}] has no '{key}'", hint=meant)
            wanted = _wanted(key, value)
            if wanted is not None:
                raise BadRequestError(f"{name}: [{where}] {key}: expected {wanted}, got {value!r}")
        return given


def _wanted(key: str, value: object) -> str | None:
    """Return what a field should be, None if it is."""
    texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if key in _TEXT:
        return None if isinstance(value, str) else "a text"
    if key == "data":
        return None if isinstance(value, str) or texts else "a path, or a list of paths"
    if key == "null":
        return None if isinstance(value, str) or texts else "a text, or a list of texts"
    if key in _LISTS:
        return None if texts else "a list of texts"
    if key == "ignore":
        return None if texts or isinstance(value, bool) else "true, or a list of columns"
    if not isinstance(value, Mapping):
        return "a table"
    if key == "constants" or all(isinstance(item, str) for item in value.values()):
        return None
    return "a table of texts"

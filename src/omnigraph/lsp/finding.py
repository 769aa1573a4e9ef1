"""Finds the schema that a query file is written for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

CONVENTIONAL = "schema.pg"


class Found(Struct, frozen=True, kw_only=True):
    """A schema, or why there is none."""

    path: Path | None
    problem: str | None = None


def find_schema(file: Path, roots: tuple[Path, ...], setting: str | None) -> Found:
    """Return the schema of a query file.

    What a setting names, relative to a folder of the workspace. Else the nearest folder from the
    file upwards that holds schemas, no further than the workspace: the only one there, or the one
    named like the file, or `schema.pg`.
    """
    if setting:
        places = [(root / setting) for root in (*roots, file.parent)]
        schema = next((place for place in places if place.is_file()), None)
        problem = f"the setting omnigraph.schema names {setting}, which is not a file"
        return Found(path=schema, problem=None if schema else problem)
    for folder in _upwards(file.parent, roots):
        schemas = sorted(path for path in _listed(folder) if path.suffix == ".pg")
        if not schemas:
            continue
        if len(schemas) == 1:
            return Found(path=schemas[0])
        for wanted in (f"{file.stem}.pg", CONVENTIONAL):
            named = next((path for path in schemas if path.name == wanted), None)
            if named is not None:
                return Found(path=named)
        names = ", ".join(path.name for path in schemas[:5])
        return Found(
            path=None,
            problem=f"which schema is meant? {folder.name} holds {names}: call it "
            f"{file.stem}.pg or {CONVENTIONAL}, or set omnigraph.schema",
        )
    return Found(
        path=None,
        problem="types are not checked: there is no .pg file beside this file or above it; "
        "the setting omnigraph.schema names one that is elsewhere",
    )


def _upwards(folder: Path, roots: tuple[Path, ...]) -> list[Path]:
    """Return a folder and those above it, up to the workspace it belongs to."""
    above = [folder, *folder.parents]
    ends = [above.index(root) for root in roots if root in above]
    return above[: min(ends) + 1] if ends else above


def _listed(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []


Reader = Callable[[Path], str | None]
"""Returns the text of a file: the one an editor has open, else the one on disk."""


def read_disk(path: Path) -> str | None:
    """Return the text of a file on disk, None if it cannot be read."""
    try:
        return path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
    except (OSError, UnicodeDecodeError):
        return None

"""Where the project's files are, for the tests that read them instead of running them."""

from __future__ import annotations

import ast
import fnmatch
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "omnigraph"

_NOT_OURS = {
    *(".git", ".venv", ".hypothesis", "__pycache__", "build", "dist", "htmlcov"),
    *("node_modules", "studio_files"),
}


def files_under(folder: Path, pattern: str = "*") -> Iterator[Path]:
    """Yield the project's own files below a folder, in a stable order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_ours(name))
        yield from (Path(parent, name) for name in sorted(fnmatch.filter(names, pattern)))


def _is_ours(folder_name: str) -> bool:
    return folder_name not in _NOT_OURS and not folder_name.endswith(("_cache", ".egg-info"))


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").split("\n")


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8", errors="replace").splitlines())


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, line: int | None = None) -> str:
    """Name a spot the way editors and terminals link to it."""
    name = path.relative_to(ROOT).as_posix()
    return name if line is None else f"{name}:{line}"


def report(heading: str, problems: list[str]) -> str:
    return "\n".join([f"{heading} ({len(problems)}):", *(f"  {p}" for p in problems)])

"""Prints a digest of the sources of the page: `make studio` stores it beside what it built."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
FILES = ("index.html", "vite.config.ts", "package.json", "package-lock.json")


def digest() -> str:
    """Return one digest of all that the built files depend on."""
    sources = [ROOT / name for name in FILES] + [p for p in (ROOT / "src").rglob("*") if p.is_file()]
    found = hashlib.sha256()
    for path in sorted(sources):
        content = path.read_bytes()
        found.update(f"{path.relative_to(ROOT).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


if __name__ == "__main__":
    print(digest())

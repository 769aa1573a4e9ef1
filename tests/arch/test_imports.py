"""Rooms import downwards only, and each outside engine has one home."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests.arch.project import PACKAGE, ROOT, files_under, place, report, tree_of

ENGINES = {"lance": "store", "obstore": "store"}

# Which rooms each contract has to bind as soon as they exist.
BOUND_ROOMS = {
    "storage does not know the languages": ["store"],
    "the compiler is pure": ["lang", "plan", "catalog"],
    "values stand alone": ["values"],
    "one room touches Lance": [
        "commits",
        "rows",
        "intake",
        "read",
        "ops",
        "graph",
        "server",
        "spark",
        "cli",
    ],
}


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


def _imported_roots(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name.split(".")[0] for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module.split(".")[0]]
        case _:
            return []


def test_import_contracts_are_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))  # the linter adds the working directory
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    captured = capsys.readouterr()
    assert status == 0, captured.out + captured.err


def test_contracts_bind_every_room_that_exists() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {c["name"]: c for c in config["tool"]["importlinter"]["contracts"]}
    problems = [
        f"{name}: add omnigraph.{room} to source_modules"
        for name, rooms in BOUND_ROOMS.items()
        for room in rooms
        if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()
        if f"omnigraph.{room}" not in contracts[name]["source_modules"]
    ]
    assert not problems, report("contracts in pyproject.toml with a gap", problems)


def test_storage_engines_are_imported_in_one_room() -> None:
    problems = [
        f"{place(path, getattr(node, 'lineno', None))}: imports {root}"
        for path in files_under(PACKAGE, "*.py")
        for node in ast.walk(tree_of(path))
        for root in _imported_roots(node)
        if root in ENGINES and _room(path) != ENGINES[root]
    ]
    assert not problems, report("only src/omnigraph/store may import these", problems)


def test_only_the_command_line_prints() -> None:
    problems = [
        f"{place(path, node.lineno)}: calls print"
        for path in files_under(PACKAGE, "*.py")
        if _room(path) != "cli"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not problems, report("only src/omnigraph/cli may print", problems)


# Who may know `os.environ`. Everything else is told: `omnigraph.environment` says how.
KNOWS_VARIABLES = ("__init__.py", "cli/", "spark/session.py")
_VARIABLES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def _variable_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return [name]
        case ast.ImportFrom(module="os", names=names):
            return [alias.name for alias in names]
        case _:
            return []


@pytest.mark.parametrize(
    "text", ["import os\nos.environ['A']", "from os import getenv", "import os\nos.putenv('A', '')"]
)
def test_every_way_to_look_at_variables_is_known(text: str) -> None:
    found = {name for node in ast.walk(ast.parse(text)) for name in _variable_names(node)}
    assert found & _VARIABLES


def test_only_the_outermost_layers_look_at_environment_variables() -> None:
    problems = [
        f"{place(path, getattr(node, 'lineno', None))}: uses os.{name}"
        for path in files_under(PACKAGE, "*.py")
        if not path.relative_to(PACKAGE).as_posix().startswith(KNOWS_VARIABLES)
        for node in ast.walk(tree_of(path))
        for name in _variable_names(node)
        if name in _VARIABLES
    ]
    assert not problems, report("pass the value in, or ask omnigraph.environment", problems)


# Loaded where a start takes seconds anyway.
_LATE_ROOMS = {"spark", "cluster", "server", "mcp"}
# Fields that are no arguments, and a dataclass of Lance.
_DATACLASSES = {
    "intake/envelopes.py",
    "read/text.py",
    "store/tables/upsert.py",
}


def test_what_every_command_loads_is_made_of_structs() -> None:
    """Dataclasses compile their methods at each start, and `replace` of theirs fails on structs."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in files_under(PACKAGE, "*.py")
        if _room(path) not in _LATE_ROOMS
        for node in ast.walk(tree_of(path))
        if "dataclasses" in _imported_roots(node)
    }
    assert found == _DATACLASSES


# Names of public classes, commands and parts of the server, each imported on first use.
LAZY = {"__init__.py", "cli/main.py", "server/__init__.py"}


def test_no_room_imports_another_by_name() -> None:
    problems = [
        place(path, node.lineno)
        for path in files_under(PACKAGE, "*.py")
        if path.relative_to(PACKAGE).as_posix() not in LAZY
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
        if not (node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "package")
    ]
    assert not problems, report("rooms above are had through omnigraph.extras.offered", problems)

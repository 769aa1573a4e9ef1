"""One loop publishes, one place makes identities of commits, one function makes them visible."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.arch.project import PACKAGE, files_under, tree_of


def callers(name: str, *, of: str | None = None) -> Iterator[str]:
    """Yield the modules that call a function, or a method of something named `of`."""
    for path in files_under(PACKAGE, "*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call) and _matches(node.func, name, of):
                yield path.relative_to(PACKAGE).as_posix()


def _matches(called: ast.expr, name: str, of: str | None) -> bool:
    if of is None:
        return isinstance(called, ast.Name) and called.id == name
    if not isinstance(called, ast.Attribute) or called.attr != name:
        return False
    owner = called.value
    return of in (getattr(owner, "attr", None), getattr(owner, "id", None))


@pytest.mark.parametrize("owner", ["_publisher", "publisher"])
def test_one_loop_publishes(owner: str) -> None:
    assert set(callers("publish", of=owner)) <= {"commits/loop.py"}
    assert set(callers("reserve", of=owner)) <= {"commits/loop.py"}
    # Recovery finishes and undoes what that loop began, under the slot it left.
    assert set(callers("append", of=owner)) <= {"commits/recovery.py"}


def test_the_loop_publishes_at_one_line() -> None:
    assert list(callers("publish", of="_publisher")) == ["commits/loop.py"]


def test_identities_are_made_in_one_place() -> None:
    assert set(callers("CommitIdentity")) == {"commits/identity.py"}
    assert list(callers("mint")) == ["commits/loop.py"]

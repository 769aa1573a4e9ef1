"""Completion finds every public name, and every public name is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import omnigraph as og


@pytest.mark.parametrize("name", og.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(og, name) is not None


def test_completion_lists_the_names_before_they_are_used() -> None:
    code = (
        "import omnigraph as og, sys; names = set(dir(og)); "
        "print(set(og.__all__) - names, 'lance' in sys.modules, "
        "{name for name in names - {*og.__all__, 'errors'} if not name.startswith('__')})"
    )
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set() False set()\n"

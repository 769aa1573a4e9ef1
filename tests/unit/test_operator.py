"""The operator's own configuration, where it cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cli.operator import load_operator
from omnigraph.errors import BadRequestError


def test_a_home_that_cannot_be_entered_holds_no_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "home"
    closed.write_text("not a folder")
    monkeypatch.setenv("HOME", str(closed))
    found = load_operator({})
    assert (found.servers, found.profiles, found.stored_tokens()) == ({}, {}, {})


def test_a_named_home_that_cannot_be_entered_is_an_error(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.write_text("not a folder")
    with pytest.raises(BadRequestError, match=r"cannot read .*config\.yaml"):
        load_operator({"OMNIGRAPH_HOME": str(closed)})


def test_a_file_that_is_there_and_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".omnigraph" / "config.yaml").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(BadRequestError, match=r"cannot read .*config\.yaml"):
        load_operator({})

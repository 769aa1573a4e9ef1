"""Runs the program inside the test process, in an empty folder."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from omnigraph.cli.main import main


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class Run(Protocol):
    """Runs `omnigraph` with arguments and, if given, bytes on standard input."""

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Result: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*arguments: str, stdin: bytes = b"") -> Result:
        text = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8", errors="strict")
        monkeypatch.setattr("sys.stdin", text)
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return Result(code=left.value.code, out=captured.out, err=captured.err)

    return call

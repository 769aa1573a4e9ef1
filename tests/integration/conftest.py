"""Fixtures of the integration tests: graphs on a temporary folder, and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from tests.integration.helpers import PEOPLE, NewGraph
from tests.places import AnyPath


@pytest.fixture
def new_graph(place: AnyPath) -> Iterator[NewGraph]:
    opened: list[og.Graph] = []

    def make(schema: str = PEOPLE, *, name: str = "g") -> og.Graph:
        graph = og.init(place / name, schema, durability="none")
        opened.append(graph)
        return graph

    yield make
    for graph in opened:
        graph.close()


@pytest.fixture
def graph(new_graph: NewGraph) -> og.Graph:
    return new_graph()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class Cli(Protocol):
    """Runs `omnigraph` with arguments inside the test process, in the test's folder."""

    def __call__(self, *arguments: str) -> Result: ...


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "none")

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(left.value.code, int)
        assert "Traceback" not in captured.err
        return Result(code=left.value.code, out=captured.out, err=captured.err)

    return call

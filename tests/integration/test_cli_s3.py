"""The command line on a graph in a bucket; the environment says how to reach it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import Cli
from tests.integration.helpers import jsonl
from tests.places import new_prefix
from tests.servers.seaweed import Seaweed

SCHEMA = "node Person { name: String @key  age: I32? }\n"
ALL = "query q() { match { $p: Person } return { $p.name } order { $p.name } }"


@pytest.fixture
def uri(s3: Seaweed, tmp_path: Path) -> str:
    (tmp_path / "s.pg").write_text(SCHEMA, encoding="utf-8")
    lines = ('{"type":"Person","data":{"name":"a"}}', '{"type":"Person","data":{"name":"b"}}')
    (tmp_path / "d.jsonl").write_bytes(jsonl(*lines))
    return str(new_prefix(s3.bucket))


def test_a_graph_is_made_filled_asked_and_branched(cli: Cli, uri: str) -> None:
    assert cli("init", uri, "--schema", "s.pg").code == 0
    done = cli("load", uri, "--data", "d.jsonl", "--mode", "append")
    assert (done.code, done.err) == (0, f"omnigraph load -> {uri} (direct, remote)\n")
    shown = cli("query", "--store", uri, "-e", ALL, "--format", "csv")
    assert shown.out.split() == ["p.name", "a", "b"]
    assert cli("branch", "create", "dev", "--store", uri).code == 0
    assert cli("schema", "show", uri).out == SCHEMA
    assert cli("recover", uri).code == 0
    assert cli("init", uri, "--schema", "s.pg").code != 0


def test_what_is_destroyed_elsewhere_needs_consent(cli: Cli, uri: str) -> None:
    cli("init", uri, "--schema", "s.pg")
    refused = cli("load", uri, "--data", "d.jsonl", "--mode", "overwrite")
    assert refused.code != 0
    assert "--yes" in refused.err
    assert cli("load", uri, "--data", "d.jsonl", "--mode", "overwrite", "--yes").code == 0

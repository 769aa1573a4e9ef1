"""`omnigraph doctor` finds what is wrong, says what to do, and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cli import doctor_checks
from omnigraph.cli.doctor_checks import Level
from omnigraph.failpoints import Failpoint
from tests.integration.conftest import Cli
from tests.integration.helpers import PEOPLE, files, node


@pytest.fixture
def place(tmp_path: Path) -> str:
    with og.init(tmp_path / "club", PEOPLE, durability="none") as graph:
        graph.load([node("Person", name="a"), node("Person", name="b")], mode="append")
        graph.branches.create("draft")
    return str(tmp_path / "club")


def named(found: dict[str, Any], area: str, name: str) -> list[dict[str, Any]]:
    return [item for item in found["findings"] if (item["area"], item["name"]) == (area, name)]


def test_a_healthy_graph_is_told_from_versions_to_tables(
    cli: Cli, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "full")
    before = files(place)
    shown = cli("doctor", place, "--json")
    found = shown.json
    problems = [item for item in found["findings"] if item["level"] == "attention"]
    # The folder of the tests may lie in memory, which is what the doctor is for.
    assert {(item["area"], item["name"]) for item in problems} <= {("storage", "disk")}
    assert shown.code == (1 if problems else 0)
    assert found["healthy"] is (not problems)
    assert named(found, "versions", "omnigraph")[0]["message"].startswith(og.__version__)
    assert named(found, "storage", "create")[0]["message"] == "allowed"
    assert named(found, "branches", "draft")
    assert named(found, "tables", "node:Person")[0]["message"].startswith("2 rows, ")
    assert named(found, "writes", "pending")[0]["message"] == "none"
    assert files(place) == before
    text = cli("doctor", place)
    assert text.code == shown.code
    assert "node:Person" in text.out


def test_an_interrupted_write_needs_attention(cli: Cli, place: str) -> None:
    with (
        og.open(place, durability="none", actor="ann") as graph,
        failpoints.armed(Failpoint.PUBLISH_PRE_TABLE_COMMIT, failpoints.error),
        pytest.raises(og.OutcomeUnknownError),
    ):
        graph.mutate('query drop() { delete Person where name = "a" }')
    before = files(place)
    found = cli("doctor", place, "--json")
    assert found.code == 1
    (item,) = [item for item in found.json["findings"] if item["area"] == "writes"]
    assert item["level"] == "attention"
    assert item["message"] == "mutation on main by ann: interrupted"
    assert item["action"] == f"omnigraph recover {place}"
    assert files(place) == before
    cli("recover", place)
    assert named(cli("doctor", place, "--json").json, "writes", "pending")


def test_a_graph_that_is_not_there_is_a_finding(cli: Cli, tmp_path: Path) -> None:
    found = cli("doctor", str(tmp_path / "nope"), "--json")
    assert found.code == 1
    assert named(found.json, "storage", "reach")[0]["level"] == "attention"
    assert named(found.json, "graph", "open")[0]["level"] == "attention"
    assert not (tmp_path / "nope").exists()


def test_a_branch_that_is_not_there_is_a_finding(cli: Cli, place: str) -> None:
    found = cli("doctor", place, "--branch", "drft", "--json")
    assert found.code == 1
    (item,) = [item for item in found.json["findings"] if item["level"] == "attention"][-1:]
    assert "drft" in item["message"]


def test_without_a_graph_the_installation_is_checked(cli: Cli) -> None:
    found = cli("doctor", "--json")
    assert found.code == 0
    assert {item["area"] for item in found.json["findings"]} == {"versions", "extras"}
    assert found.json["uri"] is None


def test_a_setting_that_loses_commits_needs_attention(
    cli: Cli, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "none")
    (item,) = named(cli("doctor", place, "--json").json, "storage", "durability")
    assert item["level"] == "attention"
    assert item["action"] == "unset OMNIGRAPH_DURABILITY"


def test_the_file_system_of_the_nearest_mount_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    lines = ["/dev/a / ext4 rw 0 0", f"none {tmp_path}/m tmpfs rw 0 0", "s:/x /mnt nfs4 rw 0 0"]
    mounts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    kind = doctor_checks.file_system
    assert kind(str(tmp_path / "m" / "g"), str(mounts)) == "tmpfs"
    assert kind(str(tmp_path / "mm"), str(mounts)) == "ext4"
    assert kind("/mnt/g", str(mounts)) == "nfs4"
    assert kind("/", str(tmp_path / "none")) is None
    assert doctor_checks._disk_kind("tmpfs").level is Level.ATTENTION
    assert doctor_checks._disk_kind("nfs4").level is Level.NOTE
    assert doctor_checks._disk_kind("ext4").level is Level.OK


def test_tables_with_rows_that_indexes_leave_out_are_told(cli: Cli, place: str) -> None:
    with og.open(place, durability="none") as graph:
        graph.maintenance.ensure_indices()
        graph.load([node("Person", name="late")], mode="append")
        (person,) = [t for t in graph.maintenance.tables() if t.table_key == "node:Person"]
    assert (person.rows, person.fragments, person.uncovered_rows) == (3, 2, 1)
    found = cli("doctor", place, "--json").json
    told = [item["message"] for item in named(found, "tables", "node:Person")]
    assert "indexes leave out 1 row" in told
    problem = doctor_checks._table_problems
    many = replace(person, rows=90_000, uncovered_rows=80_000, fragments=500)
    levels = [item.level for item in problem(many, "draft", "g")]
    assert levels.count(Level.ATTENTION) >= 2
    assert all("g --branch draft" in str(item.action) for item in problem(many, "draft", "g"))


def test_missing_packages_are_a_note_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_checks, "installed", lambda _package: None)
    found = doctor_checks._extra("server", ("fastapi",))
    assert found.level is Level.NOTE
    assert found.action == "pip install 'omnigraph[server]', if you need it"
    assert doctor_checks._java({"PATH": ""}).level is Level.NOTE

"""The review of a merge on the command line: conflicts property by property, the next command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

import omnigraph as og
from omnigraph.cli.main import main
from tests.integration.conftest import Cli

SCHEMA = """\
node Task {
    slug: String @key
    title: String
    due: Date?
    note: String?
    code: String? @unique
    face: Vector(8)?
    file: Blob?
}
edge Blocks: Task -> Task { since: Date? }
"""


def row(slug: str, **data: object) -> dict[str, object]:
    return {"type": "Task", "data": {"slug": slug, "title": slug.upper(), **data}}


@pytest.fixture
def place(tmp_path: Path) -> str:
    found = str(tmp_path / "g")
    with og.init(found, SCHEMA, durability="none") as graph:
        first = row("a", due="2024-01-01", face=[0.0] * 8, file="base64:AAAA")
        graph.load([first, row("b")], mode="append")
        graph.branches.create("dev")
        graph.branches.create("other")
    return found


def change(place: str, branch: str, *rows: dict[str, object]) -> None:
    with og.open(place, durability="none") as graph:
        graph.load(list(rows), mode="merge", branch=branch)


def in_conflict(place: str) -> None:
    same = {"face": [0.0] * 8, "note": "same on both"}
    change(place, "dev", row("a", due="2024-02-01", file="base64:AAAB", **same), row("c"))
    change(place, "main", row("a", due="2024-03-01", file="base64:AAAC", **same))


def test_a_conflict_is_shown_by_property_with_the_next_command(cli: Cli, place: str) -> None:
    in_conflict(place)
    shown = cli("branch", "merge", "dev", place)
    assert shown.code == 5
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert lines[1:6] == [
        "1 conflict, nothing merged (dev into main)",
        "property: before -> ours (main) / theirs (dev)",
        "",
        "! Task 'a' was changed on both sides, differently",
        "    due: 2024-01-01 -> 2024-03-01 / 2024-02-01",
    ]
    assert 'note: <null> -> "same on both" / "same on both"' in shown.err
    assert "file: <3 bytes>#" in shown.err
    assert not any(line.strip().startswith(("title:", "face:", "slug:")) for line in lines)
    assert "1 other change of dev would merge without conflict." in lines
    assert f"  omnigraph branch merge dev {place} --resolve ours      # keep the rows of main" in (
        lines
    )


def test_the_command_told_solves_the_conflict(cli: Cli, place: str) -> None:
    in_conflict(place)
    told = next(
        line for line in cli("branch", "merge", "dev", place).err.splitlines() if "theirs  " in line
    )
    words = shlex.split(told, comments=True)
    assert words[0] == "omnigraph"
    done = cli(*words[1:])
    assert done.code == 0
    assert done.out.startswith("merged dev into main\ncommit ")


def test_a_preview_with_conflicts_has_its_own_code_and_never_says_merged(
    cli: Cli, place: str
) -> None:
    in_conflict(place)
    with og.open(place, mode="ro") as graph:
        before = graph.commits.head()
    shown = cli("branch", "merge", "dev", place, "--preview")
    assert shown.code == 9
    assert shown.out.startswith("1 conflict, nothing merged (dev into main)\n")
    assert "merged dev" not in shown.out
    told = cli("branch", "merge", "dev", place, "--preview", "--json")
    assert told.code == 9
    assert told.json["outcome"] == "conflicts"
    with og.open(place, mode="ro") as graph:
        assert graph.commits.head() == before
    assert cli("branch", "merge", "dev", place, "--preview", "--resolve", "ours").code == 0


def test_added_and_deleted_rows_are_told(cli: Cli, place: str) -> None:
    change(place, "dev", row("n", title="Theirs"), row("b", title="Kept"))
    change(place, "main", row("n", title="Ours"))
    with og.open(place, durability="none") as graph:
        graph.mutate('query d() { delete Task where slug = "b" }')
    lines = cli("branch", "merge", "dev", place, "--preview").out.splitlines()
    assert lines[0] == "2 conflicts, nothing merged (dev into main)"
    assert '    title: "B" -> <deleted> / "Kept"' in lines
    assert '    title: "Ours" / "Theirs"' in lines


def test_a_broken_rule_is_told_and_no_side_is_offered(cli: Cli, place: str) -> None:
    change(place, "dev", row("x", code="one"))
    change(place, "main", row("y", code="one"))
    shown = cli("branch", "merge", "dev", place, "--preview")
    assert shown.code == 9
    assert "! @unique violation on Task.code: value 'one' held by 'y' and 'x'" in shown.out
    assert "--resolve" not in shown.out
    assert f"  omnigraph diff main dev {place}" in shown.out.splitlines()


def test_another_target_is_part_of_the_command(cli: Cli, place: str) -> None:
    change(place, "dev", row("a", title="One"))
    change(place, "other", row("a", title="Two"))
    shown = cli("branch", "merge", "dev", place, "--into", "other", "--preview")
    assert f"  omnigraph branch merge dev {place} --into other --resolve ours" in shown.out
    assert "ours (other) / theirs (dev)" in shown.out


def test_programs_still_get_the_conflicts_as_json(cli: Cli, place: str) -> None:
    in_conflict(place)
    shown = cli("branch", "merge", "dev", place, "--json")
    assert shown.code == 5
    body = json.loads(shown.out)
    assert body["error"].startswith("1 conflict, nothing merged: Task 'a' was changed")
    assert [item["kind"] for item in body["merge_conflicts"]] == ["divergent_update"]


def test_colours_are_for_terminals_only(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_conflict(place)
    arguments = ["branch", "merge", "dev", place, "--preview"]

    def shown() -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(arguments)
        return capsys.readouterr().out

    plain = shown()
    assert click.unstyle(plain) == plain
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_args: False)
    coloured = shown()
    assert coloured != plain
    assert click.unstyle(coloured) == plain

"""Branches, merges, differences and maintenance on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from tests.integration.conftest import Cli

SCHEMA = "node P { k: String @key  v: I64? }\nedge K: P -> P { w: I64? }\n"
QUERIES = """\
query add($k: String, $v: I64) { insert P { k: $k, v: $v } }
query set_v($k: String, $v: I64) { update P set { v: $v } where k = $k }
query drop($k: String) { delete P where k = $k }
query link($a: String, $b: String) { insert K { id: "e", from: $a, to: $b, w: 1 } }
"""


@pytest.fixture
def place(cli: Cli, tmp_path: Path) -> str:
    (tmp_path / "s.pg").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "q.gq").write_text(QUERIES, encoding="utf-8")
    found = str(tmp_path / "g")
    assert cli("init", found, "--schema", "s.pg").code == 0
    with og.open(found) as graph:
        for number, name in enumerate("ab", 1):
            graph.mutate(QUERIES, {"k": name, "v": number}, name="add", actor="ada")
    return found


def write(place: str, name: str, branch: str = "main", **params: object) -> None:
    with og.open(place) as graph:
        graph.mutate(QUERIES, params, name=name, branch=branch)


def values(place: str, branch: str = "main") -> dict[str, Any]:
    text = "query q() { match { $p: P } return { $p.k as k, $p.v as v } }"
    with og.open(place, mode="ro") as graph:
        return {row["k"]: row["v"] for row in graph.query(text, branch=branch)}


def test_a_branch_is_made_listed_and_deleted(cli: Cli, place: str) -> None:
    shown = cli("branch", "create", "dev", place)
    assert (shown.code, shown.out) == (0, "created branch dev from main\n")
    assert cli("branch", "create", "dev", place).code == 5
    assert cli("branch", "create", "no good", place).code == 1
    assert cli("branch", "list", place).out == "main\ndev\n"
    assert json.loads(cli("branch", "list", place, "--json").out) == {"branches": ["main", "dev"]}
    body = json.loads(cli("branch", "create", "sub", place, "--from", "dev", "--json").out)
    assert (body["from"], body["name"]) == ("dev", "sub")
    assert cli("branch", "delete", "dev", place, "--yes").code == 5
    assert cli("branch", "delete", "sub", place, "--yes").out == "deleted branch sub\n"
    assert cli("branch", "delete", "dev", place, "--json").code == 0
    assert cli("branch", "delete", "dev", place, "--yes").code == 3


def test_a_difference_is_shown(cli: Cli, place: str) -> None:
    cli("branch", "create", "dev", place)
    write(place, "set_v", "dev", k="a", v=10)
    write(place, "drop", "dev", k="b")
    write(place, "add", "dev", k="c", v=3)
    write(place, "link", "dev", a="a", b="c")
    shown = cli("diff", "main", "dev", place)
    assert shown.out.splitlines() == [
        "~ update node P a",
        "    v: 1 -> 10",
        "- delete node P b",
        '    k: "b"',
        "    v: 2",
        "+ insert node P c",
        '    k: "c"',
        "    v: 3",
        "+ insert edge K e",
        "    a -> c",
        "    w: 1",
    ]
    assert cli("diff", "main", "dev", place, "--stat").out == "P: +1 ~1 -1\nK: +1 ~0 -0\n"
    body = json.loads(cli("diff", "main", "dev", place, "--type", "K", "--json").out)
    assert [(c["op"], c["after"]["endpoints"]) for c in body["changes"]] == [
        ("insert", {"from": "a", "to": "c"})
    ]
    assert cli("diff", "main", "main", place).out == "(no differences)\n"
    assert cli("diff", "main", "nowhere", place).code == 3
    assert cli("diff", "main", "dev", place, "--type", "Nope").code == 3


def test_a_merge_is_previewed_then_made(cli: Cli, place: str) -> None:
    cli("branch", "create", "dev", place)
    write(place, "set_v", "dev", k="a", v=10)
    shown = cli("branch", "merge", "dev", place, "--preview")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "dev into main: 1 change, no conflicts",
        "  ~ update node P a",
        "To make a fast forward of it:",
        f"  omnigraph branch merge dev {place}",
    ]
    assert values(place)["a"] == 1
    shown = cli("branch", "merge", "dev", place, "--delete-branch", "--as", "lena", "--json")
    body = json.loads(shown.out)
    assert (body["outcome"], body["branch_deleted"], body["actor_id"]) == (
        "fast_forward",
        True,
        "lena",
    )
    assert body["commit"]["merged_parent_commit_id"]
    assert values(place)["a"] == 10
    assert cli("branch", "merge", "dev", place).code == 3


def test_conflicts_are_told_and_decided_in_a_file(cli: Cli, place: str, tmp_path: Path) -> None:
    cli("branch", "create", "dev", place)
    write(place, "set_v", "dev", k="a", v=5)
    write(place, "set_v", k="a", v=6)
    shown = cli("branch", "merge", "dev", place)
    assert shown.code == 5
    assert "P 'a' was changed on both sides" in shown.err
    body = json.loads(cli("branch", "merge", "dev", place, "--json").out)
    assert [c["kind"] for c in body["merge_conflicts"]] == ["divergent_update"]
    plan = json.loads(cli("branch", "merge", "dev", place, "--preview", "--json").out)
    file = tmp_path / "decided.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    assert cli("branch", "merge", "dev", place, "--resolve", "decided.json").code == 1
    plan["merge_conflicts"][0]["use"] = {"v": 11}
    file.write_text(json.dumps(plan), encoding="utf-8")
    assert cli("branch", "merge", "dev", place, "--resolve", "decided.json").code == 0
    assert values(place)["a"] == 11
    again = cli("branch", "merge", "dev", place)
    assert again.out == "main already has everything of dev; nothing to merge\n"


def test_a_check_stops_a_merge(cli: Cli, place: str, tmp_path: Path) -> None:
    (tmp_path / "check.gq").write_text(
        "query big() { match { $p: P  $p.v > 8 } return { $p.k } }", encoding="utf-8"
    )
    cli("branch", "create", "dev", place)
    write(place, "set_v", "dev", k="a", v=9)
    shown = cli("branch", "merge", "dev", place, "--check", "check.gq")
    assert shown.code == 5
    assert "'big' returns 1 row" in shown.err
    assert values(place)["a"] == 1
    assert cli("branch", "list", place).out == "main\ndev\n"


def test_history_is_drawn_blamed_undone_and_picked(cli: Cli, place: str) -> None:
    cli("branch", "create", "dev", place)
    write(place, "set_v", "dev", k="a", v=5)
    write(place, "set_v", k="b", v=6)
    cli("branch", "merge", "dev", place)
    lines = cli("commit", "list", place, "--draw").out.splitlines()
    assert lines[0].startswith("* \\  ")
    assert lines[0].endswith("<- main")
    assert any(line.startswith("| *  ") and line.endswith("[dev]  <- dev") for line in lines)
    body = json.loads(cli("commit", "blame", "P", "a", place, "--json").out)
    assert body["kind"] == "merge"
    assert cli("commit", "blame", "P", "zz", place).code == 3
    merged = body["graph_commit_id"]
    shown = cli("commit", "changes", merged, place).out.splitlines()
    assert shown[1:] == ["~ update node P a", "    v: 1 -> 5"]
    assert cli("commit", "revert", merged, place).code == 0
    assert values(place) == {"a": 1, "b": 6}
    assert cli("commit", "revert", merged, place).out == "nothing to change\n"
    picked = cli("commit", "pick", merged, place, "--branch", "main", "--json")
    assert json.loads(picked.out)["commit"]["kind"] == "cherry_pick"
    assert values(place) == {"a": 5, "b": 6}


def test_the_feed_goes_on_from_its_cursor(cli: Cli, place: str) -> None:
    body = json.loads(cli("changes", "poll", place, "--start", "beginning", "--json").out)
    assert [len(block["changes"]) for block in body["blocks"]] == [0, 1, 1]
    assert body["caught_up"]
    shown = cli("changes", "poll", place, "--cursor", body["cursor"])
    assert shown.out.startswith("(no new commits)\ncursor: ")
    write(place, "add", k="c", v=3)
    body = json.loads(cli("changes", "poll", place, "--cursor", body["cursor"], "--json").out)
    assert [c["id"] for block in body["blocks"] for c in block["changes"]] == ["c"]
    assert cli("changes", "poll", place, "--cursor", "rubbish").code == 1
    other = cli("changes", "poll", place, "--cursor", body["cursor"], "--type", "P")
    assert "another filter" in other.err


def test_a_baseline_ends_with_its_cursor(cli: Cli, place: str, tmp_path: Path) -> None:
    body = json.loads(cli("changes", "baseline", place, "--out", "base.jsonl", "--json").out)
    lines = (tmp_path / "base.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1]) == {"baseline": body}
    assert [json.loads(line)["data"]["id"] for line in lines[:-1]] == ["a", "b"]


def test_tags_name_states(cli: Cli, place: str) -> None:
    assert cli("tag", "create", "v1", place).out == "tagged main at version 3 as v1\n"
    write(place, "add", k="c", v=3)
    assert cli("tag", "list", place).out == "v1  main v3\n"
    assert cli("tag", "create", "v1", place).code == 5
    assert cli("diff", "v1", "main", place, "--stat").out == "P: +1 ~0 -0\n"
    assert cli("tag", "delete", "v1", place).code == 0
    assert cli("tag", "delete", "v1", place).code == 3
    assert cli("tag", "list", place).out == "(no tags)\n"


def test_maintenance_commands(cli: Cli, place: str) -> None:
    for number in range(6):
        write(place, "set_v", k="a", v=number)
    assert "fragments would become 1" in cli("optimize", place, "--dry-run").out
    shown = cli("optimize", place)
    assert shown.code == 0
    assert "node:P: " in shown.out
    assert cli("optimize", place).out == "nothing to do\n"
    assert cli("optimize", place, "--dry-run").out == "nothing to do\n"
    assert cli("repair", place).out == "nothing to repair\n"
    assert cli("repair", place, "--force").code == 1
    assert "would remove 0 versions" in cli("cleanup", place).out
    assert cli("cleanup", place, "--older-than", "soon").code == 1
    body = json.loads(cli("cleanup", place, "--keep", "2", "--json").out)
    assert body["dry_run"]
    assert [t["table_key"] for t in body["tables"]] == ["edge:K", "node:P", "__manifest"]
    # What was current a moment ago stays, whatever is asked for.
    assert sum(t["old_versions_removed"] for t in body["tables"]) == 0
    assert cli("cleanup", place, "--keep", "2", "--confirm").code == 0
    assert values(place) == {"a": 5, "b": 2}


def test_repair_keeps_or_drops_what_another_program_wrote(cli: Cli, place: str) -> None:
    with og.open(place, durability="none") as graph:
        path = f"{place}/{graph.snapshot().tables['node:P'].path}"
    table = lance.dataset(path)
    row = {"id": "x", **{name: None for name in table.schema.names if name != "id"}}
    lance.write_dataset(
        pa.Table.from_pylist([{**row, "k": "x"}], schema=table.schema), table, mode="append"
    )
    shown = cli("repair", place)
    assert "suspicious: preview (Append)" in shown.out
    assert cli("repair", place, "--confirm").code == 1
    assert cli("repair", place, "--discard").code == 1
    with pytest.raises(og.DriftError):
        write(place, "add", k="c", v=3)
    assert "discarded" in cli("repair", place, "--confirm", "--discard", "--quiet").out
    write(place, "add", k="c", v=3)
    assert cli("repair", place).out == "nothing to repair\n"

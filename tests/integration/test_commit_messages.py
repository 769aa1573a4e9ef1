"""A commit says what its caller said about it, wherever commits are shown."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from omnigraph.limits import COMMIT_MESSAGE_BYTES_MAX
from tests.integration.conftest import Cli
from tests.together import run_together

SCHEMA = "node P { k: String @key  v: I64? }"
ADD = "query add($k: String, $v: I64) { insert P { k: $k, v: $v } }"
SET = "query put($k: String, $v: I64) { update P set { v: $v } where k = $k }"


def rows(*names: str) -> list[dict[str, object]]:
    return [{"type": "P", "data": {"k": name}} for name in names]


@pytest.fixture
def place(tmp_path: Path) -> str:
    found = str(tmp_path / "g")
    og.init(found, SCHEMA, durability="none").close()
    return found


def test_every_kind_of_write_carries_its_message(place: str) -> None:
    with og.open(place, durability="none") as graph:
        graph.load(rows("a"), mode="append", message="load: the first row")
        graph.mutate(ADD, {"k": "b", "v": 1}, message="mutate: one more")
        graph.branches.create("dev")
        graph.branch("dev").mutate(SET, {"k": "a", "v": 5}, message="view: five")
        graph.branches.merge("dev", message="merge: five is right")
        merged = graph.commits.head()
        graph.branches.revert(merged.graph_commit_id, message="revert: it was not")
        graph.branches.delete("dev")
        graph.schema.apply(SCHEMA.replace("}", "w: I64? }"), message="schema: a width")
        graph.mutate(ADD, {"k": "z", "v": 1})
        said = [commit.message for commit in graph.commits.list()]
        assert said == [
            None,
            "schema: a width",
            "revert: it was not",
            "merge: five is right",
            "mutate: one more",
            "load: the first row",
            None,
        ]
        page = graph.feed.poll("beginning", limit=100)
        assert [block.commit.message for block in page.blocks] == said[::-1]
        assert page.blocks[1].cause()["message"] == "load: the first row"
        assert "message" not in page.blocks[0].cause()
        last = graph.commits.last_change("P", "b")
        assert last is not None
        assert last.message == last.to_json()["message"] == "schema: a width"
        assert "message" not in graph.commits.head().to_json()
    with og.open(place, mode="ro") as graph:
        assert [commit.message for commit in graph.commits.list()] == said


def test_commits_published_together_keep_a_message_each(place: str) -> None:
    with og.open(place, durability="none") as graph:
        jobs = [
            lambda n=n: graph.mutate(ADD, {"k": f"k{n}", "v": n}, message=f"row {n}" if n else None)
            for n in range(6)
        ]
        made = run_together(graph, jobs)
        assert [item.commit.message for item in made] == [None, *(f"row {n}" for n in range(1, 6))]
        assert max(item.commit.place for item in made) > 0


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_recovery_keeps_the_messages_of_what_it_finishes(place: str, together: bool) -> None:
    count = 4 if together else 1
    with og.open(place, durability="none", actor="ada") as graph:
        jobs = [
            lambda n=n: graph.mutate(ADD, {"k": f"k{n}", "v": n}, message=f"row {n} ü")
            for n in range(count)
        ]
        with failpoints.armed(Failpoint.PUBLISH_PRE_CAS, failpoints.error):
            answers = run_together(graph, jobs)
        assert {type(item) for item in answers} == {og.OutcomeUnknownError}
    with og.open(place, durability="none") as graph:
        made = [c for c in graph.commits.list() if c.recovery_for_actor == "ada"]
        assert sorted(str(commit.message) for commit in made) == [
            f"row {n} ü" for n in range(count)
        ]


def test_what_is_undone_leaves_no_message(place: str) -> None:
    with (
        og.open(place, durability="none", actor="ada") as graph,
        failpoints.armed(Failpoint.PUBLISH_POST_SLOT_PRE_EFFECT, failpoints.error),
        pytest.raises(og.OmniGraphError),
    ):
        graph.load(rows("a"), mode="append", message="never happened")
    with og.open(place, durability="none") as graph:
        assert {commit.message for commit in graph.commits.list()} == {None}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("x" * (COMMIT_MESSAGE_BYTES_MAX + 1), "2,001 bytes"),
        ("ü" * COMMIT_MESSAGE_BYTES_MAX, "4,000 bytes"),
        ("\x1b[31mred", "control characters"),
        ("half \ud800", "half a character"),
    ],
)
def test_a_message_that_cannot_be_kept_is_refused_and_nothing_changes(
    place: str, message: str, why: str
) -> None:
    with og.open(place, durability="none") as graph:
        with pytest.raises(og.BadRequestError, match=why):
            graph.load(rows("a"), mode="append", message=message)
        with pytest.raises(og.BadRequestError, match=why):
            graph.branches.revert(graph.commits.head().graph_commit_id, message=message)
        assert len(graph.commits.list()) == 1


def test_the_longest_message_with_lines_and_any_letters_is_kept(place: str) -> None:
    message = "first line\n\n\tthen more: äöü 漢字 🎈 %41"
    message += "x" * (COMMIT_MESSAGE_BYTES_MAX - len(message.encode()))
    with og.open(place, durability="none") as graph:
        graph.load(rows("a"), mode="append", message=message)
        assert graph.commits.head().message == message


def test_the_command_line_takes_and_shows_messages(cli: Cli, place: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(json.dumps(rows("a")[0]), encoding="utf-8")
    cli("load", place, "--data", "d.jsonl", "--mode", "append", "-m", "first rows\nof many")
    cli("mutate", "--store", place, "-e", ADD, "--params", '{"k":"b","v":1}', "-m", "one more")
    lines = cli("commit", "list", place).out.splitlines()
    assert lines[0].endswith("  one more")
    assert lines[1].endswith("  first rows …")
    head = cli("commit", "list", place, "--json").json["commits"][0]
    assert head["message"] == "one more"
    shown = cli("commit", "changes", head["graph_commit_id"], place).out.splitlines()
    assert shown[1] == "    one more"
    assert "message: one more" in cli("commit", "show", head["graph_commit_id"], place).out
    assert cli("commit", "blame", "P", "b", place).out.rstrip().endswith("one more")
    assert cli("commit", "revert", head["graph_commit_id"], place, "-m", "no").code == 0
    assert cli("commit", "list", place).out.splitlines()[0].endswith("  no")
    assert cli("load", place, "--data", "d.jsonl", "--mode", "merge", "-m", "").code == 1


def test_without_messages_nothing_is_stored_of_them(place: str) -> None:
    with og.open(place, durability="none") as graph:
        graph.load(rows("a"), mode="append")
    stored = lance.dataset(f"{place}/__manifest").to_table()["metadata"].to_pylist()
    assert not any('"message"' in text for text in stored)

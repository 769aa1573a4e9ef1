"""`omnigraph recover`, and how recoveries show in the history."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Failpoint
from tests.integration.conftest import Cli
from tests.integration.helpers import PEOPLE, edge, files, node

DROP = 'query drop() { delete Person where name = "a" }'
ADD = 'query add() { insert Person { name: "c" } }'


@pytest.fixture
def place(tmp_path: Path) -> str:
    root = tmp_path / "club"
    with og.init(root, PEOPLE, durability="none") as graph:
        graph.load(
            [node("Person", name="a"), node("Person", name="b"), edge("Knows", "a", "b", id="e")],
            mode="append",
        )
    return str(root)


def interrupt(place: str, text: str, point: Failpoint, operation_id: str) -> None:
    """Let a write of ann's fail at a boundary."""
    with (
        og.open(place, durability="none", actor="ann") as graph,
        failpoints.armed(point, failpoints.error),
        pytest.raises(og.OutcomeUnknownError),
    ):
        graph.mutate(text, operation_id=operation_id)


def test_nothing_to_recover(cli: Cli, place: str) -> None:
    before = files(place)
    shown = cli("recover", place)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == "resolved now: nothing to resolve\npending: none\nrecoveries: 0\n"
    assert cli("recover", place, "--json").json == {"resolved": [], "pending": [], "recoveries": []}
    assert files(place) == before


def test_list_changes_nothing(cli: Cli, place: str) -> None:
    interrupt(place, DROP, Failpoint.PUBLISH_PRE_TABLE_COMMIT, "one")
    before = files(place)
    shown = cli("recover", place, "--list")
    assert shown.code == 0
    assert re.fullmatch(
        r"pending: mutation by ann, interrupted, (edge:Knows, )?[\w:, ]+ \(one\)\nrecoveries: 0\n",
        shown.out,
    )
    found = cli("recover", place, "--list", "--json").json
    (pending,) = found["pending"]
    assert (found["resolved"], found["recoveries"]) == ([], [])
    assert (pending["operation_id"], pending["actor_id"]) == ("one", "ann")
    assert (pending["owner_alive"], pending["writer_kind"]) == (False, "mutation")
    assert (pending["branch"], "node:Person" in pending["tables"]) == ("main", True)
    assert files(place) == before


def test_recover_resolves_and_shows_the_record(cli: Cli, place: str) -> None:
    interrupt(place, DROP, Failpoint.PUBLISH_PRE_TABLE_COMMIT, "one")
    shown = cli("recover", place)
    assert shown.code == 0
    head, pending, number, line = shown.out.splitlines()
    assert (head, pending, number) == (
        "resolved now: rolled_back",
        "pending: none",
        "recoveries: 1",
    )
    assert re.fullmatch(
        r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  RolledBack +mutation ann  .+ \d+ -> \d+  one", line
    )
    interrupt(place, ADD, Failpoint.PUBLISH_POST_EFFECTS, "two")
    found = cli("recover", place, "--json").json
    assert (found["resolved"], found["pending"]) == (["rolled_forward"], [])
    assert [row["operation_id"] for row in found["recoveries"]] == ["one", "two"]
    last = found["recoveries"][-1]
    assert set(last) == {
        "graph_commit_id",
        "recovery_kind",
        "recovery_for_actor",
        "operation_id",
        "sidecar_writer_kind",
        "per_table_outcomes",
        "created_at",
    }
    assert (last["recovery_kind"], last["recovery_for_actor"]) == ("RolledForward", "ann")
    (table,) = last["per_table_outcomes"]
    assert table["table_key"] == "node:Person"
    assert table["to_version"] == table["from_version"] + 1
    assert cli("recover", place).out.startswith("resolved now: nothing to resolve\n")


def test_any_command_that_writes_recovers_first(cli: Cli, place: str) -> None:
    interrupt(place, ADD, Failpoint.PUBLISH_PRE_CAS, "one")
    again = cli("mutate", "--store", place, "-e", ADD, "--operation-id", "one", "--json")
    assert again.code == 0
    assert again.json["repeated"] is True
    assert again.json["commit"]["actor_id"] == "omnigraph:recovery"
    assert len(cli("recover", place, "--json").json["recoveries"]) == 1


def test_recoveries_show_in_the_history(cli: Cli, place: str) -> None:
    interrupt(place, DROP, Failpoint.PUBLISH_PRE_TABLE_COMMIT, "one")
    assert cli("recover", place).code == 0
    filtered = cli("commit", "list", place, "--filter", "actor=omnigraph:recovery", "--json").json
    (commit,) = filtered["commits"]
    assert (commit["actor_id"], commit["recovery_for_actor"]) == ("omnigraph:recovery", "ann")
    assert len(cli("commit", "list", place, "--json").json["commits"]) == 3
    shown = cli("commit", "list", place, "--filter", "actor=omnigraph:recovery").out
    assert shown.count("omnigraph:recovery") == 1


def test_a_write_under_way_is_listed_and_left_alone(cli: Cli, place: str) -> None:
    pause = failpoints.Pause()
    failpoints.arm(Failpoint.PUBLISH_PRE_CAS, pause)
    with og.open(place, durability="none", actor="ann") as graph:
        thread = threading.Thread(target=lambda: graph.mutate(ADD, operation_id="one"))
        thread.start()
        assert pause.reached.wait(20)
        failpoints.disarm()
        shown = cli("recover", place)
        pause.released.set()
        thread.join()
    assert shown.out == (
        "resolved now: nothing to resolve\n"
        "pending: mutation by ann, under way, node:Person (one)\n"
        "recoveries: 0\n"
    )
    assert cli("recover", place).out.endswith("pending: none\nrecoveries: 0\n")


def test_an_intent_of_a_newer_release_is_refused(cli: Cli, place: str) -> None:
    slot = Path(place, "__recovery", "main@later.json")
    slot.write_text(json.dumps({"format": 4}))
    refused = cli("recover", place)
    assert refused.code == 1
    assert refused.err == (
        "error: the interrupted write main@later.json has format 4, which is newer than this "
        "release\nhelp: resolve it with the release that wrote it, then go on\n"
    )
    assert slot.exists()
    shown = cli("recover", place, "--list")
    assert (shown.code, shown.out) == (
        0,
        "pending: unreadable by -, interrupted, no tables yet (main@later.json)\nrecoveries: 0\n",
    )


def test_no_graph_no_recovery(cli: Cli) -> None:
    assert cli("recover", "nowhere").code == 3
    assert cli("recover", "nowhere", "--list").code == 3

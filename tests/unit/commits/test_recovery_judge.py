"""What becomes of an interrupted write: the tables of the verdict."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from omnigraph.commits.intents import Intent, IntentTable
from omnigraph.commits.recovery import TableEvidence, Verdict, judge, judge_tables
from omnigraph.store import Pin

TABLE = IntentTable(
    table_key="node:A", incarnation=1, path="nodes/a", expected_version=4, transaction_uuid="mine"
)

PIN = Pin(
    table_key="node:A",
    incarnation=1,
    path="nodes/a",
    version=4,
    row_count=0,
    transaction_uuid="before",
    seq=7,
)


def intent(*, tables: tuple[IntentTable, ...] = (TABLE,), head: str = "H") -> Intent:
    return Intent(
        operation_id="op",
        commit_id="C",
        rollback_id="R",
        kind="mutation",
        branch="main",
        head_commit_id=head,
        manifest_version=7,
        actor_id=None,
        schema_hash="",
        created_at_us=0,
        tables=tables,
    )


@pytest.mark.parametrize(
    ("found", "lineage", "head", "verdict"),
    [
        (None, {"H"}, "H", Verdict.NEVER_ARMED),
        (intent(tables=()), {"H"}, "H", Verdict.NEVER_ARMED),
        (intent(tables=()), {"H", "C"}, "C", Verdict.NEVER_ARMED),
        (intent(), {"H", "C"}, "C", Verdict.ALREADY_DECIDED),
        (intent(), {"H", "C", "D"}, "D", Verdict.ALREADY_DECIDED),
        (intent(), {"H", "R"}, "R", Verdict.ALREADY_DECIDED),
        (intent(), {"H", "D"}, "D", Verdict.HEAD_MOVED),
        (intent(head="G"), {"G", "H"}, "H", Verdict.HEAD_MOVED),
        (intent(), {"H"}, "H", None),
    ],
)
def test_lineage_and_head_decide_before_any_table_is_read(
    found: Intent | None, lineage: set[str], head: str, verdict: Verdict | None
) -> None:
    assert judge(found, lineage, head, {"node:A": PIN}) is verdict


@pytest.mark.parametrize(
    ("pins", "verdict"),
    [
        ({"node:A": replace(PIN, version=5)}, Verdict.HEAD_MOVED),
        ({"node:A": replace(PIN, version=3)}, Verdict.HEAD_MOVED),
        # The first write of a branch: its own line is not published yet.
        ({"node:A": replace(PIN, path="nodes/b", version=9)}, None),
        ({}, None),
    ],
)
def test_an_intent_on_other_versions_than_the_published_ones_touches_no_table(
    pins: dict[str, Pin], verdict: Verdict | None
) -> None:
    assert judge(intent(), {"H"}, "H", pins) is verdict


def seen(head_version: int, *, ours: bool) -> TableEvidence:
    return TableEvidence(table=TABLE, head_version=head_version, next_is_ours=ours)


UNTOUCHED = seen(4, ours=False)
MINE = seen(5, ours=True)
MINE_AND_MORE = seen(6, ours=True)
FOREIGN = seen(5, ours=False)


@pytest.mark.parametrize(
    ("evidence", "verdict"),
    [
        ([UNTOUCHED], Verdict.NOTHING_MOVED),
        ([UNTOUCHED, UNTOUCHED], Verdict.NOTHING_MOVED),
        ([MINE], Verdict.ROLLED_FORWARD),
        ([MINE, MINE], Verdict.ROLLED_FORWARD),
        ([MINE, MINE_AND_MORE], Verdict.ROLLED_FORWARD),
        ([MINE, UNTOUCHED], Verdict.ROLLED_BACK),
        ([UNTOUCHED, MINE], Verdict.ROLLED_BACK),
        ([FOREIGN], Verdict.ROLLED_BACK),
        ([FOREIGN, MINE], Verdict.ROLLED_BACK),
        ([FOREIGN, UNTOUCHED], Verdict.ROLLED_BACK),
    ],
)
def test_tables_decide_between_finishing_and_undoing(
    evidence: list[TableEvidence], verdict: Verdict
) -> None:
    assert judge_tables(evidence) is verdict

"""The commit protocol, explored in every interleaving within small bounds.

`OMNIGRAPH_MODEL=full` explores larger systems as well: minutes, and about a gigabyte of memory.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.model.protocol import Rules
from tests.model.scenarios import Scenario, stuck, unsettled_states

FULL = os.environ.get("OMNIGRAPH_MODEL") == "full"
DISK = Rules(leases=False)
ONE, TWO = ((0,), 1), ((0,), 2)

RECOVERY = Scenario("two writers, a recoverer", (TWO, TWO), recoverer=True)
TABLES = Scenario("two writers of two tables", (((0, 1), 2), ((0, 1), 2)), tables=2)
BOTH = Scenario("two writers, a recoverer, a cleaner", (ONE, TWO), recoverer=True, cleaners=1)
LEFTOVER = Scenario("two writers, a cleaner, a leftover", (ONE, TWO), cleaners=1, leftover=True)
CLEANED = Scenario("three commits, a cleaner", (ONE, TWO), fold=True, cleaners=1, clean_from=3)
TAGS = Scenario("a tag, two cleaners", (ONE, ONE), tagger=True, cleaners=2)
DELETED = Scenario("a branch is deleted and made again", (ONE, ONE), deleter=True)
RETIRED = replace(DELETED, name="a branch is retired and made again", rules=Rules(retire=True))
LOCKS = Scenario("locks, a fold, a cleaner", (TWO, TWO), DISK, fold=True, cleaners=1)
LOCKS_RECOVERY = replace(RECOVERY, name="locks, a recoverer", rules=DISK)

SCENARIOS = [
    RECOVERY,
    TABLES,
    BOTH,
    LEFTOVER,
    CLEANED,
    TAGS,
    DELETED,
    RETIRED,
    LOCKS,
    LOCKS_RECOVERY,
]
LARGER = [
    Scenario("full: a fold, a cleaner", (TWO, TWO), fold=True, cleaners=1),
    Scenario("full: two tables, a recoverer", TABLES.writers, tables=2, recoverer=True),
    replace(DELETED, name="full: a branch is deleted", writers=(TWO, TWO)),
    replace(RETIRED, name="full: a branch is retired", writers=(TWO, TWO)),
    replace(LEFTOVER, name="full: a cleaner, a leftover", writers=(TWO, TWO)),
    Scenario("full: leftover, recoverer", (ONE, TWO), recoverer=True, cleaners=1, leftover=True),
]
SHORT = replace(LEFTOVER, clean_from=3)


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    """States are tuples without cycles: a search for cycles among millions of them is wasted."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("scenario", [*SCENARIOS, *(LARGER if FULL else [])], ids=str)
def test_every_interleaving_keeps_every_property(
    scenario: Scenario, record_property: Callable[[str, object], None]
) -> None:
    explorer = scenario.explorer()
    violation = explorer.run()
    assert violation is None, str(violation)
    counts = (explorer.states, explorer.transitions, len(explorer.shared_states))
    record_property("states, transitions, contents of storage", counts)
    assert explorer.states > 300
    if scenario.deleter:
        return
    unsettled = unsettled_states(scenario, explorer.shared_states)
    assert unsettled is None, unsettled
    without_answer = stuck(scenario, explorer)
    assert without_answer is None, without_answer


@pytest.mark.parametrize(
    ("scenario", "broken", "violated"),
    [
        (SHORT, {"look_when_late": False}, "P1: write 1 was acknowledged and is not in"),
        (CLEANED, {"verify_by_listing": False}, "P1: write 2 was acknowledged and is not in"),
        (RECOVERY, {"plans_anew": False}, "P3"),
        (RECOVERY, {"recovery_minds_head": False}, "P3"),
        (RECOVERY, {"recovery_by_transaction": False}, "P3"),
        (RECOVERY, {"outcome_by_lineage": False}, "P1: a commit is twice"),
        (TAGS, {"floor_before_refs": False}, "P3"),
        (TAGS, {"floor_grows": False}, "P3"),
        (TAGS, {"tag_reads_floor": False}, "P3"),
        (DELETED, {"incarnations": False}, "P1: write 1 was acknowledged in another life"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_without_a_rule_a_property_is_violated(
    scenario: Scenario, broken: dict[str, bool], violated: str
) -> None:
    violation = replace(scenario, rules=replace(scenario.rules, **broken)).explorer().run()
    assert violation is not None
    assert violation.problem.startswith(violated), str(violation)


def test_the_paused_writer_that_publishes_a_removed_version_anew_is_found() -> None:
    violation = replace(SHORT, rules=Rules(look_when_late=False)).explorer().run()
    assert violation is not None
    assert violation.trace[-1].startswith("writer 1: publishes version 2 as commit 1, ack")
    assert "cleaner 1: removes manifest version 2" in violation.trace


def test_deleting_a_slot_that_is_another_owners_costs_a_retry_only() -> None:
    scenario = replace(RECOVERY, rules=Rules(check_before_delete=False))
    explorer = scenario.explorer()
    assert explorer.run() is None
    assert unsettled_states(scenario, explorer.shared_states) is None


@pytest.mark.skipif(not FULL, reason="millions of states: OMNIGRAPH_MODEL=full")
@pytest.mark.timeout(3000)
def test_a_lease_alone_does_not_tell_that_a_publish_is_late() -> None:
    scenario = replace(LARGER[0], rules=Rules(late_by_time=False))
    violation = scenario.explorer().run()
    assert violation is not None
    assert violation.problem.startswith("P1: write 1 was acknowledged and is not in")

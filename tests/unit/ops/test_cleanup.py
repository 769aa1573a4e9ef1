"""What a cleanup keeps and what it may remove, decided on histories that are only lists."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.commits import BranchId, GraphCommit, History
from omnigraph.commits.branch_ids import MAIN_BRANCH, new_branch
from omnigraph.commits.records import Record
from omnigraph.errors import BadRequestError
from omnigraph.limits import RETAIN_S, RETAIN_VERSIONS, RETAIN_VERSIONS_MAX
from omnigraph.ops.cleanup import Needed, Retention, needed_versions
from omnigraph.store import Pin

NOW = 1_000_000_000
DEV = new_branch("dev", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
TABLE = "nodes/a"
FORK = f"{TABLE}/tree/{DEV.uid}.01ARZ3NDEKTSV4RRFFQ69G5FAW"


def commit(version: int, *, age_s: float = 0, merged: str | None = None) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=f"c{version}",
        manifest_version=version,
        parent_commit_id=None if version == 1 else f"c{version - 1}",
        merged_parent_commit_id=merged,
        operation_id=f"op{version}",
        created_at_us=NOW - int(age_s * 1e6),
    )


# ---- graph versions -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "kept"),
    [
        (Retention(keep=1, grace_s=0), [5]),
        (Retention(keep=3, grace_s=0), [3, 4, 5]),
        (Retention(keep=9, grace_s=0), [1, 2, 3, 4, 5]),
        (Retention(older_than_s=25, grace_s=0), [4, 5]),
        (Retention(older_than_s=0, grace_s=0), [5]),
        (Retention(keep=1, older_than_s=35, grace_s=0), [3, 4, 5]),
        (Retention(keep=4, older_than_s=15, grace_s=0), [2, 3, 4, 5]),
        (Retention(keep=1, older_than_s=100, most=2, grace_s=0), [4, 5]),
        (Retention(keep=3, older_than_s=100, most=3, grace_s=0), [3, 4, 5]),
        (Retention(keep=1, older_than_s=100, most=9, grace_s=0), [1, 2, 3, 4, 5]),
        (Retention(keep=1, older_than_s=100, most=2, grace_s=25), [3, 4, 5]),
    ],
)
def test_a_version_goes_only_if_both_rules_let_it(retention: Retention, kept: list[int]) -> None:
    commits = [commit(version, age_s=60 - 10 * version) for version in range(1, 6)]
    assert retention.kept(commits, NOW, {}) == kept


def test_what_was_current_a_moment_ago_stays() -> None:
    commits = [commit(1, age_s=900), commit(2, age_s=500), commit(3, age_s=100)]
    retention = Retention(keep=1, grace_s=300)
    assert retention.kept(commits, NOW, {}) == [2, 3]
    # The write of version 2 began long ago, but it was published only now.
    assert retention.kept(commits, NOW, {2: NOW - 1}) == [1, 2, 3]


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=6).map(lambda ages: sorted(ages)[::-1]),
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(0, 300)),
    st.integers(0, 200),
)
def test_rules_only_add_up(ages: list[int], keep: int | None, age: int | None, grace: int) -> None:
    commits = [commit(n + 1, age_s=seconds) for n, seconds in enumerate(ages)]
    found = set(Retention(keep=keep, older_than_s=age, grace_s=grace).kept(commits, NOW, {}))
    assert len(commits) in found
    assert found >= set(Retention(keep=keep, grace_s=0).kept(commits, NOW, {}))
    assert found >= set(Retention(older_than_s=age, grace_s=0).kept(commits, NOW, {}))
    for number, seconds in enumerate(ages[1:], start=1):
        assert (number in found) >= (seconds < grace)


def test_without_rules_the_default_ones_hold() -> None:
    assert Retention.of(None, None) == Retention(
        keep=RETAIN_VERSIONS, older_than_s=RETAIN_S, most=RETAIN_VERSIONS_MAX
    )
    assert Retention.of(3, None).older_than_s is None
    assert Retention.of(None, 5).keep is None


def test_rules_that_would_keep_nothing_are_refused() -> None:
    with pytest.raises(BadRequestError, match="at least one"):
        Retention(keep=0)
    with pytest.raises(BadRequestError, match="negative"):
        Retention(older_than_s=-1)


# ---- versions of tables -------------------------------------------------------------------


@dataclass
class Branch:
    branch: BranchId
    history: History


def pin(seq: int, version: int, path: str = TABLE) -> Pin:
    return Pin(
        table_key="node:A",
        incarnation=1,
        path=path,
        version=version,
        row_count=0,
        transaction_uuid=f"t{seq}",
        seq=seq,
    )


def history(branch: BranchId, *records: Record) -> Branch:
    found = Branch(branch, History())
    found.history.take_in(records)
    return found


MAIN = history(
    MAIN_BRANCH,
    *(item for number in range(1, 6) for item in (pin(number, 10 * number), commit(number))),
)
STORED = range(1, 60)


def test_below_the_oldest_kept_state_only_named_versions_stay() -> None:
    needed = needed_versions([MAIN], [], {MAIN_BRANCH: [4, 5]}, {(MAIN_BRANCH, 2)})
    assert needed.keys == {TABLE: "node:A"}
    gone = needed.removable(TABLE, STORED)
    assert gone == [version for version in STORED if version < 40 and version != 20]


def test_a_branch_keeps_single_versions_of_a_table_it_did_not_write_to() -> None:
    dev = history(DEV, pin(1, 10), commit(1))
    needed = needed_versions([MAIN, dev], [], {MAIN_BRANCH: [5], DEV: [1]}, set())
    assert needed.removable(TABLE, [9, 10, 11, 49, 50, 51]) == [9, 11, 49]


@given(st.integers(1, 5), st.integers(0, 4))
def test_every_state_from_the_oldest_kept_to_the_newest_can_be_read(first: int, more: int) -> None:
    last = min(first + more, 5)
    # A clock that went back makes a window with a gap; its floor lets nobody know.
    dev = history(DEV, *(item for n in range(1, 6) for item in (pin(n, 7 * n), commit(n))))
    windows = {MAIN_BRANCH: [5], DEV: sorted({first, last})}
    needed = needed_versions([MAIN, dev], [], windows, set())
    for version in range(first, last + 1):
        for found in dev.history.pins_at(version).values():
            assert needed.removable(found.path, [found.version]) == []


def test_a_line_of_its_own_has_a_floor_of_its_own() -> None:
    dev = history(DEV, pin(1, 10), commit(1), pin(2, 11, FORK), commit(2), pin(3, 14, FORK))
    needed = needed_versions([MAIN, dev], [], {MAIN_BRANCH: [5], DEV: [3]}, set())
    assert needed.removable(FORK, [10, 11, 13, 14, 15]) == [10, 11, 13]


def test_of_a_deleted_branch_what_was_merged_stays() -> None:
    main = history(MAIN_BRANCH, pin(6, 50), commit(6, merged="c3"))
    dev = history(DEV, *(r for n in (2, 3, 4) for r in (pin(n, n, FORK), commit(n))))
    needed = needed_versions([main], [dev], {MAIN_BRANCH: [6]}, {(DEV, 4)})
    assert needed.single[FORK] == {3, 4}


def test_a_dataset_without_a_floor_loses_nothing() -> None:
    needed = Needed()
    needed.keep(TABLE, 3)
    assert needed.removable(TABLE, STORED) == []
    needed.keep_from(TABLE, 5)
    needed.keep_from(TABLE, 7)
    assert needed.removable(TABLE, range(1, 9)) == [1, 2, 4]

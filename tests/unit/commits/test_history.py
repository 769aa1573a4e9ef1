"""The manifest folded in memory: newest by publish order, whatever order rows arrive in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.commits import GraphCommit, History, TableRecord
from omnigraph.commits.records import Record
from omnigraph.store import Pin


def pin(key: str, seq: int, version: int, *, incarnation: int = 1, rows: int = 0) -> Pin:
    return Pin(
        table_key=key,
        incarnation=incarnation,
        path=f"nodes/{key}-{incarnation}",
        version=version,
        row_count=rows,
        transaction_uuid=f"{key}-{seq}",
        seq=seq,
    )


def commit(seq: int) -> GraphCommit:
    return GraphCommit(
        graph_commit_id=f"c{seq:03d}",
        manifest_version=seq,
        parent_commit_id=None if seq == 1 else f"c{seq - 1:03d}",
        operation_id=f"op{seq}",
    )


HISTORY: list[Record] = [
    TableRecord(table_key="node:A", incarnation=1, path="nodes/a", seq=1),
    TableRecord(table_key="node:B", incarnation=1, path="nodes/b", seq=1),
    pin("node:A", 1, 1),
    pin("node:B", 1, 1),
    commit(1),
    pin("node:A", 2, 2, rows=1),
    commit(2),
    pin("node:A", 3, 5, rows=2),
    pin("node:B", 3, 2, rows=9),
    commit(3),
    commit(4),
    # A restored table: a later publish, also when its number were smaller.
    pin("node:B", 5, 4, rows=7),
    commit(5),
]
VERSIONS = {
    1: {"node:A": 1, "node:B": 1},
    2: {"node:A": 2, "node:B": 1},
    3: {"node:A": 5, "node:B": 2},
    4: {"node:A": 5, "node:B": 2},
    5: {"node:A": 5, "node:B": 4},
}


def folded(records: list[Record]) -> History:
    history = History()
    history.take_in(records)
    return history


def assert_same(left: History, right: History) -> None:
    for version in VERSIONS:
        assert left.pins_at(version) == right.pins_at(version)
        assert list(left.pins_at(version)) == sorted(left.pins_at(version))
        assert left.head_at(version) == right.head_at(version)
        assert list(left.oldest_first(0, version)) == list(right.oldest_first(0, version))
    assert left.commits == right.commits
    for version in VERSIONS:
        assert left.commit_of(f"op{version}") == right.commit_of(f"op{version}")


def test_every_version_has_its_pins_and_its_head() -> None:
    history = folded(HISTORY)
    for version, expected in VERSIONS.items():
        assert {k: p.version for k, p in history.pins_at(version).items()} == expected
        assert history.head_at(version) == commit(version)
        assert [c.manifest_version for c in history.oldest_first(0, version)] == list(
            range(1, version + 1)
        )


@given(order=st.permutations(HISTORY))
def test_the_order_of_arrival_does_not_matter(order: list[Record]) -> None:
    assert_same(folded(order), folded(HISTORY))


@given(again=st.lists(st.sampled_from(HISTORY), max_size=20))
def test_folding_a_row_twice_changes_nothing(again: list[Record]) -> None:
    history = folded(HISTORY)
    history.take_in(again)
    assert_same(history, folded(HISTORY))


@given(cut=st.integers(0, len(HISTORY)))
def test_folding_in_parts_equals_folding_at_once(cut: int) -> None:
    history = folded(HISTORY[:cut])
    history.take_in(HISTORY[cut:])
    assert_same(history, folded(HISTORY))


def test_newest_is_decided_by_publish_order_not_by_table_version() -> None:
    history = folded([commit(1), pin("node:A", 1, 9), pin("node:A", 2, 3), commit(2)])
    assert history.pins_at(2)["node:A"].version == 3
    assert history.pins_at(1)["node:A"].version == 9


def test_a_newer_incarnation_hides_the_older_one() -> None:
    history = folded(
        [commit(1), pin("node:A", 1, 40), pin("node:A", 2, 1, incarnation=2), commit(2)]
    )
    assert history.pins_at(1)["node:A"].incarnation == 1
    assert history.pins_at(2)["node:A"].path == "nodes/node:A-2"


def test_an_operation_is_found_by_its_id() -> None:
    history = folded(HISTORY)
    assert history.commit_of("op3") == commit(3)
    assert history.commit_of("op9") is None


def test_a_table_that_was_not_published_yet_is_absent() -> None:
    history = folded([commit(1), replace(pin("node:A", 2, 1)), commit(2)])
    assert history.pins_at(1) == {}

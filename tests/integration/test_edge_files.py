"""Edges as numbers in files beside the tables: a query is faster by them, and never wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.ops import cleanup
from omnigraph.read import edge_files
from omnigraph.store import measured

pytestmark = pytest.mark.local

SCHEMA = """\
node Person { name: String @key }
node Town { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
PAIRS = "query q() { match { $a knows $b } return { $a, $b } order { $a, $b } }"
QUERIES = {
    "pairs": PAIRS,
    "edges": """query q() { match { $a $k:knows $b } return { $a, $b, $k.since }
        order { $a, $b, $k.since } }""",
    "back": """query q() { match { $t: Town  $t livesIn $a  $b knows $a }
        return { $a, count(*) as n } order { $a } }""",
    "either": "query q() { match { $a <knows> $b } return { $a, $b } order { $a, $b } }",
    "two types": "query q() { match { $a knows $b  $b livesIn $t } return { $a, $t } "
    "order { $a, $t } }",
    "hops": "query q() { match { $a knows{1,3} $b } return { $a, $b } order { $a, $b } }",
}
NAMES = [f"p{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_files, "EDGE_FILE_ROWS_MIN", 2)


def knows(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"edge": "Knows", "from": one, "to": two, "data": {"since": number}}
        for number, (one, two) in enumerate(pairs)
    ]


FIRST = (("p0", "p1"), ("p1", "p2"), ("p0", "p1"), ("p2", "p2"), ("p3", "p0"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [{"type": "Person", "data": {"name": name}} for name in NAMES]
    rows += [{"type": "Town", "data": {"name": "t"}}, *knows(*FIRST)]
    rows += [{"edge": "LivesIn", "from": name, "to": "t"} for name in NAMES[:3]]
    with og.init(tmp_path / "g", SCHEMA, durability="none") as graph:
        graph.load(rows, mode="append")
        graph.optimize()
    return tmp_path / "g"


def files_of(place: Path) -> list[Path]:
    return sorted((place / "_edges").rglob("*.edges"))


def answers(place: Path, **where: Any) -> tuple[dict[str, list[Any]], int, int]:
    """Return what a process that knows nothing answers, and how often it read ids and files."""
    with og.open(place, mode="ro") as graph, measured() as io:
        found = {name: graph.query(text, **where).to_pylist() for name, text in QUERIES.items()}
    return found, io["topology_builds"], io["edge_files_read"]


@pytest.fixture
def same(place: Path) -> Callable[..., tuple[int, int]]:
    """Compare the answers with those without files; return how often ids and files were read."""

    def compare(**where: Any) -> tuple[int, int]:
        found, builds, reads = answers(place, **where)
        kept = {path: path.read_bytes() for path in files_of(place)}
        for path in kept:
            path.unlink()
        plain, without, none = answers(place, **where)
        assert (found, none) == (plain, 0)
        assert without >= builds
        for path, data in kept.items():
            path.write_bytes(data)
        return builds, reads

    return compare


Same = Callable[..., tuple[int, int]]


def test_a_new_process_does_not_look_for_ids(place: Path, same: Same) -> None:
    assert len(files_of(place)) == 2
    assert same() == (0, 2)


def test_rows_that_were_added_are_put_into_it(place: Path, same: Same) -> None:
    with og.open(place, upkeep=False) as graph:
        graph.load(
            [
                {"type": "Person", "data": {"name": "new"}},
                *knows(("new", "p0"), ("p0", "new"), ("p0", "p1")),
            ],
            mode="append",
        )
    assert same() == (0, 2)
    with og.open(place, mode="ro") as graph:
        assert {"a": "new", "b": "p0"} in graph.query(PAIRS).to_pylist()


@pytest.mark.parametrize(
    "change",
    [
        'query m() { delete Knows where from = "p0" }',
        'query m() { delete Person where name = "p2" }',
        "query m() { update Knows set { since: 7 } where since = 1 }",
    ],
)
def test_rows_that_are_gone_or_moved_make_it_useless(place: Path, same: Same, change: str) -> None:
    with og.open(place, upkeep=False) as graph:
        graph.mutate(change)
    builds, _reads = same()
    assert builds >= 1
    with og.open(place) as graph:
        graph.optimize()
    assert same() == (0, 2)


def test_states_and_branches_are_answered_as_they_are(place: Path, same: Same) -> None:
    with og.open(place, upkeep=False) as graph:
        first = graph.commits.head().graph_commit_id
        graph.branches.create("b")
        graph.load(knows(("p4", "p5")), mode="append", branch="b")
        graph.mutate('query m() { delete Knows where from = "p3" }')
        graph.optimize()
        graph.maintenance.ensure_indices(branch="b")
    assert same() == (0, 2)
    same(commit=first)
    same(branch="b")
    with og.open(place, mode="ro") as graph:
        assert {"a": "p4", "b": "p5"} in graph.query(PAIRS, branch="b").to_pylist()
        assert {"a": "p3", "b": "p0"} in graph.query(PAIRS, commit=first).to_pylist()
        assert {"a": "p3", "b": "p0"} not in graph.query(PAIRS).to_pylist()


def flipped_at(share: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        at = int(len(data) * share)
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        flipped_at(0.01),
        flipped_at(0.1),
        lambda data: data[:20],
        lambda _data: b"",
        lambda _data: b"x" * 99,
    ],
)
def test_a_file_with_a_damaged_head_is_passed_over(
    place: Path, same: Same, damage: Callable[[bytes], bytes]
) -> None:
    for path in files_of(place):
        path.write_bytes(damage(path.read_bytes()))
    assert same() == (2, 0)


def test_of_a_file_with_a_damaged_part_the_rest_is_used(place: Path, same: Same) -> None:
    for path in files_of(place):
        path.write_bytes(path.read_bytes()[:-1])
    assert same() == (0, 2)


def test_every_byte_is_covered(place: Path) -> None:
    path = max(files_of(place), key=lambda item: item.stat().st_size)
    whole = path.read_bytes()
    expected = answers(place)[0]
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert answers(place)[0] == expected, at


def test_a_file_about_another_table_is_passed_over(place: Path, same: Same) -> None:
    one, two = files_of(place)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert same() == (2, 0)


def test_a_file_that_is_replaced_under_a_reader_changes_nothing(place: Path) -> None:
    with og.open(place, mode="ro") as reader:
        before = reader.query(PAIRS).to_pylist()
        with og.open(place, upkeep=False) as graph:
            graph.mutate('query m() { delete Knows where from = "p0" }')
            graph.optimize()
            graph.cleanup(keep=1, grace=0, dry_run=False)
            graph.load(knows(("p5", "p0")), mode="append")
        # It knew the pairs of one direction only; the rest of its file is another's now.
        after = reader.query(QUERIES["edges"]).to_pylist()
    assert {(row["a"], row["b"]) for row in after} == (
        {(row["a"], row["b"]) for row in before} - {("p0", "p1")} | {("p5", "p0")}
    )


def test_a_file_is_written_anew_only_when_it_no_longer_serves(place: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in files_of(place)}
    with og.open(place, upkeep=False) as graph:
        graph.load(knows(("p5", "p0")), mode="append")
        graph.maintenance.ensure_indices()
    assert {path: path.stat().st_mtime_ns for path in files_of(place)} == before


def test_a_cleanup_removes_the_file_of_a_dropped_type(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "ORPHAN_AGE_S", -1)
    left = max(files_of(place), key=lambda item: item.stat().st_size)
    with og.open(place, upkeep=False) as graph:
        graph.cleanup(keep=1, grace=0, dry_run=False)
        assert len(files_of(place)) == 2
        graph.schema.apply(
            SCHEMA.replace("edge LivesIn: Person -> Town\n", ""), allow_data_loss=True
        )
        graph.cleanup(keep=1, grace=0, dry_run=False)
    assert files_of(place) == [left]


ENDS = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))
CHANGES = st.one_of(
    st.tuples(st.just("add"), st.lists(ENDS, min_size=1, max_size=4)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("person"), st.integers(0, 99)),
    st.tuples(st.just("optimize"), st.none()),
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=st.lists(CHANGES, min_size=1, max_size=6))
def test_any_history_is_answered_as_without_files(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, Any]]
) -> None:
    place = tmp_path_factory.mktemp("history") / "g"
    rows: list[dict[str, Any]] = [{"type": "Person", "data": {"name": name}} for name in NAMES]
    with og.init(place, SCHEMA, durability="none") as graph:
        graph.load([*rows, *knows(*FIRST)], mode="append")
        graph.optimize()
        for kind, value in changes:
            match kind:
                case "add":
                    graph.load(knows(*value), mode="append")
                case "delete":
                    graph.mutate(f'query m() {{ delete Knows where from = "{value}" }}')
                case "person":
                    person = {"type": "Person", "data": {"name": f"q{value}"}}
                    graph.load([person], mode="merge")
                case _:
                    graph.optimize()
            with og.open(place, mode="ro") as fresh:
                found = fresh.query(PAIRS).to_pylist()
            assert found == graph.query(PAIRS).to_pylist()
    kept = answers(place)[0]
    for path in files_of(place):
        path.unlink()
    assert answers(place)[0] == kept

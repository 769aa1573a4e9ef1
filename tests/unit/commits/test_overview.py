"""Branches side by side: what one has that another has not, and an order for all commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.commits import GraphCommit
from omnigraph.commits.ancestry import ancestors, beyond, children_first

Parents = tuple[int | None, int | None]


def commits(parents: list[Parents], times: list[int]) -> dict[str, GraphCommit]:
    """Make commits named by their number; parents are earlier ones, times may lie."""
    return {
        str(number): GraphCommit(
            graph_commit_id=str(number),
            manifest_version=number + 1,
            parent_commit_id=None if first is None else str(first),
            merged_parent_commit_id=None if second is None else str(second),
            created_at_us=times[number],
        )
        for number, (first, second) in enumerate(parents)
    }


@st.composite
def histories(draw: st.DrawFn) -> dict[str, GraphCommit]:
    size = draw(st.integers(1, 12))
    parents: list[Parents] = []
    for number in range(size):
        earlier = st.none() if number == 0 else st.none() | st.integers(0, number - 1)
        first = None if number == 0 else draw(st.integers(0, number - 1))
        parents.append((first, draw(earlier)))
    return commits(parents, draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)))


def _find(known: dict[str, GraphCommit], name: str) -> GraphCommit | None:
    return known.get(name)


@given(histories())
def test_no_commit_stands_before_one_that_grew_from_it(known: dict[str, GraphCommit]) -> None:
    order = [item.graph_commit_id for item in children_first(known)]
    assert sorted(order) == sorted(known)
    for place, name in enumerate(order):
        for parent in (known[name].parent_commit_id, known[name].merged_parent_commit_id):
            assert parent is None or order.index(parent) > place


def test_of_commits_that_are_not_related_the_newest_stands_first() -> None:
    known = commits([(None, None), (0, None), (0, None)], [0, 5, 9])
    assert [item.graph_commit_id for item in children_first(known)] == ["2", "1", "0"]


@given(histories(), st.data())
def test_ahead_is_what_only_one_side_grew_from(
    known: dict[str, GraphCommit], data: st.DataObject
) -> None:
    names = st.sampled_from(sorted(known))
    ours, theirs = known[data.draw(names)], known[data.draw(names)]

    def find(name: str, _branch: str | None) -> GraphCommit | None:
        return _find(known, name)

    base = ancestors([theirs], find)
    all_ours = ancestors([ours], find)
    ahead, met = beyond([ours], base, find)
    assert {item.graph_commit_id for item in ahead} == set(all_ours) - set(base)
    assert set(ancestors(met, find)) == set(all_ours) & set(base)


def test_a_parent_that_is_not_known_ends_a_path() -> None:
    known = commits([(None, None), (0, None)], [0, 1])
    del known["0"]
    assert set(ancestors([known["1"]], lambda name, _: known.get(name))) == {"1"}
    assert [item.graph_commit_id for item in children_first(known)] == ["1"]

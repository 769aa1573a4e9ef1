"""Where two histories parted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from omnigraph.commits import GraphCommit, OwnHistory, lines_in_use, merge_bases


def history(**parents: str) -> dict[str, GraphCommit]:
    """Make commits from `name="parent other"`; their order is their version."""
    found = {}
    for version, (name, text) in enumerate(parents.items(), start=1):
        first, second, *_ = [*text.split(), None, None]
        found[name] = GraphCommit(
            graph_commit_id=name,
            manifest_version=version,
            parent_commit_id=first,
            merged_parent_commit_id=second,
        )
    return found


def bases(commits: dict[str, GraphCommit], source: str, target: str) -> list[str]:
    """Return the best common ancestors of two sides, each the names of one or more heads."""
    sides = [[commits[name] for name in side.split()] for side in (source, target)]
    found = merge_bases(sides[0], sides[1], lambda name, _: commits.get(name))
    return [item.graph_commit_id for item in found]


def base(commits: dict[str, GraphCommit], source: str, target: str) -> str | None:
    found = bases(commits, source, target)
    assert len(found) <= 1
    return found[0] if found else None


def test_a_commit_is_its_own_base() -> None:
    assert base(history(a="", b="a"), "b", "b") == "b"


def test_an_ancestor_is_the_base() -> None:
    commits = history(a="", b="a", c="b")
    assert base(commits, "c", "a") == base(commits, "a", "c") == "a"


def test_the_fork_is_the_base() -> None:
    assert base(history(a="", b="a", c="b", d="b", e="d"), "c", "e") == "b"


def test_a_merge_moves_the_base_forward() -> None:
    commits = history(a="", s1="a", t1="a", m="t1 s1", s2="s1", t2="m")
    assert base(commits, "s2", "t2") == "s1"


def test_crossing_merges_leave_two_bases_the_nearest_and_of_equals_the_newest_first() -> None:
    commits = history(a="", s1="a", t1="a", s2="s1 t1", t2="t1 s1", s3="s2", t3="t2")
    assert bases(commits, "s3", "t3") == ["t1", "s1"]
    assert bases(commits, "t3", "s3") == ["t1", "s1"]
    assert bases(commits, "s1", "t1") == ["a"]


def test_heads_taken_together_have_the_ancestors_of_each() -> None:
    commits = history(a="", b="a", c="b", d="a", e="d c")
    assert bases(commits, "b d", "e") == ["d", "b"]
    assert bases(commits, "c", "b d") == ["b"]


def test_a_nearer_ancestor_of_a_common_ancestor_is_no_base() -> None:
    """Or what both took from `s`, and one removed again, would come back."""
    commits = history(a="", s="a", b="a s", m="a b", drop="m", other="a s")
    assert base(commits, "other", "drop") == base(commits, "drop", "other") == "s"


@given(st.data())
def test_all_common_ancestors_are_found_that_no_other_grew_from(data: st.DataObject) -> None:
    names = [f"c{number}" for number in range(data.draw(st.integers(2, 14)))]
    parents = {"c0": ""}
    for number in range(1, len(names)):
        drawn = data.draw(
            st.lists(st.sampled_from(names[:number]), min_size=1, max_size=2, unique=True)
        )
        parents[names[number]] = " ".join(drawn)
    clocks = data.draw(st.lists(st.integers(0, 20), min_size=len(names), max_size=len(names)))
    commits = {
        name: replace(commit, created_at_us=clock)
        for (name, commit), clock in zip(history(**parents).items(), clocks, strict=True)
    }
    above: dict[str, set[str]] = {}
    for name in names:
        above[name] = {name}.union(*(above[parent] for parent in parents[name].split()))
    heads = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    source, target = data.draw(heads), data.draw(heads)
    common = set().union(*(above[n] for n in source)) & set().union(*(above[n] for n in target))
    best = {name for name in common if not any(name in above[o] - {o} for o in common)}
    found = bases(commits, " ".join(source), " ".join(target))
    assert (set(found), len(found)) == (best, len(best))


def test_the_sum_of_both_ways_counts() -> None:
    commits = history(a="", b="a", x="a", y="x", s="b x", t="y")
    assert base(commits, "s", "t") == "x"


def test_commits_that_are_gone_are_passed_over() -> None:
    commits = history(a="", s1="a", t1="a", m="t1 s1", n="a s1")
    del commits["s1"]
    assert base(commits, "m", "n") == "a"


def test_strangers_have_no_base() -> None:
    assert base(history(a="", b=""), "a", "b") is None


def test_a_long_history_is_walked_without_recursion() -> None:
    commits = history(c0="", **{f"c{n}": f"c{n - 1}" for n in range(1, 5_000)})
    assert base(commits, "c4999", "c10") == "c10"


def line(branch: str, parent: str | None, *merged: str) -> OwnHistory:
    """Return a branch made from another, with merges of others into it."""
    return OwnHistory(branch=branch, parent=parent, merged=merged)


def test_a_branch_that_met_one_other_only_is_not_needed() -> None:
    assert lines_in_use([line("main", None, "dev")], [line("dev", "main", "main")]) == set()


def test_a_branch_merged_into_two_living_ones_is_needed() -> None:
    live = [line("main", None, "dev"), line("other", "main", "dev")]
    assert lines_in_use(live, [line("dev", "main")]) == {"dev"}


def test_a_way_through_several_retired_branches_is_kept_whole() -> None:
    live = [line("main", None, "d"), line("other", "main", "e")]
    assert lines_in_use(live, [line("d", "main", "e"), line("e", "main")]) == {"d", "e"}


def test_a_branch_made_from_one_and_merged_into_another_joins_them() -> None:
    live = [line("main", None, "d"), line("x", "main")]
    assert lines_in_use(live, [line("d", "x")]) == {"d"}


def test_retired_branches_that_only_met_main_and_each_other_go_together() -> None:
    retired = [line("x", "main"), line("d", "x", "x"), line("e", "d", "x")]
    assert lines_in_use([line("main", None, "d", "e", "x")], retired) == set()


def test_the_branch_a_needed_one_was_made_from_stays_with_it() -> None:
    live = [line("main", None, "d"), line("other", "main", "d")]
    assert lines_in_use(live, [line("p", "main"), line("d", "p")]) == {"p", "d"}

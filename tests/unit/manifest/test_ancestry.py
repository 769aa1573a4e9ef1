"""Where two histories parted."""

from __future__ import annotations

from omnigraph.manifest import GraphCommit, merge_base


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


def base(commits: dict[str, GraphCommit], source: str, target: str) -> str | None:
    found = merge_base(commits[source], commits[target], commits.get)
    return None if found is None else found.graph_commit_id


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


def test_a_criss_cross_takes_the_nearest_and_of_equals_the_newest() -> None:
    commits = history(a="", s1="a", t1="a", s2="s1 t1", t2="t1 s1", s3="s2", t3="t2")
    assert base(commits, "s3", "t3") == "t1"
    assert base(commits, "t3", "s3") == "t1"


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

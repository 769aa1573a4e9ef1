"""A graph whose older commits are not held answers about them as one that holds them all."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.ops import compact_tail
from omnigraph.store.tables import journal, version_runs

SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }"
ADD = "query add($n: String) { insert Person { name: $n, age: 1 } }"
AGE = "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
GONE = "query gone($n: String) { delete Person where name = $n }"
FOUND = "query found($n: String) { insert City { name: $n } }"
PEOPLE = 40


@pytest.fixture(autouse=True, scope="module")
def _short_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "JOURNAL_TIER_BASE", 3)
        patch.setattr(journal, "CHECKPOINT_ROWS", 12)
        patch.setattr(compact_tail, "TAIL_FRAGMENTS", 5)
        patch.setattr(version_runs, "VERSION_RUNS_MAX", 2)
        yield


class Story:
    """A graph, and which commit each step of it made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[str, og.GraphCommit] = {}
        with og.init(root, SCHEMA, durability="none") as graph:
            self._step(graph, "city", FOUND, {"n": "Rome"})
            for number in range(PEOPLE):
                self._step(graph, f"p{number}", ADD, {"n": f"p{number}"})
                if number % 10 == 7:
                    self._step(graph, f"older{number}", AGE, {"n": f"p{number - 3}", "a": number})
            self._step(graph, "gone", GONE, {"n": "p5"})
            for number in range(PEOPLE):
                self._step(graph, f"q{number}", ADD, {"n": f"q{number}"})

    def _step(self, graph: og.Graph, name: str, text: str, values: dict[str, object]) -> None:
        done = graph.mutate(text, values, operation_id=name)
        assert done.commit is not None
        self.made[name] = done.commit

    def open(self) -> og.Graph:
        return og.open(self.root, durability="none")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("long") / "g")


@pytest.fixture
def graph(story: Story) -> Iterator[og.Graph]:
    with story.open() as found:
        recent = found._engine.lines.main.manifest.history.recent
        assert len(recent.commits) < 30 < len(story.made)
        yield found


def test_every_operation_is_recognised_when_it_is_repeated(story: Story, graph: og.Graph) -> None:
    head = graph.commits.head()
    for name in ("city", "p0", "older7", "p20", "gone", f"q{PEOPLE - 1}"):
        again = graph.mutate(ADD, {"n": f"again {name}"}, operation_id=name)
        assert again.commit == story.made[name]
    assert graph.commits.head() == head


def test_blame_finds_the_commit_of_a_row_however_old(story: Story, graph: og.Graph) -> None:
    assert graph.commits.last_change("City", "Rome") == story.made["city"]
    for number in range(0, PEOPLE, 3):
        changed = f"older{number + 3}" if number % 10 == 4 else f"p{number}"
        assert graph.commits.last_change("Person", f"p{number}") == story.made[changed]
    assert graph.commits.last_change("Person", "p5") == story.made["gone"]
    assert graph.commits.last_change("Person", "nobody") is None


def test_lists_states_and_moments_of_the_past(story: Story, graph: og.Graph) -> None:
    commits = graph.commits.list()
    assert len(commits) == commits[0].manifest_version == graph.snapshot().version
    assert commits[0].graph_commit_id == graph.commits.head().graph_commit_id
    assert graph.commits.list(limit=3) == commits[:3]
    for name in ("p0", "p17", "gone", "q3"):
        commit = story.made[name]
        assert graph.commits.get(commit.graph_commit_id) == commit
        there = graph.snapshot(commit=commit.graph_commit_id)
        assert there.version == commit.manifest_version
        moment = datetime.datetime.fromtimestamp(commit.created_at_us / 1e6, datetime.UTC)
        assert commit in graph.commits.list(since=moment, until=moment)
    with pytest.raises(og.BadRequestError, match="negative"):
        graph.commits.list(limit=-1)


def test_the_feed_goes_through_all_of_it_in_order(graph: og.Graph) -> None:
    told: list[str] = []
    page = graph.feed.poll("beginning", limit=7)
    while True:
        told += [block.commit.graph_commit_id for block in page.blocks]
        if page.caught_up:
            break
        page = graph.feed.poll(cursor=page.cursor, page_token=page.next_page_token, limit=7)
    assert told == [commit.graph_commit_id for commit in graph.commits.list()][::-1]


def test_a_branch_of_an_old_state_can_be_written_to_and_merged(tmp_path: Path) -> None:
    story = Story(tmp_path / "g")
    with story.open() as graph:
        old = story.made["p9"].graph_commit_id
        graph.branches.create("side", old)
        graph.mutate(ADD, {"n": "aside"}, branch="side")
        assert graph.commits.list("side")[1].graph_commit_id == old
        graph.branches.merge("side", "main")
        blamed = graph.commits.last_change("Person", "aside")
        assert blamed is not None
        assert blamed.merged_parent_commit_id == graph.commits.head("side").graph_commit_id
        assert graph.commits.last_change("Person", "p3") == story.made["p3"]

"""A history whose older part is read when asked for says what it says when all of it is held."""

from __future__ import annotations

import random
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from omnigraph.commits import GraphCommit, History, ManifestReader, TableRecord, Tombstone
from omnigraph.commits import past as past_module
from omnigraph.commits.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from omnigraph.commits.groups import Group, GroupMember, RowIds
from omnigraph.commits.manifest_reader import GraphReplacedError
from omnigraph.commits.records import (
    Record,
    TableEntry,
    decode,
    encode,
    manifest_schema,
    published_after,
)
from omnigraph.ids import UlidSource
from omnigraph.store import Journal, Pin, StaleJournal, locate, measured
from omnigraph.store.tables import journal as journal_module

STAMP = 4
TABLES = {"node:A": 1, "node:B": 2, "edge:C": 3}
PUBLISHES = 120
QUIET = "node:B"
"""A table that is hardly ever written to."""


@pytest.fixture(autouse=True, scope="module")
def _short_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_module, "JOURNAL_TIER_BASE", 3)
        patch.setattr(journal_module, "CHECKPOINT_ROWS", 12)
        patch.setattr(past_module, "COMMITS_HELD_MAX", 16)
        yield


class Line:
    """A manifest that is written as the publisher writes it."""

    def __init__(self, root: Path) -> None:
        self.journal = Journal(locate(root), "__manifest")
        self.ids = UlidSource()
        self.clock = 1_000
        self.chance = random.Random(4)  # noqa: S311 - a fixed sequence
        self.versions = dict.fromkeys(TABLES, 1)
        tables = [
            TableRecord(table_key=key, incarnation=number, path=f"t/{key}", seq=1)
            for key, number in TABLES.items()
        ]
        pins = [self.pin(key, 1) for key in TABLES]
        rows = encode([*tables, *pins, self.commit(1, None, 0)], manifest_schema(STAMP))
        self.journal.create(rows, {})
        self.reader = self.open()

    def open(self) -> ManifestReader:
        return ManifestReader(self.journal, stamp=STAMP)

    def pin(self, key: str, seq: int) -> Pin:
        return Pin(
            table_key=key,
            incarnation=TABLES[key],
            path=f"t/{key}",
            version=self.versions[key],
            row_count=seq,
            transaction_uuid=f"{key}@{seq}",
            seq=seq,
        )

    def commit(self, seq: int, parent: str | None, place: int) -> GraphCommit:
        # Clocks of several writers: mostly later, now and then earlier.
        self.clock += self.chance.choice((-40, 5, 10, 20, 30))
        return GraphCommit(
            graph_commit_id=self.ids.next(),
            manifest_version=seq,
            parent_commit_id=parent,
            operation_id=f"op {seq} '{place}\"",
            created_at_us=self.clock,
            kind="optimize" if seq % 7 == 0 else "mutation",
            place=place,
        )

    def publish(self, keys: list[str], members: int = 1) -> None:
        """Publish one or several commits that move tables, each by one version or more."""
        reader = self.reader
        capture = reader.capture()
        seq = capture.version + 1
        entries: list[TableEntry] = []
        for key in keys:
            self.versions[key] += 1 + seq % 2
            entries.append(self.pin(key, seq))
        records: list[Record] = [*entries]
        commits: list[GraphCommit] = []
        for place in range(members):
            parent = commits[-1] if commits else capture.head
            commits.append(self.commit(seq, parent.graph_commit_id, place))
        records += commits
        if members > 1:
            touched = {keys[0]: RowIds(added=(f"row{seq}",))}
            chain = [GroupMember(commit_id=c.graph_commit_id, touched={}) for c in commits[1:]]
            first = GroupMember(commit_id=commits[0].graph_commit_id, touched=touched)
            records.append(Group(seq=seq, members=(first, *chain)))
        if self.journal.is_next_long(capture.view, len(records)):
            pins = published_after(capture.pins, entries)
            found = reader.history.checkpoint(seq, pins, commits)
            assert found is not None
            records.append(found)
        staged = self.journal.stage(capture.view, encode(records, capture.view.dataset.schema))
        view, _file = self.journal.append(staged, {})
        reader.adopt(view, records)

    def grow(self, publishes: int, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - a fixed sequence
        for number in range(publishes):
            keys = [k for k in TABLES if k != QUIET and chance.random() < 0.6]
            keys += [QUIET] if number % 50 == 40 else []
            members = chance.choice((1, 1, 3)) if keys else 1
            self.publish(keys, members)

    def everything(self) -> list[Record]:
        view = self.journal.open_latest()
        return [item for rows in self.journal.unread_rows(view, set()) for item in decode(rows)]


@pytest.fixture(params=(1, 2), scope="module")
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A history that is only read."""
    found = Line(tmp_path_factory.mktemp("line"))
    found.grow(PUBLISHES, seed=request.param)
    return found


@pytest.fixture
def growing(tmp_path: Path) -> Line:
    found = Line(tmp_path)
    found.grow(40, seed=3)
    return found


def all_held(line: Line) -> History:
    found = History()
    found.take_in(line.everything())
    return found


def readers(line: Line) -> list[History]:
    """The history of the handle that wrote it, and of one that was opened just now."""
    return [line.reader.history, line.open().history]


def test_most_of_the_history_is_not_held(line: Line) -> None:
    for history in readers(line):
        assert history.recent.floor > 0
        assert len(history.recent.commits) < 40


def test_states_and_heads_are_those_of_the_whole_history(line: Line) -> None:
    whole = all_held(line)
    for history in readers(line):
        for version in range(PUBLISHES + 1, 0, -1):
            assert history.pins_at(version) == whole.pins_at(version)
            assert history.head_at(version) == whole.head_at(version)
            assert history.is_group(version) == whole.is_group(version)
        assert history.pins_at(0) == {}


def test_commits_are_found_by_id_and_by_operation(line: Line) -> None:
    whole = all_held(line)
    for history in readers(line):
        for name, commit in whole.commits.items():
            assert history.commits[name] == commit
            assert history.commit_of(commit.operation_id) == commit
            assert history.is_last(commit) == whole.is_last(commit)
            assert history.group_of(commit) == whole.group_of(commit)
        assert history.commits.get(line.ids.next()) is None
        assert history.commits.get("no 'id'") is None
        assert history.commit_of("never") is None


def test_commits_are_found_by_how_their_ids_begin(line: Line) -> None:
    for history in readers(line):
        for name, commit in list(all_held(line).commits.items())[::-11]:
            assert history.starting_with(name) == [commit]
        assert history.starting_with(line.ids.next()) == []


def test_a_commit_that_arrives_while_it_is_looked_for_is_no_failure(growing: Line) -> None:
    reader = growing.open()
    before = History(reader._past, reader.history.recent.to(reader.view.version))
    growing.publish(["node:A"])
    new = reader.capture().head.graph_commit_id
    assert before.find(new) is None
    assert before.starting_with(new) == []


def test_commits_and_tables_are_gone_through_while_others_arrive(growing: Line) -> None:
    history, head = History(), growing.reader.capture().head
    pin = growing.pin("node:A", 1)
    done = threading.Event()

    def write() -> None:
        for number in range(1, 2_000):
            name = growing.ids.next()
            commit = replace(head, graph_commit_id=name, manifest_version=number)
            history.take_in([replace(pin, incarnation=number, seq=number), commit])
        done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer = threading.Thread(target=write)
    try:
        writer.start()
        while not done.is_set():
            assert history.starting_with("?") == []
            assert list(history.pins_back(0, 2_000)) == []
    finally:
        writer.join()
        sys.setswitchinterval(interval)


def test_an_operation_is_not_looked_for_in_the_past_unless_asked_to(line: Line) -> None:
    history = line.open().history
    first = history.head_at(1)
    with measured() as io:
        assert history.commit_of(first.operation_id, past=False) is None
    assert io["manifest_scans"] == 0


def test_commits_come_in_order_from_both_ends(line: Line) -> None:
    whole = list(all_held(line).oldest_first(0, PUBLISHES + 1))
    for history in readers(line):
        for after, to in ((0, PUBLISHES + 1), (3, 50), (60, 61), (7, 7)):
            wanted = [c for c in whole if after < c.manifest_version <= to]
            assert list(history.oldest_first(after, to)) == wanted
            if after == 0:
                assert list(history.newest_first(to)) == wanted[::-1]
        heads = history.heads_between(5, PUBLISHES + 1)
        assert heads == all_held(line).heads_between(5, PUBLISHES + 1)


def test_commits_of_a_time_are_found_though_clocks_differ(line: Line) -> None:
    whole = list(all_held(line).oldest_first(0, PUBLISHES + 1))[::-1]
    moments = sorted({commit.created_at_us for commit in whole})
    for history in readers(line):
        for since, until in ((moments[3], moments[9]), (moments[-4], None), (None, moments[2])):
            wanted = [
                c
                for c in whole
                if (since is None or c.created_at_us >= since)
                and (until is None or c.created_at_us <= until)
            ]
            found = history.newest_first(PUBLISHES + 1, since_us=since, until_us=until)
            assert list(found) == wanted


def test_tables_are_followed_back(line: Line) -> None:
    whole = all_held(line)
    newest = whole.pins_at(PUBLISHES + 1)
    for history in readers(line):
        for pin in newest.values():
            back = list(history.pins_back(pin.incarnation, pin.seq))
            assert back == list(whole.pins_back(pin.incarnation, pin.seq))
            assert back[-1].seq == 1
            for item in back[:: max(len(back) // 9, 1)]:
                assert history.grew_from(pin, item)
                assert not history.grew_from(item, pin) or item == pin
                for version in (item.version, item.version - 1):
                    assert history.first_pin(pin, version) == whole.first_pin(pin, version)
                later = [number for number in back if number.seq >= item.seq][-2:]
                for known in later:
                    first = history.first_pin(known, known.version)
                    assert first == whole.first_pin(known, known.version)
                expected = whole.only_maintenance(pin, since=item.place)
                assert history.only_maintenance(pin, since=item.place) == expected


def test_every_table_that_was_ever_there_is_known(line: Line) -> None:
    for history in readers(line):
        assert history.paths() == {f"t/{key}" for key in TABLES}


def test_another_writer_is_followed_across_checkpoints(growing: Line) -> None:
    other = growing.open()
    growing.grow(3, seed=9)
    other.capture()
    growing.grow(40, seed=10)
    head = other.capture().head
    assert head == growing.reader.capture().head
    assert other.capture().pins == growing.reader.capture().pins
    assert list(other.history.commits) == list(all_held(growing).commits)


def test_a_history_without_checkpoints_gets_its_first_at_the_next_long_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(journal_module, "CHECKPOINT_ROWS", 10**9)
        old = Line(tmp_path)
        old.grow(30, seed=6)
    old.reader = old.open()
    assert old.reader.history.recent.floor == 0
    old.grow(30, seed=7)
    whole = all_held(old)
    for history in readers(old):
        assert history.recent.floor > 30
        assert [history.pins_at(v) for v in range(1, 62)] == [
            whole.pins_at(v) for v in range(1, 62)
        ]
        assert list(history.commits) == list(whole.commits)
        for commit in whole.commits.values():
            assert history.commit_of(commit.operation_id) == commit


def test_a_branch_of_an_older_version_begins_with_what_was_known_there(line: Line) -> None:
    reader = line.reader
    newest = reader.view.version
    span = reader.history_to(newest)
    assert span is not None
    assert span.pins_at(newest) == reader.capture().pins
    assert reader.history_to(1) is None


def test_a_graph_made_in_place_of_another_is_not_taken_for_it(
    growing: Line, tmp_path: Path
) -> None:
    other = Line(tmp_path / "other")
    other.grow(80, seed=5)
    shutil.rmtree(tmp_path / "__manifest")
    (tmp_path / "other" / "__manifest").rename(tmp_path / "__manifest")
    with pytest.raises(GraphReplacedError):
        growing.reader.capture()
    with pytest.raises(GraphReplacedError):
        growing.reader.capture(fresh=False)


@pytest.mark.parametrize("lost", [1, 2, 5])
@pytest.mark.parametrize("made", [5, 6, 30])
def test_an_older_copy_that_was_put_back_is_not_taken_for_what_was_there(
    growing: Line, tmp_path: Path, lost: int, made: int
) -> None:
    shutil.copytree(tmp_path / "__manifest", tmp_path / "copy")
    growing.grow(lost, seed=11)
    warm = growing.open()
    warm.capture()
    shutil.rmtree(tmp_path / "__manifest")
    (tmp_path / "copy").rename(tmp_path / "__manifest")
    growing.reader = growing.open()
    growing.grow(made, seed=12)
    with pytest.raises(GraphReplacedError):
        warm.capture()
    assert growing.open().capture().head == growing.reader.capture().head


def test_checkpoints_that_are_known_stay_known_to_who_looks_at_an_older_view(
    growing: Line,
) -> None:
    reader = growing.open()
    old = reader.view
    growing.grow(40, seed=13)
    reader.capture()
    reader.history.commit_of("never")
    past = reader._past
    known = past._ends(reader.history.recent.floor)
    past._places(old)
    assert past._seqs[: len(known)] == known


def test_an_append_from_an_old_state_is_refused_as_before(growing: Line) -> None:
    behind = growing.open()
    state = behind.capture()
    growing.publish(["node:A"])
    rows = encode([growing.pin("node:A", state.version + 1)], state.view.dataset.schema)
    with pytest.raises(StaleJournal):
        growing.journal.append(growing.journal.stage(state.view, rows), {})


def test_a_checkpoint_reads_back_as_it_was_written() -> None:
    pins = (
        Pin(
            table_key="node:Ä",
            incarnation=1,
            path="p",
            version=2,
            row_count=3,
            transaction_uuid="u",
            seq=4,
        ),
    )
    item = Checkpoint(
        seq=9, since=4, pins=pins, oldest_us=1, newest_us=2, operations=b"12345678" * 3
    )
    assert decode_checkpoint(encode_checkpoint(item)) == item
    assert decode_checkpoint(encode_checkpoint(item), tables=False).pins == ()
    assert len(item.marks) == 3
    cut = encode_checkpoint(replace(item, operations=b"1234567"))
    with pytest.raises(ValueError, match="cut off"):
        decode_checkpoint(cut)


def test_what_is_published_follows_drops_and_renames() -> None:
    old = Pin(
        table_key="node:A",
        incarnation=1,
        path="a",
        version=1,
        row_count=0,
        transaction_uuid="u",
        seq=1,
    )
    gone = Tombstone(table_key="node:A", incarnation=1, path="a", version=1, seq=2)
    new = Pin(
        table_key="node:Z",
        incarnation=1,
        path="a",
        version=1,
        row_count=0,
        transaction_uuid="u",
        seq=2,
    )
    assert published_after({"node:A": old}, [gone, new]) == [new]
    assert published_after({"node:A": old}, [gone]) == []
    assert published_after({"node:A": old}, []) == [old]

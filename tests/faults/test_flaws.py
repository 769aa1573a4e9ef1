"""Interleavings that broke earlier forms of the commit protocol, replayed step by step.

Each test is one flaw: two handles of one process, and a hook that makes the second act exactly
between two steps of the first.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph import store
from omnigraph.commits import Publisher, Verdict, publisher, recovery, slot_name
from omnigraph.commits.intents import Intent, IntentTable, decode_intent, encode_intent
from omnigraph.store import OPERATION_PROPERTY, Durability, Slots, Syncer, locate, open_slots
from omnigraph.store.slots.locks import LockedSlots
from tests.faults.rig import (
    ADD,
    ADD_FIRM,
    DROP,
    MEET,
    NAME,
    assert_sound,
    new_graph,
    no_answer,
    publishing,
    slots_of,
    state_of,
)

Hook = Callable[[], object]
COMMIT_STAGED: Callable[..., Any] = store.commit_staged
RESTORE: Callable[..., Any] = store.restore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "graph"
    new_graph(found)
    return found


@pytest.fixture
def first(root: Path) -> Iterator[og.Graph]:
    with og.open(root, durability="none") as found:
        yield found


@pytest.fixture
def second(root: Path, first: og.Graph) -> Iterator[og.Graph]:
    with og.open(root, durability="none") as found:
        yield found


def before_publish(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, hook: Hook) -> None:
    """Run a hook once, after the write was staged and before it takes its slot."""
    inner = Publisher.publish
    waiting = [hook]

    def publish(self: Publisher, *args: Any, **kwargs: Any) -> Any:
        if self is graph._engine.lines.main.publisher and waiting:
            waiting.pop()()
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(Publisher, "publish", publish)


def before_tables(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> None:
    """Run a hook once, under the slot, before the first table commit."""
    inner = COMMIT_STAGED
    waiting = [hook]

    def commit_staged(*args: Any) -> Any:
        if waiting:
            waiting.pop()()
        return inner(*args)

    monkeypatch.setattr(publisher, "commit_staged", commit_staged)


def before_append(hook: Hook) -> contextlib.AbstractContextManager[list[int]]:
    """Run a hook once, after the tables were committed and before the manifest is."""
    waiting = [hook]
    return publishing(before=lambda: waiting.pop()() if waiting else None)


def person_table(root: Path) -> LanceDataset:
    with og.open(root, mode="ro") as graph:
        path = graph.snapshot().tables["node:Person"].path
    return lance.dataset(str(root / path))


def raw_person(root: Path, slug: str) -> None:
    """Append a row behind the engine's back."""
    table = person_table(root)
    row = {"id": slug, "slug": slug, "name": "foreign", "level": None}
    lance.write_dataset(pa.Table.from_pylist([row], schema=table.schema), table, mode="append")


def zombie_row(root: Path, path: str, row: dict[str, object]) -> None:
    """Append a row as a writer of this engine does that lost its slot without knowing."""
    table = lance.dataset(str(root / path))
    rows = pa.Table.from_pylist([row], schema=table.schema)
    staged: Any = write_fragments(rows, table, mode="append", return_transaction=True)
    staged.transaction_properties = {OPERATION_PROPERTY: "zombie"}
    LanceDataset.commit(table, staged)


def zombie_person(root: Path, slug: str) -> None:
    """Append a person as a writer does that lost its slot without knowing."""
    path = os.path.relpath(person_table(root).uri, root)
    zombie_row(root, path, {"id": slug, "slug": slug, "name": "zombie", "level": None})


# ---- F1 to F8, F12, F13 -------------------------------------------------------------------


def test_f1_a_cleaned_manifest_does_not_look_unmoved(
    root: Path, first: og.Graph, second: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody commits and the versions after the parked writer's capture are removed."""

    def commit_and_clean() -> None:
        for number in range(3):
            second.mutate(ADD, {"s": f"theirs{number}"})
        manifest = lance.dataset(str(root / "__manifest"))
        manifest.cleanup_old_versions(older_than=datetime.timedelta(0))
        assert [v["version"] for v in manifest.versions()] == [manifest.version]

    before_publish(first, monkeypatch, commit_and_clean)
    made = first.mutate(ADD, {"s": "mine"}).commit
    assert made is not None
    found = assert_sound(root)
    assert made.graph_commit_id == found.commits[-1]["object_id"]
    assert {"mine", "theirs0", "theirs1", "theirs2"} <= set(found.ids["node:Person"])


def test_f2_a_retry_finds_the_commit_that_recovery_made(
    root: Path, first: og.Graph, second: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables land, the writer gives up, somebody finishes its commit, it tries again."""
    with publishing(before=no_answer):
        with pytest.raises(og.OutcomeUnknownError) as unknown:
            first.mutate(NAME, {"s": "p1", "n": "mine"}, operation_id="mine")
        assert unknown.value.operation_id == "mine"
    second.mutate(ADD_FIRM, {"s": "f9"})
    assert "mine" in state_of(second)[("Person", "p1")]
    made = first.mutate(NAME, {"s": "p1", "n": "mine"}, operation_id="mine").commit
    found = assert_sound(root)
    assert made is not None
    assert [c["object_id"] for c in found.by_operation("mine")] == [made.graph_commit_id]
    assert made.actor_id == "omnigraph:recovery"


def test_f4_a_stale_slot_is_not_resolved_over_a_live_commit(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot names an older head and a table that a live owner has just moved."""
    history = first.commits.list()
    pin = first.snapshot().tables["node:Person"]
    intent = Intent(
        operation_id="dead",
        commit_id="dead",
        rollback_id="undo",
        kind="mutation",
        branch="main",
        head_commit_id=history[-1].graph_commit_id,
        manifest_version=1,
        actor_id=None,
        schema_hash="",
        created_at_us=0,
        tables=(
            IntentTable(
                table_key="node:Person",
                incarnation=pin.incarnation,
                path=pin.path,
                expected_version=pin.version,
                transaction_uuid="never",
            ),
        ),
    )
    name = slot_name("main", history[-1].graph_commit_id)
    verdicts: list[list[Verdict]] = []

    def meet() -> None:
        (root / "__recovery" / name).write_bytes(encode_intent(intent))
        with og.open(root, durability="none") as other:
            verdicts.append(other.maintenance.recovered)

    monkeypatch.setattr(publisher, "SLOT_WAIT_S", 0.05)
    with before_append(meet):
        first.mutate(ADD, {"s": "mine"})
    assert verdicts == [[Verdict.HEAD_MOVED]]
    found = assert_sound(root)
    assert found.pins["node:Person"]["table_version"] == pin.version + 1


def slots_at(folder: Path) -> Slots:
    return open_slots(locate(folder), Syncer(Durability.NONE))


def test_f5_a_late_owner_does_not_delete_its_successors_slot(tmp_path: Path) -> None:
    slots = slots_at(tmp_path)
    late = slots.take("main@1.json", b"late")
    assert late is not None
    os.unlink(tmp_path / "__recovery" / "main@1.json")
    with late:
        owner = slots.take("main@1.json", b"owner")
        assert owner is not None
        late.remove()
        assert slots.exists("main@1.json")
        assert slots.seize("main@1.json") is None
        owner.remove()
    assert slots.names() == []


def test_f6_a_slot_is_whole_and_locked_when_its_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = slots_at(tmp_path)
    inner, seen = os.link, list[bytes]()

    def link(source: str, target: str) -> None:
        inner(source, target)
        seen.append(Path(target).read_bytes())
        assert slots.seize("main@1.json") is None
        assert not slots.wait("main@1.json", timeout_s=0.001)

    monkeypatch.setattr(os, "link", link)
    held = slots.take("main@1.json", b"whole")
    assert held is not None
    with held:
        assert seen == [b"whole"]
        assert slots.take("main@1.json", b"other") is None
    again = slots.seize("main@1.json")
    assert again is not None
    assert again.body == b"whole"
    again.remove()
    assert os.listdir(tmp_path / "__recovery") == []


def test_f6_a_name_made_anew_is_not_taken_for_the_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening a dead slot and locking it, it is removed and taken by a live owner."""
    slots = slots_at(tmp_path)
    dead = slots.take("main@1.json", b"dead")
    assert dead is not None
    dead.close()
    inner = fcntl.flock
    owners: list[Any] = []

    def flock(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", inner)
        os.unlink(tmp_path / "__recovery" / "main@1.json")
        owners.append(slots.take("main@1.json", b"live"))
        inner(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert slots.seize("main@1.json") is None
    assert slots.exists("main@1.json")
    owners[0].remove()


def test_f7_a_rollback_publishes_its_restore_and_not_what_lies_above(
    root: Path, first: og.Graph, second: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner dies between two tables; a zombie commits right after the recoverer's Restore."""
    before = state_of(first)
    inner_commit, done = COMMIT_STAGED, list[str]()

    def one_only(tables: Any, staged: Any) -> Any:
        if done:
            raise og.StorageError("the disk went away")
        done.append(staged.path)
        return inner_commit(tables, staged)

    with monkeypatch.context() as patch:
        patch.setattr(publisher, "commit_staged", one_only)
        with pytest.raises(og.OutcomeUnknownError):
            first.mutate('query q() { insert Person { slug: "n" } insert Firm { slug: "n" } }')
    inner_restore = RESTORE

    def restore(*args: Any) -> Any:
        found = inner_restore(*args)
        zombie_row(root, done[0], {"id": "zombie", "slug": "zombie"})
        return found

    monkeypatch.setattr(recovery, "restore", restore)
    name = slots_of(root)[0]
    assert second._engine.lines.main.recovery.resolve(name) is Verdict.ROLLED_BACK
    assert state_of(second) == before
    assert_sound(root, heads=False)
    second.mutate(ADD, {"s": "next"})
    second.mutate(ADD_FIRM, {"s": "next"})
    assert_sound(root)
    assert set(state_of(second)) - set(before) == {("Person", "next"), ("Firm", "next")}


def test_f8_a_commit_rebased_over_a_cleaned_version_is_not_published(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stray version holds the same key; it is cleaned away, so Lance sees no conflict."""

    def stray() -> None:
        zombie_person(root, "same")
        zombie_person(root, "other")
        table = person_table(root)
        table.cleanup_old_versions(versions=[table.version - 1])

    with monkeypatch.context() as patch:
        before_tables(patch, stray)
        # A version is missing, so nobody can tell what was done there.
        with pytest.raises(og.DriftError, match="unreadable"):
            first.mutate(ADD, {"s": "same"})
    first.repair(confirm=True, discard=True)
    first.mutate(ADD, {"s": "same"})
    found = assert_sound(root)
    assert found.ids["node:Person"].count("same") == 1
    assert "other" not in found.ids["node:Person"]


@pytest.mark.parametrize("query", [ADD, NAME, DROP])
def test_w32_a_foreign_commit_between_stage_and_commit_is_neither_adopted_nor_lost(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    before = state_of(first)
    before_tables(monkeypatch, lambda: raw_person(root, "foreign"))
    params = {"s": "p5"} if query != NAME else {"s": "p5", "n": "x"}
    with pytest.raises(og.DriftError):
        first.mutate(query, params)
    assert state_of(first) == before
    assert slots_of(root) == []
    assert "foreign" in person_table(root).to_table()["slug"].to_pylist()


@pytest.mark.parametrize("query", [ADD, NAME, DROP])
def test_w32_a_zombie_commit_between_stage_and_commit_is_not_adopted(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    before = state_of(first)
    before_tables(monkeypatch, lambda: zombie_person(root, "zombie"))
    params = {"s": "p5"} if query != NAME else {"s": "p5", "n": "x"}
    first.mutate(query, params)
    after = state_of(first)
    assert set(after) - set(before) == set()
    assert set(before) - set(after) == ({("Person", "p5")} if query == DROP else set())
    assert_sound(root)


def test_f12_a_slot_whose_creation_was_not_confirmed_blocks_nobody(
    root: Path, first: og.Graph, second: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = os.link

    def link(source: str, target: str) -> None:
        inner(source, target)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        with pytest.raises(og.StorageError):
            first.mutate(ADD, {"s": "mine"})
    assert len(slots_of(root)) == 1
    second.mutate(ADD, {"s": "theirs"})
    first.mutate(ADD, {"s": "mine"})
    found = assert_sound(root)
    assert {"mine", "theirs"} <= set(found.ids["node:Person"])


def test_f12_an_owner_told_that_its_own_slot_exists_does_not_wait_for_itself(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, lost = os.link, [True]

    def link(source: str, target: str) -> None:
        inner(source, target)
        if lost and "@" in target:
            lost.pop()
            raise FileExistsError(target)

    monkeypatch.setattr(os, "link", link)
    made = first.mutate(ADD, {"s": "mine"})
    assert made.commit is not None
    assert_sound(root)


@pytest.mark.parametrize("query", [ADD, ADD_FIRM])
def test_f13_a_loser_does_not_undo_the_winner(
    root: Path,
    first: og.Graph,
    second: og.Graph,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
) -> None:
    """The head moves under a slot that was taken away; in the same table, and in another."""

    def take_away() -> None:
        for name in slots_of(root):
            os.unlink(root / "__recovery" / name)
        second.mutate(query, {"s": "theirs"})

    with before_append(take_away):
        first.mutate(ADD, {"s": "mine"})
    found = assert_sound(root)
    assert "mine" in found.ids["node:Person"]
    assert "theirs" in found.ids["node:Person" if query == ADD else "node:Firm"]
    assert [c["kind"] for c in found.commits] == ["init", "load", "mutation", "mutation"]


# ---- lost answers -------------------------------------------------------------------------


def test_w27_a_publish_whose_answer_was_lost_is_a_success(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with publishing(after=no_answer) as made_commits:
        made = first.mutate(ADD, {"s": "mine"}, operation_id="mine").commit
    assert made_commits == [0]
    assert made is not None
    found = assert_sound(root)
    assert [c["object_id"] for c in found.by_operation("mine")] == [made.graph_commit_id]
    assert found.ids["node:Person"].count("mine") == 1
    first.mutate(NAME, {"s": "mine", "n": "seen"})


@pytest.mark.parametrize("query", [ADD, NAME, DROP])
def test_a_table_commit_whose_answer_was_lost_is_not_repeated(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    inner, calls = LanceDataset.commit, list[str]()

    def commit(target: Any, *args: Any, **kwargs: Any) -> Any:
        found = inner(target, *args, **kwargs)
        calls.append(str(target.uri))
        if "__manifest" not in calls[-1] and len(calls) == 1:
            raise OSError("the answer was lost")
        return found

    version = first.snapshot().tables["node:Person"].version
    monkeypatch.setattr(LanceDataset, "commit", staticmethod(commit))
    params = {"s": "p5"} if query != NAME else {"s": "p5", "n": "x"}
    first.mutate(query, params)
    monkeypatch.undo()
    found = assert_sound(root)
    assert found.pins["node:Person"]["table_version"] == version + 1
    assert found.ids["node:Person"].count("p5") == (0 if query == DROP else 1)


def test_a_manifest_that_moves_without_its_head_costs_only_a_retry(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touch() -> None:
        lance.dataset(str(root / "__manifest")).update_config({"test": "1"})

    with before_append(touch):
        made = first.mutate(ADD, {"s": "mine"}).commit
    assert made is not None
    assert made.manifest_version == 4
    assert "mine" in assert_sound(root).ids["node:Person"]


def test_w26_a_manifest_that_cannot_be_written_is_told_and_then_finished(
    root: Path, first: og.Graph, second: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with publishing(before=no_answer), pytest.raises(og.OutcomeUnknownError):
        first.mutate(ADD, {"s": "mine"}, operation_id="mine")
    assert ("Person", "mine") not in state_of(second)
    assert second.mutate(ADD, {"s": "mine"}, operation_id="mine").commit is not None
    found = assert_sound(root)
    assert len(found.by_operation("mine")) == 1


# ---- what recovery may touch --------------------------------------------------------------


def test_r05_a_foreign_version_at_the_expected_number_is_not_adopted(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raw_person(root, "foreign")
        raise og.StorageError("the disk went away")

    with monkeypatch.context() as patch:
        patch.setattr(publisher, "commit_staged", refuse)
        with pytest.raises(og.OutcomeUnknownError):
            first.mutate(ADD, {"s": "mine"}, operation_id="mine")
    with og.open(root, durability="none") as other:
        assert other.maintenance.recovered == [Verdict.NEEDS_REPAIR]
        assert not {("Person", "foreign"), ("Person", "mine")} & set(state_of(other))
        other.repair(confirm=True, discard=True)
    found = assert_sound(root)
    assert found.commits[-1]["kind"] == "repair"
    assert found.by_operation("mine") == []


def test_r05_a_zombie_version_at_the_expected_number_is_not_adopted(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        zombie_person(root, "zombie")
        raise og.StorageError("the disk went away")

    with monkeypatch.context() as patch:
        patch.setattr(publisher, "commit_staged", refuse)
        with pytest.raises(og.OutcomeUnknownError):
            first.mutate(ADD, {"s": "mine"}, operation_id="mine")
    with og.open(root, durability="none") as other:
        assert other.maintenance.recovered == [Verdict.ROLLED_BACK]
        assert not {("Person", "zombie"), ("Person", "mine")} & set(state_of(other))
    found = assert_sound(root)
    assert found.commits[-1]["kind"] == "recovery"
    assert found.by_operation("mine") == []


def test_r11_a_live_owner_is_never_recovered_under(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> None:
        with og.open(root, durability="none") as other:
            assert other.maintenance.recovered == []
            assert len(slots_of(root)) == 1
            assert ("Person", "mine") not in state_of(other)

    monkeypatch.setattr(publisher, "SLOT_WAIT_S", 0.05)
    with before_append(look):
        first.mutate(ADD, {"s": "mine"})
    assert_sound(root)


def test_a_read_write_open_does_not_wait_for_a_live_writer(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def wait(self: LockedSlots, name: str, *, timeout_s: float) -> bool:
        waited.append(timeout_s)
        return False

    monkeypatch.setattr(LockedSlots, "wait", wait)
    with before_append(lambda: og.open(root, durability="none").close()):
        first.mutate(ADD, {"s": "mine"})
    assert waited == []


def tree_digest(root: Path) -> str:
    digest = hashlib.sha256()
    for parent, _folders, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = Path(parent, name)
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def test_r14_a_read_only_open_changes_no_byte(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with publishing(before=no_answer), pytest.raises(og.OutcomeUnknownError):
        first.mutate(ADD, {"s": "mine"})
    before = tree_digest(root)
    with og.open(root, mode="ro") as reader:
        assert ("Person", "mine") not in state_of(reader)
        with pytest.raises(og.BadRequestError):
            reader.mutate(ADD, {"s": "x"})
    assert tree_digest(root) == before


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"format": 1}', b"0" * 4096]
)
def test_a_torn_slot_was_never_armed(root: Path, first: og.Graph, body: bytes) -> None:
    head = first.commits.head().graph_commit_id
    folder = root / "__recovery"
    folder.mkdir(exist_ok=True)
    (folder / slot_name("main", head)).write_bytes(body)
    first.mutate(ADD, {"s": "mine"})
    (folder / "main@old.json").write_bytes(body)
    with og.open(root, durability="none") as other:
        assert other.maintenance.recovered == [Verdict.NEVER_ARMED]
    assert_sound(root)


def test_r17_a_slot_of_a_newer_release_is_refused_and_kept(root: Path, first: og.Graph) -> None:
    name = slot_name("main", first.commits.head().graph_commit_id)
    folder = root / "__recovery"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b'{"format": 99, "what": "ever"}')
    with pytest.raises(og.OmniGraphError, match="newer"):
        og.open(root, durability="none")
    with pytest.raises(og.OmniGraphError, match="newer"):
        first.mutate(ADD, {"s": "mine"})
    assert slots_of(root) == [name]
    with og.open(root, mode="ro") as reader:
        assert ("Person", "mine") not in state_of(reader)


def test_an_intent_says_what_the_owner_is_about_to_do(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Intent | None] = []

    def look() -> None:
        seen.append(decode_intent((root / "__recovery" / slots_of(root)[0]).read_bytes()))

    head = first.commits.head().graph_commit_id
    before_tables(monkeypatch, look)
    first.mutate(DROP, {"s": "p0"}, operation_id="mine", actor="me")
    (intent,) = seen
    assert intent is not None
    assert (intent.operation_id, intent.head_commit_id, intent.actor_id) == ("mine", head, "me")
    assert {t.table_key for t in intent.tables} == {"node:Person", "edge:Knows", "edge:Works"}


# ---- leftovers and folds -----------------------------------------------------------------


def test_a_read_write_open_undoes_leftovers_without_a_slot(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = COMMIT_STAGED

    def commit_staged(*args: Any) -> Any:
        inner(*args)
        raise og.ConflictError("the table keeps moving")

    before = state_of(first)
    with monkeypatch.context() as patch:
        patch.setattr(publisher, "commit_staged", commit_staged)
        with pytest.raises(og.ConflictError):
            first.mutate(ADD, {"s": "mine"})
    assert slots_of(root) == []
    with og.open(root, durability="none") as other:
        assert other.maintenance.recovered == [Verdict.ROLLED_BACK]
        assert state_of(other) == before
    assert_sound(root)


def test_a_read_write_open_leaves_what_somebody_else_wrote(root: Path) -> None:
    raw_person(root, "foreign")
    with og.open(root, durability="none") as graph:
        assert graph.maintenance.recovered == []
        assert ("Person", "foreign") not in state_of(graph)
    assert "foreign" in person_table(root).to_table()["id"].to_pylist()


def test_leftovers_without_a_slot_harm_nobody(root: Path, first: og.Graph) -> None:
    zombie_person(root, "leftover")
    before = state_of(first)
    assert ("Person", "leftover") not in before
    first.mutate(MEET, {"i": "e", "a": "p1", "b": "p2"})
    first.mutate(ADD, {"s": "leftover2"})
    assert_sound(root)
    assert set(state_of(first)) - set(before) == {("Person", "leftover2"), ("Knows", "e")}


def test_a_failing_fold_does_not_fail_the_write_before_it(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(table: Any) -> Any:
        raise og.StorageError("no space left on the disk")

    monkeypatch.setattr("omnigraph.ops.compact_tail.rewrite_small_fragments", fail)
    for number in range(40):
        first.mutate(ADD, {"s": f"tail{number}"})
    assert_sound(root)


@pytest.mark.parametrize("step", ["commit_rewrite", "index_tail"])
def test_a_fold_that_fails_under_its_slot_is_undone_by_the_next_write(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    import omnigraph.store.tables.steps as fold

    inner: Callable[..., Any] = getattr(fold, step)

    def fail(*args: Any) -> Any:
        inner(*args)
        raise og.StorageError("no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(fold, step, fail)
        for number in range(34):
            first.mutate(ADD, {"s": f"tail{number}"})
    first.mutate(ADD, {"s": "last"})
    found = assert_sound(root)
    assert {f"tail{number}" for number in range(34)} <= set(found.ids["node:Person"])


def test_a_version_that_names_no_transaction_is_not_taken_for_ours(
    root: Path, first: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of a table is made, its answer is lost, and its transaction cannot be read."""
    commit = LanceDataset.commit
    read = LanceDataset.read_transaction
    unreadable: list[str] = []

    def lost(*args: Any, **words: Any) -> LanceDataset:
        commit(*args, **words)
        monkeypatch.setattr(LanceDataset, "commit", commit)
        unreadable.append("once")
        raise OSError("no answer")

    def transaction(dataset: LanceDataset, version: int) -> Any:
        return None if unreadable and unreadable.pop() else read(dataset, version)

    monkeypatch.setattr(LanceDataset, "commit", lost)
    monkeypatch.setattr(LanceDataset, "read_transaction", transaction)
    first.mutate(NAME, {"s": "p1", "n": "mine"}, operation_id="mine")
    assert not unreadable, "nothing was asked about the version"
    assert "mine" in state_of(first)[("Person", "p1")]
    assert len(assert_sound(root).by_operation("mine")) == 1

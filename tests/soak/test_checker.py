"""The check of a soak can fail: every kind of damage to a good run is noticed, and named."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.store import locate
from tests.places import dataset
from tests.property import merge_model
from tests.soak.book import Book, read_book
from tests.soak.client import BRANCHES, EXPECTED, Client, Setup, Unexpected
from tests.soak.final import FinalLook, Verdict, check_all, check_history
from tests.soak.journal import Entry, Journal, Tail, entries
from tests.soak.lineage import Commit, Life, Lineage, life_from_json, read_lineage
from tests.soak.model import (
    State,
    apply,
    digest,
    from_one,
    merge,
    random_schema,
    random_write,
    schema_text,
)
from tests.soak.replay import Replay
from tests.soak.workers import ACTIONS, _look, _look_back

TURNS = 80
TURNS_CROSSING = 200
MERGING = {"op": "merge", "resolve": None, "by_property": False, "drop": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A run of one process that nobody disturbed."""
    folder = tmp_path_factory.mktemp("soak")
    setup = Setup(root=str(folder / "graph"), folder=folder, seed="7")
    og.init(setup.root, schema_text(()), durability="none").close()
    client = Client(setup, "w0", 1)
    weights = [weight for weight, _, _ in ACTIONS.values()]
    for _turn in range(TURNS):
        client.dice.choices([do for _, _, do in ACTIONS.values()], weights)[0](client)
        client.dice.choice([_look, _look_back])(client)
    # The last write and look are there in every run.
    person = {"slug": "p1", "name": "last", "level": 7, "email": None}
    client.write("main", {"op": "insert_person", **person})
    _look(client)
    client.reopen()
    return setup


def history(run: Setup, change: Callable[[Entry], Entry | None] = lambda entry: entry) -> list[str]:
    """Check the run with changed journals; return what is wrong."""
    book = Book()
    for entry in entries(run.folder / "w0.journal"):
        found = change(entry)
        if found is not None:
            book.take(found, "w0")
    _replay, verdict = check_history(read_lineage(run.place), book)
    return verdict.problems


def last(run: Setup, kind: str) -> Entry:
    """Return the last entry of a kind that is about a commit on main."""
    found = [e for e in entries(run.folder / "w0.journal") if e["t"] == kind]
    return next(e for e in reversed(found) if e["branch"] == "main" and e.get("commit", 1))


def test_a_good_run_passes(run: Setup, tmp_path: Path) -> None:
    assert history(run) == []
    verdict = check_all(copied(run, tmp_path))
    assert verdict.problems == []
    assert verdict.counts["replayed"] == verdict.counts["commits"] > 20
    assert verdict.counts["confirmed_by_readers"] > 10
    assert verdict.counts["states_read"] > 10
    assert verdict.counts["last_writes"] >= 7


def copied(run: Setup, folder: Path) -> Setup:
    """Return the run at another place, to be damaged there."""
    shutil.copytree(run.folder, folder / "run")
    return replace(run, folder=folder / "run", root=str(folder / "run" / "graph"))


# ---- answers that nobody has to expect ----------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "branch", "error"),
    [
        ("write", "b0", og.VersionReclaimedError("version 3 is no longer kept")),
        ("merge", "main", og.VersionReclaimedError("version 3 is no longer kept")),
        ("write", "main", og.NotFoundError("branch 'main' does not exist")),
        ("write", "b0", og.NotFoundError("opening the manifest: not found")),
        ("pick", "b0", og.NotFoundError("opening nodes/a at version 3: not found")),
        ("write", "main", og.PreconditionFailedError(expected="a", actual="b")),
        ("merge", "main", og.VersionConflictError(table_key="node:A", expected=1, actual=2)),
        ("read", "main", og.ConflictError("try again")),
        ("write", "main", ValueError("no error of the engine")),
    ],
)
def test_an_unexpected_error_ends_the_worker(
    tmp_path: Path, kind: str, branch: str, error: Exception
) -> None:
    client = Client(Setup(root="", folder=tmp_path, seed="7"), "w0", 1)
    with pytest.raises(Unexpected):
        client.judge(error, kind, branch, {}, unknown=True)


def test_expected_errors_are_counted(tmp_path: Path) -> None:
    client = Client(Setup(root="", folder=tmp_path, seed="7"), "w0", 1)
    gone = og.NotFoundError("branch 'b0' was deleted")
    other = og.PreconditionFailedError(expected="a", actual="b")
    assert client.judge(gone, "write", "b0", {}) == "NotFoundError"
    assert client.judge(other, "write", "main", {}, headed=True) == "PreconditionFailedError"


def test_no_kind_of_call_expects_damage() -> None:
    never = {"DriftError", "RecoveryRequiredError", "StorageError", "InternalError"}
    assert not never & set().union(*EXPECTED.values())


# ---- journals that do not fit -------------------------------------------------------------


def test_an_acknowledged_write_that_is_not_there_is_noticed(run: Setup) -> None:
    answer = last(run, "answer")

    def change(entry: Entry) -> Entry:
        same = entry["t"] == "answer" and entry["id"] == answer["id"]
        return {**entry, "commit": "01LOST"} if same else entry

    problems = history(run, change)
    assert any("acknowledged and lost" in text and answer["id"] in text for text in problems)


def test_a_write_that_was_refused_and_is_there_is_noticed(run: Setup) -> None:
    answer = last(run, "answer")

    def change(entry: Entry) -> Entry:
        if entry["t"] != "answer" or entry["id"] != answer["id"]:
            return entry
        return {**entry, "commit": None, "error": "ConflictError"}

    assert any("refused" in text and answer["id"] in text for text in history(run, change))


def test_a_write_that_was_not_answered_may_be_there(run: Setup) -> None:
    answer = last(run, "answer")

    def change(entry: Entry) -> Entry | None:
        return None if entry["t"] == "answer" and entry["id"] == answer["id"] else entry

    assert history(run, change) == []


def test_a_commit_nobody_asked_for_is_noticed(run: Setup) -> None:
    answer = last(run, "answer")
    problems = history(run, lambda entry: None if entry.get("id") == answer["id"] else entry)
    assert any("nobody asked for" in text for text in problems)


def test_a_write_of_other_values_is_noticed(run: Setup) -> None:
    answer = last(run, "answer")

    def change(entry: Entry) -> Entry:
        if entry["t"] != "intent" or entry["id"] != answer["id"]:
            return entry
        return {**entry, "op": {**entry["op"], "level": 8}}

    assert any("readers saw" in text for text in history(run, change))


def test_a_state_readers_cannot_have_seen_is_noticed(run: Setup) -> None:
    def change(entry: Entry) -> Entry:
        return {**entry, "digest": "other"} if "digest" in entry else entry

    assert any("readers saw" in text for text in history(run, change))


def test_a_write_on_the_wrong_branch_is_noticed(run: Setup) -> None:
    answer = last(run, "answer")

    def change(entry: Entry) -> Entry:
        return {**entry, "branch": "b9"} if entry.get("id") == answer["id"] else entry

    assert any(f"{answer['id']} is on main" in text for text in history(run, change))


def test_writes_out_of_the_order_of_time_are_noticed(run: Setup) -> None:
    def change(entry: Entry) -> Entry:
        return {**entry, "at": -entry["at"]}

    assert any("began after" in text for text in history(run, change))


def test_a_stale_read_is_noticed(run: Setup) -> None:
    def change(entry: Entry) -> Entry:
        return {**entry, "seq": 0} if "head" in entry and "seq" in entry else entry

    assert any("a read saw main at 0" in text for text in history(run, change))


def test_a_head_that_was_not_the_expected_one_is_noticed(run: Setup) -> None:
    answer = last(run, "answer")

    def change(entry: Entry) -> Entry:
        same = entry["t"] == "intent" and entry["id"] == answer["id"]
        return {**entry, "head": "01OTHER"} if same else entry

    assert any("expected the head" in text for text in history(run, change))


def test_a_branch_that_is_gone_by_itself_is_noticed(run: Setup) -> None:
    made = {"t": "done", "kind": "create", "branch": "b9", "incarnation": "b9.X", "at": 0.0}
    book = read_book(run.folder)
    book.take({"t": "call", "kind": "create", "branch": "b9", "at": 0.0}, "w0")
    book.take(made, "w0")
    _replay, verdict = check_history(read_lineage(run.place), book)
    assert verdict.problems == ["the branch b9.X was made, and is gone"]


# ---- graphs that do not fit ---------------------------------------------------------------


def wrong_with(run: Setup, folder: Path, damage: Callable[[Setup], object]) -> list[str]:
    """Check a copy of the run after damaging its graph."""
    copy = copied(run, folder)
    damage(copy)
    return check_all(copy).problems


def test_rows_that_nobody_wrote_are_noticed(run: Setup, tmp_path: Path) -> None:
    def damage(copy: Setup) -> None:
        with og.open(copy.root, durability="none") as graph:
            graph.mutate('query q() { insert Firm { slug: "alien" } }', operation_id="alien")
        answer = {"id": "alien", "branch": "main", "kind": "write", "head": None}
        journal = Journal(copy.folder / "w1.journal")
        journal.add(t="intent", op={"op": "insert_firm", "slug": "f0", "name": None}, **answer)

    problems = wrong_with(run, tmp_path, damage)
    assert any("entities are not as replayed" in text and "alien" in text for text in problems)


def test_a_slot_that_is_left_is_noticed(run: Setup, tmp_path: Path) -> None:
    copy = copied(run, tmp_path)
    lineage, verdict = read_lineage(copy.place), Verdict()
    with og.open(copy.root, durability="none") as graph:
        location = locate(copy.root)
        path = location.path("__recovery", "main@01OLD.json")
        location.files.replace(path, b"{}", sync=False)
        FinalLook(graph, copy, lineage, Replay(lineage, Book()), verdict).at_rest()
    assert verdict.problems == ["slots are left: ['main@01OLD.json']"]


def test_a_table_above_its_pin_is_noticed(run: Setup, tmp_path: Path) -> None:
    def damage(copy: Setup) -> None:
        with og.open(copy.root, mode="ro") as graph:
            path = graph.snapshot().tables["node:Badge"].path
        dataset(copy.place / path).delete("code = 'c0'")

    assert any("head" in text and "published" in text for text in wrong_with(run, tmp_path, damage))


def test_a_version_that_is_lost_is_noticed(
    run: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of many reads would look several times whether a cleanup is at it.
    monkeypatch.setattr("omnigraph.store.tables.table.REMOVAL_LOOKS_S", ())

    def damage(copy: Setup) -> None:
        with og.open(copy.root, mode="ro") as graph:
            path = graph.snapshot().tables["node:Person"].path
        for file in (copy.place / path / "data").iterdir():
            file.unlink()

    problems = wrong_with(run, tmp_path, damage)
    assert any("the head of main cannot be read" in text for text in problems)


# ---- parts --------------------------------------------------------------------------------


def commit(name: str, seq: int, *parents: str, op: str = "", kind: str = "mutation") -> Commit:
    first, second = (*parents, None, None)[:2]
    return Commit(
        id=name,
        seq=seq,
        parent=first,
        merged=second,
        kind=kind,
        operation_id=op or name,
        actor=None,
        schema_hash="",
    )


def lineage_of(**lives: tuple[str | None, int, Iterable[Commit]]) -> Lineage:
    found = Lineage()
    for name, (parent, forked_at, commits) in lives.items():
        found.add(
            Life(
                incarnation=name,
                parent=parent,
                forked_at=forked_at,
                status="living",
                commits=tuple(commits),
            )
        )
    return found


def book_of(**operations: tuple[str, dict[str, Any]]) -> Book:
    book = Book()
    for number, (name, (branch, op)) in enumerate(operations.items()):
        asked = {"id": name, "branch": branch, "op": op, "head": None, "kind": "write"}
        book.take({"t": "intent", "at": float(number), **asked}, "w0")
    return book


def state_of(replay: Replay, name: str) -> State:
    found = replay.state(name)
    assert found is not None
    return found


def firm(slug: str) -> dict[str, Any]:
    return {"op": "insert_firm", "slug": slug, "name": None}


def test_an_operation_done_twice_is_noticed() -> None:
    genesis = commit("g", 1, kind="init")
    line = [genesis, commit("a", 2, "g", op="one"), commit("b", 3, "a", op="one")]
    asked = book_of(one=("main", firm("f")))
    _replay, verdict = check_history(lineage_of(main=(None, 0, line)), asked)
    assert verdict.problems == ["one was done twice: a and b"]


def test_an_operation_may_be_done_on_two_lives_of_a_name() -> None:
    lineage = lineage_of(
        main=(None, 0, [commit("g", 1, kind="init")]),
        **{
            "b0.X": ("main", 1, [commit("a", 2, "g", op="one")]),
            "b0.Y": ("main", 1, [commit("b", 2, "g", op="one")]),
        },
    )
    _replay, verdict = check_history(lineage, book_of(one=("b0", firm("f"))))
    assert verdict.problems == []


def test_a_history_with_a_gap_is_noticed() -> None:
    line = [commit("g", 1, kind="init"), commit("b", 3, "a", op="one")]
    asked = book_of(one=("main", firm("f")))
    _replay, verdict = check_history(lineage_of(main=(None, 0, line)), asked)
    assert any("follows a, not g" in text for text in verdict.problems)


def test_a_merge_is_replayed_from_its_base() -> None:
    merging = {**MERGING, "source": "b0"}
    lineage = lineage_of(
        main=(
            None,
            0,
            [
                commit("g", 1, kind="init"),
                commit("m", 2, "g", op="here"),
                commit("j", 3, "m", "b", op="join", kind="merge"),
            ],
        ),
        **{"b0.X": ("main", 1, [commit("b", 2, "g", op="there")])},
    )
    asked = book_of(here=("main", firm("f1")), there=("b0", firm("f2")), join=("main", merging))
    replay, verdict = check_history(lineage, asked)
    assert verdict.problems == []
    assert set(state_of(replay, "j").rows["Firm"]) == {"f1", "f2"}


def test_a_merge_that_should_have_met_a_conflict_is_noticed() -> None:
    merging = {**MERGING, "source": "b0"}
    lineage = lineage_of(
        main=(
            None,
            0,
            [
                commit("g", 1, kind="init"),
                commit("m", 2, "g", op="here"),
                commit("j", 3, "m", "b", op="join", kind="merge"),
            ],
        ),
        **{"b0.X": ("main", 1, [commit("b", 2, "g", op="there")])},
    )
    other = {"op": "insert_firm", "slug": "f", "name": "other"}
    asked = book_of(here=("main", firm("f")), there=("b0", other), join=("main", merging))
    _replay, verdict = check_history(lineage, asked)
    assert any("divergent_insert" in text for text in verdict.problems)


def crossed(*more: Commit) -> Lineage:
    """Two branches that took over each other's old head: `h` and `t` are what both start from."""
    return lineage_of(
        main=(
            None,
            0,
            [
                commit("g", 1, kind="init"),
                commit("h", 2, "g", op="here"),
                commit("x", 3, "h", "t", op="cross", kind="merge"),
                commit("e", 4, "x", op="edit"),
                *more,
            ],
        ),
        **{
            "b0.X": (
                "main",
                1,
                [
                    commit("t", 2, "g", op="there"),
                    commit("y", 3, "t", "h", op="back", kind="merge"),
                ],
            )
        },
    )


def test_a_merge_after_crossing_ones_has_one_outcome() -> None:
    """Seen from `h` alone the firm that main took over and deleted again would come back."""
    lineage = crossed(commit("j", 5, "e", "y", op="join", kind="merge"))
    asked = book_of(
        here=("main", firm("f1")),
        there=("b0", firm("f2")),
        cross=("main", {**MERGING, "source": "b0"}),
        back=("b0", {**MERGING, "source": "main"}),
        edit=("main", {"op": "delete_firm", "slug": "f2"}),
        join=("main", {**MERGING, "source": "b0"}),
    )
    replay, verdict = check_history(lineage, asked)
    assert verdict.problems == []
    assert verdict.counts["crossing_merges"] == 1
    assert set(state_of(replay, "j").rows["Firm"]) == {"f1"}


def firms(*slugs: str) -> str:
    found = State()
    for slug in slugs:
        found, _touched = apply(found, firm(slug))
    return digest(found.envelopes())


@pytest.mark.parametrize(
    ("seen", "problems"), [(["f1"], 0), (["f1", "f2"], 0), (["f2"], 1), ([], 1)]
)
def test_a_merge_whose_older_base_was_removed_has_two_outcomes(
    seen: list[str], problems: int
) -> None:
    """Without `g` nothing says that `f2` is new on `b0`: a conflict, decided by the resolution."""
    lineage = crossed(
        commit("j", 5, "e", "y", op="join", kind="merge"), commit("k", 6, "j", op="last")
    )
    asked = book_of(
        here=("main", firm("f1")),
        there=("b0", firm("f2")),
        cross=("main", {**MERGING, "source": "b0"}),
        back=("b0", {**MERGING, "source": "main"}),
        edit=("main", {"op": "delete_firm", "slug": "f2"}),
        join=("main", {**MERGING, "source": "b0", "resolve": "theirs"}),
        last=("main", firm("f3")),
    )
    asked.seen["k"].add(firms(*seen, "f3"))
    replay, verdict = check_history(lineage, asked)
    assert len(verdict.problems) == problems, verdict.problems
    assert verdict.counts["one_of_several"] == 1 + problems
    if not problems:
        assert set(state_of(replay, "k").rows["Firm"]) == {*seen, "f3"}


def test_merges_that_crossed_are_replayed_exactly(tmp_path: Path) -> None:
    """Four branches merged into each other all the time, and every state compared."""
    setup = Setup(root=str(tmp_path / "graph"), folder=tmp_path, seed="11")
    og.init(setup.root, schema_text(()), durability="none").close()
    client = Client(setup, "w0", 1)
    names = ["main", *BRANCHES]
    for name in names[1:]:
        client.graph.branches.create(name)
    for turn in range(TURNS_CROSSING):
        target, source = client.dice.sample(names, 2)
        op = random_write(client.dice, f"n{turn}", ())
        # Nodes stay: an edge that lost one is a conflict nothing decides, for ever.
        if client.dice.random() < 0.6 and "delete" not in op["op"]:
            client.write(target, op)
        else:
            resolve = client.dice.choice([None, "ours", "theirs"])
            merging = {**MERGING, "source": source, "resolve": resolve}
            merging["by_property"] = client.dice.random() < 0.5
            client.write(target, merging, kind="far_merge")
    client.reopen()
    verdict = check_all(setup)
    assert verdict.problems == []
    assert verdict.counts["replayed"] == verdict.counts["commits"]
    assert verdict.counts["crossing_merges"] > 5
    assert verdict.counts["blamed"] > 10


@pytest.mark.parametrize(("most", "known"), [(3, "g"), (2, None)])
def test_a_merge_looks_back_as_far_as_the_engine(
    monkeypatch: pytest.MonkeyPatch, most: int, known: str | None
) -> None:
    monkeypatch.setattr(merge_model, "MERGE_BASE_STATES_MAX", most)
    ancestry = merge_model.Ancestry()
    lineage = crossed()
    for name in ("g", "h", "t", "x", "y"):
        ancestry.enter(lineage.commits[name])
    bases = ancestry.bases(["x"], ["y"])
    assert sorted(bases) == ["h", "t"]
    assert ancestry.tree(bases) == merge_model.Join(bases[0], bases[1], known)


def test_a_clean_merge_from_commits_that_disagree_is_noticed() -> None:
    lineage = crossed(commit("j", 5, "e", "y", op="join", kind="merge"))
    other = {"op": "insert_firm", "slug": "f", "name": "other"}
    asked = book_of(
        here=("main", firm("f")),
        there=("b0", other),
        cross=("main", {**MERGING, "source": "b0", "resolve": "ours"}),
        back=("b0", {**MERGING, "source": "main", "resolve": "ours"}),
        edit=("main", firm("f2")),
        join=("main", {**MERGING, "source": "b0"}),
    )
    _replay, verdict = check_history(lineage, asked)
    assert len(verdict.problems) == 1
    assert "divergent_update of Firm f" in verdict.problems[0]


def test_a_merge_of_what_was_merged_is_noticed() -> None:
    lineage = crossed(commit("j", 5, "e", "t", op="join", kind="merge"))
    asked = book_of(
        here=("main", firm("f1")),
        there=("b0", firm("f2")),
        cross=("main", {**MERGING, "source": "b0"}),
        back=("b0", {**MERGING, "source": "main"}),
        edit=("main", firm("f3")),
        join=("main", {**MERGING, "source": "b0"}),
    )
    _replay, verdict = check_history(lineage, asked)
    assert len(verdict.problems) == 1
    assert "nothing to merge" in verdict.problems[0]


def test_the_same_edge_on_both_sides_keeps_the_id_of_the_target() -> None:
    base, _ = apply(State(), firm("f"))
    base, _ = apply(base, {"op": "upsert_person", "slug": "p", "level": 1})
    ours, _ = apply(base, {"op": "works", "id": "w1", "a": "p", "b": "f"})
    theirs, _ = apply(base, {"op": "works", "id": "w2", "a": "p", "b": "f"})
    made = merge(from_one(base), theirs, ours, resolve=None, by_property=False)
    assert set(made.rows["Works"]) == {"w1"}


def test_schema_changes_carry_values_along() -> None:
    state, _ = apply(State(), firm("f"))
    state, _ = apply(state, {"op": "schema", "extras": ["x_a"], "renames": {}})
    state, _ = apply(state, {"op": "set_extra", "slug": "f", "prop": "x_a", "value": 5})
    renamed, _ = apply(state, {"op": "schema", "extras": ["x_b"], "renames": {"x_b": "x_a"}})
    assert renamed.rows["Firm"]["f"]["x_b"] == 5
    dropped, _ = apply(renamed, {"op": "schema", "extras": [], "renames": {}})
    assert dropped.envelopes()["Firm", "f"] == {
        "type": "Firm",
        "data": {"id": "f", "slug": "f", "name": None},
    }


def test_updates_of_different_properties_can_be_joined() -> None:
    person = {"op": "insert_person", "slug": "p", "name": "n", "level": 1, "email": None}
    base, _ = apply(State(), person)
    ours, _ = apply(base, {"op": "update_one", "slug": "p", "level": 2})
    theirs, _ = apply(base, {"op": "update_below", "below": 9, "name": "other"})
    made = merge(from_one(base), theirs, ours, resolve=None, by_property=True)
    assert (made.rows["Person"]["p"]["level"], made.rows["Person"]["p"]["name"]) == (2, "other")


def test_choices_are_the_same_for_a_seed() -> None:
    one, other = (random.Random("7") for _ in range(2))  # noqa: S311 - a test
    assert [random_write(one, "n", ("x",)) for _ in range(50)] == [
        random_write(other, "n", ("x",)) for _ in range(50)
    ]
    assert random_schema(one, "n", ("x",)) == random_schema(other, "n", ("x",))


def test_half_a_line_of_a_killed_worker_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "w.journal"
    Journal(path).add(t="life", life=1)
    with path.open("ab") as handle:
        handle.write(b'{"t":"inte')
    tail = Tail(path)
    assert [entry["t"] for entry in tail.new()] == ["life"]
    Journal(path).add(t="life", life=2)
    assert [entry["life"] for entry in entries(path)] == [1, 2]
    assert [entry["life"] for entry in tail.new()] == [2]


def test_a_life_survives_its_journal() -> None:
    life = Life(
        incarnation="b0.X",
        parent="main",
        forked_at=1,
        status="purged",
        commits=(commit("a", 2, "g"),),
    )
    assert life_from_json(json.loads(json.dumps(life.to_json()))) == life


# ---- branches that begin between commits published together -------------------------------


def _lives(*, seq: int = 3, actor: str | None = None) -> tuple[Life, Life]:
    def made(name: str, parent: str, place: int, by: str | None = None) -> Commit:
        return Commit(
            id=name,
            seq=seq,
            parent=parent,
            merged=None,
            kind="mutation",
            operation_id=f"op-{name}",
            actor=by,
            schema_hash="s",
            place=place,
        )

    group = (made("a", "begin", 0), made("b", "a", 1), made("c", "b", 2))
    main = Life(incarnation="main", parent=None, forked_at=0, status="living", commits=group)
    taken = (made("a", "begin", 0, actor), made("b", "a", 1))
    branch = Life(incarnation="b0.X", parent="main", forked_at=2, status="living", commits=taken)
    return main, branch


def test_commits_that_a_branch_took_over_are_those_of_its_parent() -> None:
    main, branch = _lives()
    for order in ((main, branch), (branch, main)):
        found = Lineage()
        for life in order:
            found.add(life)
        assert found.problems == []
        assert set(found.homes.values()) == {"main"}


def test_commits_taken_over_from_the_first_publish_of_a_branch_are_those_of_that_one() -> None:
    main, branch = _lives()
    parent = replace(main, incarnation="b2.Y", parent="main", forked_at=2)
    child = replace(branch, parent="b2.Y")
    for order in ((parent, child), (child, parent)):
        found = Lineage()
        for life in order:
            found.add(life)
        assert found.problems == []
        assert set(found.homes.values()) == {"b2.Y"}


@pytest.mark.parametrize("change", [{"seq": 4}, {"actor": "other"}])
def test_a_commit_on_two_branches_is_noticed(change: dict[str, Any]) -> None:
    found = Lineage()
    for life in _lives(**change):
        found.add(life)
    assert found.problems[0] == "commit a is on main and b0.X"

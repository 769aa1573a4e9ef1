"""The last look at a graph after a soak: open it again, read everything, and use it once more."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph as og
from tests.places import AnyPath, dataset, names_in
from tests.soak.acknowledged import Acknowledgements
from tests.soak.book import Book, read_book
from tests.soak.client import Setup, perform
from tests.soak.lineage import Commit, Lineage, read_lineage
from tests.soak.model import State, apply, broken_rules, by_entity
from tests.soak.replay import Replay
from tests.soak.workers import envelope, operations, shorten_leases

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import sys; from omnigraph.cli.main import main; sys.exit(main())"
PAIRS_MAX = 200
BLAMED_MAX = 200
PROBLEMS_SHOWN = 40
Entities = dict[tuple[str, str], dict[str, Any]]


@dataclass(slots=True)
class Verdict:
    """What the checks found, and how much they looked at."""

    problems: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        shown = self.problems[:PROBLEMS_SHOWN]
        return {"problems": shown, "problem_count": len(self.problems), **self.counts}


def combined(root: AnyPath, book: Book) -> Lineage:
    """Return all branches: those that are stored, and those noted before they were removed."""
    found = read_lineage(root)
    for life in book.purged.values():
        if life.incarnation not in found.lives:
            found.add(life)
    return found


def check_history(lineage: Lineage, book: Book) -> tuple[Replay, Verdict]:
    """Compare journals and lineage, without the engine."""
    replay = Replay(lineage, book)
    replay.run()
    answers = Acknowledgements(lineage, book, replay)
    answers.run()
    problems = [*lineage.problems, *replay.problems, *answers.problems]
    replay.problems.clear()
    counts = {
        "commits": len(lineage.commits),
        "branches": len(lineage.lives),
        "replayed": replay.replayed,
        "not_replayed": replay.unknown,
        "confirmed_by_readers": replay.confirmed,
        "crossing_merges": replay.crossing,
        "one_of_several": replay.several,
        "acknowledged_checked": answers.acknowledged,
        "landed_unanswered": answers.unanswered_landed,
    }
    return replay, Verdict(problems, counts)


def check_all(setup: Setup) -> Verdict:
    """Reopen the graph and check everything."""
    shorten_leases(setup)
    root, book = setup.place, read_book(setup.folder)
    with og.open(setup.root, durability="none") as graph:
        for name in graph.branches.list():
            graph.refresh(name)
        lineage = combined(root, book)
        replay, verdict = check_history(lineage, book)
        look = FinalLook(graph, setup, lineage, replay, verdict)
        look.run()
    verdict.problems += replay.problems
    return verdict


@dataclass(slots=True)
class FinalLook:
    """Asks the engine about everything, and compares it with the replay."""

    graph: og.Graph
    setup: Setup
    lineage: Lineage
    replay: Replay
    verdict: Verdict
    readable: dict[str, Entities] = field(default_factory=dict)

    def run(self) -> None:
        """Check at rest, read all states, then work once more and look again."""
        for part in (
            self.at_rest,
            self._nothing_pending,
            self._histories,
            self._states,
            self._tags,
            self._differences,
            self._blame,
            self._feeds,
            self._last_work,
            self.at_rest,
        ):
            try:
                part()
            except Exception:
                self._wrong(f"{part.__name__.strip('_')}: {traceback.format_exc()}")

    def _wrong(self, text: str) -> None:
        self.verdict.problems.append(text)

    def _count(self, name: str, more: int = 1) -> None:
        self.verdict.counts[name] = self.verdict.counts.get(name, 0) + more

    def _state(self, **at: Any) -> Entities:
        rows = self.graph.export(**at)
        assert not isinstance(rows, int)
        return by_entity(rows)

    # ---- at rest --------------------------------------------------------------------------

    def at_rest(self) -> None:
        """No slot is left, no write is pending, and every table stands at its pin."""
        root = self.setup.place
        slots = names_in(root / "__recovery")
        if slots:
            self._wrong(f"slots are left: {slots}")
        self._tables_at_their_pins()

    def _nothing_pending(self) -> None:
        """The command line knows of no interrupted write."""
        shown = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", PROGRAM, "recover", self.setup.root, "--list", "--json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if shown.returncode or json.loads(shown.stdout)["pending"]:
            self._wrong(f"recover --list: {shown.stdout} {shown.stderr}")

    def _tables_at_their_pins(self) -> None:
        root = self.setup.place
        for name in self.graph.branches.list():
            snapshot = self.graph.snapshot(name)
            life = next(x for x in self.graph.branches.details() if x.name == name)
            for key, pin in snapshot.tables.items():
                if not life.id.owns(pin.table_branch):
                    continue
                head = dataset(root / pin.path)
                rows = dataset(root / pin.path, version=pin.version).count_rows()
                self._count("tables")
                if head.version != pin.version:
                    self._wrong(f"{name} {key}: head {head.version}, published {pin.version}")
                if rows != pin.row_count:
                    self._wrong(f"{name} {key}: {rows} rows, the manifest says {pin.row_count}")

    def _histories(self) -> None:
        """The engine lists the commits that the manifests hold."""
        living = {life.name: life for life in self.lineage.living()}
        if sorted(living) != sorted(self.graph.branches.list()):
            self._wrong(f"branches {self.graph.branches.list()}, stored are {sorted(living)}")
        for name, life in living.items():
            listed = [item.graph_commit_id for item in self.graph.commits.list(name)][::-1]
            if listed != [commit.id for commit in self.lineage.line(life)]:
                self._wrong(f"the commits listed on {name} are not those stored")

    # ---- states ---------------------------------------------------------------------------

    def _states(self) -> None:
        """Every state of the living branches equals the replay, or was cleaned up."""
        for life in self.lineage.living():
            head = self.lineage.line(life)[-1]
            self._compare(head.id, branch=life.name)
            for commit in life.commits:
                self._compare(commit.id, commit=commit.id)
            if head.id not in self.readable:
                self._wrong(f"the head of {life.name} cannot be read")

    def _compare(self, commit_id: str, **at: str) -> None:
        try:
            found = self._state(**at)
        except og.VersionReclaimedError:
            self._count("states_reclaimed")
            return
        except Exception as error:
            self._wrong(f"reading {at}: {type(error).__name__}: {error}")
            return
        self._count("states_read")
        self.readable[commit_id] = found
        for rule in broken_rules(found):
            self._wrong(f"{at}: {rule}")
        self.replay.confirm(commit_id, found)

    def _tags(self) -> None:
        """Every tag can be read, and shows the state it was given to."""
        for tag in self.graph.tags.list():
            self._count("tags")
            life = self.lineage.lives[tag.branch.uid]
            commit = [c for c in self.lineage.line(life) if c.seq <= tag.version][-1]
            if tag.commit_id is not None:
                # It may stand between commits that were published together.
                commit = self.lineage.commits[tag.commit_id]
            try:
                self.replay.confirm(commit.id, self._state(tag=tag.name))
            except Exception as error:
                self._wrong(f"tag {tag.name}: {type(error).__name__}: {error}")

    def _differences(self) -> None:
        """Differences of readable states are those of the replayed ones."""
        dice = random.Random(self.setup.seed)  # noqa: S311 - a test
        schemas: dict[str, list[str]] = {}
        for name in sorted(self.readable):
            schemas.setdefault(self.lineage.commits[name].schema_hash, []).append(name)
        names = list(itertools.chain.from_iterable(schemas.values()))
        for _turn in range(min(PAIRS_MAX, len(names) ** 2)):
            a = dice.choice(names)
            b = dice.choice(schemas[self.lineage.commits[a].schema_hash])
            self._count("differences")
            try:
                found = {(item.type_name, item.id): item.op for item in self.graph.diff(a, b)}
            except Exception as error:
                self._wrong(f"diff {a} {b}: {type(error).__name__}: {error}")
                continue
            if found != operations(self.readable[a], self.readable[b]):
                self._wrong(f"diff {a} {b} is not the difference of the two states")

    def _blame(self) -> None:
        """The commit that last changed an entity is the one the replay says."""
        dice = random.Random(self.setup.seed)  # noqa: S311 - a test
        for life in self.lineage.living():
            line = self.lineage.line(life)
            images = self._known_images(line)
            if not images:
                continue
            keys = sorted(images[-1].envelopes())
            for name, entity_id in dice.sample(keys, min(len(keys), BLAMED_MAX)):
                place = _last_change(images, name, entity_id)
                if place == 0 and len(images) < len(line):
                    continue
                wanted = place + len(line) - len(images)
                self._count("blamed")
                try:
                    found = self.graph.commits.last_change(name, entity_id, life.name)
                except og.VersionReclaimedError:
                    self._count("blame_reclaimed")
                    continue
                except Exception as error:
                    self._wrong(f"blame of {name} {entity_id}: {type(error).__name__}: {error}")
                    continue
                if found is None or found.graph_commit_id != line[wanted].id:
                    self._wrong(
                        f"{name} {entity_id} on {life.name}: last changed by {line[wanted].id}, "
                        f"blamed is {found}"
                    )

    def _known_images(self, line: Sequence[Commit]) -> list[State]:
        """Return the states of the newest commits of a branch, as far back as each is known."""
        states = [self.replay.state(commit.id) for commit in reversed(line)]
        known = itertools.takewhile(lambda state: state is not None, states)
        return [state for state in known if state is not None][::-1]

    # ---- the feed -------------------------------------------------------------------------

    def _feeds(self) -> None:
        """The feed, from the oldest state from which all is readable, leads to the head."""
        for life in self.lineage.living():
            line = self.lineage.line(life)
            first = len(line) - 1
            while first > 0 and line[first - 1].id in self.readable:
                first -= 1
            if line[first].id not in self.readable:
                continue
            try:
                copy = self._followed(life.name, line[first].id)
            except Exception as error:
                self._wrong(f"feed of {life.name}: {type(error).__name__}: {error}")
                continue
            self._count("feeds")
            self._count("feed_commits", len(line) - 1 - first)
            if copy != self.readable[line[-1].id]:
                self._wrong(f"the feed of {life.name} does not lead to its head")

    def _followed(self, branch: str, start: str) -> Entities:
        copy = dict(self.readable[start])
        page = self.graph.feed.poll(f"after:{start}", branch=branch, limit=8000)
        while True:
            for block in page.blocks:
                if block.schema_boundary:
                    copy = dict(self.readable[block.commit.graph_commit_id])
                for change in block.changes:
                    key = (change.type_name, change.id)
                    if change.op == "delete":
                        del copy[key]
                    else:
                        copy[key] = envelope(change)
            if page.caught_up:
                return copy
            page = self.graph.feed.poll(
                branch=branch,
                limit=8000,
                cursor=page.cursor,
                page_token=page.next_page_token,
            )

    # ---- once more ------------------------------------------------------------------------

    def _last_work(self) -> None:
        """Every branch can still be written to, optimized and cleaned up, and is then right."""
        wanted: dict[str, Entities] = {}
        for life in self.lineage.living():
            head = self.lineage.line(life)[-1].id
            try:
                made = self._work_on(life.name, self.replay.state(head))
            except Exception as error:
                self._wrong(f"last work on {life.name}: {type(error).__name__}: {error}")
                continue
            if made is not None:
                wanted[life.name] = made
        if self.setup.has("cleanup"):
            self._last_cleanup()
        for name, entities in wanted.items():
            try:
                if self._state(branch=name) != entities:
                    self._wrong(f"{name} is not as it should be after the last work on it")
            except Exception as error:
                self._wrong(f"reading {name} at last: {type(error).__name__}: {error}")

    def _last_cleanup(self) -> None:
        try:
            report = self.graph.cleanup(keep=3, grace=0, dry_run=False)
            errors = [item.error for item in report.tables if item.error]
        except Exception as error:
            errors = [f"{type(error).__name__}: {error}"]
        if errors:
            self._wrong(f"the last cleanup: {errors}")

    def _work_on(self, branch: str, state: State | None) -> Entities | None:
        last = f"last{os.getpid()}"
        for op in (
            {"op": "insert_person", "slug": last, "name": last, "level": 1, "email": None},
            {"op": "insert_firm", "slug": last, "name": last},
            {"op": "works", "id": last, "a": last, "b": last},
            {"op": "update_one", "slug": last, "level": 2},
            {"op": "knows", "id": last, "a": last, "b": last},
            {"op": "delete_knows", "a": last},
            {"op": "delete_person", "slug": last},
        ):
            made = perform(self.graph, branch, op, f"{last}{branch}{op['op']}")
            if made["commit"] is None:
                self._wrong(f"the last {op['op']} on {branch} changed nothing")
            if state is not None:
                state, _touched = apply(state, op)
            self._count("last_writes")
        if self.setup.has("branch-optimize") or branch == "main":
            self.graph.optimize(branch)
        return None if state is None else state.envelopes()


def _last_change(states: list[State], name: str, entity_id: str) -> int:
    """Return the place of the state that an entity has had its present image since."""

    def image(state: State) -> Any:
        row = state.rows[name].get(entity_id)
        return None if row is None else {"properties": state.properties(name), **row}

    newest = image(states[-1])
    place = len(states) - 1
    while place > 0 and image(states[place - 1]) == newest:
        place -= 1
    return place

"""What was acknowledged is there exactly once, in the order of time; what was refused is not."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from tests.soak.book import Book, Operation
from tests.soak.lineage import Commit, Life, Lineage
from tests.soak.replay import OWN_KINDS, Replay


@dataclass(slots=True)
class Acknowledgements:
    """Compares the journals with the lineage."""

    lineage: Lineage
    book: Book
    replay: Replay
    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0
    unanswered_landed: int = 0

    def run(self) -> None:
        """Check everything."""
        self._check_chains()
        by_operation: dict[str, list[Commit]] = defaultdict(list)
        for commit in self.lineage.commits.values():
            by_operation[commit.operation_id].append(commit)
        for operation in self.book.operations.values():
            self._check_operation(operation, by_operation.get(operation.id, []))
        for name, commits in by_operation.items():
            self._check_once(name, commits)
        for life in self.lineage.lives.values():
            self._check_order(life)
        self._check_freshness()
        self._check_branches()

    def _check_chains(self) -> None:
        """Every branch is one chain, and begins where it was made."""
        for life in self.lineage.lives.values():
            if life.parent is not None and life.parent not in self.lineage.lives:
                self.problems.append(f"{life.incarnation} was made from an unknown branch")
                continue
            line = self.lineage.line(life)
            for before, after in itertools.pairwise(line):
                if after.parent != before.id or after.position <= before.position:
                    self.problems.append(
                        f"{life.incarnation}: commit {after.id} at {after.seq} follows "
                        f"{after.parent}, not {before.id} at {before.seq}"
                    )

    def _check_operation(self, operation: Operation, found: list[Commit]) -> None:
        known = {commit.id: commit for commit in found}
        for name in operation.commits:
            self.acknowledged += 1
            commit = known.get(name)
            if commit is None:
                self.problems.append(
                    f"acknowledged and lost: {operation.id} by {operation.worker} on "
                    f"{operation.branch}, commit {name}: {operation.op}"
                )
            elif self.lineage.lives[self.lineage.homes[name]].name != operation.branch:
                self.problems.append(f"{operation.id} is on {self.lineage.homes[name]}")
        for commit in found:
            if commit.id not in operation.commits:
                self.unanswered_landed += 1
                if not operation.is_open:
                    answers = [a.get("error") or a.get("commit") for a in operation.answers]
                    self.problems.append(
                        f"refused, or said to change nothing, but there: {operation.id} as "
                        f"{commit.id}, answered {answers}"
                    )
            if operation.head is not None and self._before(commit) != operation.head:
                self.problems.append(
                    f"{operation.id} expected the head {operation.head} and follows {commit.parent}"
                )

    def _before(self, commit: Commit) -> str | None:
        """Return what a commit follows; maintenance in between changes nothing for anybody."""
        operation = self.book.operations[commit.operation_id]
        name = commit.parent
        while name is not None and name != operation.head:
            parent = self.lineage.commits.get(name)
            if parent is None or parent.kind not in ("optimize", "ensure_indices"):
                break
            name = parent.parent
        return name

    def _check_once(self, name: str, commits: list[Commit]) -> None:
        """No history holds an operation twice."""
        for commit in commits:
            if name not in self.book.operations and commit.kind not in OWN_KINDS | {"init"}:
                self.problems.append(f"nobody asked for {commit.kind} {commit.id} ({name})")
        for number, one in enumerate(commits):
            for other in commits[number + 1 :]:
                lines = [self._line_ids(commit) for commit in (one, other)]
                if one.id in lines[1] or other.id in lines[0]:
                    self.problems.append(f"{name} was done twice: {one.id} and {other.id}")

    def _line_ids(self, commit: Commit) -> set[str]:
        life = self.lineage.lives[self.lineage.homes[commit.id]]
        line = self.lineage.line(life)
        return {item.id for item in line if item.position <= commit.position}

    def _check_order(self, life: Life) -> None:
        """A write that began after another was acknowledged comes after it."""
        acked_after = float("inf")
        for commit in reversed(life.commits):
            operation = self.book.operations.get(commit.operation_id)
            if operation is None:
                continue
            if operation.begun > acked_after:
                self.problems.append(
                    f"{life.incarnation}: {operation.id} began after a later one was acknowledged"
                )
            acked_after = min(acked_after, operation.commits.get(commit.id, float("inf")))

    def _check_freshness(self) -> None:
        """A look at a head finds everything that was acknowledged before it began."""
        acked: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for operation in self.book.operations.values():
            for name, at in operation.commits.items():
                if name in self.lineage.commits:
                    home = self.lineage.homes[name]
                    acked[home].append((at, self.lineage.commits[name].seq))
        newest: dict[str, tuple[list[float], list[int]]] = {}
        for home, items in acked.items():
            items.sort()
            tops = list(itertools.accumulate((seq for _, seq in items), max))
            newest[home] = ([at for at, _ in items], tops)
        for look in self.book.looks:
            home = self.lineage.homes.get(look["head"], "")
            if not home or self.lineage.lives[home].name != look["branch"]:
                # The head of a branch nobody has written to yet is its parent's.
                continue
            times, tops = newest.get(home, ([], []))
            place = bisect.bisect_left(times, look["began"])
            if place and tops[place - 1] > look["seq"]:
                self.problems.append(f"a read saw {home} at {look['seq']}, not {tops[place - 1]}")

    def _check_branches(self) -> None:
        """A branch that was made is there unless somebody may have deleted it, and not then."""
        deletes = self._deletes()
        for entry in self.book.done:
            name, made = entry.get("incarnation"), entry["at"]
            if name is None:
                continue
            life = self.lineage.lives.get(name)
            tries = deletes[entry["branch"]]
            if life is None and not any(ended > made for _, ended, _ in tries):
                self.problems.append(f"the branch {name} was made, and is gone")
            if life is not None and life.status == "living":
                gone = [began for began, _, done in tries if done and began > made]
                if gone:
                    self.problems.append(f"the branch {name} was deleted, and is there")

    def _deletes(self) -> dict[str, list[tuple[float, float, bool]]]:
        """Return by branch when somebody tried to delete it, from and to, and whether it did."""
        found: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
        never = float("inf")
        done = [entry for entry in self.book.done if entry["kind"] == "delete"]
        deleted = {entry["began_call"] for entry in done if "error" not in entry}
        for entry in self.book.calls:
            if entry["kind"] == "delete":
                times = (entry["at"], entry.get("ended", never))
                found[entry["branch"]].append((*times, entry["at"] in deleted))
        for operation in self.book.operations.values():
            if operation.op["op"] == "merge" and operation.op["drop"]:
                # It may have been repeated, so it ends when the run does.
                found[operation.op["source"]].append((operation.begun, never, False))
        return found

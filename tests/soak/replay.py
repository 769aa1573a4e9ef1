"""Replays every commit of a run, of all branches, on plain dictionaries.

The lineage says in which order commits stand, the journals what each was asked to do. A merge may
have several bases that are as good as each other, so a commit has a list of possible states; what
readers saw of it narrows the list.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.soak.book import Book, Operation
from tests.soak.lineage import Commit, Lineage
from tests.soak.model import Refused, State, apply, digest, merge

OWN_KINDS = {"optimize", "ensure_indices", "recovery", "branch_delete"}
"""Kinds of commits that the engine makes by itself; none of them changes a row."""
KINDS = {"merge": "merge", "revert": "revert", "pick": "cherry_pick", "schema": "schema_apply"}
STATES_MAX = 16


class _Unknown(Exception):
    """A state that is needed could not be replayed."""


@dataclass(slots=True)
class Replay:
    """The possible states after every commit, and everything that is wrong."""

    lineage: Lineage
    book: Book
    states: dict[str, list[State]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    replayed: int = 0
    confirmed: int = 0
    ambiguous: int = 0
    unknown: int = 0
    _places: dict[str, int] = field(default_factory=dict)
    _ancestors: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Replay all commits, each after its parents."""
        for commit in self._in_order():
            self._enter(commit)
            try:
                found = self._after(commit)
            except Refused as refused:
                self.problems.append(f"{self._named(commit)} cannot be replayed: {refused}")
                found = []
            except _Unknown:
                # A commit it is made of could not be replayed; that was reported.
                self.unknown += 1
                found = []
            self.replayed += bool(found)
            self.states[commit.id] = self._seen(commit, found)

    def _in_order(self) -> Iterable[Commit]:
        """Yield commits, parents first; those whose parents are unknown are reported."""
        known = self.lineage.commits
        done: set[str] = set()
        for first in sorted(known.values(), key=lambda commit: commit.seq):
            stack = [first]
            while stack:
                commit = stack[-1]
                missing = [p for p in self._needed(commit) if p in known and p not in done]
                if commit.id in done or not missing:
                    stack.pop()
                    if commit.id not in done:
                        done.add(commit.id)
                        yield commit
                else:
                    stack.extend(known[name] for name in missing)

    def _needed(self, commit: Commit) -> list[str]:
        """Return the commits whose states a commit is made of."""
        operation = self.book.operations.get(commit.operation_id)
        found = list(commit.parents)
        copied = None if operation is None else operation.op.get("commit")
        if copied is not None:
            found.append(copied)
            found += self.lineage.commits[copied].parents if copied in self.lineage.commits else ()
        return found

    def _enter(self, commit: Commit) -> None:
        place = self._places[commit.id] = len(self._places)
        found = 1 << place
        for name in commit.parents:
            found |= self._ancestors.get(name, 0)
        self._ancestors[commit.id] = found

    def grew(self, commit_id: str, origin: str) -> bool:
        """Whether a commit is another one or grew from it."""
        return bool(self._ancestors[commit_id] >> self._places[origin] & 1)

    # ---- what a commit does ---------------------------------------------------------------

    def _after(self, commit: Commit) -> list[State]:
        if commit.parent is None:
            return [State()]
        before = self._of(commit.parent)
        operation = self.book.operations.get(commit.operation_id)
        if operation is None:
            if commit.kind in OWN_KINDS:
                return before
            raise Refused("nobody asked for it")
        self._check_kind(commit, operation)
        kind = operation.op["op"]
        if kind == "merge":
            return self._merged(commit, operation, before)
        if kind in ("revert", "pick"):
            return self._copied(operation, before)
        return self._written(operation, before)

    def _of(self, commit_id: str) -> list[State]:
        found = self.states.get(commit_id)
        if found is None:
            raise Refused(f"commit {commit_id} is not known")
        if not found:
            raise _Unknown
        return found

    def _check_kind(self, commit: Commit, operation: Operation) -> None:
        kind = operation.op["op"]
        wanted = KINDS.get(kind, "load" if kind == "load" else "mutation")
        if commit.kind != wanted:
            self.problems.append(f"{self._named(commit)} is a {commit.kind}, not a {wanted}")
        if (commit.merged is not None) != (kind == "merge"):
            self.problems.append(f"{self._named(commit)} has the wrong number of parents")

    def _written(self, operation: Operation, before: list[State]) -> list[State]:
        found: list[State] = []
        reason = ""
        for state in before:
            try:
                made, touched = apply(state, operation.op)
            except Refused as refused:
                reason = str(refused)
                continue
            if touched:
                found.append(made)
            else:
                reason = "it changes nothing"
        if not found:
            raise Refused(f"{operation.op}: {reason}")
        return found

    def _merged(self, commit: Commit, operation: Operation, ours: list[State]) -> list[State]:
        assert commit.parent is not None
        assert commit.merged is not None
        theirs = self._of(commit.merged)
        bases = self.bases(commit.merged, commit.parent)
        self.ambiguous += len(bases) > 1
        states = [state for name in bases for state in self._of(name)]
        op = operation.op
        return self._three_ways(states, theirs, ours, op["resolve"], op["by_property"])

    def _copied(self, operation: Operation, ours: list[State]) -> list[State]:
        copied = self.lineage.commits.get(operation.op["commit"])
        if copied is None or copied.parent is None:
            raise Refused(f"commit {operation.op['commit']} is not known")
        base, theirs = self._of(copied.parent), self._of(copied.id)
        if operation.op["op"] == "revert":
            base, theirs = theirs, base
        return self._three_ways(base, theirs, ours, operation.op["resolve"], by_property=False)

    @staticmethod
    def _three_ways(
        bases: list[State],
        theirs: list[State],
        ours: list[State],
        resolve: str | None,
        by_property: bool,
    ) -> list[State]:
        found: dict[str, State] = {}
        reason = ""
        for base, source, target in itertools.product(bases, theirs, ours):
            try:
                made = merge(base, source, target, resolve=resolve, by_property=by_property)
            except Refused as refused:
                reason = str(refused)
            else:
                found[digest(made.envelopes())] = made
        if not found:
            raise Refused(reason)
        return list(found.values())[:STATES_MAX]

    def bases(self, source: str, target: str) -> list[str]:
        """Return the common ancestors that no other common ancestor grew from."""
        found: set[str] = set()
        seen, queue = {source}, [source]
        while queue:
            name = queue.pop()
            if self.grew(target, name):
                found.add(name)
                continue
            for parent in self.lineage.commits[name].parents:
                if parent not in seen and parent in self._places:
                    seen.add(parent)
                    queue.append(parent)
        best = [
            name
            for name in found
            if not any(other != name and self.grew(other, name) for other in found)
        ]
        if not best:
            raise Refused("the branches have no commit in common")
        return sorted(best)

    # ---- what readers saw -----------------------------------------------------------------

    def _seen(self, commit: Commit, found: list[State]) -> list[State]:
        seen = self.book.seen.get(commit.id, set())
        if not found or not seen:
            return found
        kept = [state for state in found if {digest(state.envelopes())} == seen]
        if not kept:
            self.problems.append(
                f"{self._named(commit)}: readers saw {sorted(seen)}, "
                f"the replay says {[digest(state.envelopes()) for state in found]}"
            )
            return found
        self.confirmed += 1
        return kept

    def confirm(self, commit_id: str, entities: dict[tuple[str, str], dict[str, object]]) -> None:
        """Compare a commit with what was read of it; narrows its states."""
        found = self.states.get(commit_id, [])
        if not found:
            return
        kept = [state for state in found if state.envelopes() == entities]
        if kept:
            self.states[commit_id] = kept[:1]
            return
        wanted = found[0].envelopes()
        both = wanted.keys() | entities.keys()
        keys = sorted(key for key in both if wanted.get(key) != entities.get(key))
        shown = [(key, wanted.get(key), entities.get(key)) for key in keys[:3]]
        commit = self.lineage.commits[commit_id]
        self.problems.append(
            f"{self._named(commit)}: {len(keys)} entities are not as replayed: {shown}"
        )

    def _named(self, commit: Commit) -> str:
        home = self.lineage.homes[commit.id]
        return f"{commit.kind} {commit.id} ({commit.operation_id}) on {home} at {commit.seq}"

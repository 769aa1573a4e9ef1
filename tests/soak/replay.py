"""Replays every commit of a run, of all branches, on plain dictionaries.

The lineage says in which order commits stand, the journals what each was asked to do. Together they
leave every commit exactly one state; what readers saw of it is compared with that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.property.merge_model import Ancestry, commits_of
from tests.soak.book import Book, Operation
from tests.soak.lineage import Commit, Lineage
from tests.soak.model import Origin, Refused, State, apply, digest, from_one, merge

OWN_KINDS = {"optimize", "ensure_indices", "recovery", "branch_delete"}
"""Kinds of commits that the engine makes by itself; none of them changes a row."""
KINDS = {"merge": "merge", "revert": "revert", "pick": "cherry_pick", "schema": "schema_apply"}


class _Unknown(Exception):
    """A state that is needed could not be replayed."""


@dataclass(slots=True)
class Replay:
    """The state after every commit, None where it could not be found out, and what is wrong."""

    lineage: Lineage
    book: Book
    states: dict[str, State | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    replayed: int = 0
    confirmed: int = 0
    crossing: int = 0
    """Merges that started from several commits."""
    unknown: int = 0
    _ancestry: Ancestry = field(default_factory=Ancestry)

    def run(self) -> None:
        """Replay all commits, each after its parents."""
        for commit in self._in_order():
            self._ancestry.enter(commit)
            found = None
            try:
                found = self._after(commit)
            except Refused as refused:
                self.problems.append(f"{self._named(commit)} cannot be replayed: {refused}")
            except _Unknown:
                # A commit it is made of could not be replayed; that was reported.
                self.unknown += 1
            self.states[commit.id] = found
            if found is not None:
                self.replayed += 1
                self._check_seen(commit, found)

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

    # ---- what a commit does ---------------------------------------------------------------

    def _after(self, commit: Commit) -> State:
        if commit.parent is None:
            return State()
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

    def _of(self, commit_id: str) -> State:
        if commit_id not in self.states:
            raise Refused(f"commit {commit_id} is not known")
        found = self.states[commit_id]
        if found is None:
            raise _Unknown
        return found

    def _check_kind(self, commit: Commit, operation: Operation) -> None:
        kind = operation.op["op"]
        wanted = KINDS.get(kind, "load" if kind == "load" else "mutation")
        if commit.kind != wanted:
            self.problems.append(f"{self._named(commit)} is a {commit.kind}, not a {wanted}")
        if (commit.merged is not None) != (kind == "merge"):
            self.problems.append(f"{self._named(commit)} has the wrong number of parents")

    def _written(self, operation: Operation, before: State) -> State:
        try:
            made, touched = apply(before, operation.op)
        except Refused as refused:
            raise Refused(f"{operation.op}: {refused}") from refused
        if not touched:
            raise Refused(f"{operation.op}: it changes nothing")
        return made

    def _merged(self, commit: Commit, operation: Operation, ours: State) -> State:
        assert commit.parent is not None
        if commit.merged is None:
            raise Refused("it names no commit that it merged")
        theirs, op = self._of(commit.merged), operation.op
        bases = self._ancestry.bases([commit.merged], [commit.parent])
        if not bases:
            raise Refused("the branches have no commit in common")
        if commit.merged in bases:
            raise Refused("there was nothing to merge")
        self.crossing += len(bases) > 1
        tree = self._ancestry.tree(bases)
        origin = Origin(tree, {name: self._of(name) for name in commits_of(tree)})
        return merge(origin, theirs, ours, resolve=op["resolve"], by_property=op["by_property"])

    def _copied(self, operation: Operation, ours: State) -> State:
        copied = self.lineage.commits.get(operation.op["commit"])
        if copied is None or copied.parent is None:
            raise Refused(f"commit {operation.op['commit']} is not known")
        base, theirs = self._of(copied.parent), self._of(copied.id)
        if operation.op["op"] == "revert":
            base, theirs = theirs, base
        resolve = operation.op["resolve"]
        return merge(from_one(base), theirs, ours, resolve=resolve, by_property=False)

    # ---- what readers saw -----------------------------------------------------------------

    def _check_seen(self, commit: Commit, found: State) -> None:
        seen = self.book.seen.get(commit.id, set())
        wanted = digest(found.envelopes())
        if seen - {wanted}:
            self.problems.append(
                f"{self._named(commit)}: readers saw {sorted(seen)}, the replay says {wanted}"
            )
        elif seen:
            self.confirmed += 1

    def confirm(self, commit_id: str, entities: dict[tuple[str, str], dict[str, object]]) -> None:
        """Compare a commit with what was read of it."""
        found = self.states.get(commit_id)
        if found is None:
            return
        wanted = found.envelopes()
        both = wanted.keys() | entities.keys()
        keys = sorted(key for key in both if wanted.get(key) != entities.get(key))
        if keys:
            shown = [(key, wanted.get(key), entities.get(key)) for key in keys[:3]]
            commit = self.lineage.commits[commit_id]
            self.problems.append(
                f"{self._named(commit)}: {len(keys)} entities are not as replayed: {shown}"
            )

    def _named(self, commit: Commit) -> str:
        home = self.lineage.homes[commit.id]
        return f"{commit.kind} {commit.id} ({commit.operation_id}) on {home} at {commit.seq}"

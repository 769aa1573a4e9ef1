"""Replays every commit of a run, of all branches, on plain dictionaries.

The lineage says in which order commits stand, the journals what each was asked to do. Together they
leave every commit exactly one state; what readers saw of it is compared with that. One thing is in
neither: whether a cleanup had removed an older state that a merge of crossed branches would have
looked at. The engine then counts it as not known (docs/decisions/0014), so such a merge leads to
one of several states, until a reader of it, or of a commit made from it, saw which.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from tests.property.merge_model import Ancestry, commits_of
from tests.soak.book import Book, Operation
from tests.soak.lineage import Commit, Lineage
from tests.soak.model import Origin, Refused, State, apply, digest, from_one, merge

OWN_KINDS = {"optimize", "ensure_indices", "recovery", "branch_delete"}
"""Kinds of commits that the engine makes by itself; none of them changes a row."""
KINDS = {"merge": "merge", "revert": "revert", "pick": "cherry_pick", "schema": "schema_apply"}


STARTS_MAX = 200
"""Ways in which older states can be missing, looked at for one merge."""


class _Unknown(Exception):
    """A state that is needed could not be replayed."""


@dataclass(slots=True)
class Replay:
    """The states each commit may have led to, and what is wrong. None is left after a mistake."""

    lineage: Lineage
    book: Book
    possible: dict[str, list[State]] = field(default_factory=dict)
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
            found: list[State] = []
            try:
                found = self._after(commit)
            except Refused as refused:
                self.problems.append(f"{self._named(commit)} cannot be replayed: {refused}")
            except _Unknown:
                # A commit it is made of could not be replayed; that was reported.
                self.unknown += 1
            if found:
                self.replayed += 1
                found = self._check_seen(commit, found)
            self.possible[commit.id] = found

    def state(self, commit_id: str) -> State | None:
        """Return the state after a commit; None if there was a mistake, or it is one of several."""
        found = self.possible.get(commit_id, [])
        return found[0] if len(found) == 1 else None

    @property
    def several(self) -> int:
        """Commits of which it is not known which of several states they led to."""
        return sum(len(found) > 1 for found in self.possible.values())

    def _in_order(self) -> Iterable[Commit]:
        """Yield commits, parents first; those whose parents are unknown are reported."""
        known = self.lineage.commits
        done: set[str] = set()
        for first in sorted(known.values(), key=lambda commit: commit.position):
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
            return _outcomes(self._merges(commit, operation, before))
        if kind in ("revert", "pick"):
            return _outcomes(self._copies(operation, before))
        return _outcomes(partial(self._written, operation, state) for state in before)

    def _of(self, commit_id: str) -> list[State]:
        if commit_id not in self.possible:
            raise Refused(f"commit {commit_id} is not known")
        found = self.possible[commit_id]
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

    def _written(self, operation: Operation, before: State) -> State:
        try:
            made, touched = apply(before, operation.op)
        except Refused as refused:
            raise Refused(f"{operation.op}: {refused}") from refused
        if not touched:
            raise Refused(f"{operation.op}: it changes nothing")
        return made

    def _merges(
        self, commit: Commit, operation: Operation, before: list[State]
    ) -> Iterator[Callable[[], State]]:
        """Yield the ways in which the engine may have merged, the one that knows most first."""
        assert commit.parent is not None
        if commit.merged is None:
            raise Refused("it names no commit that it merged")
        bases = self._ancestry.bases([commit.merged], [commit.parent])
        if not bases:
            raise Refused("the branches have no commit in common")
        if commit.merged in bases:
            raise Refused("there was nothing to merge")
        self.crossing += len(bases) > 1
        resolve, by_property = operation.op["resolve"], operation.op["by_property"]
        for tree in itertools.islice(self._ancestry.trees(bases), STARTS_MAX):
            names = sorted(set(commits_of(tree)))
            known = itertools.product(*(self._of(name) for name in names))
            for states, theirs, ours in itertools.product(known, self._of(commit.merged), before):
                origin = Origin(tree, dict(zip(names, states, strict=True)))
                yield partial(merge, origin, theirs, ours, resolve=resolve, by_property=by_property)

    def _copies(self, operation: Operation, before: list[State]) -> Iterator[Callable[[], State]]:
        copied = self.lineage.commits.get(operation.op["commit"])
        if copied is None or copied.parent is None:
            raise Refused(f"commit {operation.op['commit']} is not known")
        ends = [self._of(copied.parent), self._of(copied.id)]
        if operation.op["op"] == "revert":
            ends.reverse()
        resolve = operation.op["resolve"]
        for base, theirs, ours in itertools.product(*ends, before):
            yield partial(merge, from_one(base), theirs, ours, resolve=resolve, by_property=False)

    # ---- what readers saw -----------------------------------------------------------------

    def _check_seen(self, commit: Commit, found: list[State]) -> list[State]:
        """Return the states that readers may have seen, all if none of them did."""
        seen = self.book.seen.get(commit.id, set())
        right = [state for state in found if seen <= {digest(state.envelopes())}]
        if not right:
            wanted = [digest(state.envelopes()) for state in found]
            self.problems.append(
                f"{self._named(commit)}: readers saw {sorted(seen)}, the replay says {wanted}"
            )
        elif seen:
            self.confirmed += 1
        return right or found

    def confirm(self, commit_id: str, entities: dict[tuple[str, str], dict[str, object]]) -> None:
        """Compare a commit with what was read of it."""
        found = self.possible.get(commit_id, [])
        right = [state for state in found if state.envelopes() == entities]
        if right or not found:
            self.possible[commit_id] = right
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


def _outcomes(ways: Iterable[Callable[[], State]]) -> list[State]:
    """Return the different states that some ways lead to, at least one; the first comes first."""
    found: list[State] = []
    refusal: Refused | None = None
    for way in ways:
        try:
            made = way()
        except Refused as refused:
            refusal = refusal or refused
            continue
        if made not in found:
            found.append(made)
    if not found:
        raise refusal or Refused("there is no state it could start from")
    return found

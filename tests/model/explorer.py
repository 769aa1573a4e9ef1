"""Explores every interleaving of some processes over one shared state.

A process is a function from its own state and the shared state to its possible next steps. Shared
and own states are any hashable values. Both are numbered as they are met, so a global state is one
whole number, and the steps of a process are computed once for each pair it is met in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

SHARED_BITS = 26
LOCAL_BITS = 20

Step = tuple[str, Any, Any]
"""What is done, the own state after it, and the shared state after it."""


class Process(Protocol):
    """One process of a system."""

    name: str
    start: Any

    def steps(self, local: Any, shared: Any) -> list[Step]:
        """Return the possible next steps; none when it has ended or must wait."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A state that must not be, and the shortest way to it."""

    problem: str
    trace: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{number:3d}. {line}" for number, line in enumerate(self.trace, start=1)]
        return "\n".join([self.problem, *lines])


@dataclass(slots=True)
class _Numbers:
    """Gives each value a number."""

    known: dict[Any, int] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)

    def of(self, value: Any) -> int:
        number = self.known.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Explorer:
    """Explores one system, breadth first."""

    def __init__(
        self, processes: list[Any], shared: Any, check: Callable[[Any], str | None]
    ) -> None:
        self._processes = processes
        self._check = check
        self._shared = _Numbers()
        self._locals = [_Numbers() for _process in processes]
        self._shifts = [SHARED_BITS + LOCAL_BITS * place for place in range(len(processes))]
        self._memo: list[dict[int, list[int]]] = [{} for _process in processes]
        self._bad: dict[int, str] = {}
        self._parents: dict[int, int] = {}
        self._first = self._number(shared)
        for place, process in enumerate(processes):
            self._first |= self._locals[place].of(process.start) << self._shifts[place]
        self.transitions = 0

    @property
    def states(self) -> int:
        """How many global states were met."""
        return len(self._parents)

    @property
    def shared_states(self) -> list[Any]:
        """The shared states that were met."""
        return self._shared.values

    def pairs(self, place: int) -> Iterator[tuple[Any, Any]]:
        """Yield each own state of one process with each shared state it was met in."""
        mask = (1 << SHARED_BITS) - 1
        for key in self._memo[place]:
            yield self._locals[place].values[key >> SHARED_BITS], self._shared.values[key & mask]

    def run(self) -> Violation | None:
        """Visit every state that can be reached; return the first one that must not be."""
        shared_mask = (1 << SHARED_BITS) - 1
        local_mask = (1 << LOCAL_BITS) - 1
        places = [
            (place, shift, ~(shared_mask | local_mask << shift), self._memo[place])
            for place, shift in enumerate(self._shifts)
        ]
        parents, bad = self._parents, self._bad
        parents[self._first] = -1
        frontier = [self._first]
        while frontier:
            found: list[int] = []
            for state in frontier:
                shared = state & shared_mask
                for place, shift, clear, memo in places:
                    key = (state >> shift & local_mask) << SHARED_BITS | shared
                    following = memo.get(key)
                    if following is None:
                        following = memo[key] = self._following(place, key)
                    rest = state & clear
                    for change in following:
                        self.transitions += 1
                        new = rest | change
                        if new not in parents:
                            parents[new] = state
                            found.append(new)
                            if bad and new & shared_mask in bad:
                                return Violation(bad[new & shared_mask], tuple(self._trace(new)))
            frontier = found
        return None

    def _number(self, shared: Any) -> int:
        number = self._shared.of(shared)
        if number >> SHARED_BITS:
            raise OverflowError("too many shared states")
        return number

    def _following(self, place: int, key: int) -> list[int]:
        local = self._locals[place].values[key >> SHARED_BITS]
        shared = self._shared.values[key & (1 << SHARED_BITS) - 1]
        found: list[int] = []
        for _label, own, after in self._processes[place].steps(local, shared):
            known = len(self._shared.values)
            number = self._number(after)
            if number == known:
                problem = self._check(after)
                if problem is not None:
                    self._bad[number] = problem
            own_number = self._locals[place].of(own)
            if own_number >> LOCAL_BITS:
                raise OverflowError("too many states of one process")
            found.append(own_number << self._shifts[place] | number)
        return found

    def _trace(self, state: int) -> list[str]:
        lines: list[str] = []
        while (before := self._parents[state]) >= 0:
            lines.append(self._label(before, state))
            state = before
        return lines[::-1]

    def _label(self, before: int, after: int) -> str:
        """Return what was done between two states, found by doing it again."""
        shared = self._shared.values[before & (1 << SHARED_BITS) - 1]
        wanted = self._shared.values[after & (1 << SHARED_BITS) - 1]
        for place, process in enumerate(self._processes):
            values = self._locals[place].values
            others = ~((1 << LOCAL_BITS) - 1 << self._shifts[place] | (1 << SHARED_BITS) - 1)
            if before & others != after & others:
                continue
            own = values[before >> self._shifts[place] & (1 << LOCAL_BITS) - 1]
            then = values[after >> self._shifts[place] & (1 << LOCAL_BITS) - 1]
            for label, local, result in process.steps(own, shared):
                if local == then and result == wanted:
                    return f"{process.name}: {label}"
        raise AssertionError("no process made this step")

"""Small systems of the model, and runs of one process alone from any state of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from tests.model.explorer import Explorer, Step
from tests.model.protocol import (
    DONE,
    Cleaner,
    Deleter,
    Recoverer,
    Rules,
    Tagger,
    Writer,
)
from tests.model.storage import (
    ABSENT,
    LIVE,
    NO_OWNER,
    Line,
    Shared,
    head_of,
    latest,
    new_line,
    problem,
)

FRESH = 6
"""The number of a writer that comes when all others are dead; theirs are lower."""
STEPS_MAX = 80
PROTOCOL = Rules()


@dataclass(frozen=True)
class Scenario:
    """Which processes there are. A writer is the tables it writes to and its attempts."""

    name: str
    writers: tuple[tuple[tuple[int, ...], int], ...]
    rules: Rules = PROTOCOL
    tables: int = 1
    recoverer: bool = False
    fold: bool = False
    cleaners: int = 0
    clean_from: int = 2
    tagger: bool = False
    deleter: bool = False
    leftover: bool = False

    def __str__(self) -> str:
        return self.name

    @cached_property
    def writer_processes(self) -> list[Writer]:
        """The writers; all but the first open the branch by name if branches change."""
        return [
            Writer(
                number,
                tables,
                self.rules,
                attempts=attempts,
                by_name=self.deleter and number > 0,
            )
            for number, (tables, attempts) in enumerate(self.writers)
        ]

    def processes(self) -> list[Any]:
        """Return every process."""
        rules, found = self.rules, list[Any](self.writer_processes)
        if self.fold:
            found.append(Writer(len(found), (self.tables - 1,), rules, fold=True))
        if self.recoverer:
            found.append(Recoverer(len(found), rules))
        if self.deleter:
            found.append(Deleter(len(found), rules))
        if self.tagger:
            found.append(Tagger(rules))
        found += [
            Cleaner(number, rules, from_version=self.clean_from) for number in range(self.cleaners)
        ]
        return found

    @cached_property
    def effects(self) -> dict[int, tuple[int, ...]]:
        """What each commit changes, table by table."""
        fresh = Writer(FRESH, tuple(range(self.tables)), self.rules)
        return {
            writer.commit: tuple(
                writer.change if table in writer.tables else 0 for table in range(self.tables)
            )
            for writer in (*self.writer_processes, fresh)
        }

    def explorer(self) -> Explorer:
        """Return the system, ready to be explored."""
        lines: tuple[Line, ...] = (new_line(LIVE, self.tables, leftover=self.leftover),)
        if self.deleter:
            lines = (*lines, new_line(ABSENT, self.tables))
        shared = Shared(lines, (0,) * len(self.writers), 0, 0, (0, 0))
        return Explorer(self.processes(), shared, self.problem)

    @cached_property
    def problem(self) -> partial[str | None]:
        """What finds a violated property in a shared state."""
        return partial(problem, effects=self.effects)


def alone(process: Any, local: Any, shared: Shared) -> tuple[Any, Shared, list[str]]:
    """Run one process undisturbed until it takes no more steps; return what it did as well."""
    done: list[str] = []
    for _step in range(STEPS_MAX):
        steps: list[Step] = process.steps(local, shared)
        if not steps:
            return local, shared, done
        label, local, shared = steps[0]
        done.append(label)
    raise AssertionError("\n".join(["no end:", *done]))


def unsettled(scenario: Scenario, shared: Shared) -> str | None:
    """Recover and write once; return what is left undone (P4)."""
    for _slot in range(len(shared.lines[0].slots)):
        recoverer = Recoverer(FRESH + 1, scenario.rules)
        _local, shared, _done = alone(recoverer, recoverer.start, shared)
    if shared.lines[0].slots:
        return "P4: a slot was not resolved"
    writer = Writer(FRESH, tuple(range(scenario.tables)), scenario.rules, attempts=50)
    _local, shared, done = alone(writer, writer.start, shared)
    line = shared.lines[0]
    pins = latest(line)[-1][1]
    if shared.acks[FRESH] == 0:
        return "\n".join(["P4: a new write was refused", *done])
    if line.slots:
        return "P4: a new write left a slot"
    if any(head_of(line, table) != pin for table, pin in enumerate(pins)):
        return "\n".join(["P4: a table stands above its published version", *done])
    return scenario.problem(shared)


def _all_dead(shared: Shared) -> Shared:
    """Return what is left in storage; states that differ in answers or owners only are one."""
    line = shared.lines[0]
    slots = tuple(slot._replace(owner=NO_OWNER) for slot in line.slots)
    lines = (line._replace(slots=slots, removed=0), *shared.lines[1:])
    return Shared(lines, (0,) * (FRESH + 1), 0, 0, shared.tag)


def unsettled_states(scenario: Scenario, states: Iterable[Shared]) -> str | None:
    """Kill every process in each state; return the first way one cannot be settled."""
    storages = {_all_dead(state) for state in states}
    found = (unsettled(scenario, storage) for storage in storages)
    return next((item for item in found if item is not None), None)


def stuck(scenario: Scenario, explorer: Explorer) -> str | None:
    """Return how a writer that is left alone does not come to an answer (P5); None if all do."""
    for place, bounded in enumerate(scenario.writer_processes):
        writer = Writer(bounded.number, bounded.tables, scenario.rules, attempts=1000)
        ended: set[tuple[Any, Shared]] = set()
        for local, shared in explorer.pairs(place):
            # What gave up because of the bound on attempts has ended.
            if local.at == DONE or (local.at == "drop" and local.attempt == 0):
                continue
            found = _no_answer(writer, local, shared, ended)
            if found is not None:
                return found
    return None


def _no_answer(
    writer: Writer, local: Any, shared: Shared, ended: set[tuple[Any, Shared]]
) -> str | None:
    done: list[str] = []
    met: list[tuple[Any, Shared]] = []
    while (local, shared) not in ended:
        met.append((local, shared))
        steps = writer.steps(local, shared)
        waits = not writer.rules.leases and local.at == "slot" and steps == []
        if local.at == DONE or waits or shared.dead & writer.bit:
            refused = waits or bool(shared.dead & writer.bit) or "refused" in done[-1]
            if not refused and not shared.acks[writer.number]:
                return "\n".join(["P5: no answer:", *done])
            break
        if not steps or len(met) > STEPS_MAX:
            return "\n".join(["P5: no end:", *done])
        label, local, shared = steps[0]
        done.append(label)
    ended.update(met)
    return None

"""A model of writers: who waits for whom when many write, on one branch or on several.

It follows the rules of `omnigraph.commits`: writers of a branch take turns, who has the turn takes
along those that wait, and waits a little for those that were answered together last time. Time is
simulated, so a thousand writers take a second. What a write costs is given by a `Store`.

Left out: writers of several processes on one branch, which lose races, and writes that touch the
same row, which cannot share a publish.
"""

from __future__ import annotations

import heapq
import itertools
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.limits import GATHER_SHARE, GATHER_WAIT_MAX_S, GROUP_MEMBERS_MAX

Then = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Store:
    """What one publish costs at some place, in seconds of the places where it can queue."""

    trip_s: float
    """How long the store takes to answer, if nobody else asks."""
    trips_before: int = 2
    """Answers to wait for before the waiting writes are taken along."""
    trips_after: int = 9
    requests: int = 12
    """Requests of a publish, some of them side by side."""
    request_s: float = 0.0
    """How long the store is busy with one request: 1 / what it can answer in a second."""
    publish_s: float
    """Processor time of a publish, which one process cannot do twice at once."""
    member_s: float
    """The same of each write in it."""


@dataclass(frozen=True)
class Outcome:
    """What writers did in some simulated time."""

    seconds: float
    waits: tuple[float, ...]
    groups: tuple[int, ...]
    requests: int

    @property
    def rate(self) -> float:
        """Writes in a second."""
        return len(self.waits) / self.seconds

    @property
    def wait_s(self) -> float:
        """How long a write takes, as its writer sees it; the median."""
        return statistics.median(self.waits)

    @property
    def requests_each(self) -> float:
        """Requests for each write."""
        return self.requests / max(1, len(self.waits))


def simulate(
    store: Store,
    writers: int,
    *,
    branches: int = 1,
    pause_s: float = 0.0,
    seconds: float = 60.0,
) -> Outcome:
    """Let writers write one row after another, each on its branch, for some simulated time.

    Between an answer and its next write a writer pauses: the first hardly, the last twice as long
    as the mean, `pause_s`.
    """
    run = _Run(store)
    lines = [_Branch(run) for _ in range(branches)]
    for number in range(writers):
        pause = 2 * pause_s * (number + 0.5) / writers
        _Writer(run, lines[number % branches], pause).go_on()
    run.until(seconds)
    return Outcome(seconds, tuple(run.waits), tuple(run.groups), run.requests)


@dataclass
class _Serial:
    """Something that does one thing after another, in the order asked for."""

    run: _Run
    free: float = 0.0

    def use(self, seconds: float, then: Then) -> None:
        self.free = max(self.free, self.run.now) + seconds
        self.run.after(self.free - self.run.now, then)


class _Run:
    """The clock, what is due, and what all writers share."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = 0.0
        self.waits: list[float] = []
        self.groups: list[int] = []
        self.requests = 0
        self.processor, self.server = _Serial(self), _Serial(self)
        self._due: list[tuple[float, int, Then]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, then: Then) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), then))

    def until(self, end: float) -> None:
        while self._due and self._due[0][0] <= end:
            self.now, _number, then = heapq.heappop(self._due)
            then()

    def trips(self, left: int, cpu_s: float, then: Then) -> None:
        """Ask the store some times, one after another, with some work before each."""
        if left == 0:
            then()
            return
        store = self.store
        busy_s = store.request_s * store.requests / (store.trips_before + store.trips_after)

        def ask() -> None:
            self.server.use(busy_s, answer)

        def answer() -> None:
            self.after(max(0.0, store.trip_s - busy_s), lambda: self.trips(left - 1, cpu_s, then))

        self.processor.use(cpu_s, ask)


@dataclass(eq=False)
class _Writer:
    run: _Run
    branch: _Branch
    pause_s: float
    began: float = 0.0

    def go_on(self) -> None:
        self.began = self.run.now
        self.branch.enter(self)

    def answered(self) -> None:
        self.run.waits.append(self.run.now - self.began)
        if self.pause_s:
            self.run.after(self.pause_s, self.go_on)
        else:
            self.go_on()


@dataclass(eq=False)
class _Branch:
    """The queue of a branch, as `WriteQueue` and `Companions` keep it."""

    run: _Run
    waiting: deque[_Writer] = field(default_factory=deque)
    members: list[_Writer] = field(default_factory=list)
    taken: bool = False
    gathered: bool = False
    awaited: int | None = None
    """How many have to wait before the leader that gathers them goes on; None: it does not."""
    led: float = 0.0
    last_size: int = 1
    last_s: float = 0.0
    last_end: float = 0.0

    def enter(self, writer: _Writer) -> None:
        if not self.taken:
            self.taken = True
            self._lead(writer)
            return
        self.waiting.append(writer)
        if self.awaited is not None and len(self.waiting) >= self.awaited:
            self._go_on()

    def _lead(self, writer: _Writer) -> None:
        store = self.run.store
        self.led, self.members, self.gathered = self.run.now, [writer], False
        cpu_s = store.publish_s / (store.trips_before + store.trips_after)

        def prepare() -> None:
            self.run.processor.use(store.member_s, self._take)

        self.run.trips(store.trips_before, cpu_s, prepare)

    def _take(self) -> None:
        """Take along who waits; none left: wait for more once, then publish."""
        room = GROUP_MEMBERS_MAX - len(self.members)
        found = [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))]
        if found:
            self.members += found
            self.run.processor.use(self.run.store.member_s * len(found), self._take)
        elif self.gathered:
            self._publish()
        else:
            self.gathered = True
            self._gather()

    def _gather(self) -> None:
        size = len(self.members)
        if size >= self.last_size or self.run.now - self.last_end >= self.last_s:
            self._take()
            return
        self.awaited = self.last_size - size
        if len(self.waiting) >= self.awaited:
            self._go_on()
            return
        led = self.led

        def over() -> None:
            if self.awaited is not None and self.led == led:
                self._go_on()

        self.run.after(min(self.last_s * GATHER_SHARE, GATHER_WAIT_MAX_S), over)

    def _go_on(self) -> None:
        self.awaited = None
        self._take()

    def _publish(self) -> None:
        store = self.run.store
        cpu_s = store.publish_s / (store.trips_before + store.trips_after)
        self.run.trips(store.trips_after, cpu_s, self._published)

    def _published(self) -> None:
        done, run = self.members, self.run
        self.last_size, self.last_s = len(done), run.now - self.led
        self.last_end = run.now
        run.groups.append(len(done))
        run.requests += run.store.requests
        if self.waiting:
            self._lead(self.waiting.popleft())
        else:
            self.taken = False
        for writer in done:
            writer.answered()

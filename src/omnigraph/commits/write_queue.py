"""Writers of one process wait for their turn on a branch, in the order they came.

Who has the turn may take along the writes that wait behind it: they are then published together
with its own, and their callers are woken when that is done.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence

from omnigraph.commits.members import Member
from omnigraph.limits import GATHER_SHARE, GATHER_WAIT_MAX_S


class Ticket:
    """A place in the queue. Without a member, or with one that is alone, it is led by its owner."""

    __slots__ = ("_gate", "abandoned", "leads", "member")

    def __init__(self, member: Member | None = None) -> None:
        self.member = member
        self.leads = False
        self.abandoned = False
        self._gate = threading.Lock()
        self._gate.acquire()

    @property
    def shared(self) -> bool:
        """Whether another writer may take it along."""
        return self.member is not None and self.member.shared

    def wait(self) -> None:
        """Wait for the turn, or until another writer has done the work."""
        self._gate.acquire()

    def wake(self) -> None:
        """Let its owner go on."""
        self._gate.release()


class WriteQueue:
    """Who writes now, and who waits."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._came = threading.Condition(self._guard)
        self._taken = False
        self._waiting: deque[Ticket] = deque()
        self._awaited = 0
        """How many have to wait before the leader that gathers them is woken."""
        self._last_size = 1
        self._last_s = 0.0
        self._last_end = 0.0

    @contextlib.contextmanager
    def turn(self, ticket: Ticket | None = None) -> Iterator[bool]:
        """Wait for the turn; False when another writer has done the work meanwhile."""
        ticket = ticket or Ticket()
        leads = self._enter(ticket)
        try:
            yield leads
        finally:
            if leads:
                with self._guard:
                    self._pass_on()

    def _enter(self, ticket: Ticket) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            self._waiting.append(ticket)
            if len(self._waiting) >= self._awaited or not ticket.shared:
                # Not for each one: a leader that looks up every time holds all of them up.
                self._came.notify()
        try:
            ticket.wait()
        except BaseException:
            self._give_up(ticket)
            raise
        return ticket.leads

    def _pass_on(self) -> None:
        if self._waiting:
            first = self._waiting.popleft()
            first.leads = True
            first.wake()
        else:
            self._taken = False

    def _give_up(self, ticket: Ticket) -> None:
        """Leave the queue, or pass on a turn that came while this was interrupted.

        A write that another writer took along may still be made: its operation id tells.
        """
        with self._guard:
            ticket.abandoned = True
            if ticket in self._waiting:
                self._waiting.remove(ticket)
            elif ticket.leads:
                self._pass_on()

    # ---- for who has the turn -------------------------------------------------------------

    def take(self, most: int) -> list[Ticket]:
        """Return the writes that wait first, up to one that has to be led by its owner."""
        tickets: list[Ticket] = []
        with self._guard:
            while self._waiting and self._waiting[0].shared and len(tickets) < most:
                tickets.append(self._waiting.popleft())
        return tickets

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """Make writes that were taken wait again, before all others."""
        with self._guard:
            kept = [item for item in tickets if not item.abandoned]
            self._waiting.extendleft(reversed(kept))

    def gather(self, size: int) -> None:
        """Wait a little for writers who were just answered together, if more came last time.

        They come back one after another: the first would else publish alone what the others
        could have shared. A writer who was alone last time never waits.
        """
        since = time.monotonic() - self._last_end
        if size >= self._last_size or since >= self._last_s:
            return
        until = time.monotonic() + min(self._last_s * GATHER_SHARE, GATHER_WAIT_MAX_S)
        with self._guard:
            self._awaited = self._last_size - size
            while len(self._waiting) < self._awaited:
                if self._waiting and not self._waiting[-1].shared:
                    return
                if not self._came.wait(max(0.0, until - time.monotonic())):
                    return

    def published(self, size: int, seconds: float) -> None:
        """Remember how many writes were published together, and how long that took."""
        self._last_size, self._last_s, self._last_end = size, seconds, time.monotonic()

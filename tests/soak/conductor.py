"""Starts, kills, stops and replaces the processes of a soak, and notices when one hangs.

All are forked from this process, which imports the engine and never uses it: a new one then costs
milliseconds. No thread of Lance may exist here; that is checked before every fork.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.client import LOST_RACE, QUIET, Client, Setup
from tests.soak.journal import Entry, Tail
from tests.soak.workers import ROLES, prepare

FAILED = 70
"""An exit code of our own: neither success nor what an interpreter uses."""
HARMLESS_THREADS = {"jemalloc_bg_thd"}
"""Threads that importing starts and that survive a fork by themselves."""
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often workers are killed and stopped, in seconds, and what counts as hanging."""

    kill_every_s: float = 1.5
    stop_every_s: float = 5.0
    stop_s: tuple[float, float] = (0.05, 4.0)
    quiet_every_s: float = 40.0
    quiet_s: float = 6.0
    stuck_s: float = 120.0
    starved_s: float = 60.0
    starved_tries: int = 40


@dataclass(slots=True)
class Player:
    """One place in the run and the process that fills it."""

    name: str
    role: str
    tail: Tail
    pid: int = 0
    stopped_until: float | None = None
    heard_at: float = 0.0


@dataclass(slots=True)
class Drought:
    """Writes to one branch since the last one that went through."""

    since: float
    tries: int = 0


@dataclass(slots=True)
class Totals:
    """What a run was worth."""

    kills: int = 0
    crashes: int = 0
    stops: int = 0
    lives: int = 0
    acknowledged: int = 0
    unchanged: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


class Conductor:
    """Runs the processes of one soak."""

    def __init__(self, setup: Setup, pace: Pace, roles: dict[str, str]) -> None:
        self._setup = setup
        self._pace = pace
        self._dice = random.Random(setup.seed)  # noqa: S311 - a test
        self._players = [
            Player(name, role, Tail(setup.folder / f"{name}.journal"))
            for name, role in roles.items()
        ]
        self._droughts: dict[str, Drought] = {}
        self.totals = Totals()

    def run(self, seconds: float, *, keep_going: bool = False) -> Totals:
        """Go on until the time is over or something failed."""
        begun = time.monotonic()
        next_kill, next_stop = self._later(begun, "kill"), self._later(begun, "stop")
        try:
            while (at := time.monotonic()) < begun + seconds:
                if self.totals.failures and not keep_going:
                    break
                for player in self._players:
                    self._look_after(player, at)
                self._season(at - begun, seconds)
                if at > next_kill:
                    next_kill = self._later(at, "kill")
                    self._kill_one()
                if at > next_stop:
                    next_stop = self._later(at, "stop")
                    self._stop_one(at)
                time.sleep(0.005)
        finally:
            self._end()
        return self.totals

    # ---- chance ---------------------------------------------------------------------------

    def _later(self, at: float, what: str) -> float:
        mean = self._pace.kill_every_s if what == "kill" else self._pace.stop_every_s
        if not self._setup.has(f"{what}s"):
            return float("inf")
        return at + self._dice.expovariate(1 / mean)

    def _one(self, *, stopped: bool) -> Player | None:
        living = [p for p in self._players if p.pid and (stopped or p.stopped_until is None)]
        weights = [1 if player.role == "reader" else 4 for player in living]
        return self._dice.choices(living, weights)[0] if living else None

    def _kill_one(self) -> None:
        player = self._one(stopped=True)
        if player is not None:
            os.kill(player.pid, signal.SIGKILL)

    def _stop_one(self, at: float) -> None:
        player = self._one(stopped=False)
        if player is not None:
            os.kill(player.pid, signal.SIGSTOP)
            player.stopped_until = at + self._dice.uniform(*self._pace.stop_s)
            self.totals.stops += 1

    def _season(self, elapsed: float, seconds: float) -> None:
        """Ask for a time without branches now and then: the schema changes only then."""
        every = min(self._pace.quiet_every_s, seconds / 2)
        quiet_s = min(self._pace.quiet_s, every / 2)
        flag = self._setup.folder / QUIET
        if self._setup.has("schema") and elapsed % every > every - quiet_s:
            flag.touch()
        else:
            flag.unlink(missing_ok=True)

    # ---- processes ------------------------------------------------------------------------

    def _look_after(self, player: Player, at: float) -> None:
        if player.pid == 0:
            self._start(player, at)
            return
        found, status = os.waitpid(player.pid, os.WNOHANG)
        if found:
            self._bury(player, status)
            return
        if player.stopped_until is not None:
            player.heard_at = at
            if at > player.stopped_until:
                player.stopped_until = None
                os.kill(player.pid, signal.SIGCONT)
        entries = player.tail.new()
        if entries:
            player.heard_at = at
            for entry in entries:
                self._count(entry, at)
        elif at - player.heard_at > self._pace.stuck_s:
            self._give_up(player, at)

    def _start(self, player: Player, at: float) -> None:
        check_threads()
        self.totals.lives += 1
        life = self.totals.lives
        player.heard_at, player.stopped_until = at, None
        player.pid = os.fork()
        if player.pid == 0:
            live(self._setup, player.name, player.role, life)

    def _bury(self, player: Player, status: int) -> None:
        pid, player.pid, player.stopped_until = player.pid, 0, None
        for entry in player.tail.new():
            self._count(entry, time.monotonic())
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.totals.kills += 1
            return
        note = self._setup.folder / f"{player.name}.failure"
        text = note.read_text() if note.exists() else f"process {pid} left with status {status}"
        number = len(self.totals.failures)
        if note.exists():
            note.rename(self._setup.folder / f"failure-{number}-{player.name}.txt")
        self.totals.failures.append(f"{player.name}: {text}")

    def _give_up(self, player: Player, at: float) -> None:
        """Say where a process hangs, and end it."""
        path = self._setup.folder / f"{player.name}.stacks"
        os.kill(player.pid, signal.SIGUSR1)
        time.sleep(1.0)
        stacks = path.read_text() if path.exists() else "no stacks"
        silent = at - player.heard_at
        self.totals.failures.append(
            f"{player.name}: has said nothing for {silent:.0f} s while it was running\n{stacks}"
        )
        os.kill(player.pid, signal.SIGKILL)
        player.heard_at = at

    def _end(self) -> None:
        (self._setup.folder / QUIET).unlink(missing_ok=True)
        for player in self._players:
            if player.pid:
                os.kill(player.pid, signal.SIGKILL)
                _pid, status = os.waitpid(player.pid, 0)
                self._bury(player, status)

    # ---- answers --------------------------------------------------------------------------

    def _count(self, entry: Entry, at: float) -> None:
        totals = self.totals
        if entry["t"] not in ("answer", "done"):
            return
        error = entry.get("error")
        totals.calls[entry["kind"]] += 1
        if error is not None:
            totals.errors[f"{entry['kind']}: {error}"] += 1
        if entry["t"] != "answer":
            return
        if error is None:
            totals.acknowledged += entry["commit"] is not None
            totals.unchanged += entry["commit"] is None
        self._watch_drought(entry, at)

    def _watch_drought(self, entry: Entry, at: float) -> None:
        """Notice a branch on which no write goes through any more."""
        branch, error = entry["branch"], entry.get("error")
        drought = self._droughts.setdefault(branch, Drought(at))
        if error is None or error == "NotFoundError":
            drought.since, drought.tries = at, 0
            return
        drought.tries += error in LOST_RACE
        if drought.tries >= self._pace.starved_tries and at - drought.since > self._pace.starved_s:
            self.totals.failures.append(
                f"no write to {branch} went through in {at - drought.since:.0f} s and "
                f"{drought.tries} tries; the last error: {json.dumps(entry)}"
            )
            drought.since, drought.tries = at, 0


def signature(text: str) -> str:
    """Return what failures of one kind have in common: the error, and where the engine raised it.

    Names and numbers that differ from run to run are left out.
    """
    frames = re.findall(r'File ".*/src/(omnigraph/[\w/]+\.py)", line \d+, in (\w+)', text)
    last = text.strip().splitlines()
    errors = [line for line in last if re.match(r"[\w.]*(Error|Exception|Unexpected)\b", line)]
    error = errors[-1] if errors else (last[0] if last else "")
    error = re.sub(r"\{.*\}", "{...}", error)
    error = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{16}\b|\d+", "#", error)
    where = f"{frames[-1][0]}:{frames[-1][1]}" if frames else "?"
    cause = next((line for line in errors if line.startswith("omnigraph.errors.")), "")
    cause = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b|\b[0-9a-f]{16}\b|\d+", "#", cause)
    return f"{error[:160]} [{where}] {cause[:160]}"


def check_threads() -> None:
    """Refuse to fork while this process has threads that a fork would break."""
    folder = Path("/proc/self/task")
    if not folder.exists():
        return
    names = [(task / "comm").read_text().strip() for task in folder.iterdir()]
    others = [name for name in names if name not in HARMLESS_THREADS]
    if len(others) > 1:
        raise RuntimeError(f"threads besides the main one: {sorted(others)}")


def live(setup: Setup, name: str, role: str, life: int) -> None:
    """Be a worker until killed; whatever ends it otherwise is written down."""
    failed = setup.folder / f"{name}.failure"
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with (setup.folder / f"{name}.stacks").open("w") as stacks:
            faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
            client = Client(setup, name, life)
            prepare(setup, client.dice)
            ROLES[role](client)
    except BaseException:
        failed.write_text(traceback.format_exc())
    os._exit(FAILED)


def apart(work: Callable[[], object]) -> None:
    """Do something that uses the engine in a process of its own, and wait for it."""
    check_threads()
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(FAILED)
        sys.stdout.flush()
        os._exit(0)
    _pid, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"a process that should prepare the run left with status {status}")

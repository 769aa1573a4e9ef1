"""Writers that are killed all the time, and a reader that looks at what they leave.

Run as a program it forks the processes, before Lance has started a thread of its own, and kills
and replaces them until it has seen enough. Each process keeps a log that outlives it: a write is
noted before it is tried and again when it was answered. Who takes a dead writer's place first
repeats the write that was not answered, under the same operation id.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.concurrency.worker import random_op
from tests.faults.model import ENDS, perform

ROOT = Path(__file__).resolve().parents[2]
# An exit code of our own: neither success nor what an interpreter uses.
FAILED = 70


class Log:
    """Lines on disk, complete when the call returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def add(self, **entry: Any) -> None:
        """Add one entry."""
        os.write(self._descriptor, json.dumps(entry).encode() + b"\n")


def entries(path: Path) -> list[dict[str, Any]]:
    """Return what a log holds."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ---- the processes ------------------------------------------------------------------------


def writer(root: Path, log_path: Path, dice: random.Random) -> None:
    """Write at random for ever, mostly with a boundary or two armed to kill."""
    import omnigraph as og
    from omnigraph import failpoints
    from omnigraph.ops import compact_tail as fold
    from omnigraph.store.tables import compaction as maintenance

    # Short tails are folded, so that folds happen all the time.
    vars(fold)["TAIL_FRAGMENTS"] = 5
    vars(maintenance)["TIER_FRAGMENTS_MIN"] = 3
    for kind, share in (("publish.", 0.6), ("recovery.", 0.3), ("optimize.", 0.2)):
        if dice.random() < share:
            points = [point for point in failpoints.Failpoint if point.startswith(kind)]
            failpoints.arm(dice.choice(points), failpoints.crash, hit=dice.choice((1, 1, 1, 2, 3)))
    past = entries(log_path)
    log = Log(log_path)
    unanswered = past[-1] if past and "op" in past[-1] else None
    number = len(past)
    durability: Any = dice.choice(["none", "none", "full"])
    with og.open(root, durability=durability, actor=log_path.stem) as graph:
        while True:
            number += 1
            name = f"{log_path.stem}n{number}"
            if unanswered is None:
                entry: dict[str, Any] = {"operation_id": name, "op": random_op(dice, name)}
                log.add(**entry)
            else:
                entry, unanswered = unanswered, None
            commit, error = None, None
            try:
                made = perform(graph, entry["op"], operation_id=entry["operation_id"]).commit
                commit = None if made is None else made.graph_commit_id
            except og.OmniGraphError as caught:
                error = type(caught).__name__
            if error == "VersionConflictError":
                graph.refresh("main")
            log.add(answered=entry["operation_id"], commit=commit, error=error)


def reader(root: Path, log_path: Path, dice: random.Random) -> None:
    """Look at one snapshot after the other; what is wrong with one ends the process."""
    import omnigraph as og
    from tests.faults.rig import state_of

    log, newest = Log(log_path), 0
    while True:
        with og.open(root, mode="ro") as graph:
            for _turn in range(dice.randint(1, 30)):
                version = graph.snapshot().version
                assert version >= newest, "the graph went back"
                newest = version
                # Two entities with one id fail in here.
                state = state_of(graph, version=version)
                check_closed({key: json.loads(row) for key, row in state.items()})
                log.add(version=version)
                time.sleep(0.01)


def check_closed(state: dict[tuple[str, str], dict[str, Any]]) -> None:
    """No edge without both of its ends."""
    for (name, edge_id), row in state.items():
        if name in ENDS:
            source, target = ENDS[name]
            assert (source, row["from"]) in state, f"{name} {edge_id} has no source"
            assert (target, row["to"]) in state, f"{name} {edge_id} has no target"


ROLES: dict[str, Callable[[Path, Path, random.Random], None]] = {
    "writer": writer,
    "reader": reader,
}


# ---- the conductor ------------------------------------------------------------------------


@dataclass(slots=True)
class Player:
    """One place in the run: the process that fills it, and when that is killed.

    Most are killed soon after their first write began; some before that, while they recover.
    """

    name: str
    role: str
    pid: int = 0
    dies_at: float = 0.0
    logged_bytes: int = 0
    writes: bool = False


@dataclass(slots=True)
class Conductor:
    """Forks, kills and replaces the processes of one run."""

    root: Path
    folder: Path
    seed: str
    players: list[Player]
    dice: random.Random
    kills: int = 0
    lives: int = 0
    failures: list[str] = field(default_factory=list)

    def run(self, *, seconds: float, kills_min: int) -> None:
        """Go on until the time is over and enough were killed."""
        deadline = time.monotonic() + seconds
        while (time.monotonic() < deadline or self.kills < kills_min) and not self.failures:
            for player in self.players:
                self._look_after(player)
            time.sleep(0.002)
        for player in self.players:
            if player.pid:
                os.kill(player.pid, signal.SIGKILL)
                self._bury(player, *os.waitpid(player.pid, 0))

    def _look_after(self, player: Player) -> None:
        if player.pid == 0:
            self._start(player)
            return
        found, status = os.waitpid(player.pid, os.WNOHANG)
        if found:
            self._bury(player, found, status)
        elif player.role == "writer":
            if not player.writes and self._log_bytes(player) > player.logged_bytes:
                player.writes = True
                player.dies_at = time.monotonic() + self.dice.uniform(0.0, 0.8)
            if time.monotonic() > player.dies_at:
                os.kill(player.pid, signal.SIGKILL)

    def _log_bytes(self, player: Player) -> int:
        log = self.folder / f"{player.name}.log"
        return log.stat().st_size if log.exists() else 0

    def _bury(self, player: Player, pid: int, status: int) -> None:
        player.pid = 0
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.kills += player.role == "writer"
        else:
            note = self.folder / f"{player.name}.failure"
            self.failures.append(note.read_text() if note.exists() else f"{pid} left: {status}")

    def _start(self, player: Player) -> None:
        self.lives += 1
        dice = random.Random(f"{self.seed}/{player.name}/{self.lives}")  # noqa: S311 - a test
        player.writes, player.logged_bytes = False, self._log_bytes(player)
        player.dies_at = time.monotonic() + self.dice.uniform(0.05, 5.0)
        player.pid = os.fork()
        if player.pid == 0:
            self._live(player, dice)

    def _live(self, player: Player, dice: random.Random) -> None:
        try:
            ROLES[player.role](self.root, self.folder / f"{player.name}.log", dice)
        except BaseException:
            (self.folder / f"{player.name}.failure").write_text(traceback.format_exc())
        os._exit(FAILED)


def main() -> None:
    """Conduct the run that the first argument describes."""
    warnings.simplefilter("ignore")
    import lance.optimize  # noqa: F401 - imported before any process is forked

    import omnigraph.graph  # noqa: F401 - the same

    job = json.loads(sys.argv[1])
    players = [Player(f"w{number}", "writer") for number in range(job["writers"])]
    players += [Player(f"r{number}", "reader") for number in range(job["readers"])]
    conductor = Conductor(
        root=Path(job["root"]),
        folder=Path(job["folder"]),
        seed=job["seed"],
        players=players,
        dice=random.Random(job["seed"]),  # noqa: S311 - a test, not a secret
    )
    conductor.run(seconds=job["seconds"], kills_min=job["kills_min"])
    found = {"kills": conductor.kills, "lives": conductor.lives, "failures": conductor.failures}
    sys.stdout.write(json.dumps(found))


def torture(root: Path, folder: Path, **job: Any) -> dict[str, Any]:
    """Run the processes on a graph; return how many were killed and what went wrong."""
    work = json.dumps({"root": str(root), "folder": str(folder), **job})
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.faults.torture", work],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()

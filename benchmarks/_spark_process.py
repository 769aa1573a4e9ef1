"""A Spark session that is watched: memory and processor time of its processes, bytes shuffled."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.spark import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS_S = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.5


@dataclass
class Cost:
    """What one job took: time, and the bytes and rows its shuffles wrote."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    shuffle_bytes: int = 0
    shuffle_rows: int = 0


@dataclass
class Watched:
    """A session, the costs of its jobs by name, and the peak memory of each kind of process."""

    session: SparkSession
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    peaks_mb: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def job(self, name: str) -> Iterator[None]:
        """Measure a block; its shuffles are known when the session has ended."""
        self.session.sparkContext.setJobGroup(name, name)
        began, cpu = time.perf_counter(), tree_cpu_s()
        yield
        cost = self.costs[name]
        cost.seconds, cost.cpu_s = time.perf_counter() - began, tree_cpu_s() - cpu

    def look(self) -> None:
        """Take in what the processes need now, and needed at most."""
        for process in family():
            with contextlib.suppress(OSError):
                kind = Path(f"/proc/{process}/comm").read_text().strip()
                kind = "driver" if process == os.getpid() else kind
                rows = Path(f"/proc/{process}/status").read_text().splitlines()
                peak = next((int(r.split()[1]) / 1024 for r in rows if r.startswith("VmHWM")), 0.0)
                self.peaks_mb[kind] = max(peak, self.peaks_mb.get(kind, 0.0))


@contextlib.contextmanager
def watched_session(folder: Path, *, cores: int, memory: str, partitions: int) -> Iterator[Watched]:
    """Start a session on this machine; when the block ends, its costs are complete."""
    events = folder / "events"
    events.mkdir(parents=True)
    session = start_session(
        f"local[{cores},4]",
        spark__driver__memory=memory,
        spark__sql__shuffle__partitions=str(partitions),
        spark__local__dir=str(folder / "scratch"),
        spark__eventLog__enabled="true",
        spark__eventLog__dir=str(events),
        spark__eventLog__compress="false",
        spark__eventLog__rolling__enabled="false",
    )
    found, over = Watched(session), threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            found.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        found.look()
        session.stop()
    for path in events.iterdir():
        _take_in(path, found.costs)


def _take_in(path: Path, costs: dict[str, Cost]) -> None:
    """Add up what the tasks of each job wrote for others to read, from a log of events."""
    job_of_stage: dict[int, str] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                name = event.get("Properties", {}).get("spark.jobGroup.id")
                for stage in event["Stage IDs"] if name is not None else ():
                    job_of_stage[stage] = name
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in job_of_stage:
                written = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics", {})
                cost = costs[job_of_stage[event["Stage ID"]]]
                cost.shuffle_bytes += written.get("Shuffle Bytes Written", 0)
                cost.shuffle_rows += written.get("Shuffle Records Written", 0)


def family() -> list[int]:
    """Return this process and all that come from it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def tree_cpu_s() -> float:
    """Return the processor time of this process and all that come from it, ended ones included."""
    ticks = 0
    for process in family():
        with contextlib.suppress(OSError):
            # Own time, and that of children that have ended.
            ticks += sum(int(value) for value in _stat(process)[11:15])
    return ticks / TICKS_S


def _stat(process: int) -> list[str]:
    text = Path(f"/proc/{process}/stat").read_text()
    # The name of a program may contain anything but ends at the last bracket.
    return text.rpartition(")")[2].split()

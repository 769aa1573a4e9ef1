"""What benchmarks share: interleaved timing, figures with targets, and a record of the machine."""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

Step = Callable[[], object]

BLOCKS = 3
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Times of one competitor, in milliseconds; `cpu` is processor time, over all threads."""

    median: float
    cpu: float
    mean: float
    low: float
    high: float
    blocks: list[float]
    steps: int


def timing_of(seconds: Sequence[float], cpu_seconds: Sequence[float]) -> Timing:
    """Sum up the measurements of one competitor, given in the order they were made."""
    found = [value * 1e3 for value in seconds]
    ordered = sorted(found)
    size = max(len(found) // BLOCKS, 1)
    blocks = [statistics.median(found[i : i + size]) for i in range(0, size * BLOCKS, size)]
    return Timing(
        median=statistics.median(found),
        cpu=statistics.median(cpu_seconds) * 1e3,
        mean=statistics.fmean(found),
        low=ordered[len(ordered) // 10],
        high=ordered[-1 - len(ordered) // 10],
        blocks=blocks,
        steps=len(found),
    )


def interleave(
    competitors: Mapping[str, Step], *, rounds: int, between: Step | None = None, seed: int = 7
) -> dict[str, Timing]:
    """Time competitors turn by turn, each round in a new order, so that noise hits all alike.

    `between` runs after every round, outside the clock.
    """
    order = list(competitors)
    shuffle = random.Random(seed).shuffle  # noqa: S311 - the order only has to vary
    times: dict[str, list[float]] = {name: [] for name in order}
    cpu: dict[str, list[float]] = {name: [] for name in order}
    for _round in range(rounds):
        shuffle(order)
        for name in order:
            start, cpu_start = time.perf_counter(), time.process_time()
            competitors[name]()
            times[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - cpu_start)
        if between is not None:
            between()
    return {name: timing_of(times[name], cpu[name]) for name in competitors}


def ratio_of(timings: Mapping[str, Timing], name: str, base: str) -> tuple[float, str]:
    """Return a ratio of medians; as text, how it looks by other measures.

    These are the best decile and the processor time, which a busy machine disturbs less, and the
    range of the ratio over the blocks of the run.
    """
    one, other = timings[name], timings[base]
    blocks = [a / b for a, b in zip(one.blocks, other.blocks, strict=True) if b > 0]
    note = (
        f"p10 {one.low / other.low:.2f}, cpu {one.cpu / max(other.cpu, 1e-6):.2f}, "
        f"blocks {min(blocks):.2f}-{max(blocks):.2f}"
    )
    return one.median / other.median, note


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of the report, with its target if it has one."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the target is met; a figure without one is for orientation."""
        if self.at_most is None:
            return ""
        return "pass" if self.value <= self.at_most else "MISS"


@dataclass
class Report:
    """Figures and timings of one benchmark, printed as they come and written at the end."""

    name: str
    options: dict[str, object]
    figures: list[Figure] = field(default_factory=list)
    timings: dict[str, dict[str, Timing]] = field(default_factory=dict)
    started: float = field(default_factory=time.time)
    load_before: tuple[float, float, float] = field(default_factory=os.getloadavg)
    # Taken at the start: sources may change while a long run goes on.
    machine: dict[str, object] = field(default_factory=lambda: machine())

    def section(self, title: str) -> None:
        """Start a part of the report."""
        elapsed = time.time() - self.started
        print(f"\n{title}   [{elapsed:.0f} s, load {os.getloadavg()[0]:.1f}]", flush=True)

    def time(self, title: str, timings: Mapping[str, Timing]) -> None:
        """Take in and print a table of times."""
        self.timings[title] = dict(timings)
        print(f"  {title:<44}{'median':>9}{'p10':>9}{'p90':>9}{'mean':>9}{'cpu':>9}  ms")
        for name, found in timings.items():
            columns = (found.median, found.low, found.high, found.mean, found.cpu)
            row = "".join(f"{value:9.2f}" for value in columns)
            print(f"    {name:<42}{row}", flush=True)

    def figure(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        at_most: float | None = None,
        note: str = "",
    ) -> None:
        """Take in and print one figure."""
        found = Figure(name=name, value=value, unit=unit, at_most=at_most, note=note)
        self.figures.append(found)
        target = "" if at_most is None else f"(target <= {at_most:g}{unit})"
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
        print(f"  -> {name:<60}{shown:>9}{unit:<7}{target:<19}{found.verdict:<5}{note}", flush=True)

    def write(self) -> Path:
        """Print the verdicts and write everything as JSON."""
        judged = [item for item in self.figures if item.verdict]
        missed = [item.name for item in judged if item.verdict == "MISS"]
        print(f"\n{len(judged) - len(missed)} of {len(judged)} targets met")
        for name in missed:
            print(f"  missed: {name}")
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        content = {
            "benchmark": self.name,
            "options": self.options,
            "machine": self.machine,
            "load_average_before": self.load_before,
            "load_average_after": os.getloadavg(),
            "seconds": round(time.time() - self.started, 1),
            "figures": [asdict(item) | {"verdict": item.verdict} for item in self.figures],
            "timings_ms": {
                title: {name: asdict(found) for name, found in timings.items()}
                for title, timings in self.timings.items()
            },
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"written to {path}")
        return path


def machine() -> dict[str, object]:
    """Describe what the numbers were made on."""
    model = next(
        (
            row.partition(":")[2].strip()
            for row in _text("/proc/cpuinfo").splitlines()
            if row.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "pylance": version("pylance"),
        "pyarrow": version("pyarrow"),
        "omnigraph": version("omnigraph"),
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(  # noqa: S603 - a fixed command
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return found.stdout.strip()


def process_bytes() -> tuple[int, int]:
    """Return bytes this process has read and written so far, the page cache included."""
    rows = dict(row.split(": ") for row in _text("/proc/self/io").splitlines())
    return int(rows.get("rchar", 0)), int(rows.get("wchar", 0))


def peak_memory_mb() -> float:
    """Return the largest resident size this process ever had."""
    # Preferred to getrusage, whose figure a child starts with at its parent's size.
    for row in _text("/proc/self/status").splitlines():
        if row.startswith("VmHWM:"):
            return int(row.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_child(script: str, *arguments: str) -> dict[str, float]:
    """Run a part of a benchmark in a process of its own; it prints one JSON object last."""
    command = [sys.executable, script, *arguments]
    found = subprocess.run(  # noqa: S603 - our own script
        command, capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(found.stdout.strip().splitlines()[-1])
    return answer

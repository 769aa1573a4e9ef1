"""The command line of a soak: run, check, and say what was found."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance.optimize  # noqa: F401 - imported before any process is forked

import omnigraph.graph  # noqa: F401 - the same
from tests.places import S3Path, copy_tree
from tests.soak.client import FEATURES, Setup
from tests.soak.conductor import Conductor, Pace, Totals, apart, signature
from tests.soak.model import schema_text


def arguments(given: list[str], description: str | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=description)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--place", choices=("disk", "s3"), default="disk")
    parser.add_argument("--seed", default=os.environ.get("OMNIGRAPH_SEED"))
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=8, help="of a writer that write at once")
    parser.add_argument("--maintainers", type=int, default=1)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--kill-every", type=float, help="seconds between kills, on average")
    parser.add_argument("--stop-every", type=float, default=5.0, help="the same for stops")
    parser.add_argument("--lease", type=float, default=1.0, help="length of a lease on S3")
    parser.add_argument("--without", nargs="*", choices=FEATURES, default=[])
    parser.add_argument(
        "--tolerate",
        nargs="*",
        default=[],
        metavar="PATTERN",
        help="pass over errors whose text matches, as 'VersionReclaimedError from write'",
    )
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    parser.add_argument("--folder", type=Path, help="where to work; otherwise a temporary folder")
    parser.add_argument(
        "--check-only", action="store_true", help="check a folder of an earlier run"
    )
    found = parser.parse_args(given)
    found.seed = found.seed or str(random.SystemRandom().randrange(10**9))
    return found


@contextlib.contextmanager
def root_of(place: str, folder: Path) -> Iterator[str]:
    """Yield where the graph shall lie; for S3 a server runs meanwhile."""
    if place == "disk":
        yield str(folder / "graph")
        return
    from tests.servers.seaweed import Seaweed

    with Seaweed(bucket="soak") as server:
        os.environ.update(server.environment())
        yield f"s3://{server.bucket}/graph"


def pace_of(asked: argparse.Namespace) -> Pace:
    """Return how often workers are killed and stopped."""
    if asked.place == "disk":
        return Pace(kill_every_s=asked.kill_every or 1.5, stop_every_s=asked.stop_every)
    # Longer than a lease: whoever was stopped has lost its slot, and does not know.
    stop_s = (asked.lease * 1.3, asked.lease * 4)
    return Pace(kill_every_s=asked.kill_every or 3.0, stop_every_s=asked.stop_every, stop_s=stop_s)


def begin(setup: Setup) -> None:
    """Make the graph."""
    import omnigraph as og

    og.init(setup.root, schema_text(()), durability="none").close()


def soak(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run and check; return the result."""
    with root_of(asked.place, folder) as root:
        setup = Setup(
            root=root,
            folder=folder,
            seed=str(asked.seed),
            without=frozenset(asked.without),
            lease_s=asked.lease if asked.place == "s3" else None,
            tolerated=tuple(asked.tolerate),
            threads=max(3, asked.threads),
        )
        roles = {f"w{number}": "writer" for number in range(asked.writers)}
        roles |= {f"m{number}": "maintainer" for number in range(asked.maintainers)}
        roles |= {f"r{number}": "reader" for number in range(asked.readers)}
        begun, totals = time.monotonic(), Totals()
        if not asked.check_only:
            apart(lambda: begin(setup))
            conductor = Conductor(setup, pace_of(asked), roles)
            totals = conductor.run(asked.minutes * 60, keep_going=asked.keep_going)
        ran_s = time.monotonic() - begun
        found = result_of(asked, totals) | {"minutes": round(ran_s / 60, 2)}
        try:
            found |= {"check": checked(setup, folder)}
        except Exception:
            found["failures"].append(f"the check failed:\n{traceback.format_exc()}")
            found["check"] = {"problems": [], "problem_count": 0}
        found["check_minutes"] = round((time.monotonic() - begun - ran_s) / 60, 2)
        found["ok"] = not found["failures"] and not found["check"]["problem_count"]
        if not found["ok"] and isinstance(setup.place, S3Path):
            copy_tree(setup.place, folder / "graph-after-check")
    return found


def checked(setup: Setup, folder: Path) -> dict[str, Any]:
    """Check the graph; on a disk a copy of it is made first."""
    from tests.soak.final import check_all

    kept = folder / "graph-before-check"
    if not isinstance(setup.place, S3Path):
        if kept.exists():
            # Checking works on the graph, and branches know their place by its name.
            shutil.rmtree(setup.place)
            copy_tree(kept, setup.place)
        else:
            copy_tree(setup.place, kept)
    return check_all(setup).to_json()


def result_of(asked: argparse.Namespace, totals: Totals) -> dict[str, Any]:
    """Return what the run did, as plain data."""
    return {
        "seed": asked.seed,
        "place": asked.place,
        "without": sorted(asked.without),
        "kills": totals.kills,
        "stops": totals.stops,
        "lives": totals.lives,
        "acknowledged": totals.acknowledged,
        "unchanged": totals.unchanged,
        "calls": dict(totals.calls.most_common()),
        "errors": dict(totals.errors.most_common()),
        "failures": totals.failures,
    }


def table(found: dict[str, Any]) -> str:
    """Return the result as lines for people."""
    lines = [f"seed {found['seed']} on {found['place']}: {'ok' if found['ok'] else 'FAILED'}"]
    numbers = {key: value for key, value in found.items() if isinstance(value, int | float)}
    numbers |= {k: v for k, v in found["check"].items() if isinstance(v, int)}
    lines += [f"  {name:24} {value}" for name, value in numbers.items() if name != "ok"]
    lines += [f"  {value:8} {name}" for name, value in found["errors"].items()]
    kinds = Counter(signature(text) for text in found["failures"])
    lines += [f"FAILED {number} times: {text}" for text, number in kinds.most_common()]
    lines += found["failures"][:1]
    lines += [f"PROBLEM {text}" for text in found["check"]["problems"]]
    return "\n".join(lines)


def main(given: list[str], description: str | None = None) -> int:
    """Run a soak; return the exit code."""
    asked = arguments(given, description)
    sys.stderr.write(f"OMNIGRAPH_SEED={asked.seed}\n")
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="omnigraph-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    found = soak(asked, folder)
    found["evidence"] = None if found["ok"] else str(folder)
    (folder / "result.json").write_text(json.dumps(found, indent=1))
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    sys.stderr.write(table(found) + "\n")
    if found["ok"]:
        if asked.folder is None:
            shutil.rmtree(folder)
    else:
        sys.stderr.write(f"evidence: {folder}\n")
    return 0 if found["ok"] else 1

"""A short soak on a disk; `make soak` runs a long one.

OMNIGRAPH_SOAK_S sets its length in seconds, OMNIGRAPH_SOAK_WITHOUT names features to leave out,
OMNIGRAPH_SEED repeats a run's choices (the interleaving is the machine's).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("OMNIGRAPH_SOAK_S", "12"))
WITHOUT = os.environ.get("OMNIGRAPH_SOAK_WITHOUT", "").split()


@pytest.mark.timeout(3600)
def test_killed_and_stopped_processes_leave_exactly_what_was_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", str(SECONDS / 60)]
    command += ["--kill-every", "0.7", "--stop-every", "3", "--folder", str(tmp_path / "run")]
    done = subprocess.run(  # noqa: S603 - our own program
        [*command, *(["--without", *WITHOUT] if WITHOUT else [])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(done.stderr)  # noqa: T201 - what the run was worth, and its seed
    assert found["ok"]
    assert found["kills"] >= SECONDS / 4
    assert found["acknowledged"] >= 2 * SECONDS
    assert found["check"]["replayed"] == found["check"]["commits"]
    assert found["check"]["confirmed_by_readers"] > SECONDS

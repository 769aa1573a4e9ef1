"""A writer that stops itself, as SIGSTOP does, at one place of its write, and goes on when told.

Run as a program it writes one row and prints what it was told about it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults.rig import ADD
from tests.places import AnyPath

ROOT = Path(__file__).resolve().parents[2]
OPERATION = "01JZZZZZZZZZZZZZZZZZZZZZZY"
CALLS = ("commit", "publish")


class PausedWriter:
    """Starts such a process and waits until it has stopped."""

    def __init__(self, root: AnyPath, stop_at: str, branch: str = "main") -> None:
        request = {"root": os.fspath(root), "stop_at": stop_at, "branch": branch}
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "tests.faults.paused", json.dumps(request)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def wait_until_stopped(self, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found, status = os.waitpid(self._process.pid, os.WUNTRACED | os.WNOHANG)
            if found and os.WIFSTOPPED(status):
                return
            assert not found, f"it ended without stopping: {status}"
            time.sleep(0.02)
        raise AssertionError("the writer never came to where it stops")

    def go_on(self) -> dict[str, Any]:
        """Let it finish; return its answer."""
        os.kill(self._process.pid, signal.SIGCONT)
        answer, _none = self._process.communicate(timeout=120)
        return dict(json.loads(answer))

    def kill(self) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            os.kill(self._process.pid, signal.SIGCONT)
            self._process.wait(30)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _stop_before(wanted: str) -> None:
    """Stop right before a request that makes a version: after every check there is."""
    from lance import LanceDataset

    inner, left = LanceDataset.commit, [True]

    def commit(target: Any, *args: Any, **kwargs: Any) -> Any:
        place = target if isinstance(target, str) else str(target.uri)
        if left and ("publish" if "__manifest" in place else "commit") == wanted:
            left.pop()
            _stop()
        return inner(target, *args, **kwargs)

    LanceDataset.commit = staticmethod(commit)  # type: ignore[method-assign,assignment]


def main(request: dict[str, str]) -> dict[str, Any]:
    import omnigraph as og
    from omnigraph.failpoints import Failpoint, arm

    with og.open(request["root"], durability="none") as graph:
        if request["stop_at"] in CALLS:
            _stop_before(request["stop_at"])
        else:
            arm(Failpoint(request["stop_at"]), _stop)
        try:
            done = graph.mutate(
                ADD, {"s": "paused"}, branch=request["branch"], operation_id=OPERATION
            )
        except og.OmniGraphError as refused:
            return {"error": type(refused).__name__, "message": refused.message}
        assert done.commit is not None
        return {"commit": done.commit.graph_commit_id, "version": done.commit.manifest_version}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))

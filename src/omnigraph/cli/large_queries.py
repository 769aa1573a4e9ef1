"""The program of a process that runs large queries for a server.

Jobs come on standard input, one after the other, and answers go to standard output. When the input
ends, the server is gone, and so is this process, whatever it does.
"""

from __future__ import annotations

import os
import queue
import sys
import threading

from omnigraph.server.large_jobs import Job, encoded, read_message
from omnigraph.server.large_work import LargeWork, stand_back
from omnigraph.server.memory import save_memory


def main() -> None:
    """Run what is asked for."""
    bytes_max = int(sys.argv[1])
    save_memory(os.environ)
    stand_back(bytes_max)
    # Only answers go there: what anything prints goes where the server's log goes.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), name="server", daemon=True).start()
    work = LargeWork(bytes_max)
    while True:
        answers.write(encoded(work.run(jobs.get())))


def _listen(jobs: queue.SimpleQueue[Job]) -> None:
    told = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    while (job := read_message(told)) is not None:
        jobs.put(job)
    os._exit(0)


if __name__ == "__main__":
    main()

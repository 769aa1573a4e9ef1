"""A long random run of many processes on one graph, with a full check at its end.

    python -m tests.soak --minutes 5 [--place disk|s3] [--seed N] [--without FEATURE ...]

Writers, a maintainer and a reader work on main and on branches whose names are used again and
again, while they are killed and stopped at random. Each keeps a journal of what it asked and what
it was answered. Then the graph is opened again, and every commit of every branch is replayed on
plain dictionaries and compared with what readers saw during the run and with what is stored.

The result is one JSON object on stdout; a short table goes to stderr. The exit code is 1 if
anything was wrong; the folder it names then holds the journals, the tracebacks and a copy of the
graph as it was before the check. The seed repeats the choices of all processes, not their timing.
"""

from __future__ import annotations

import os
import sys
import warnings

if __name__ == "__main__":
    # Before anything imports NumPy: a process with threads must not be forked.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    from tests.soak.command import main

    sys.exit(main(sys.argv[1:], __doc__))

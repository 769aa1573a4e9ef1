"""The program of one worker of `omnigraph serve --workers N`.

The supervisor writes the orders to standard input as one line and keeps it open: when it ends, the
supervisor is gone, and the worker stops. On standard output the worker says that it is ready, or
why it cannot be.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import msgspec

from omnigraph.errors import OmniGraphError
from omnigraph.server.logs import configure
from omnigraph.server.memory import give_memory_back, save_memory
from omnigraph.server.orders import READY, Orders, Refusal
from omnigraph.server.worker import work


def main() -> None:
    """Read the orders and follow them."""
    # Without a buffer: a thread that waits at one when the program ends would keep it locked.
    told = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    orders = msgspec.json.decode(told.readline(), type=Orders)
    configure(orders.settings.log_level, worker=orders.worker)
    save_memory(os.environ)
    give_memory_back()

    def stop_with_supervisor() -> None:
        told.read(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_supervisor, name="supervisor", daemon=True).start()
    try:
        work(orders, os.environ, lambda: print(READY, flush=True))
    except OmniGraphError as error:
        print(msgspec.json.encode(Refusal.of(error)).decode(), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()

"""Queries that need much memory run in processes of their own.

Such a process can be killed: when its query has had its time, when its client hangs up, when it
takes all the memory it may. It takes the processor only when nothing else wants it, and it leaves
the interpreter to the other requests. Its answer comes back as a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from msgspec.structs import replace

from omnigraph.clock import elapsed_s
from omnigraph.errors import QueryError, ResourceLimitError
from omnigraph.graph import Result
from omnigraph.limits import (
    LARGE_QUERY_IDLE_S,
    LARGE_QUERY_LOOK_S,
    QUERY_MEMORY,
    SERVER_QUERY_GRACE_S,
)
from omnigraph.read import out_of_time
from omnigraph.server.http_errors import KnownFailure
from omnigraph.server.large_jobs import Job, Refused, Reply, Rows, encoded, read_message
from omnigraph.server.large_work import too_large
from omnigraph.server.result_files import ResultFiles
from omnigraph.server.turns import Turns
from omnigraph.values.results import Explanation

PROGRAM: Final = "omnigraph.cli.large_queries"
"""What such a process runs: it is above this room, because it looks at the environment."""


class LargeQueries:
    """The processes of one server. They are started when they are needed, and end when idle."""

    def __init__(self, *, processes: int, bytes_max: int, files: ResultFiles) -> None:
        self._bytes_max = bytes_max
        self._files = files
        self._turns = Turns(processes)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="large")
        self._idle: list[_Process] = []
        self._processes: set[_Process] = set()
        self._lock = threading.Lock()
        self._is_open = True

    @staticmethod
    def takes(error: ResourceLimitError) -> bool:
        """Whether a query that was refused is one to be run here."""
        return error.resource == QUERY_MEMORY

    async def run(
        self, job: Job, actor: str, cancel: threading.Event, timeout_s: float
    ) -> Result | Explanation:
        """Return the answer of a query, in its turn. Raises what it was refused for."""
        begun = elapsed_s()
        async with contextlib.AsyncExitStack() as held:
            try:
                async with asyncio.timeout(timeout_s):
                    await held.enter_async_context(self._turns.turn(actor))
            except TimeoutError:
                raise out_of_time(timeout_s, elapsed_s() - begun) from None
            job = replace(job, timeout_s=max(0.1, timeout_s - (elapsed_s() - begun)))
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._threads, self._answered, job, cancel)
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                cancel.set()
                await asyncio.wait({work})
                raise

    def _answered(self, job: Job, cancel: threading.Event) -> Result | Explanation:
        if not job.explain:
            job = replace(job, path=self._files.new_path())
        process = self._process()
        try:
            reply = process.ask(job, cancel)
        except BaseException:
            self._end(process)
            self._files.discard(job.path)
            raise
        self._release_process(process)
        if isinstance(reply, Refused):
            raise KnownFailure(reply.failure)
        if isinstance(reply, Explanation):
            return reply
        return self._result(job, reply)

    def _result(self, job: Job, reply: Rows) -> Result:
        result = Result(
            self._files.open(job.path),
            query_name=reply.query_name,
            commit_id=reply.commit_id,
            column_types=reply.column_types,
        )
        result.target = reply.target
        return result

    def _process(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.wakes():
                    return process
                self._processes.discard(process)
        made = _Process(self._bytes_max)
        with self._lock:
            self._processes.add(made)
        return made

    def _release_process(self, process: _Process) -> None:
        with self._lock:
            if self._is_open:
                self._idle.append(process)
                process.rests(self._rested)
                return
        self._end(process)

    def _rested(self, process: _Process) -> None:
        """End a process that has waited for long, unless a query has just taken it."""
        with self._lock:
            if process not in self._idle:
                return
            self._idle.remove(process)
        self._end(process)

    def _end(self, process: _Process) -> None:
        with self._lock:
            self._processes.discard(process)
        process.end()

    def close(self) -> None:
        """End the processes, whatever they do: no request waits for their answers any more."""
        with self._lock:
            self._is_open = False
            idle, self._idle = self._idle, []
            busy = self._processes.difference(idle)
        for process in idle:
            self._end(process)
        for process in busy:
            process.kill()
        self._threads.shutdown(wait=False)


class _Process:
    """A process for one query at a time."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        # A new program, not a copy of this one, in a session of its own, as workers are.
        self._child = subprocess.Popen(  # noqa: S603  # this very program
            [sys.executable, "-P", "-m", PROGRAM, str(bytes_max)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._timer: threading.Timer | None = None

    def ask(self, job: Job, cancel: threading.Event) -> Reply:
        """Return the answer. Raises when it takes too long, or the client wants it no more."""
        begun = elapsed_s()
        most_s = job.timeout_s + SERVER_QUERY_GRACE_S
        child = self._child
        if child.stdin is None or child.stdout is None:
            raise QueryError("the process for large queries cannot be talked to")
        with contextlib.suppress(BrokenPipeError), selectors.DefaultSelector() as selector:
            child.stdin.write(encoded(job))
            selector.register(child.stdout, selectors.EVENT_READ)
            while not selector.select(LARGE_QUERY_LOOK_S):
                if cancel.is_set():
                    raise QueryError("the query was cancelled")
                if elapsed_s() - begun > most_s:
                    raise out_of_time(job.timeout_s, elapsed_s() - begun)
            reply: Reply | None = read_message(child.stdout)
            if reply is not None:
                return reply
        raise too_large(self._bytes_max)

    def rests(self, end: Callable[[_Process], None]) -> None:
        """Wait for the next query; if none comes for long, `end` is called."""
        self._timer = threading.Timer(LARGE_QUERY_IDLE_S, end, args=(self,))
        self._timer.daemon = True
        self._timer.start()

    def wakes(self) -> bool:
        """Whether it can take a query after it has waited."""
        if self._timer is not None:
            self._timer.cancel()
        return self._child.poll() is None

    def kill(self) -> None:
        """Stop it, whatever it does; the thread that waits for its answer ends it."""
        self._child.kill()

    def end(self) -> None:
        """Stop it and let go of it. No other thread may talk to it."""
        if self._timer is not None:
            self._timer.cancel()
        self.kill()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._child.wait()

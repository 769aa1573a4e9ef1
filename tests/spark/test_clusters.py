"""Loads, merges, queries and upkeep over Spark Connect, and on a master and worker of the test."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from tests.spark.worlds import SCHEMA, full_only, jsonl

LIMIT_S = 600
_DRIVER = """
import os
import sys
import omnigraph as og
from omnigraph.spark import diff, load, merge, optimize, query, read, start_session
from omnigraph.spark.queries import tables

uri, path, master = sys.argv[1:]
settings = {"spark__sql__shuffle__partitions": "2", "spark__executor__memory": "512m"}
if master == "connect":
    from omnigraph.spark.session import find_java, registered
    from pyspark.sql import SparkSession

    find_java()
    session = registered(SparkSession.builder.remote("local[2]").getOrCreate())
else:
    session = start_session(master, spark__driver__host="127.0.0.1", **settings)
with og.open(uri, durability="none") as graph:
    load(graph, path, mode="append", session=session)
    load(graph, path, mode="merge", session=session)
    assert read(session, uri, "Person", columns=["id"]).count() == 40
    graph.branches.create("dev")
    graph.load([{"type": "Person", "data": {"name": "new"}}], mode="append", branch="dev")
    assert diff(graph, "main", "dev", session=session).count() == 1
    assert merge(graph, "dev", session=session, rows_min=0).outcome == "fast_forward"
    assert optimize(graph, session=session).commit is not None
    for text in (
        "match { $a knows $b $b knows $c } return { count(*) as n }",
        "match { $a: Person optional { $a knows{1,2} $b } } return { $a.name, $b.name as b }"
        " order { $a.name }",
        "match { $a knows $b $a.name = $b.name } return distinct { $b.age + 1 as x }",
    ):
        source = "query q() { " + text + " }"
        there = query(session, graph, source, broadcast_rows=10)
        assert there.to_arrow().equals(graph.query(source).to_arrow()), text
    pinned = query(session, graph, "query q() { match { $a: Person } return { count(*) as n } }")
    graph.load([{"type": "Person", "data": {"name": "later"}}], mode="append")
    assert pinned.scalar() == 41
    if master.startswith("spark:"):
        lost = path + ".lost"

        def takes_all_memory(batches):
            import os, signal

            yield from batches
            if not os.path.exists(lost):
                open(lost, "w").close()
                # What the kernel does to an executor that needs more than there is.
                daemon = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2]
                os.kill(int(daemon.split()[1]), signal.SIGKILL)

        rows = session.range(0, 300, 1, 3).selectExpr("concat('lost', id) as name")
        rows = {"Person": rows.mapInArrow(takes_all_memory, "name string")}
        graph.branches.create("lost")
        done = load(graph, rows, mode="append", session=session, branch="lost")
        assert os.path.exists(lost) and done.nodes == {"Person": 300}
        assert read(session, uri, "Person", columns=["id"], branch="lost").count() == 342
        flag = path + ".killed"
        original = tables._reading

        def reading(*arguments):
            read = original(*arguments)

            def dies_once(task):
                import os, signal

                yield from read(task)
                if not os.path.exists(flag):
                    open(flag, "w").close()
                    # The executor: this process comes from a daemon that comes from it.
                    daemon = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2]
                    os.kill(int(daemon.split()[1]), signal.SIGKILL)

            return dies_once

        tables._reading = reading
        source = "query q() { match { $a knows $b } return { $a.name, $b.name } order { $a.name } }"
        there = query(session, graph, source, broadcast_rows=0).to_arrow()
        assert os.path.exists(flag)
        assert there.equals(graph.query(source).to_arrow())
        tables._reading = original
    try:
        query(session, graph, "query q() { match { $a: Person } return { "
              "count(*) * 9223372036854775807 as x } }").to_arrow()
        raise AssertionError("it overflows")
    except og.QueryError as error:
        assert "integer overflow" in str(error)
assert read(session, uri, "Person", columns=["id"]).count() == 42
frame = session.read.format("omnigraph").option("type", "Knows").load(uri)
assert frame.where("src = 'p1'").count() == 1
print("ok", flush=True)
session.stop()
"""


def _load(tmp_path: Path, master: str) -> None:
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    people = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(40)]
    knows = [{"edge": "Knows", "from": f"p{n}", "to": "p0"} for n in range(40)]
    path = jsonl(tmp_path / "a.jsonl", [*people, *knows])
    command = [sys.executable, "-c", _DRIVER, str(tmp_path / "g"), str(path), master]
    done = subprocess.run(  # noqa: S603
        command,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.stdout.strip().endswith("ok"), done.stderr[-3000:]
    with og.open(tmp_path / "g", durability="none") as graph:
        assert len(graph.commits.list()) >= 3
        assert graph.snapshot().tables["edge:Knows"].row_count == 40


@full_only
@pytest.mark.timeout(LIMIT_S + 120)
def test_a_connect_session_serves(tmp_path: Path) -> None:
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    _load(tmp_path, "connect")


@full_only
@pytest.mark.timeout(LIMIT_S + 120)
def test_a_standalone_cluster_serves(tmp_path: Path) -> None:
    with _cluster(tmp_path) as master:
        _load(tmp_path, master)


@contextlib.contextmanager
def _cluster(tmp_path: Path) -> Iterator[str]:
    import pyspark

    from omnigraph.spark.session import find_java

    find_java()
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port, page = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    deploy = "org.apache.spark.deploy"
    commands = [
        [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)],
        [f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g"],
    ]
    commands[0] += ["--webui-port", str(page)]
    commands[1] += ["--webui-port", "0", master]
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context(open(tmp_path / f"{number}.log", "w"))
            process = stack.enter_context(
                subprocess.Popen(  # noqa: S603
                    [launcher, *command], env=environment, stdout=log, stderr=log
                )
            )
            stack.callback(process.terminate)
            _wait(tmp_path / f"{number}.log", ("started Master", "registered with master")[number])
        yield master


def _wait(log: Path, text: str) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = log.read_text().lower()
        if text.lower() in found or (text == "started Master" and "i have been elected" in found):
            return
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-2000:])


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


_INTERRUPTED = """
import os, signal, sys, threading, time
import omnigraph as og
from omnigraph.spark import load, start_session

uri, beat, master = sys.argv[1:]
if master == "connect":
    from omnigraph.spark.session import find_java
    from pyspark.sql import SparkSession

    find_java()
    session = SparkSession.builder.remote("local[2]").getOrCreate()
else:
    session = start_session(master)


def slow(batches):
    for batch in batches:
        for number in range(3000):
            with open(beat, "w") as out:
                out.write(str(number))
            time.sleep(0.1)
        yield batch


def interrupt():
    while not os.path.exists(beat):
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


def read():
    with open(beat) as found:
        return found.read()


frame = session.range(0, 2, 1, 1).selectExpr("concat('p', id) as name")
frame = frame.mapInArrow(slow, "name string")
threading.Thread(target=interrupt, daemon=True).start()
with og.open(uri, durability="none") as graph:
    try:
        load(graph, {"Person": frame}, mode="append", session=session)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
quiet = 0
for _second in range(120):
    before = read()
    time.sleep(1)
    quiet = quiet + 1 if read() == before else 0
    if quiet == 5:
        print("ok", flush=True)
        break
os._exit(0)
"""


@full_only
@pytest.mark.parametrize("master", ["connect", "local[1,2]"])
def test_ctrl_c_leaves_no_job_behind(tmp_path: Path, master: str) -> None:
    if master == "connect" and importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    og.init(tmp_path / "g", SCHEMA, durability="none").close()
    command = [sys.executable, "-c", _INTERRUPTED, str(tmp_path / "g"), str(tmp_path / "beat")]
    done = subprocess.run(  # noqa: S603
        [*command, master],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.stdout.split() == ["interrupted", "ok"], done.stderr[-3000:]
    with og.open(tmp_path / "g", durability="none") as graph:
        assert graph.snapshot().tables["node:Person"].row_count == 0
    assert not list((tmp_path / "g" / "_scratch").glob("*"))

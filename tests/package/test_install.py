"""The wheel, installed into empty environments: it is imported, run, and served.

Each environment is a few hundred megabytes from a package index, so this runs only with
`OMNIGRAPH_PACKAGE=full` (`make test-package`). `-s` shows the sizes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.test_wheel import wheel as wheel

FULL = os.environ.get("OMNIGRAPH_PACKAGE") == "full"
pytestmark = [
    pytest.mark.skipif(not FULL, reason="make test-package installs the wheel for minutes"),
    pytest.mark.timeout(3600),
]
SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person\n"
ROWS = [
    {"type": "Person", "data": {"name": "ann"}},
    {"type": "Person", "data": {"name": "bob"}},
    {"edge": "Knows", "from": "ann", "to": "bob"},
]
FRIENDS = "query q() { match { $p: Person  $p knows $f } return { $f.name as name } }"
GRAPH = """
import omnigraph as og
with og.open("g", mode="ro") as graph:
    assert graph.get("Person", "ann") == {"id": "ann", "name": "ann"}
    print(graph.export("out.graphml"))
"""
SERVED = """
import subprocess, sys
import omnigraph as og
server = subprocess.Popen(
    [sys.argv[1], "serve", "--store", "g", "--bind", "127.0.0.1:0", "--unauthenticated"],
    stdout=subprocess.PIPE, text=True,
)
try:
    address = next(line for line in server.stdout if line.startswith("OMNIGRAPH_LISTEN_ADDR="))
    with og.connect("http://" + address.strip().partition("=")[2]) as graph:
        print(graph.query(sys.argv[2]).scalar(), graph.to_networkx is not None)
finally:
    server.terminate()
    server.wait(60)
"""
SPARK = """
import omnigraph as og
from omnigraph.spark import find_session
spark = find_session(master="local[1,4]")
with og.open("g") as graph:
    frame = spark.createDataFrame([("cy",)], "name string")
    print(graph.bulk({"Person": frame}, mode="append", session=spark).nodes)
spark.stop()
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


class Environment:
    """An environment of its own, with the wheel and what an extra asks for."""

    def __init__(self, folder: Path, wheel: Path, extra: str) -> None:
        self.bin = folder / "env" / "bin"
        self._folder = folder
        named = f"omnigraph[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)  # noqa: S603
        self.run(self.bin / "python", "-m", "pip", "install", "--quiet", named)

    def run(self, *command: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, which sees no other one."""
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON")
        env = {name: value for name, value in os.environ.items() if name not in hidden}
        env["PYSPARK_PYTHON"] = str(self.bin / "python")
        done = subprocess.run(  # noqa: S603 - our own programs
            [str(word) for word in command],
            cwd=self._folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def packages(self) -> set[str]:
        listed = self.run(self.bin / "python", "-m", "pip", "list", "--format", "json").stdout
        return {item["name"].lower() for item in json.loads(listed)}

    def megabytes(self) -> int:
        size = sum(path.stat().st_size for path in (self.bin.parent / "lib").rglob("*.*"))
        return round(size / 1e6)


@pytest.mark.parametrize("extra", ["", "server", "spark", "all"])
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path, extra: str) -> None:
    found = Environment(tmp_path, wheel, extra)
    python, omnigraph = found.bin / "python", found.bin / "omnigraph"
    sys.stderr.write(f"omnigraph[{extra}]: {found.megabytes()} MB\n")
    found.run(python, "-c", "import omnigraph, sys; assert 'lance' not in sys.modules")
    assert "omnigraph" in found.run(omnigraph, "--version").stdout
    (tmp_path / "g.pg").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "g.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    found.run(omnigraph, "init", "g", "--schema", "g.pg")
    found.run(omnigraph, "load", "g", "--data", "g.jsonl", "--mode", "append")
    assert "bob" in found.run(omnigraph, "query", "--store", "g", "-e", FRIENDS).stdout
    assert found.run(python, "-c", GRAPH).stdout == "3\n"
    if extra in ("server", "all"):
        assert found.run(python, "-c", SERVED, omnigraph, FRIENDS).stdout == "bob True\n"
    else:
        refused = found.run(omnigraph, "serve", "--store", "g", code=1)
        assert "omnigraph[server]" in refused.stderr
    if extra in ("spark", "all"):
        assert "{'Person': 1}" in found.run(python, "-c", SPARK).stdout
    assert not found.packages() & {"pytest", "hypothesis", "mypy", "ruff", "import-linter"}

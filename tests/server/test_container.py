"""The container file, as far as that goes without a container: what it names is there and works."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from omnigraph.cli.commands import COMMANDS
from omnigraph.server.settings import Settings, variable
from tests.server.helpers import Serve

ROOT = Path(__file__).resolve().parents[2]
LINES = [
    line
    for line in (ROOT / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def steps(word: str) -> list[str]:
    return [line.removeprefix(word).strip() for line in LINES if line.startswith(f"{word} ")]


def test_what_is_copied_and_installed_is_there() -> None:
    for step in steps("COPY"):
        *sources, _target = (part for part in shlex.split(step) if not part.startswith("--"))
        assert all(source.startswith("/") or (ROOT / source).exists() for source in sources), step
    (install, _user) = steps("RUN")
    locks = re.findall(r"-r (\S+)", install)
    pinned = "".join((ROOT / name).read_text() for name in locks)
    extras = PROJECT["optional-dependencies"]
    for wanted in (*PROJECT["dependencies"], *extras["server"], *extras["policy"], "hatchling"):
        name = re.split(r"[<>=~\[ ]", wanted)[0]
        assert re.search(rf"^{name}==", pinned, re.MULTILINE), f"{name} is not in {locks}"
    copied = [part for step in steps("COPY") for part in shlex.split(step)]
    assert {PROJECT["readme"], "pyproject.toml", "src"} <= set(copied), "the build needs them"


def test_it_starts_what_the_project_installs_where_it_says() -> None:
    (entry,) = steps("ENTRYPOINT")
    program, command = json.loads(entry)
    assert program in PROJECT["scripts"]
    assert command in COMMANDS
    (assigned,) = steps("ENV")
    env = dict(item.split("=", 1) for item in shlex.split(assigned))
    host, port = Settings(store="x", bind=env[variable("bind")]).address()
    assert host == "0.0.0.0"  # noqa: S104  # a container has an address of its own
    assert steps("EXPOSE") == [str(port)]
    assert env["PATH"].split("/bin:")[0] in steps("RUN")[0]
    assert steps("USER") == ["omnigraph"], "it must not run as root"


def test_its_health_check_asks_a_server(serve: Serve) -> None:
    (check,) = steps("HEALTHCHECK")
    (_python, _flag, code) = json.loads(check.removeprefix("CMD "))
    api = serve()
    program = compile(code.replace("http://127.0.0.1:8080", api.url), "<healthcheck>", "exec")
    exec(program, {})  # noqa: S102  # our own file
    api.service.draining = True
    with pytest.raises(OSError, match="503"):
        exec(program, {})  # noqa: S102

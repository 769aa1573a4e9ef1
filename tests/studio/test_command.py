"""`omnigraph studio`: one graph for the browser of this machine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from omnigraph.cli.main import cli
from omnigraph.errors import BadRequestError

PROGRAM = "from omnigraph.cli.main import main; main()"


def test_a_server_that_runs_is_only_pointed_at() -> None:
    done = CliRunner().invoke(
        cli, ["studio", "--server", "https://graphs.example/", "--graph", "a", "--no-open"]
    )
    assert done.output == "OmniGraph Studio: https://graphs.example/studio/g/a/overview\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["g", "--server", "https://x"], "is served already"),
        (["g", "--graph", "a"], "--graph needs --server"),
        (["--server", "nonsense"], "not a server address"),
        (["g", "--bind", "0.0.0.0:0"], "this machine only"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["studio", "--no-open", *arguments])
    assert done.exit_code != 0
    told = str(done.exception) if isinstance(done.exception, BadRequestError) else done.output
    assert message in told


def test_only_who_has_the_printed_address_gets_in(world: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "studio", str(world), "--no-open", "--as", "lena"]
    with subprocess.Popen(  # noqa: S603  # our own program
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("OmniGraph Studio: ").strip()
            page, token = address.split("#token=")
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/studio/", page)
            root = page.removesuffix("/studio/")
            assert httpx.get(page).status_code == 200
            assert httpx.get(f"{root}/whoami").status_code == 401
            known = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{root}/whoami", headers=known).json()["actor"] == "lena"
            elsewhere = {**known, "Host": "evil.example"}
            assert httpx.get(f"{root}/whoami", headers=elsewhere).status_code == 421
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0

"""Completion in the shell people type commands into: scripts, branches and types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import omnigraph as og
from omnigraph.cli.main import cli as program
from tests.integration.conftest import Cli
from tests.integration.helpers import PEOPLE


@pytest.fixture
def place(tmp_path: Path) -> str:
    with og.init(tmp_path / "club", PEOPLE, durability="none") as graph:
        graph.branches.create("draft")
    return str(tmp_path / "club")


def completed(*words: str) -> list[str]:
    """Return what the last word may become, as the scripts ask for it."""
    *before, word = words
    asked = ShellComplete(program, {}, "omnigraph", "_OMNIGRAPH_COMPLETE")
    return [item.value for item in asked.get_completions(list(before), word)]


def test_branches_and_types_of_the_named_graph_are_offered(place: str) -> None:
    assert completed("query", "--store", place, "--branch", "d") == ["draft"]
    assert completed("commit", "list", place, "--branch", "") == ["main", "draft"]
    assert completed("export", place, "--type", "P") == ["Paper", "Person"]
    assert completed("commit", "changes", "HEAD", place, "--type", "Kn") == ["Knows"]


def test_the_graph_is_found_as_by_the_command(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", place)
    assert completed("branch", "merge", "dr") == ["draft"]
    assert completed("branch", "delete", "") == ["main", "draft"]
    assert completed("commit", "blame", "Wro") == ["Wrote"]
    monkeypatch.delenv("OMNIGRAPH_STORE")
    monkeypatch.chdir(place)
    assert completed("branch", "create", "new", "--from", "ma") == ["main"]


def test_what_fails_offers_nothing_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("query", "--branch", "") == []
    assert completed("query", "--store", str(tmp_path / "nope"), "--branch", "") == []
    assert completed("query", "--server", "http://127.0.0.1:9", "--branch", "") == []
    shown = capsys.readouterr()
    assert shown.out + shown.err == ""


@pytest.mark.parametrize(
    ("shell", "path"),
    [
        ("bash", ".local/share/bash-completion/completions/omnigraph"),
        ("zsh", ".zfunc/_omnigraph"),
        ("fish", ".config/fish/completions/omnigraph.fish"),
    ],
)
def test_a_script_is_installed_where_its_shell_looks(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, path: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    printed = cli("completion", shell)
    assert printed.code == 0
    assert "_OMNIGRAPH_COMPLETE" in printed.out
    assert not home.exists()
    assert cli("completion", shell, "--install").out.startswith(f"wrote {home / path}\n")
    assert (home / path).read_text(encoding="utf-8") == printed.out
    assert cli("completion", shell, "--install").code == 0  # again: ours is replaced
    (home / path).write_text("mine", encoding="utf-8")
    refused = cli("completion", shell, "--install")
    assert refused.code == 5
    assert "is not ours" in refused.err
    assert (home / path).read_text(encoding="utf-8") == "mine"


def test_bash_completes_with_the_script(cli: Cli, place: str, tmp_path: Path) -> None:
    (tmp_path / "omnigraph").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m omnigraph "$@"\n', encoding="utf-8"
    )
    (tmp_path / "omnigraph").chmod(0o755)
    script = cli("completion", "bash").out
    ask = (
        f"{script}\nCOMP_WORDS=(omnigraph query --branch dr); COMP_CWORD=3\n"
        'bind() { :; }; compopt() { :; }; _omnigraph_completion omnigraph; echo "${COMPREPLY[@]}"\n'
    )
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "OMNIGRAPH_STORE": place}
    done = subprocess.run(  # noqa: S603 - the shell under test
        [str(shutil.which("bash")), "-c", ask],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    assert done.stdout.strip() == "draft", done.stderr


def test_every_command_can_be_completed() -> None:
    assert set(completed("")) >= {"query", "shell", "doctor", "completion"}

"""`omnigraph completion`: the script that completes commands in a shell."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from omnigraph.errors import AlreadyExistsError, InternalError, StorageError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_OMNIGRAPH_COMPLETE"
"""Asks the program for completions instead of running it; the scripts set it."""

NEXT = {
    "bash": "open a new shell; it needs the package bash-completion",
    "zsh": "put `fpath+=~/.zfunc; autoload -U compinit; compinit` into ~/.zshrc, open a new shell",
    "fish": "open a new shell",
}


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Put the script where the shell looks for it.")
def completion(shell: str, install: bool) -> None:
    """Print the script that completes commands, options, branches and types in a shell.

    To try it in bash: eval "$(omnigraph completion bash)"
    """
    text = script(shell)
    if not install:
        click.echo(text)
        return
    path = script_path(shell, os.environ)
    _write(path, text)
    click.echo(f"wrote {path}\n{NEXT[shell]}")


def script(shell: str) -> str:
    """Return the script for a shell."""
    from click.shell_completion import get_completion_class

    from omnigraph.cli.main import cli

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise InternalError(f"click has no completion for {shell}")
    return completion_class(cli, {}, "omnigraph", VARIABLE).source().strip()


def script_path(shell: str, env: Mapping[str, str]) -> str:
    """Return where a shell looks for the script of a user."""
    home = env.get("HOME") or os.path.expanduser("~")
    if shell == "bash":
        data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        return os.path.join(data, "bash-completion", "completions", "omnigraph")
    if shell == "zsh":
        return os.path.join(home, ".zfunc", "_omnigraph")
    config = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(config, "fish", "completions", "omnigraph.fish")


def _write(path: str, text: str) -> None:
    """Write the script; another one of ours is replaced, anything else stays."""
    try:
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as handle:
                if VARIABLE not in handle.read():
                    raise AlreadyExistsError(
                        f"{path} exists and is not ours", hint="move it away, then try again"
                    )
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text + "\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error

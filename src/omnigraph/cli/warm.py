"""`omnigraph warm`: a helper that keeps a graph open, so that commands start at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import click

from omnigraph.cli.helper import Helper, peer
from omnigraph.cli.places import is_local, is_served
from omnigraph.cli.scope import GivenPlace, json_option, print_json, uri_argument
from omnigraph.errors import BadRequestError, StorageError

IDLE_S = 900.0
"""When a helper goes: it holds memory, and a new one is there in a second."""

STOP_S = 10.0
"""How long to wait for a helper to go: it has a query to finish, perhaps."""

# Runs in the helper. Its first line says that it serves; afterwards it has nothing to say.
_PROGRAM = """\
import os, sys
from omnigraph.server.helper import serve_helper
def ready():
    print("ready", flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
place, path, fingerprint, idle_s = sys.argv[1:]
serve_helper(place, path, fingerprint, idle_s=float(idle_s), env=os.environ, announce=ready)
"""


@click.group()
def warm() -> None:
    """Keep a graph open for the commands of this user.

    Queries on the same graph are then answered by the helper, as they would be without it, in a
    fraction of the time. It only reads, and goes when it was not needed for a while.
    """


@warm.command()
@uri_argument
@click.option(
    "--idle",
    type=float,
    default=IDLE_S,
    show_default=True,
    help="Stop after this many seconds without a query.",
)
@json_option
def start(place_given: GivenPlace, idle: float, as_json: bool) -> None:
    """Start a helper, unless there is one already."""
    helper = _helper(place_given)
    if not idle > 0:
        raise BadRequestError(f"--idle must be more than 0, not {idle:g}")
    graph = helper.open()
    if graph is not None:
        graph.close()
    else:
        _stop(helper)
        _start(helper, idle)
    _tell(helper, as_json=as_json)


@warm.command()
@uri_argument
@json_option
def stop(place_given: GivenPlace, as_json: bool) -> None:
    """Stop the helper, if there is one."""
    helper = _helper(place_given)
    _stop(helper)
    _tell(helper, as_json=as_json)


@warm.command()
@uri_argument
@json_option
def status(place_given: GivenPlace, as_json: bool) -> None:
    """Tell whether a helper runs, and whether commands would use it."""
    _tell(_helper(place_given), as_json=as_json)


def _helper(place_given: GivenPlace) -> Helper:
    place = place_given.resolve()
    if is_served(place):
        raise BadRequestError("a served graph is open already", hint="a helper is for storage")
    if is_local(place):
        place = place.removeprefix("file://")
    helper = Helper(place, os.environ)
    if not helper.can_be_named:
        raise BadRequestError(
            f"{helper.path} is too long for a socket", hint="set XDG_RUNTIME_DIR to a short path"
        )
    return helper


def _start(helper: Helper, idle_s: float) -> None:
    try:
        os.makedirs(helper.folder, mode=0o700, exist_ok=True)
        log = open(helper.log_path, "wb", opener=_private)  # noqa: SIM115 - closed below
    except OSError as error:
        raise StorageError(f"cannot write to {helper.folder}: {error.strerror}") from error
    with log:
        asked = (helper.place, helper.path, helper.fingerprint, str(idle_s))
        made = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-c", _PROGRAM, *asked],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    answer = b"" if made.stdout is None else made.stdout.readline()
    if answer != b"ready\n":
        made.wait()
        with open(helper.log_path, encoding="utf-8", errors="replace") as text:
            lines = text.read().split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
        raise StorageError(f"the helper did not start: {reason}", hint=f"see {helper.log_path}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _stop(helper: Helper) -> None:
    """Stop whatever helper of this user listens there; return when it no longer does."""
    with contextlib.suppress(OSError), helper.connect() as connection:
        process, _user = peer(connection)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        connection.settimeout(STOP_S)
        try:
            # It closes what it has when it is gone.
            while connection.recv(4096):
                pass
        except TimeoutError:
            raise StorageError(f"the helper (process {process}) does not stop") from None


def _tell(helper: Helper, *, as_json: bool) -> None:
    process: int | None = None
    with contextlib.suppress(OSError), helper.connect() as connection:
        process = peer(connection)[0]
    graph = helper.open() if process is not None else None
    if graph is not None:
        graph.close()
    body = {"store": helper.place, "process": process, "used": graph is not None}
    if as_json:
        print_json(body)
    elif process is None:
        click.echo(f"no helper for {helper.place}")
    elif graph is None:
        click.echo(f"process {process} has {helper.place} open, for another release or setting")
    else:
        click.echo(f"process {process} has {helper.place} open")

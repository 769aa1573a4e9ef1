"""Entry point: the command tree and how errors leave the program."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import sys
import threading

import click

from omnigraph.cli.commands import COMMANDS
from omnigraph.cli.exit_codes import FAILURE, exit_code
from omnigraph.errors import OmniGraphError, StorageError
from omnigraph.version import __version__
from omnigraph.wording import printable

OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Loading makes this many objects and leaves no garbage: looking for it takes a tenth of it."""

MAKES_NO_FRAMES = frozenset({"query", "serve"})
"""Commands that have no use for pandas, see `WithoutPandas`."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return command names in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        module, _, attribute = listed.target.partition(":")
        command = getattr(importlib.import_module(f"omnigraph.cli.{module}"), attribute)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what is known of them without importing any."""
        known = [
            click.Command(name, help=listed.help, hidden=not listed.help)
            for name, listed in COMMANDS.items()
        ]
        click.Group(commands=known).format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command, suggesting a similar name for an unknown one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            from omnigraph.cli import habits

            if args[0] in habits.COMMANDS:
                raise
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not close or "No such command" not in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{close[0]}'?", ctx=ctx) from None


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-v", "-V", "--version", message="omnigraph %(version)s")
def cli() -> None:
    """OmniGraph: a typed, versioned property-graph database on open Lance tables.

    Flags that say which graph is meant (--store, --server, --cluster, --graph, --profile) and --as,
    --yes and --quiet may stand before the command as well.
    """


def report(error: OmniGraphError, *, as_json: bool) -> None:
    """Print an error: JSON to stdout when asked for, else text to stderr."""
    if as_json:
        click.echo(json.dumps(error.to_json(), indent=2, ensure_ascii=False))
        return
    prefix = "" if error.kind == "compile" else "error: "
    click.echo(printable(f"{prefix}{error.message}"), err=True)
    if error.hint:
        click.echo(printable(f"help: {error.hint}"), err=True)


# Scope flags may stand before the command, too; True for those that take a value.
ANYWHERE = {
    "--store": True,
    "--server": True,
    "--cluster": True,
    "--graph": True,
    "--profile": True,
    "--as": True,
    "--yes": False,
    "--quiet": False,
}


def scope_last(arguments: list[str]) -> list[str]:
    """Return arguments with the scope flags that stand before the command moved behind it."""
    moved: list[str] = []
    rest = list(arguments)
    while rest and (flag := rest[0].partition("=")[0]) in ANYWHERE:
        takes_next = ANYWHERE[flag] and "=" not in rest[0]
        moved += rest[: 1 + takes_next]
        rest = rest[1 + takes_next :]
    if rest[:1] == ["help"]:
        rest = [*rest[1:], "--help"]
    if rest[:1] == ["query"] and rest[1:2] in (["lint"], ["check"]) and "--schema" in rest:
        rest = ["lint", *rest[2:]]  # its older name
    place = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:place], *moved, *rest[place:]]


# Options that name something; one without a name is a shell variable that is not set.
NAMING = frozenset(
    {"--at", "--branch", "--cluster", "--data", "--from", "--graph", "--into", "--mapping", "--out"}
    | {"--profile", "--query", "--schema", "--server", "--snapshot", "--store", "--tag", "--uri"}
)


def refuse_empty_names(arguments: list[str]) -> None:
    """Refuse `--branch ""`, which would else mean the default."""
    for place, argument in enumerate(arguments):
        if argument == "--":
            return
        flag, separator, value = argument.partition("=")
        following = arguments[place + 1 : place + 2]
        if flag in NAMING and (not value if separator else following == [""]):
            raise click.UsageError(f"{flag} is empty; is a variable of your shell not set?")


class WithoutPandas:
    """Bars pandas from a process: Arrow loads it wherever it is installed.

    These commands make no frames, and pandas takes longer to load than all the rest.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Say that there is no pandas; nothing about anything else."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit. Every failure leaves as a message and an exit code.

    Without `argv` it is the whole process, which then starts and ends as fast as it can.
    """
    if argv is not None:
        sys.exit(run(argv))
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    if not MAKES_NO_FRAMES.isdisjoint(sys.argv):
        sys.meta_path.insert(0, WithoutPandas())
    leave(run(sys.argv[1:]))


def leave(code: int) -> None:
    """End the process without taking apart what it loaded, which takes as long as a small query.

    What was registered for the end is done, and what was printed is written. Where threads are
    still at work, the interpreter waits for them as ever.
    """
    if threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (BrokenPipeError, ValueError):
        # No one reads it any more, or it was closed because of that.
        code = FAILURE
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    arguments = scope_last(arguments)
    as_json = "--json" in arguments
    try:
        refuse_empty_names(arguments)
        result: object = cli.main(args=arguments, prog_name="omnigraph", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else FAILURE
    except OmniGraphError as error:
        report(error, as_json=as_json)
        return exit_code(error)
    except click.ClickException as error:
        if as_json:
            body = {"error": error.format_message(), "type": "usage", "code": "bad_request"}
            click.echo(json.dumps(body, indent=2, ensure_ascii=False))
        else:
            error.show()
            from omnigraph.cli.habits import usage_help

            if (known := usage_help(error.message, arguments)) is not None:
                click.echo(f"help: {known}", err=True)
        return int(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; nothing was published", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return FAILURE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        report(StorageError(f"{where}{error.strerror or error}"), as_json=as_json)
        return FAILURE

"""`omnigraph shell`: queries typed at a prompt."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from omnigraph.cli.commit import commit_line
from omnigraph.cli.data import show_mutation
from omnigraph.cli.exit_codes import OK, exit_code
from omnigraph.cli.main import report
from omnigraph.cli.query import choose_output, rows_of, write_result
from omnigraph.cli.scope import (
    GivenPlace,
    actor_option,
    branch_option,
    graph_argument,
    literal,
    open_graph,
)
from omnigraph.cli.shell_input import (
    COMMANDS,
    FORMS,
    Completer,
    LineReader,
    as_query,
    is_complete,
    split_command,
)
from omnigraph.errors import BadRequestError, InternalError, NotFoundError, OmniGraphError
from omnigraph.version import __version__
from omnigraph.wording import names_hint

if TYPE_CHECKING:
    from omnigraph.graph import GraphApi
    from omnigraph.lang.gq_ast import QueryNode

SHOWN_COMMITS = 10
HELP = """\
Type a query; it runs when its braces close:
  query who() { match { $p: Person } return { $p.name } }
A body alone runs at an empty line, or at a semicolon:
  match { $p: Person } return { $p.name };
  insert Person { name: "ann" };

.branch [NAME]        show the branch, or go to another one
.branches             list the branches
.schema [TYPE]        show the schema, or one type of it
.commits [N]          show the newest commits of the branch
.param [NAME=VALUE]   show the parameters, or set one for queries that declare it
.format table|json    how rows are shown (also csv, jsonl, kv)
.timing on|off        show how long each input took
.quit                 leave (also Ctrl-D)

Tab completes words. Ctrl-C drops what is typed, or cancels the query that runs."""

T = TypeVar("T")


@click.command()
@graph_argument
@branch_option
@click.option("--read-only", is_flag=True, help="Refuse to write.")
@actor_option
def shell(place_given: GivenPlace, branch: str, read_only: bool, actor: str | None) -> int:
    """Type queries at a prompt, with completion and history; .help shows what can be typed.

    Mutations are commits on the current branch. Lines may also come from a file or a pipe: the
    first error then ends the command with its exit code.
    """
    place = place_given.resolve()
    with open_graph(place, mode="ro" if read_only else "rw", actor=actor) as graph:
        return Shell(graph, branch, read_only=read_only).run()


class Shell:
    """A prompt on one open graph."""

    def __init__(self, graph: GraphApi, branch: str, *, read_only: bool = False) -> None:
        self._graph = graph
        self._read_only = read_only
        self._params: dict[str, object] = {}
        self._form = "table"
        self._timed = False
        self._leaving = False
        self._typed = sys.stdin.isatty()
        self._completer = Completer(graph)
        self._lines = LineReader(self._completer, os.environ, edits=self._typed)
        self._branch = "main"
        self._go_to(branch)

    def run(self) -> int:
        """Read and run inputs until the end; return the exit code."""
        if self._typed:
            click.echo(f"omnigraph {__version__}, {self._graph.uri}. Type .help for help.")
        while not self._leaving:
            try:
                text = self._read()
                code = self._answer(text)
            except EOFError:
                break
            except KeyboardInterrupt:
                click.echo()  # What was typed is dropped.
                continue
            if code != OK and not self._typed:
                return code
        if self._typed and not self._leaving:
            click.echo()
        return OK

    def _read(self) -> str:
        """Read one input, of one or several lines."""
        text = ""
        while True:
            prompt = f"{self._branch}> "
            if text:
                prompt = "...> ".rjust(len(prompt))
            try:
                line = self._lines.read(prompt if self._typed else "", text)
            except EOFError:
                if self._typed or not text.strip():
                    raise
                return text
            if not text and split_command(line) is not None:
                return line
            text = f"{text}\n{line}" if text else line
            if is_complete(text):
                return text

    def _answer(self, text: str) -> int:
        """Run one input and show what came of it; errors are shown and give the exit code."""
        self._lines.remember(text)
        begun = time.perf_counter()
        try:
            command = split_command(text)
            if command is not None:
                self._command(*command)
            elif text.strip():
                self._queries(as_query(text))
        except OmniGraphError as error:
            report(error, as_json=False)
            return exit_code(error)
        except click.ClickException as error:
            error.show()
            return int(error.exit_code)
        except Exception as error:
            # A defect ends one input, not the session with all that was typed in it.
            failure = InternalError(f"internal error: {type(error).__name__}: {error}")
            report(failure, as_json=False)
            return exit_code(failure)
        finally:
            if self._timed:
                click.echo(f"time: {(time.perf_counter() - begun) * 1e3:.1f} ms")
        return OK

    # ---- queries --------------------------------------------------------------------------

    def _queries(self, text: str) -> None:
        from omnigraph.lang.queries import parse_file

        _source, queries = parse_file(text)
        for query in queries:
            declared = {item.name for item in query.parameters}
            params = {name: value for name, value in self._params.items() if name in declared}
            if query.read is None:
                self._mutate(text, params, query)
            else:
                self._ask(text, params, query)

    def _ask(self, text: str, params: dict[str, object], query: QueryNode) -> None:
        ask = rows_of(self._graph)
        stops: dict[str, threading.Event] = {}
        cancel = threading.Event()
        if "cancel" in inspect.signature(ask).parameters:
            stops["cancel"] = cancel
        rows = _apart(
            lambda: ask(text, params, name=query.name, branch=self._branch, **stops),
            on_interrupt=cancel.set,
            abandons=not stops,
        )
        write_result(rows, choose_output(self._form, None), pages=False)

    def _mutate(self, text: str, params: dict[str, object], query: QueryNode) -> None:
        if self._read_only:
            raise BadRequestError("this shell was opened with --read-only; it does not write")
        # What became of half a write could not be told: it is finished, and then told.
        result = _apart(
            lambda: self._graph.mutate(text, params, name=query.name, branch=self._branch),
            on_interrupt=lambda: click.echo("\nthe write is being finished", err=True),
            abandons=False,
        )
        show_mutation(result, self._branch)

    # ---- commands -------------------------------------------------------------------------

    def _command(self, name: str, argument: str) -> None:
        commands: dict[str, Callable[[str], None]] = {
            ".help": lambda _argument: click.echo(HELP),
            ".quit": self._quit,
            ".branch": self._branch_command,
            ".branches": self._branches,
            ".schema": self._schema,
            ".commits": self._commits,
            ".param": self._param,
            ".format": self._format,
            ".timing": self._timing,
        }
        run = commands.get(name)
        if run is None:
            raise BadRequestError(
                f"there is no command '{name}'", hint=names_hint(name, COMMANDS, listed_max=9)
            )
        run(argument)

    def _quit(self, _argument: str) -> None:
        self._leaving = True

    def _branch_command(self, name: str) -> None:
        if name:
            self._go_to(name)
            self._completer.forget()
        else:
            click.echo(self._branch)

    def _go_to(self, name: str) -> None:
        known = self._graph.branches.list()
        if name not in known:
            raise NotFoundError(f"there is no branch '{name}'", hint=names_hint(name, known))
        self._branch = name

    def _branches(self, _argument: str) -> None:
        for name in self._graph.branches.list():
            click.echo(f"{'*' if name == self._branch else ' '} {name}")
        self._completer.forget()

    def _schema(self, type_name: str) -> None:
        if not type_name:
            click.echo(self._graph.schema_source.rstrip())
            self._completer.forget()
            return
        entity = self._graph.catalog.entity_named(type_name)
        click.echo(f"{entity.kind} {entity.name}")
        width = max((len(name) for name in entity.properties), default=0)
        for name, item in entity.properties.items():
            click.echo(f"  {name:<{width}}  {item.type}")

    def _commits(self, count: str) -> None:
        if count and not count.isdigit():
            raise BadRequestError(f".commits takes a number, not '{count}'")
        limit = int(count) if count else SHOWN_COMMITS
        for item in self._graph.commits.list(self._branch, limit=limit):
            click.echo(commit_line(item))

    def _param(self, pair: str) -> None:
        name, separator, value = pair.partition("=")
        name = name.strip().removeprefix("$")
        if pair and (not separator or not name):
            raise BadRequestError(f"'{pair}' is not NAME=VALUE", hint="such as .param name=ann")
        if pair:
            self._params[name] = literal(value.strip())
            return
        for name, known in self._params.items():
            click.echo(f"{name} = {known!r}")

    def _format(self, form: str) -> None:
        if form and form not in FORMS:
            raise BadRequestError(f"there is no format '{form}'", hint=f"use {', '.join(FORMS)}")
        self._form = form or self._form
        if not form:
            click.echo(self._form)

    def _timing(self, state: str) -> None:
        if state not in ("on", "off"):
            raise BadRequestError(".timing takes on or off")
        self._timed = state == "on"


def _apart(work: Callable[[], T], *, on_interrupt: Callable[[], None], abandons: bool) -> T:
    """Run work on a thread of its own, so that Ctrl-C reaches the shell and not the work.

    At Ctrl-C the work is told, and then waited for. With `abandons` it is left alone instead: it
    cannot be told, and does not change anything. Raises what the work raises.
    """
    done = threading.Event()
    results: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()

    def interrupted(_number: int, _frame: object) -> None:
        on_interrupt()
        if abandons:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        threading.Thread(target=run, name="omnigraph-shell", daemon=True).start()
        done.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if failed:
        raise failed[0]
    return results[0]

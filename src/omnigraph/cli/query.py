"""`omnigraph query`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import click

from omnigraph.cli.complete_names import branch_names
from omnigraph.cli.files import form_of_file, from_file, read_text, write_table, writing
from omnigraph.cli.operator import load_operator
from omnigraph.cli.places import is_served
from omnigraph.cli.scope import (
    at_option,
    one_state,
    open_reader,
    open_served,
    params_options,
    print_json,
    query_and_place,
    read_params,
    store_options,
)
from omnigraph.cli.tables import CELL_WIDTH_MAX, Layout, draw_table, screen_width
from omnigraph.errors import BadRequestError
from omnigraph.wording import printable

if TYPE_CHECKING:
    from omnigraph.graph import GraphApi, Result
    from omnigraph.remote.rows import JsonRows

    Rows: TypeAlias = JsonRows | Result

FORMATS = ("table", "kv", "csv", "jsonl", "json", "arrow", "parquet")


@click.command()
@click.argument("name", required=False)
@click.argument("uri", required=False)
@store_options
@click.option("--query", "query_path", metavar="FILE", help="Query file (.gq).")
@click.option("-e", "--query-string", "text", metavar="GQ", help="Query text.")
@params_options
@click.option("--branch", help="Branch (main).", shell_complete=branch_names)
@at_option
@click.option("--snapshot", metavar="COMMIT", help="Read at this commit.")
@click.option("--version", "at_version", type=int, help="Read at this graph version.")
@click.option("--tag", metavar="NAME", help="Read at this tag.")
@click.option("--timestamp", metavar="TIME", help="Read the branch as it was at this instant.")
@click.option("--timeout", type=float, metavar="S", help="Give up after this many seconds.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark", "auto"]),
    default="local",
    show_default=True,
    help="Where it runs: in this process, on Spark, or on Spark if memory here is too small.",
)
@click.option("--master", metavar="URL", help="Spark master, such as local[4,4].")
@click.option("--explain", is_flag=True, help="Show how it ran: rows, time and calls by step.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Output format (table, or as configured)."
)
@click.option("--out", metavar="FILE", help="Write to a file; its ending says in which format.")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def query(
    name: str | None,
    uri: str | None,
    store: str | None,
    query_path: str | None,
    text: str | None,
    params: str | None,
    params_file: str | None,
    pairs: tuple[str, ...],
    branch: str | None,
    at_state: str | None,
    snapshot: str | None,
    at_version: int | None,
    tag: str | None,
    timestamp: str | None,
    timeout: float | None,
    engine: str,
    master: str | None,
    explain: bool,
    form: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Run a read query. NAME picks a query when the source holds several, URI is the graph.

    On a server and without a source, NAME is a stored query.
    """
    if query_path is not None and text is not None:
        raise click.UsageError("give --query FILE or -e GQ, not both")
    if branch is not None and snapshot is not None:
        raise click.UsageError("give --branch or --snapshot, not both")
    if form == "parquet" and out is None:
        raise click.UsageError("--format parquet needs --out FILE")
    one_state(at=at_state, snapshot=snapshot, version=at_version, tag=tag, timestamp=timestamp)
    snapshot = at_state or snapshot
    name, place = query_and_place(name, uri, store)
    form = "json" if as_json else form
    if out is not None and form is None:
        form = form_of_file(out, FORMATS)
    output = choose_output(form, out)
    if query_path is None and text is None:
        given = read_params(params, params_file, pairs)
        rows = call_stored(place, name, output, params=given, branch=branch, commit=snapshot)
        write_result(rows, output)
        return
    source = text if text is not None else read_text(str(query_path))
    values = read_params(params, params_file, pairs)
    state: dict[str, Any] = {
        "branch": branch,
        "commit": snapshot,
        "version": at_version,
        "tag": tag,
        "timestamp": timestamp,
    }
    state |= _where(engine, master, place)
    with from_file(query_path), open_reader(place) as graph:
        if explain:
            how = graph.explain(source, values, name=name, **state)
            print_json(how.to_json()) if as_json else click.echo(str(how))
            return
        here = output.is_plain and engine == "local"
        ask = rows_of(graph) if here else graph.query
        result = ask(source, values, name=name, timeout=timeout, **state)
    write_result(result, output)


def rows_of(graph: GraphApi) -> Callable[..., Rows]:
    """Return what runs a query and gives its rows in the form that costs least to be shown."""
    method: Callable[..., Rows] = getattr(graph, "query_rows", graph.query)
    return method


def _where(engine: str, master: str | None, place: str) -> dict[str, str | None]:
    """Return what says where a query runs. Refuses what would leave Spark unused."""
    if engine == "local":
        if master is not None:
            raise click.UsageError("--master needs --engine spark or auto")
        return {}
    if is_served(place):
        raise BadRequestError("a server has no Spark", hint="run it where the graph is stored")
    return {"engine": engine, "master": master}


def call_stored(
    place: str,
    name: str | None,
    output: Output,
    *,
    params: dict[str, object],
    branch: str | None,
    commit: str | None = None,
) -> Rows:
    """Run a stored query that reads."""
    if name is None or not is_served(place):
        raise click.UsageError("give --query FILE or -e GQ; stored queries are on servers")
    with open_served(place) as graph:
        if output.is_plain:
            return graph.call_rows(name, params, branch=branch, commit=commit)
        answer = graph.call(name, params, branch=branch, commit=commit, expect_mutation=False)
    return cast("Result", answer)


class Output(NamedTuple):
    """Where rows go, and how they look."""

    form: str
    out: str | None
    layout: Layout

    @property
    def is_plain(self) -> bool:
        """Whether plain values are all that is shown, so that no Arrow is needed."""
        return self.form not in ("parquet", "arrow")


def choose_output(form: str | None, out: str | None) -> Output:
    """Return how rows are written: in the configured form if none is given."""
    layout = Layout()
    if form in (None, "table"):
        defaults = load_operator(os.environ).defaults
        form = form or str(defaults.get("output", "table"))
        layout = _layout(defaults)
        if out is not None:
            layout = layout._replace(screen=None)
    if form not in FORMATS:
        raise BadRequestError(f"there is no output '{form}'", hint=f"use {', '.join(FORMATS)}")
    return Output(form, out, layout)


def write_result(result: Rows, output: Output, *, pages: bool = True) -> None:
    """Write rows to standard output, by a pager if they are longer than the screen, or a file."""
    form, out, layout = output
    if not output.is_plain:
        write_table(cast("Result", result).to_arrow(), form, out)
        return
    if form == "json" and out is None:
        print_json(result.to_json())
        return
    rendered = _render(result, form, layout)
    if out is None:
        show(rendered, pages=pages)
        return
    with writing(out), open(out, "w", encoding="utf-8") as text_handle:
        text_handle.write(rendered + "\n")


def show(text: str, *, pages: bool) -> None:
    """Print a text; at a terminal a pager shows what is longer than the screen."""
    import shutil

    lines = text.count("\n") + 1
    is_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    if pages and is_terminal and lines >= shutil.get_terminal_size().lines:
        # As git does: leave at once what fits, keep colours, do not wrap, do not clear.
        os.environ.setdefault("LESS", "FRSX")
        click.echo_via_pager(text)
    else:
        click.echo(text)


def _layout(defaults: Mapping[str, object]) -> Layout:
    width = defaults.get("table_max_column_width", CELL_WIDTH_MAX)
    cells = defaults.get("table_cell_layout", "truncate")
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise BadRequestError(f"table_max_column_width must be a number from 1 on, not {width!r}")
    if cells not in ("truncate", "wrap"):
        raise BadRequestError(f"table_cell_layout must be truncate or wrap, not {cells!r}")
    return Layout(width_max=width, wraps=cells == "wrap", screen=screen_width())


def _render(result: Rows, form: str, layout: Layout) -> str:
    if form == "json":
        return json.dumps(result.to_json(), indent=2, ensure_ascii=False)
    if form == "jsonl":
        head = {
            "kind": "metadata",
            "query_name": result.query_name,
            "target": result.target,
            "row_count": result.num_rows,
        }
        lines = [head, *result.rows_json()]
        return "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    rows = _values(result)
    if form == "csv":
        return _csv(result.columns, rows)
    return _kv(result, rows) if form == "kv" else _table(result, rows, layout)


def _values(result: Rows) -> list[list[object]]:
    """Return the values of rows in the order of the columns, also where names repeat."""
    if len(set(result.columns)) == len(result.columns):
        return [list(row.values()) for row in result.rows_json()]
    return cast("Result", result).values_json()


def _cell(value: object) -> str:
    if value is None:
        return "null"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r"))


def _header(result: Rows) -> str:
    snapshot = result.target.get("snapshot")
    place = f"snapshot {snapshot}" if snapshot else f"branch {result.target.get('branch')}"
    noun = "row" if result.num_rows == 1 else "rows"
    return f"{result.num_rows} {noun} from {place} via {result.query_name}"


def _table(result: Rows, rows: list[list[object]], layout: Layout) -> str:
    if not result.columns:
        return f"{_header(result)}\n(no rows)"
    cells = [[_cell(value) for value in row] for row in rows]
    numbers = [_is_numbers(row[index] for row in rows) for index in range(len(result.columns))]
    return "\n".join([_header(result), *draw_table(result.columns, cells, numbers, layout)])


def _is_numbers(values: Iterable[object]) -> bool:
    return all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in values
    )


def _kv(result: Rows, rows: list[list[object]]) -> str:
    blocks = [_header(result)]
    for number, row in enumerate(rows, 1):
        pairs = [f"{n}: {_cell(v)}" for n, v in zip(result.columns, row, strict=True)]
        blocks.append("\n".join([f"row {number}", *pairs]))
    return "\n\n".join(blocks) if rows else f"{blocks[0]}\n(no rows)"


def _csv(columns: list[str], rows: list[list[object]]) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["null" if value is None else _raw(value) for value in row])
    return buffer.getvalue().rstrip("\n")


def _raw(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

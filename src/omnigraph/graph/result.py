"""The result of a read query."""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from omnigraph.compute import python_values
from omnigraph.errors import BadRequestError, QueryError
from omnigraph.extras import needed
from omnigraph.limits import RESULT_BATCH_ROWS
from omnigraph.wording import counted

if TYPE_CHECKING:
    from omnigraph.drawing import Drawing

SAFE_INTEGER = 2**53 - 1
HTML_ROWS_MAX = 100


class Result:
    """Rows of a read query, held as an Arrow table.

    >>> result = graph.query(TASKS)
    >>> len(result), result[0]["title"], [row["slug"] for row in result]
    (2, 'Dig', ['t1', 't2'])

    Iterating gives dictionaries; `to_arrow`, `to_pandas`, `to_polars` give frames. Any library
    that speaks the Arrow stream interface can take the object itself.
    """

    _let_go: Callable[[], None] | None = None

    def __init__(
        self,
        table: pa.Table,
        *,
        query_name: str,
        commit_id: str,
        branch: str | None = "main",
        snapshot: str | None = None,
        column_types: Sequence[Mapping[str, object]] = (),
        draw: Callable[[Result], Drawing] | None = None,
        let_go: Callable[[], None] | None = None,
    ) -> None:
        """`let_go` is called when the rows are not held here any more."""
        self._let_go = let_go
        self._table = table
        self._draw = draw
        self._column_types = column_types
        self.query_name = query_name
        self.commit_id = commit_id
        self.target = {"branch": branch, "snapshot": snapshot}

    def __del__(self) -> None:
        # Memory can be given back only after the rows are gone.
        if self._let_go is not None and not sys.is_finalizing():
            self._table = None
            self._let_go()

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = self.columns
        for batch in self.batches():
            columns = [python_values(column) for column in batch.columns]
            yield from (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or some of them: `result[0]`, `result[-1]`, `result[:10]`."""
        if isinstance(index, slice):
            numbers = range(self.num_rows)[index]
            return [self._row(number) for number in numbers]
        try:
            return self._row(range(self.num_rows)[index])
        except TypeError:
            raise TypeError(
                f"rows are named by number; a column is [row[{index!r}] for row in result]"
            ) from None
        except IndexError:
            rows = counted(self.num_rows, "row")
            raise IndexError(f"'{self.query_name}' returned {rows}, there is no {index}") from None

    def _row(self, number: int) -> dict[str, Any]:
        row = self._table.slice(number, 1)
        values = [python_values(column)[0] for column in row.columns]
        return dict(zip(self.columns, values, strict=True))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        names = ", ".join(self.columns)
        return f"Result({self.query_name}: {counted(self.num_rows, 'row')}, columns {names})"

    @cached_property
    def column_types(self) -> tuple[dict[str, object], ...]:
        """What each column holds; ids of nodes and edges name their type as `entity`.

        >>> graph.query(TASKS).column_types[0]["name"]
        'slug'
        """
        return tuple(dict(item) for item in self._column_types)

    @property
    def columns(self) -> list[str]:
        """Column names in order; a name may appear twice.

        >>> graph.query(TASKS).columns
        ['slug', 'title']
        """
        return list(self._table.column_names)

    @property
    def num_rows(self) -> int:
        """Number of rows.

        >>> graph.query(TASKS).num_rows
        2
        """
        return int(self._table.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows.

        >>> graph.query(TASKS).schema.names
        ['slug', 'title']
        """
        return self._table.schema

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        >>> graph.query(TASKS).to_arrow().num_rows
        2
        """
        return self._table

    def to_batches(self) -> list[pa.RecordBatch]:
        """Return the rows as Arrow record batches.

        >>> sum(batch.num_rows for batch in graph.query(TASKS).to_batches())
        2
        """
        return list(self._table.to_batches())

    def batches(self, rows: int = RESULT_BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield the rows as Arrow tables of at most so many rows each, without a copy.

        >>> [table.num_rows for table in graph.query(TASKS).batches(1)]
        [1, 1]

        Iterating over the result does the same with dictionaries, which are made as they are asked
        for.
        """
        if rows < 1:
            raise BadRequestError(f"a batch has at least one row, got {rows}")
        for start in range(0, self.num_rows, rows):
            yield self._table.slice(start, rows)

    def to_pandas(self, **options: object) -> Any:
        """Return the rows as a pandas frame.

        >>> graph.query(TASKS).to_pandas().shape
        (2, 2)
        """
        needed("pandas", "to_pandas()", extra="pandas")
        try:
            return self._table.to_pandas(**options)
        except (OverflowError, ValueError) as error:
            # Dates before the year 1 or after 9999 are there only if an older release wrote them.
            raise QueryError(
                f"'{self.query_name}' returns values that pandas cannot hold: {error}",
                hint="take them with to_arrow() or to_pylist()",
            ) from error

    def to_polars(self) -> Any:
        """Return the rows as a polars frame. Raises `QueryError` when a name is repeated.

        >>> graph.query(TASKS).to_polars().shape
        (2, 2)
        """
        polars = needed("polars", "to_polars()", extra="polars")
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            raise QueryError(
                f"polars takes each name once, but '{self.query_name}' returns several columns "
                f"named {', '.join(repeated)}",
                hint="name them with `as`",
            )
        return polars.from_arrow(self._table)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of Python values.

        >>> graph.query(TASKS).to_pylist()
        [{'slug': 't1', 'title': 'Dig'}, {'slug': 't2', 'title': 'Plant'}]

        A date outside the years 1 to 9999, which only an older release could store, is a number:
        days or milliseconds since 1970.
        """
        columns = [python_values(column) for column in self._table.columns]
        names = self.columns
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_ipc(self) -> bytes:
        """Return the rows as an Arrow stream.

        >>> import pyarrow as pa
        >>> pa.ipc.open_stream(graph.query(TASKS).to_ipc()).read_all().num_rows
        2
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._table.schema) as writer:
            writer.write_table(self._table)
        return bytes(sink.getvalue())

    def rows_json(self, *, ints: Literal["number", "string"] = "number") -> list[dict[str, Any]]:
        """Return rows of plain JSON values: dates as ISO text, non-finite numbers as text.

        >>> graph.query(TASKS).rows_json()[0]
        {'slug': 't1', 'title': 'Dig'}
        """
        names = self.columns
        return [dict(zip(names, row, strict=True)) for row in self.values_json(ints=ints)]

    def values_json(self, *, ints: Literal["number", "string"] = "number") -> list[list[Any]]:
        """Return the values of `rows_json` in the order of the columns, whatever their names.

        >>> graph.query(TASKS).values_json()[0]
        ['t1', 'Dig']
        """
        return [list(row) for row in plain_rows(self._table, ints=ints)]

    def to_json(self, *, ints: Literal["number", "string"] = "number") -> dict[str, object]:
        """Return the wire form.

        >>> graph.query(TASKS).to_json()["row_count"]
        2
        """
        body: dict[str, object] = {
            "query_name": self.query_name,
            "target": dict(self.target),
            "row_count": self.num_rows,
        }
        if self.columns:
            body["columns"] = self.columns
        body["rows"] = self.rows_json(ints=ints)
        body["graph_commit_id"] = self.commit_id
        return body

    def one(self) -> dict[str, Any]:
        """Return the only row. Raises `QueryError` when there is none, or more than one.

        >>> graph.query("query one() { match { $p: Person } return { count($p) as n } }").one()
        {'n': 2}
        """
        if self.num_rows != 1:
            raise QueryError(f"expected one row from '{self.query_name}', got {self.num_rows}")
        return self.to_pylist()[0]

    def scalar(self) -> Any:
        """Return the only value. Raises `QueryError` unless there is one row of one column.

        >>> graph.query("query n() { match { $p: Person } return { count($p) as n } }").scalar()
        2
        """
        if len(self.columns) != 1:
            raise QueryError(
                f"expected one column from '{self.query_name}', got {len(self.columns)}"
            )
        return next(iter(self.one().values()))

    def plot(self) -> Drawing:
        """Draw the nodes of the rows and all edges between them; a notebook shows the picture.

        >>> graph.query("query q() { match { $p: Person $p owns $t } return { $p, $t } }").plot()
        Drawing(2 nodes and 1 edge)

        Raises `QueryError` for rows without nodes, `BadRequestError` when their graph is not open
        here any more; `graph.draw(result)` draws rows of a served graph.
        """
        if not any(isinstance(item.get("entity"), Mapping) for item in self.column_types):
            raise QueryError(
                f"the rows of '{self.query_name}' hold no nodes", hint="return { $n } itself"
            )
        if self._draw is None:
            raise BadRequestError(
                "these rows are not of a graph that is open here", hint="use graph.draw(result)"
            )
        return self._draw(self)

    def _repr_html_(self) -> str:
        import html

        names = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_text(value))}</td>" for value in row) + "</tr>"
            for row in plain_rows(self._table.slice(0, HTML_ROWS_MAX), ints="number")
        )
        more = self.num_rows - HTML_ROWS_MAX
        note = f"<p>and {counted(more, 'more row')}</p>" if more > 0 else ""
        caption = f"{html.escape(self.query_name)}: {counted(self.num_rows, 'row')}"
        return (
            f"<table><caption>{caption}</caption>"
            f"<thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{note}"
        )


def nodes_of(result: Result) -> list[tuple[str, str]]:
    """Return type and id of every node the rows speak of, each once, in their order."""
    nodes: dict[tuple[str, str], None] = {}
    for number, column in enumerate(result.column_types):
        entity = column.get("entity")
        if isinstance(entity, Mapping) and entity["kind"] == "node":
            ids = result.to_arrow().column(number).to_pylist()
            name = str(entity["type_name"])
            nodes |= dict.fromkeys((name, id_) for id_ in ids if id_ is not None)
    return list(nodes)


def plain_rows(table: pa.Table, *, ints: str) -> Iterator[tuple[object, ...]]:
    """Return the rows of an Arrow table as plain JSON values, in the order of its columns."""
    columns = [
        [_json_value(v, ints=ints) for v in python_values(column)] for column in table.columns
    ]
    return zip(*columns, strict=True)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json_value(value: object, *, ints: str) -> object:
    if isinstance(value, list):
        return [_json_value(item, ints=ints) for item in value]
    if isinstance(value, dict):
        return {name: _json_value(item, ints=ints) for name, item in value.items()}
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds") + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if ints == "string" and isinstance(value, int) and abs(value) > SAFE_INTEGER:
        return str(value)
    return value

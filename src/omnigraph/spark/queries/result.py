"""The result of a query on Spark: a frame, computed when it is asked for."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.clock import elapsed_s
from omnigraph.compute.types import arrow_type
from omnigraph.errors import QueryError
from omnigraph.graph import LoadResult, Result, Session
from omnigraph.limits import SPARK_WATCH_S
from omnigraph.ops.load import LoadMode
from omnigraph.plan.read import OutputColumn
from omnigraph.read.running import out_of_time
from omnigraph.spark.engine import Engine, failures
from omnigraph.spark.jobs import jobs_of
from omnigraph.spark.load import load
from omnigraph.spark.queries.values import COUNT_OVERFLOW, OVERFLOW, SUM_OVERFLOW
from omnigraph.spark.queries.writing import absolute, check_mode, check_names, write_lance
from omnigraph.store import GivenOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OVERFLOWS = (OVERFLOW, SUM_OVERFLOW, COUNT_OVERFLOW)


class SparkResult(Result):
    """Rows of a read query on Spark.

    `frame` is the lazy frame. Everything else of a `Result` runs it once and brings the rows here;
    `columns` and `notes` run nothing.
    """

    def __init__(
        self,
        frame: DataFrame,
        shown: Sequence[OutputColumn],
        *,
        query_name: str,
        commit_id: str,
        branch: str | None = "main",
        snapshot: str | None = None,
        notes: Sequence[str] = (),
        given: GivenOptions | None = None,
        timeout_s: float | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        self._frame = frame
        self._shown = tuple(shown)
        self.query_name = query_name
        self.commit_id = commit_id
        self.target = {"branch": branch, "snapshot": snapshot}
        self.notes = tuple(notes)
        self._given = given
        self._timeout_s = timeout_s
        self._cancel = cancel

    def __repr__(self) -> str:
        return f"SparkResult({self.query_name}: columns {', '.join(self.columns)})"

    @property
    def frame(self) -> DataFrame:
        """The rows as a Spark frame; nothing runs until it is used. A name may appear twice."""
        return self._frame.toDF(*self.columns)

    @property
    def columns(self) -> list[str]:
        """Column names in order; a name may appear twice."""
        return [column.name for column in self._shown]

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in self._shown])

    @cached_property
    def _table(self) -> pa.Table:
        with query_failures(), watched(self._frame.sparkSession, self._timeout_s, self._cancel):
            table = self._frame.toArrow()
        arrays = [
            pc.cast(array, arrow_type(column.type))
            for array, column in zip(table.columns, self._shown, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=self.columns)

    # ---- writing --------------------------------------------------------------------------

    def write_parquet(self, path: str | os.PathLike[str], *, mode: str = "error") -> None:
        """Write the rows as Parquet files, by Spark, into a folder that all executors reach.

        With mode `overwrite` a folder that exists is replaced. Unsigned integers of 64 bits are
        decimals there.
        """
        check_mode(mode)
        check_names(self.columns, self.query_name)
        with query_failures():
            self.frame.write.mode(mode).parquet(absolute(path))

    def write_lance(self, uri: str | os.PathLike[str], *, mode: str = "error") -> int:
        """Write the rows as a Lance dataset that belongs to no graph; return their number.

        With mode `overwrite` they become the newest version of one that exists.
        """
        check_names(self.columns, self.query_name)
        engine = Engine(self._frame.sparkSession, self._given)
        with query_failures():
            return write_lance(engine, self._frame, self.schema, uri, mode)

    def write_type(
        self, graph: Session, type_name: str, *, mode: LoadMode | str, **options: Any
    ) -> LoadResult:
        """Write the rows to a type of a graph, as one validated commit.

        Columns are named as its properties are, with `id`, and `from` and `to` for edges.
        `options` are those of `omnigraph.spark.load`, such as `branch`.
        """
        check_names(self.columns, self.query_name)
        options.setdefault("session", self._frame.sparkSession)
        return load(graph, {type_name: self.frame}, mode=mode, **options)


@contextlib.contextmanager
def query_failures() -> Iterator[None]:
    """Turn what Spark raises into the errors that a query in one process raises."""
    from pyspark.errors import PySparkException

    with failures():
        try:
            yield
        except PySparkException as error:
            text = str(error)
            overflow = next((message for message in _OVERFLOWS if message in text), None)
            if overflow is None:
                raise
            raise QueryError(overflow) from error


@contextlib.contextmanager
def watched(
    session: SparkSession, timeout_s: float | None, cancel: threading.Event | None
) -> Iterator[None]:
    """Stop the jobs of a block when their time is over, or when they are cancelled."""
    if timeout_s is None and cancel is None:
        yield
        return
    jobs, over = jobs_of(session), threading.Event()
    tag = f"omnigraph-{uuid.uuid4()}"
    begun = elapsed_s()
    late: list[float] = []

    def watch() -> None:
        while not over.wait(SPARK_WATCH_S):
            taken = elapsed_s() - begun
            if timeout_s is not None and taken > timeout_s:
                late.append(taken)
            if late or (cancel is not None and cancel.is_set()):
                # A job that begins a little later is met the next time.
                jobs.stop(tag)

    thread = threading.Thread(target=watch, daemon=True)
    jobs.begin(tag)
    thread.start()
    try:
        yield
    except Exception as error:
        if late and timeout_s is not None:
            raise out_of_time(timeout_s, late[0]) from error
        if cancel is not None and cancel.is_set():
            raise QueryError("the query was cancelled") from error
        raise
    finally:
        over.set()
        thread.join()
        jobs.end(tag)

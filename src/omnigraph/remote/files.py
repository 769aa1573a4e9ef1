"""What is loaded from and written to files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.errors import DataError, NotFoundError, StorageError
from omnigraph.graph.api import Loadable
from omnigraph.intake.declared import Given
from omnigraph.intake.envelope_text import EnvelopeWriter
from omnigraph.intake.frames import frame_rows
from omnigraph.rows.entities import envelopes
from omnigraph.rows.problems import Problem, Problems
from omnigraph.store import new_local_file


def load_bytes(data: Loadable, catalog: Callable[[], Catalog]) -> bytes:
    """Return what a load sends: a file, its bytes, or envelopes as lines."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, str | os.PathLike):
        return b"".join(_lines(data, catalog))
    path = os.fspath(data)
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        raise NotFoundError(f"file not found: {path}") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def with_file_name(error: DataError, data: Loadable) -> DataError:
    """Return an error that names the file, of which the server only saw the content."""
    if not isinstance(data, str | os.PathLike):
        return error
    message = error.message.replace(" in the input", f" in {os.fspath(data)}", 1)
    return DataError(message, problems=error.problems, hint=error.hint)


def _lines(
    items: Iterable[Mapping[str, object]], catalog: Callable[[], Catalog]
) -> Iterator[bytes]:
    problems = Problems(source="the input")
    for line in EnvelopeWriter(catalog).lines(items):
        if isinstance(line, Problem):
            problems.add(line)
        elif not problems.count:
            yield line + b"\n"
    problems.raise_any()


def frame_envelopes(
    catalog: Catalog, type_name: str, frame: Given, *, from_col: str, to_col: str
) -> Iterator[dict[str, object]]:
    """Return the rows of a frame as envelopes.

    Columns and values are judged as the embedded graph judges them. Raises `DataError`.
    """
    entity = catalog.entity_named(type_name)
    problems = Problems(source=f"the {type_name} frame")
    lines = range(1, frame.num_rows + 1)
    rows = frame_rows(
        entity, frame, from_col=from_col, to_col=to_col, lines=lines, problems=problems
    )
    problems.raise_any()
    given = {"id", *frame.column_names}
    return (_given(item, given) for item in envelopes(entity, rows))


def _given(envelope: dict[str, object], columns: set[str]) -> dict[str, object]:
    """Leave out what the frame does not say: the server knows ids and defaults."""
    data = envelope["data"]
    if isinstance(data, dict):
        fields = {name: value for name, value in data.items() if name in columns}
        if fields.get("id") is None:
            fields.pop("id", None)
        envelope["data"] = fields
    return envelope


def copy_lines(parts: Iterable[bytes], dest: str | os.PathLike[str]) -> tuple[int, dict[str, Any]]:
    """Write a stream of JSON lines to a file that appears only when it is complete.

    Returns the number of lines, and the last one.
    """
    lines, last = 0, b""
    with new_local_file(os.fspath(dest), durable=True) as handle:
        for part in parts:
            handle.write(part)
            lines += part.count(b"\n")
            last = (last + part)[-1 << 20 :]
    return lines, json.loads(last.splitlines()[-1]) if last else {}

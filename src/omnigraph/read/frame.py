"""Rows of a pattern: for every variable the number of the node or edge it stands for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import EdgeType, NodeType
from omnigraph.errors import ResourceLimitError
from omnigraph.limits import QUERY_ROWS_MAX
from omnigraph.manifest import Pin
from omnigraph.read.columns import TableColumns

Array = Any


@dataclass(frozen=True, slots=True)
class Source:
    """Where the values of a variable are read from."""

    entity: NodeType | EdgeType
    pin: Pin


@dataclass(slots=True)
class Frame:
    """A bag of rows. A number of -1 means the variable is null in that row."""

    size: int
    numbers: dict[str, Array] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)

    def take(self, rows: Array) -> Frame:
        """Return the given rows, in that order; rows may repeat."""
        check_rows(len(rows))
        return replace(self, size=len(rows), numbers={n: v[rows] for n, v in self.numbers.items()})

    def with_variable(self, name: str, numbers: Array, source: Source) -> Frame:
        """Return the same rows with one more variable."""
        return replace(
            self,
            numbers={**self.numbers, name: numbers},
            sources={**self.sources, name: source},
        )


def check_rows(rows: int) -> None:
    """Refuse to make more rows than memory is meant for."""
    if rows > QUERY_ROWS_MAX:
        raise ResourceLimitError(
            resource="intermediate rows of a query",
            limit=QUERY_ROWS_MAX,
            actual=rows,
            hint="narrow the pattern, or count instead of listing",
        )


class FrameColumns:
    """A frame as the columns of an expression."""

    def __init__(self, frame: Frame, columns: TableColumns) -> None:
        self._frame = frame
        self._columns = columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._frame.size

    def column(self, variable: str, name: str) -> Any:
        """Return a column for the rows of the frame, null where the variable is."""
        source = self._frame.sources[variable]
        values = self._columns.column(source.pin, name)
        numbers = self._frame.numbers[variable]
        missing = numbers < 0
        if missing.any():
            return pc.take(values, pa.array(numbers, mask=missing))
        return pc.take(values, pa.array(numbers))


class WholeColumns:
    """All rows of one variable's table as the columns of an expression."""

    def __init__(self, source: Source, columns: TableColumns) -> None:
        self._source = source
        self._columns = columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._columns.column(self._source.pin, "id"))

    def column(self, variable: str, name: str) -> Any:
        """Return a whole column."""
        return self._columns.column(self._source.pin, name)


def row_numbers(mask: Any) -> Array:
    """Return the positions where a Boolean column is true."""
    return np.nonzero(np.asarray(mask))[0].astype(np.int64)

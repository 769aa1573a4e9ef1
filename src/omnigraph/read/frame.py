"""Rows of a pattern: for every variable the number of the node or edge it stands for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.catalog import EdgeType, NodeType
from omnigraph.compute.evaluate import TYPE
from omnigraph.errors import ResourceLimitError
from omnigraph.limits import QUERY_ROWS_MAX, ROW_BYTES
from omnigraph.read.arrays import Counts, Mask, Rows
from omnigraph.read.columns import Columns
from omnigraph.read.running import checkpoint, reserve
from omnigraph.store import Pin

_NO_TABLE = Pin(
    table_key="#value",
    incarnation=0,
    path="#value",
    version=0,
    row_count=0,
    transaction_uuid="",
    seq=0,
)


class Source(Struct, frozen=True):
    """Where the values of a variable are read from."""

    entity: NodeType | EdgeType
    pin: Pin
    values: pa.Array | None = None
    """What a variable that stands for no stored row but for a computed value is."""
    members: tuple[Source, ...] = ()
    """Where edges of several types are read from: their tables, one after the other."""

    @staticmethod
    def computed(variable: str, values: pa.Array) -> Source:
        """Return the source of a variable that stands for computed values."""
        return Source(NodeType(name=variable, properties={}), _NO_TABLE, values)

    def column(self, columns: Columns, name: str) -> pa.Array:
        """Return a whole stored column."""
        if not self.members:
            return columns.column(self.pin, name)
        return pa.concat_arrays([columns.column(item.pin, name) for item in self.members])

    def type_names(self, columns: Columns, numbers: Rows) -> pa.Array:
        """Return the name of the type of each row, null where there is no row."""
        sources = self.members or (self,)
        names = pa.array([item.entity.name for item in sources], pa.string())
        ends = np.cumsum([columns.size(item.pin) for item in self.members])
        which = np.searchsorted(ends, numbers, side="right")
        return names.take(pa.array(which, mask=numbers < 0))


class Frame(Struct):
    """A bag of rows. A number of -1 means the variable is null in that row.

    With `weights` each row stands for so many equal ones. `unique` names a variable that no two
    rows share.
    """

    size: int
    numbers: dict[str, Rows] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    weights: Counts | None = None
    unique: str | None = None

    def take(self, rows: Rows) -> Frame:
        """Return the given rows, in that order; rows may repeat."""
        check_rows(len(rows))
        reserve(len(rows) * ROW_BYTES * len(self.numbers))
        return replace(
            self,
            size=len(rows),
            numbers={n: v[rows] for n, v in self.numbers.items()},
            weights=None if self.weights is None else self.weights[rows],
            unique=None,
        )

    def with_variable(self, name: str, numbers: Rows, source: Source) -> Frame:
        """Return the same rows with one more variable."""
        return replace(
            self,
            numbers={**self.numbers, name: numbers},
            sources={**self.sources, name: source},
        )

    def with_distinct(self, name: str, numbers: Rows, weights: Counts | None) -> Frame:
        """Return other rows of one variable, each a different one."""
        return Frame(len(numbers), {name: numbers}, dict(self.sources), weights, name)

    @property
    def rows(self) -> float:
        """How many rows it stands for, about."""
        return self.size if self.weights is None else float(self.weights.sum(dtype=np.float64))

    def leading(self, rows: int) -> Frame:
        """Return so many of the rows it stands for, or all if there are fewer."""
        if self.weights is None:
            return self if self.size <= rows else self.take(np.arange(rows))
        before = np.cumsum(self.weights, dtype=np.float64) - self.weights
        kept = self.take(np.flatnonzero(before < rows))
        if kept.size == 0 or kept.weights is None:
            return kept
        left = rows - before[: kept.size].astype(np.int64)
        return kept.weighted(np.minimum(kept.weights, left))

    def only(self, names: Sequence[str]) -> Frame:
        """Return the same rows with some of the variables."""
        return replace(self, numbers={name: self.numbers[name] for name in names})

    def weighted(self, weights: Counts) -> Frame:
        """Return the same rows with other weights."""
        return replace(self, weights=weights)

    def listed(self) -> Frame:
        """Return the rows one by one, each as often as its weight says."""
        if self.weights is None:
            return self
        total = float(self.weights.sum(dtype=np.float64))
        check_rows(int(total))
        reserve(total * ROW_BYTES * (1 + len(self.numbers)))
        rows = np.repeat(np.arange(self.size), self.weights)
        return replace(self.take(rows), weights=None)


def concatenated(frames: Sequence[Frame]) -> Frame:
    """Return the rows of frames that have the same variables, one after the other."""
    if len(frames) == 1:
        return frames[0]
    first = frames[0]
    numbers = {
        name: np.concatenate([frame.numbers[name] for frame in frames]) for name in first.numbers
    }
    sources = dict(first.sources)
    for name in first.numbers:
        if first.sources[name].values is not None:
            numbers[name], sources[name] = _computed(
                [(f.numbers[name], f.sources[name]) for f in frames]
            )
    weights = None
    if any(frame.weights is not None for frame in frames):
        ones = [np.ones(f.size, np.int64) if f.weights is None else f.weights for f in frames]
        weights = np.concatenate(ones)
    return Frame(sum(frame.size for frame in frames), numbers, sources, weights)


def _computed(parts: Sequence[tuple[Rows, Source]]) -> tuple[Rows, Source]:
    """Return a variable of computed values, of which each frame has its own."""
    numbers: list[Rows] = []
    values: list[pa.Array] = []
    before = 0
    for rows, source in parts:
        numbers.append(np.where(rows < 0, rows, rows + before))
        if source.values is not None:
            values.append(source.values)
            before += len(source.values)
    return np.concatenate(numbers), replace(parts[0][1], values=pa.concat_arrays(values))


def check_rows(rows: int) -> None:
    """Refuse to make more rows than memory is meant for, or any once the query must stop."""
    checkpoint()
    if rows > QUERY_ROWS_MAX:
        raise ResourceLimitError(
            resource="intermediate rows of a query",
            limit=QUERY_ROWS_MAX,
            actual=rows,
            hint="narrow the pattern, or count instead of listing",
        )


class FrameColumns:
    """A frame as the columns of an expression."""

    def __init__(self, frame: Frame, columns: Columns) -> None:
        self._frame = frame
        self._columns = columns
        self._whole: dict[str, bool] = {}

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._frame.size

    @property
    def variables(self) -> frozenset[str]:
        """Variables the rows have."""
        return frozenset(self._frame.numbers)

    def column(self, variable: str, name: str) -> pa.Array:
        """Return a column for the rows of the frame, null where the variable is."""
        source = self._frame.sources[variable]
        values = source.values
        numbers = self._frame.numbers[variable]
        if name == TYPE:
            return source.type_names(self._columns, numbers)
        if values is None:
            values = source.column(self._columns, name)
        if len(numbers) == len(values) and self._is_whole(variable, len(values)):
            return values
        if len(values):
            # Texts and lists repeat with their rows, so their average size tells.
            reserve(values.nbytes / len(values) * len(numbers))
        missing = numbers < 0
        if missing.any():
            return pc.take(values, pa.array(numbers, mask=missing))
        return pc.take(values, pa.array(numbers))

    def _is_whole(self, variable: str, rows: int) -> bool:
        """Whether the rows are those of the table, in its order."""
        if variable not in self._whole:
            numbers = self._frame.numbers[variable]
            self._whole[variable] = bool((numbers == np.arange(rows)).all())
        return self._whole[variable]


class WholeColumns:
    """All rows of one variable's table as the columns of an expression."""

    def __init__(self, source: Source, columns: Columns) -> None:
        self._source = source
        self._columns = columns

    @property
    def rows(self) -> int:
        """Number of rows."""
        sources = self._source.members or (self._source,)
        return sum(self._columns.size(item.pin) for item in sources)

    def column(self, variable: str, name: str) -> pa.Array:
        """Return a whole column."""
        if name == TYPE:
            return self._source.type_names(self._columns, np.arange(self.rows))
        return self._source.column(self._columns, name)


def row_numbers(mask: pa.Array | Mask) -> Counts:
    """Return the positions where a Boolean column is true."""
    return np.nonzero(np.asarray(mask))[0].astype(np.int64)

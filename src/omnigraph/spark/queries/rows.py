"""Rows of a pattern as a Spark frame, and the joins between such frames.

Spark takes a frame that workers make for as small as the list of their tasks, and would broadcast
whole tables. So it is never asked to guess: every join says how it is made, by the most rows each
side can have, which the snapshot knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph.spark.queries.values import COUNT_OVERFLOW, Column, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Name = tuple[str, str]
"""A variable and a column of it."""


def col(name: str) -> Column:
    """Return a column by a name of any characters."""
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


class Names:
    """Names of columns in frames: one for each column of a variable, different in any case."""

    def __init__(self) -> None:
        self._given: dict[Name, str] = {}
        self._taken: set[str] = set()

    def of(self, variable: str, column: str) -> str:
        """Return the name of a column of a variable."""
        key = (variable, column)
        if key not in self._given:
            self._given[key] = self.fresh(f"{variable}.{column}")
        return self._given[key]

    def fresh(self, word: str) -> str:
        """Return a name that nothing else has. Spark does not tell cases apart."""
        name, number = word, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{word}#{number}"
        self._taken.add(name.casefold())
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a pattern; without a frame, the one empty row that a pattern starts with.

    `columns` are those of variables that the frame has; `at_most` bounds the number of rows.
    `weight` is the column that says how often a row occurs. The rows of `bare` are all nodes of a
    type, of which nothing but the id is there.
    """

    frame: Any = None
    columns: frozenset[Name] = frozenset()
    at_most: int = 1
    weight: str | None = None
    bare: str | None = None

    def having(self, frame: DataFrame, added: Iterable[Name] = (), *, at_most: int) -> Rows:
        """Return rows of another frame that has further columns."""
        return replace(
            self, frame=frame, columns=self.columns | set(added), at_most=at_most, bare=None
        )

    def kept(self, condition: Column) -> Rows:
        """Return the rows for which a condition is true."""
        return replace(self, frame=self.frame.where(condition), bare=None)


@dataclass(slots=True)
class Joins:
    """Joins frames, and remembers how for people who ask."""

    broadcast_rows: int
    notes: list[str] = field(default_factory=list)

    def inner(self, left: Rows, right: Rows, on: Sequence[tuple[str, str]], what: str) -> DataFrame:
        """Return the frame of all pairs of rows whose columns are equal."""
        one: DataFrame = left.frame
        other: DataFrame = right.frame
        if right.at_most <= self.broadcast_rows:
            other = _broadcast(other)
            self._note(what, right, "broadcast")
        elif left.at_most <= self.broadcast_rows:
            one = _broadcast(one)
            self._note(what, right, f"broadcast the {left.at_most:,} rows before it")
        else:
            other = other.hint("merge")
            self._note(what, right, "sort-merge")
        return one.join(other, _equal(on), "inner")

    def outer(
        self,
        left: Rows,
        right: Rows,
        on: Sequence[tuple[str, str]],
        how: str,
        what: str,
        *,
        null_safe: bool = False,
    ) -> DataFrame:
        """Return the frame of a `left`, `left_semi` or `left_anti` join."""
        one: DataFrame = left.frame
        other: DataFrame = right.frame
        small = right.at_most <= self.broadcast_rows
        self._note(what, right, "broadcast" if small else "sort-merge")
        other = _broadcast(other) if small else other.hint("merge")
        return one.join(other, _equal(on, null_safe=null_safe), how)

    def cross(self, left: Rows, right: Rows, what: str) -> DataFrame:
        """Return the frame of all pairs of rows."""
        one: DataFrame = left.frame
        other: DataFrame = right.frame
        if right.at_most <= self.broadcast_rows:
            other = _broadcast(other)
            self._note(what, right, "all pairs, broadcast")
        elif left.at_most <= self.broadcast_rows:
            one = _broadcast(one)
            self._note(what, right, f"all pairs, broadcast the {left.at_most:,} rows before it")
        else:
            other = other.hint("shuffle_replicate_nl")
            self._note(what, right, "all pairs, replicated")
        return one.crossJoin(other)

    def counted(self, what: str, rows: Rows) -> None:
        """Remember what needs no join, because workers count it where they read it."""
        self._note(what, rows, "counted by workers")

    def _note(self, what: str, right: Rows, how: str) -> None:
        self.notes.append(f"{what}: {how} (at most {right.at_most:,} rows)")


def _equal(on: Sequence[tuple[str, str]], *, null_safe: bool = False) -> Column | None:
    condition: Column | None = None
    for one, other in on:
        left, right = col(one), col(other)
        part = left.eqNullSafe(right) if null_safe else left == right
        condition = part if condition is None else condition & part
    return condition


def _broadcast(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return F.broadcast(frame)


def times(one: Column, other: Column) -> Column:
    """Multiply weights, or refuse numbers of rows that nothing can hold."""
    from pyspark.sql import functions as F

    product = F.call_function("try_multiply", one, other)
    return F.coalesce(product, refuse(COUNT_OVERFLOW, "bigint"))


def multiplied(rows: Rows, part: Rows) -> Rows:
    """Give rows that were joined with a part the product of the weights of both sides."""
    if part.weight is None:
        return rows
    if rows.weight is None:
        return replace(rows, weight=part.weight)
    frame = rows.frame.withColumn(rows.weight, times(col(rows.weight), col(part.weight)))
    return replace(rows, frame=frame.drop(col(part.weight)))


def total(weights: Column | None) -> Column:
    """Return the aggregate that sums weights, or counts rows where there are none."""
    from pyspark.sql import functions as F

    if weights is None:
        return F.count(F.lit(1))
    return F.try_sum(weights)


def checked_total(counted: Column) -> Column:
    """Return a sum of weights, an error where it left 64 bits."""
    from pyspark.sql import functions as F

    return F.coalesce(counted, refuse(COUNT_OVERFLOW, "bigint"))

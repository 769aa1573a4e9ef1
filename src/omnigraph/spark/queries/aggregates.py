"""Aggregates of Spark: exact for integers, of weighted rows as of listed ones."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.limits import MEAN_SCALE
from omnigraph.plan.expression import Aggregate, AggregateFunction, variables_of
from omnigraph.spark.queries.rows import Rows, checked_total, col
from omnigraph.spark.queries.tables import Tables
from omnigraph.spark.queries.values import SUM_OVERFLOW, WIDE, Column, fitted, refuse


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Computes aggregates of some rows, in two steps: parts of each group, then the result."""

    rows: Rows
    tables: Tables

    def partials(self, at: int, item: Aggregate) -> list[Column]:
        """Return what is computed of each group for an aggregate, by names that start with `at`."""
        from pyspark.sql import functions as F

        weight = None if self.rows.weight is None else col(self.rows.weight)
        argument = self._argument(item)
        if argument is None:
            count = F.count(F.lit(1)) if weight is None else F.try_sum(weight)
            return [count.alias(f"n{at}"), F.count(F.lit(1)).alias(f"s{at}")]
        if item.distinct:
            return [F.count_distinct(argument).alias(f"n{at}")]
        present = F.when(argument.isNotNull(), weight) if weight is not None else argument
        match item.function:
            case AggregateFunction.COUNT:
                count = F.count(argument) if weight is None else F.try_sum(present)
                return [count.alias(f"n{at}"), F.count(argument).alias(f"s{at}")]
            case AggregateFunction.MIN | AggregateFunction.MAX:
                return _extremes(at, item, argument)
            case _ if not _sums_integers(item):
                real = argument.cast("double")
                small = F.avg(real * F.lit(MEAN_SCALE))
                sums = F.sum(real) if item.function is AggregateFunction.SUM else F.avg(real)
                return [sums.alias(f"n{at}"), small.alias(f"s{at}")]
            case _:
                wide = argument.cast(WIDE)
                if weight is not None:
                    product = F.call_function("try_multiply", wide, weight.cast("decimal(19,0)"))
                    bad = F.when(wide.isNotNull(), refuse(SUM_OVERFLOW, "decimal(38,0)"))
                    wide = F.coalesce(product, bad)
                count = F.count(argument) if weight is None else F.try_sum(present)
                return [F.try_sum(wide).alias(f"n{at}"), count.alias(f"s{at}")]

    def _argument(self, item: Aggregate) -> Column | None:
        """Return what is aggregated; None for rows, or a variable that is never null."""
        if item.argument is None:
            return None
        there = {name for name, _column in self.rows.columns}
        if self.rows.weight is not None and not variables_of(item.argument) <= there:
            return None
        return self.tables.expressions.value(item.argument)

    def result(self, at: int, item: Aggregate) -> Column:
        """Return an aggregate from what was computed for it."""
        from pyspark.sql import functions as F

        value, other = col(f"n{at}"), col(f"s{at}")
        match item.function:
            case AggregateFunction.COUNT if item.distinct:
                return value
            case AggregateFunction.COUNT:
                # Of no values there is no sum of weights, and their number is 0.
                return F.when(other > F.lit(0), checked_total(value)).otherwise(F.lit(0))
            case AggregateFunction.MIN | AggregateFunction.MAX:
                return F.coalesce(value, other)
            case _ if _sums_integers(item):
                # Null only of no values; else the sum has left even the decimals.
                some = F.when(other > F.lit(0), refuse(SUM_OVERFLOW, "decimal(38,0)"))
                value = F.coalesce(value.cast("decimal(38,0)"), some)
                if item.function is AggregateFunction.SUM:
                    return fitted(value, item.type, SUM_OVERFLOW)
                return value.cast("double") / F.when(other > F.lit(0), other).cast("double")
            case AggregateFunction.SUM:
                return value
            case _:
                # A sum may leave the floats, a mean of floats does not.
                infinite = F.abs(value) == F.lit(float("inf"))
                return F.when(infinite, other / F.lit(MEAN_SCALE)).otherwise(value)


def _sums_integers(item: Aggregate) -> bool:
    sums = item.function in (AggregateFunction.SUM, AggregateFunction.AVG)
    return sums and item.argument is not None and item.argument.type.is_integer


def _extremes(at: int, item: Aggregate, argument: Column) -> list[Column]:
    """Return the least or greatest value; not-a-number only where there is nothing else."""
    from pyspark.sql import functions as F

    pick = F.min if item.function is AggregateFunction.MIN else F.max
    kind = None if item.argument is None else item.argument.type
    if kind is None or not kind.is_numeric or kind.is_integer:
        extreme = pick(argument)
        return [extreme.alias(f"n{at}"), extreme.alias(f"s{at}")]
    return [
        pick(F.when(~F.isnan(argument), argument)).alias(f"n{at}"),
        pick(argument).alias(f"s{at}"),
    ]

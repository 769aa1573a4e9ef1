"""What callers say about rows: where they are, and what becomes of their columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

Path = str | os.PathLike[str]
Given: TypeAlias = Any
"""What callers hand in: paths, dictionaries, or a frame of any library; told apart when read."""
DUPLICATES = ("refuse", "first", "last")


class Rows(Struct, frozen=True, kw_only=True):
    """Rows of one type.

    >>> rows = og.Rows(data=[{"key": "t3", "title": "Rest"}], columns={"key": "slug"})
    >>> graph.bulk({"Task": rows}, mode="append").nodes
    {'Task': 1}

    `data` is a CSV or Parquet file, a file with one JSON record per line, a folder or glob of such
    files, several of these, or a frame: Arrow, pandas, polars or Spark. `type` is needed where no
    mapping of types says it.

    `columns` maps columns of the input, or fields inside them (`address.city`), to properties;
    `compute` maps properties to expressions on columns, `constants` properties to values. Only
    records for which `where` holds are taken. `ignore` names columns that may be there although
    the type lacks them; True means all such. `from_col` and `to_col` name, after that, the columns
    with the ends of an edge. `duplicates` says what happens to an entity that stands in several
    records: `refuse`, or the `first` or `last` counts.

    CSV files have a `delimiter`, a `quote`, a text, or several, that mean `null`, and a header,
    unless `header` names the columns. For events (`mode="apply"`) `op_col` names the column that
    says what happened, `seq_col` one that orders them.
    """

    data: Given
    type: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    compute: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    where: str | None = None
    ignore: bool | Sequence[str] = ()
    from_col: str = "from"
    to_col: str = "to"
    duplicates: str = "refuse"
    delimiter: str = ","
    quote: str = '"'
    null: str | Sequence[str] = ""
    header: Sequence[str] = ()
    op_col: str = "op"
    seq_col: str | None = None


Sources = Path | Rows | Sequence[Path | Rows] | Mapping[str, Given]

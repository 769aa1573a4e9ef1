"""What estimates of queries rest on, and at which sizes a query on Spark divides its work."""

from __future__ import annotations

from typing import Final

TEXT_BYTES: Final = 24
"""Memory that a text of a column takes, about: its offset and some twenty letters."""

NUMBER_BYTES: Final = 8
"""Memory that a number, date or instant of a column takes."""

LIST_BYTES: Final = 64
"""Memory that a list of a column takes, about."""

ADJACENCY_BYTES: Final = 32
"""Memory that an edge takes, walked both ways by pairs and by edges: 29 were measured."""

SPARK_BROADCAST_ROWS: Final = 100_000
"""Rows that a query on Spark sends whole to every worker instead of sorting both sides of a join:
some 10 MB of ids."""

SPARK_WATCH_S: Final = 0.1
"""How often it is looked whether a query on Spark is to stop."""

SPARK_HOPS_PLANNED: Final = 8
"""Hops in one Spark plan: its planning takes 5 s for 4 hops, 8 s for 8 and 13 s for 16."""

"""Limits of what is computed from tables and kept in files beside them."""

from __future__ import annotations

from typing import Final

WORD_FILE_ROWS_MIN: Final = 4096
"""Rows from which words that were found in texts are kept in a file."""

KEPT_HEAD_BYTES: Final = 1 << 16
"""Bytes of a file of kept arrays that are read at first: its head is in them as a rule."""

KEPT_HEAD_BYTES_MAX: Final = 1 << 26
"""Largest head of such a file: one that says more is damaged, and would be read into memory."""

EDGE_FILE_ROWS_MIN: Final = 1 << 15
"""Edges from which the numbers of their ends are kept in a file: fewer are found as fast."""

EDGE_FILE_ROWS_MAX: Final = 1 << 23
"""Edges up to which the numbers of their ends are kept in a file: they are made in memory."""

EDGE_FILE_GROWTH_MAX: Final = 4
"""How many times the rows of a large write an edge table may have to be written down after it: so
the work of many writes is a few times that of writing all edges once."""

WORD_FILE_BYTES_MAX: Final = 1 << 28
"""Memory of the words of one file; more are found again by every process."""

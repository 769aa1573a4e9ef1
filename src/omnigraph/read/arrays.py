"""The kinds of NumPy arrays that reading works with."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.signedinteger]
"""Positions in a table or in another array, -1 for none: 32 bits where kept, 64 where computed."""

Counts: TypeAlias = NDArray[np.int64]
"""How many of something there are, and sums."""

Mask: TypeAlias = NDArray[np.bool_]
"""Which of some rows are meant."""

Scores: TypeAlias = NDArray[np.float64]
"""Distances, scores and query vectors, NaN for none."""

Vectors: TypeAlias = NDArray[np.float32]
"""Stored vectors, one in each row."""

Letters: TypeAlias = NDArray[np.uint32]
"""Code points of words of one length, one word in each row."""

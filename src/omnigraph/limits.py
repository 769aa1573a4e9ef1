"""Every default and limit of OmniGraph, each with its reason. No logic lives here."""

from __future__ import annotations

from typing import Final

I32_MIN: Final = -(2**31)
I32_MAX: Final = 2**31 - 1
I64_MIN: Final = -(2**63)
I64_MAX: Final = 2**63 - 1
U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1

VECTOR_DIM_MAX: Final = I32_MAX
"""Arrow's fixed-size list length is a signed 32-bit integer."""

NESTING_DEPTH_MAX: Final = 32
"""Deepest nesting of parentheses and blocks in query text; bounds parser recursion."""

EXPRESSION_DEPTH_MAX: Final = 100
"""Deepest chain of operators in one expression; bounds the recursion of everything after it."""

SOURCE_CHARS_MAX: Final = 8 * 1024 * 1024
"""Longest schema or query file: far above hand-written files, bounds compile memory."""

DIAGNOSTICS_MAX: Final = 100
"""Diagnostics collected per file before the compiler stops: more help nobody."""

RRF_K_DEFAULT: Final = 60
"""Rank offset of reciprocal rank fusion, the customary constant."""

FUZZY_EDITS_DEFAULT: Final = 2
"""Levenshtein distance that `fuzzy` allows when the query names none."""

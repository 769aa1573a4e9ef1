"""How a query was run, under the name it is imported by."""

from __future__ import annotations

from omnigraph.values.results import Explanation

__all__ = ["Explanation"]

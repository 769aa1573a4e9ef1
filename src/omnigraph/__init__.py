"""OmniGraph: a typed, versioned property-graph database on open Lance tables."""

from __future__ import annotations

__version__ = "0.1.0"

INTERNAL_SCHEMA_VERSION = 4
"""Storage format this release reads and writes; others are refused."""

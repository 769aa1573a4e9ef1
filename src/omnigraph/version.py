"""The version of this release, and the storage format it reads and writes."""

from __future__ import annotations

__version__ = "0.1.0"

INTERNAL_SCHEMA_VERSION = 4
"""Storage format this release reads and writes; others are refused."""

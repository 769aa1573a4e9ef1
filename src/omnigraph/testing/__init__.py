"""Tools to test with: a real S3 server, and a proxy that counts, delays and breaks requests."""

from __future__ import annotations

from omnigraph.testing.seaweed import Seaweed, find_weed

__all__ = ["Seaweed", "find_weed"]

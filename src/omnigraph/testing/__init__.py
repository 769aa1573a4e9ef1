"""Tools to test with: a real S3 server, and a proxy that counts, delays and breaks requests."""

from __future__ import annotations

from omnigraph.testing.proxy import Fault, Proxy, Request, Traffic
from omnigraph.testing.seaweed import Seaweed, find_weed

__all__ = ["Fault", "Proxy", "Request", "Seaweed", "Traffic", "find_weed"]

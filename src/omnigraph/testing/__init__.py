"""Tools to test with: a clock to move, a real S3 server, and a proxy that breaks requests."""

from __future__ import annotations

from omnigraph.testing.clock import MovableClock
from omnigraph.testing.proxy import Fault, Proxy, Request, Traffic
from omnigraph.testing.seaweed import Seaweed, find_weed

__all__ = ["Fault", "MovableClock", "Proxy", "Request", "Seaweed", "Traffic", "find_weed"]

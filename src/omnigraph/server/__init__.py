"""The HTTP server: graphs for a team, over the wire OmniGraph clients speak.

It holds no logic of its own: it finds out who asks, asks the policy, hands the work to the
embedded engine in a bounded number of threads, and turns answers and errors into HTTP.
"""

from __future__ import annotations

from omnigraph.identity import Token, Tokens, tokens_from
from omnigraph.server.app import create_api, create_app, openapi_document
from omnigraph.server.run import run, running
from omnigraph.server.service import Service, Serving, open_service
from omnigraph.server.settings import Settings, resolve

__all__ = [
    "Service",
    "Serving",
    "Settings",
    "Token",
    "Tokens",
    "create_api",
    "create_app",
    "open_service",
    "openapi_document",
    "resolve",
    "run",
    "running",
    "tokens_from",
]

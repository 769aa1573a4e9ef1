"""The HTTP server: graphs for a team, over the wire OmniGraph clients speak.

It holds no logic of its own: it finds out who asks, asks the policy, hands the work to the
embedded engine in a bounded number of threads, and turns answers and errors into HTTP.

Names are imported on first use: a supervisor of workers needs neither the engine nor the routes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.identity import Token, Tokens, tokens_from
    from omnigraph.server.app import create_api, create_app, openapi_document
    from omnigraph.server.run import run, running
    from omnigraph.server.service import Service, Serving, open_service
    from omnigraph.server.settings import Settings, resolve

_HOMES = {
    "omnigraph.identity": ("Token", "Tokens", "tokens_from"),
    "omnigraph.server.app": ("create_api", "create_app", "openapi_document"),
    "omnigraph.server.run": ("run", "running"),
    "omnigraph.server.service": ("Service", "Serving", "open_service"),
    "omnigraph.server.settings": ("Settings", "resolve"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    attribute = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return attribute

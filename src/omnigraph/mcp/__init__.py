"""A graph for agents: its stored queries, reads, and writes to branches as tools (MCP)."""

from __future__ import annotations

from omnigraph.identity import Token, Tokens, read_tokens
from omnigraph.mcp.serving import DEFAULT_GRAPH, http_app, protocol_server, run_http, run_stdio
from omnigraph.mcp.tools import Tool, Toolbox

__all__ = [
    "DEFAULT_GRAPH",
    "Token",
    "Tokens",
    "Tool",
    "Toolbox",
    "http_app",
    "protocol_server",
    "read_tokens",
    "run_http",
    "run_stdio",
]

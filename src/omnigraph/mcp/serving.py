"""Speaks the Model Context Protocol for a toolbox, over standard streams or HTTP."""

from __future__ import annotations

import json
from types import ModuleType
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequestError, OmniGraphError
from omnigraph.identity import Token, Tokens
from omnigraph.identity.certificates import tls_context
from omnigraph.mcp.bearer import CALLER, BearerGuard
from omnigraph.mcp.tools import Tool, Toolbox
from omnigraph.version import __version__

if TYPE_CHECKING:
    import mcp_types
    from mcp.server import Server
    from starlette.types import ASGIApp

SCHEMA_URI = "omnigraph://schema"
DEFAULT_GRAPH = "default"


def protocol_server(toolbox: Toolbox) -> Server[dict[str, object]]:
    """Return a server of the protocol whose tools are those of a toolbox."""
    try:
        import anyio.to_thread
        import mcp_types as types
        from mcp.server import Server
    except ImportError as error:
        raise BadRequestError(
            "serving agents needs the package mcp", hint="pip install 'omnigraph[mcp]'"
        ) from error

    async def list_tools(context: object, _params: object) -> types.ListToolsResult:
        tools = await anyio.to_thread.run_sync(toolbox.tools, *caller_of(context))
        return types.ListToolsResult(tools=[_listed(types, tool) for tool in tools])

    async def call_tool(
        context: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        actor, roles = caller_of(context)

        def run() -> tuple[dict[str, object], bool]:
            try:
                return toolbox.call(params.name, params.arguments, actor=actor, roles=roles), False
            except OmniGraphError as error:
                # An agent can correct most mistakes itself when it is told what they are.
                return error.to_json(), True

        body, failed = await anyio.to_thread.run_sync(run)
        text = json.dumps(body, ensure_ascii=False, default=str)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=json.loads(text),
            is_error=failed,
        )

    async def list_resources(_context: object, _params: object) -> types.ListResourcesResult:
        schema = types.Resource(
            uri=SCHEMA_URI,
            name="schema",
            description="The schema of the graph",
            mime_type="text/plain",
        )
        return types.ListResourcesResult(resources=[schema])

    async def read_resource(
        context: object, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        actor, roles = caller_of(context)

        def run() -> str:
            if str(params.uri) != SCHEMA_URI:
                raise ValueError(f"there is no resource {params.uri}")
            return str(toolbox.call("graph_schema", actor=actor, roles=roles)["schema_source"])

        text = await anyio.to_thread.run_sync(run)
        content = types.TextResourceContents(uri=SCHEMA_URI, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[content])

    return Server(
        "omnigraph",
        version=__version__,
        instructions=toolbox.instructions(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _listed(types: ModuleType, tool: Tool) -> mcp_types.Tool:
    listed: mcp_types.Tool = types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.input_schema),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=False if tool.read_only else None,
            open_world_hint=False,
        ),
    )
    return listed


def caller_of(context: object) -> tuple[str | None, tuple[str, ...]]:
    """Return whose token a request has, and that one's roles; None where none is asked for."""
    scope = getattr(getattr(context, "request", None), "scope", None)
    caller = scope.get(CALLER) if scope is not None else None
    return (caller.actor, caller.roles) if isinstance(caller, Token) else (None, ())


def run_stdio(toolbox: Toolbox) -> None:
    """Serve one agent over standard input and output, until the input ends."""
    server = protocol_server(toolbox)
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def http_app(
    toolbox: Toolbox, *, host: str, tokens: Tokens | None, graph_id: str = DEFAULT_GRAPH
) -> ASGIApp:
    """Return an application that serves agents at `/mcp`; with tokens, only known ones.

    `graph_id` is what tokens that are for some graphs call this one.
    """
    app: ASGIApp = protocol_server(toolbox).streamable_http_app(host=host, json_response=True)
    return app if tokens is None else BearerGuard(app, tokens, graph_id)


def run_http(
    toolbox: Toolbox,
    *,
    host: str,
    port: int,
    tokens: Tokens | None,
    graph_id: str = DEFAULT_GRAPH,
    tls: tuple[str, str] | None = None,
) -> None:
    """Serve agents over HTTP until the process is told to end; `tls` is a certificate and a key."""
    context = None if tls is None else tls_context(*tls)
    app = http_app(toolbox, host=host, tokens=tokens, graph_id=graph_id)
    import uvicorn

    config = uvicorn.Config(app, host=host, port=port, log_level="warning")
    config.load()
    config.ssl = context
    uvicorn.Server(config).run()

"""A graph as tools: what an agent can call, and what happens when it does.

An agent reads anything its actor may read. It writes to a branch of its own, which is made when
it first writes; letting that into main is for people, unless they say otherwise. This module
knows no protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.cluster import StoredQuery
from omnigraph.errors import BadRequestError, NotFoundError, PolicyDeniedError
from omnigraph.graph import Result, Session
from omnigraph.graph.seam import permit, session_of
from omnigraph.limits import MCP_ROWS_DEFAULT, MCP_ROWS_MAX, SERVER_QUERY_SECONDS_MAX
from omnigraph.mcp.arguments import Arguments, bound, parameters_schema
from omnigraph.ops.load import LoadMode
from omnigraph.policy import Action

MAIN = "main"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One thing an agent can call. `input_schema` is JSON Schema."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    read_only: bool
    run: Callable[[Session, Arguments], dict[str, object]]
    stored: bool = False


def _object(
    required: tuple[str, ...] = (), **properties: Mapping[str, object]
) -> dict[str, object]:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {name: dict(value) for name, value in properties.items()},
        "additionalProperties": False,
    }
    return schema | ({"required": list(required)} if required else {})


_TEXT = {"type": "string"}
_BRANCH = {"type": "string", "description": "Branch; your own if it exists, else main."}
_OWN = {"type": "string", "description": "Branch to write to; your own when left out."}
_LIMIT = {
    "type": "integer",
    "minimum": 1,
    "maximum": MCP_ROWS_MAX,
    "description": f"Rows to return at most; {MCP_ROWS_DEFAULT} when left out.",
}
_PARAMS = {"type": "object", "description": "Values of the query's $parameters, by name."}
_SOURCE = {"type": "string", "description": "Text of one query, or several with `name`."}
_NAME = {"type": "string", "description": "Which query of the text to run."}


class Toolbox:
    """The tools of one graph."""

    def __init__(
        self,
        graph: Session,
        queries: Mapping[str, StoredQuery] | None = None,
        *,
        branch: str | None = None,
        allow_main: bool = False,
        query_seconds: float = SERVER_QUERY_SECONDS_MAX,
    ) -> None:
        self._graph = graph
        self._branch = branch
        self._allow_main = allow_main
        self._query_seconds = query_seconds
        self._tools = {tool.name: tool for tool in self._own_tools()}
        for query in (queries or {}).values():
            tool = self._stored_tool(query)
            self._tools[tool.name] = tool

    # ---- what a protocol needs ------------------------------------------------------------

    def tools(self, actor: str | None = None, roles: tuple[str, ...] = ()) -> list[Tool]:
        """Return the tools an actor can call; stored queries only if it may run them."""
        graph = self._as(actor, roles)
        stored = _may(graph, Action.INVOKE_QUERY)
        return [tool for tool in self._tools.values() if stored or not tool.stored]

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        actor: str | None = None,
        roles: tuple[str, ...] = (),
    ) -> dict[str, object]:
        """Run a tool and return its answer as plain data. Raises `OmniGraphError`.

        A stored query the actor may not run is as unknown as one that does not exist.
        """
        graph = self._as(actor, roles)
        tool = self._tools.get(name)
        if tool is None or (tool.stored and not _may(graph, Action.INVOKE_QUERY)):
            raise NotFoundError(f"there is no tool '{name}'")
        return tool.run(graph, Arguments(name, arguments or {}, tool.input_schema))

    def instructions(self) -> str:
        """Return what an agent should know before it starts."""
        where = "main" if self._allow_main else "a branch of your own, made when you first write"
        return (
            "A typed graph database. Call graph_schema first: it shows the types and how queries "
            f"are written. Writes go to {where}; reads show that branch once it exists. Call "
            "graph_merge_preview to see what merging your branch would change and where it "
            "conflicts" + ("." if self._allow_main else "; people merge it.")
        )

    # ---- branches -------------------------------------------------------------------------

    def _as(self, actor: str | None, roles: tuple[str, ...]) -> Session:
        return self._graph if actor is None else session_of(self._graph, actor, roles)

    def own_branch(self, graph: Session) -> str:
        """Return the branch an actor writes to."""
        if self._branch is not None:
            return self._branch
        if self._allow_main:
            return MAIN
        name = _NOT_IN_NAMES.sub("-", graph.actor or "").strip("-.")
        return f"agent-{name}" if name else "agent"

    def _read_branch(self, graph: Session, asked: str | None) -> str:
        if asked is not None:
            return asked
        own = self.own_branch(graph)
        return own if own in _branches(graph) else MAIN

    def _write_branch(self, graph: Session, asked: str | None) -> str:
        """Return the branch to write to; the actor's own is made when it is not there."""
        name = asked or self.own_branch(graph)
        if name == MAIN and not self._allow_main:
            raise BadRequestError(
                "agents do not write to main here",
                hint=f"leave `branch` out to write to '{self.own_branch(graph)}'",
            )
        if asked is None and name != MAIN:
            graph.branch(name)
        return name

    # ---- tools ----------------------------------------------------------------------------

    def _own_tools(self) -> list[Tool]:
        tools = [
            _tool(
                "graph_schema",
                "Show the schema: node and edge types with their properties.",
                _object(),
                lambda graph, _args: {"schema_source": graph.schema_source},
            ),
            _tool(
                "graph_query",
                "Run a read query: query name($p: T) { match { $x: Type } return { $x.prop } }.",
                _object(("query",), query=_SOURCE, name=_NAME, params=_PARAMS, branch=_BRANCH,
                        limit=_LIMIT),
                self._query,
            ),
            _tool("graph_branches", "List the branches.", _object(), self._list_branches),
            _tool(
                "graph_history",
                "List the newest commits of a branch, newest first.",
                _object(branch=_BRANCH, limit=_LIMIT),
                self._history,
            ),
            _tool(
                "graph_diff",
                "Show what a branch changes compared with main, entity by entity.",
                _object(branch=_BRANCH, base=_TEXT, limit=_LIMIT),
                self._diff,
            ),
            _tool(
                "graph_merge_preview",
                "Preview a merge: what it would change and every conflict. Writes nothing.",
                _object(source=_OWN, into=_TEXT, limit=_LIMIT),
                self._preview,
            ),
            _tool(
                "graph_mutate",
                "Run a mutation: insert, upsert, update or delete statements, as one commit.",
                _object(("query",), query=_SOURCE, name=_NAME, params=_PARAMS, branch=_OWN),
                self._mutate,
                read_only=False,
            ),
            _tool(
                "graph_load",
                'Load entities as one commit: {"type": T, "data": {...}} for a node, '
                '{"edge": T, "from": id, "to": id, "data": {...}} for an edge.',
                _object(("rows",), rows={"type": "array", "items": {"type": "object"}},
                        mode={"enum": ["merge", "append"]}, branch=_OWN),
                self._load,
                read_only=False,
            ),
        ]  # fmt: skip
        if self._allow_main:
            merge = "Merge a branch into another as one commit; conflicts refuse it."
            schema = _object(("source",), source=_TEXT, into=_TEXT)
            tools.append(_tool("graph_merge", merge, schema, self._merge, read_only=False))
        return tools

    def _query(self, graph: Session, args: Arguments) -> dict[str, object]:
        result = graph.query(
            args.text("query"),
            args.mapping("params"),
            name=args.maybe_text("name"),
            branch=self._read_branch(graph, args.maybe_text("branch")),
            timeout=self._query_seconds,
        )
        return _rows(result, args)

    def _mutate(self, graph: Session, args: Arguments) -> dict[str, object]:
        done = graph.mutate(
            args.text("query"),
            args.mapping("params"),
            name=args.maybe_text("name"),
            branch=self._write_branch(graph, args.maybe_text("branch")),
        )
        return done.to_json()

    def _load(self, graph: Session, args: Arguments) -> dict[str, object]:
        done = graph.load(
            args.rows("rows"),
            mode=LoadMode.parse(args.maybe_text("mode") or "merge"),
            branch=self._write_branch(graph, args.maybe_text("branch")),
        )
        return done.to_json()

    def _list_branches(self, graph: Session, _args: Arguments) -> dict[str, object]:
        return {"branches": graph.branches.list(), "yours": self.own_branch(graph)}

    def _history(self, graph: Session, args: Arguments) -> dict[str, object]:
        branch = self._read_branch(graph, args.maybe_text("branch"))
        commits = graph.commits.list(branch, limit=_limit(args))
        return {"branch": branch, "commits": [commit.to_json() for commit in commits]}

    def _diff(self, graph: Session, args: Arguments) -> dict[str, object]:
        branch = self._read_branch(graph, args.maybe_text("branch"))
        diff = graph.diff(args.maybe_text("base") or MAIN, branch)
        body = diff.to_json() | {"counts": diff.counts()}
        return _cut(body, "changes", _limit(args))

    def _preview(self, graph: Session, args: Arguments) -> dict[str, object]:
        source = args.maybe_text("source") or self.own_branch(graph)
        plan = graph.branches.merge_plan(source, args.maybe_text("into") or MAIN)
        return _cut({"clean": plan.is_clean} | plan.to_json(), "changes", _limit(args))

    def _merge(self, graph: Session, args: Arguments) -> dict[str, object]:
        into = args.maybe_text("into") or MAIN
        done = graph.branches.merge(args.text("source"), into)
        return done.to_json()

    def _stored_tool(self, query: StoredQuery) -> Tool:
        """Return a tool that runs a stored query; names of ours are not taken over."""

        def run(graph: Session, args: Arguments) -> dict[str, object]:
            values = bound(query, args)
            options = args.without(item.name for item in query.parameters)
            asked = options.maybe_text("branch")
            if query.mutation:
                branch = self._write_branch(graph, asked)
                return graph.mutate(query.source, values, branch=branch).to_json()
            branch = self._read_branch(graph, asked)
            result = graph.query(query.source, values, branch=branch, timeout=self._query_seconds)
            return _rows(result, options)

        taken = query.tool_name in self._tools
        extra: dict[str, Mapping[str, object]] = {"branch": _OWN if query.mutation else _BRANCH}
        if not query.mutation:
            extra["limit"] = _LIMIT
        texts = [query.description or f"The stored query {query.name}.", query.instruction]
        return Tool(
            name=f"stored_{query.tool_name}" if taken else query.tool_name,
            description=" ".join(text for text in texts if text is not None),
            input_schema=parameters_schema(query, extra),
            read_only=not query.mutation,
            run=run,
            stored=True,
        )


def _tool(
    name: str,
    description: str,
    schema: Mapping[str, object],
    run: Callable[[Session, Arguments], dict[str, object]],
    *,
    read_only: bool = True,
) -> Tool:
    return Tool(
        name=name, description=description, input_schema=schema, read_only=read_only, run=run
    )


def _may(graph: Session, action: Action) -> bool:
    try:
        permit(graph, action)
    except PolicyDeniedError:
        return False
    return True


def _branches(graph: Session) -> list[str]:
    try:
        return graph.branches.list()
    except PolicyDeniedError:
        return []


def _limit(args: Arguments) -> int:
    return args.maybe_int("limit", low=1, high=MCP_ROWS_MAX) or MCP_ROWS_DEFAULT


def _rows(result: Result, args: Arguments) -> dict[str, object]:
    """Return a read as plain data, with as many rows as an agent can take in."""
    limit = _limit(args)
    if len(result) <= limit:
        return result.to_json()
    first = Result(
        result.to_arrow().slice(0, limit),
        query_name=result.query_name,
        commit_id=result.commit_id,
        branch=result.target["branch"],
        snapshot=result.target["snapshot"],
    )
    return first.to_json() | {"row_count": len(result), "truncated": True}


def _cut(body: dict[str, object], name: str, limit: int) -> dict[str, object]:
    items = body[name]
    if not isinstance(items, list) or len(items) <= limit:
        return body
    return body | {name: items[:limit], "truncated": True, f"{name}_count": len(items)}

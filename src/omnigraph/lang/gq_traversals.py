"""Checks traversals: which edge types they follow, which way, and between which node types."""

from __future__ import annotations

from omnigraph.catalog import EdgeType, united
from omnigraph.lang.gq_ast import EdgeWord, TraversalNode
from omnigraph.lang.gq_clauses import ANONYMOUS, ReadTypes, Traversal
from omnigraph.lang.gq_scope import EdgeVariable, NodeVariable, Scope
from omnigraph.lang.source import Span, did_you_mean


def resolve_traversal(node: TraversalNode, scope: Scope, reads: ReadTypes) -> Traversal | None:
    """Resolve a traversal and bind its new names; None after an error."""
    return _Traversal(node, scope, reads).resolve()


def optional_misuse(scope: Scope, variable: str, span: Span) -> None:
    """Report a variable of an optional block where none may be null."""
    scope.error(
        "T25",
        span,
        f"`${variable}` comes from an optional block and may be null",
        hint="put the clause into an `optional { ... }` block",
    )


class _Traversal:
    def __init__(self, node: TraversalNode, scope: Scope, reads: ReadTypes) -> None:
        self._node = node
        self._scope = scope
        self._reads = reads

    def resolve(self) -> Traversal | None:
        node = self._node
        named = self._named_edge_types()
        if named is None:
            return None
        hops = self._hops()
        left = self._known_type(node.left, node.left_span)
        right = self._known_type(node.right, node.right_span)
        if isinstance(left, bool) or isinstance(right, bool):
            return None
        edges = named or self._fitting(left, right)
        ways = [self._orientation(edge, left, right) for edge in edges]
        if hops is None or not edges or None in ways or not self._has_single_ends(edges, ways):
            return None
        edge, forward = united(edges), bool(ways[0])
        self._reads.edges |= {item.name for item in edges}
        self._reads.nodes |= {edge.source, edge.target}
        low, high = hops
        return Traversal(
            left=self._end(node.left, edge.source if forward else edge.target),
            right=self._end(node.right, edge.target if forward else edge.source),
            edge=edge,
            forward=forward,
            undirected=node.undirected,
            min_hops=low,
            # Between different types a second hop has nothing to start from.
            max_hops=high if edge.source == edge.target else min(high, 1),
            edge_variable=None if node.hops else self._new_variable(edge),
            path_variable=self._new_variable(edge) if node.hops else None,
        )

    # ---- edge types -----------------------------------------------------------------------

    def _named_edge_types(self) -> list[EdgeType] | None:
        """Return the types the words name, each once; None after an error."""
        types: dict[str, EdgeType] = {}
        failed = False
        for word in self._node.edge_words:
            edge = self._edge_type(word)
            if edge is None:
                failed = True
            else:
                types[edge.name] = edge
        return None if failed else list(types.values())

    def _edge_type(self, word: EdgeWord) -> EdgeType | None:
        scope = self._scope
        edge = scope.catalog.edge_by_word(word.text)
        if edge is None:
            words = [name[:1].lower() + name[1:] for name in scope.catalog.edges]
            scope.error(
                "T4",
                word.span,
                f"unknown edge `{word.text}`",
                hint="to test a parameter write `($x) in $list`"
                if word.text == "in"
                else did_you_mean(word.text, words),
            )
            return None
        if self._node.undirected and edge.source != edge.target:
            scope.error(
                "T22",
                word.span,
                f"`<{word.text}>` needs an edge between nodes of one type; {edge.name} "
                f"goes from {edge.source} to {edge.target}",
                hint=f"write `{word.text}`: the direction follows from the types",
            )
            return None
        return edge

    def _fitting(self, left: str | None, right: str | None) -> list[EdgeType]:
        """Return every type that goes from the left to the right end, for `->`."""
        edges = self._scope.catalog.edges.values()
        types = [e for e in edges if left in (None, e.source) and right in (None, e.target)]
        if not types:
            back = any(left in (None, e.target) and right in (None, e.source) for e in edges)
            ends = f"from {left or 'any node type'} to {right or 'any node type'}"
            self._scope.error(
                "T4",
                self._node.edge_span,
                f"no edge type goes {ends}",
                hint=f"write `${self._node.right} -> ${self._node.left}`" if back else None,
            )
        return types

    def _has_single_ends(self, edges: list[EdgeType], ways: list[bool | None]) -> bool:
        """Whether all types join the same two node types; if not, say where they differ."""
        node = self._node
        for name, left in ((node.left, True), (node.right, False)):
            kinds: dict[str, str] = {}
            for edge, forward in zip(edges, ways, strict=True):
                kinds.setdefault(edge.source if forward == left else edge.target, edge.name)
            if len(kinds) > 1:
                shown = " or ".join(f"a {kind} ({edge})" for kind, edge in kinds.items())
                first = next(iter(kinds))
                self._scope.error(
                    "T5",
                    node.edge_span,
                    f"`${name}` has no single type here: {shown}",
                    hint=f"bind it before, as in `${name}: {first}`"
                    if not node.edge_words and name != ANONYMOUS
                    else "follow types that join the same two node types, or write two traversals",
                )
                return False
        return True

    # ---- ends and hops --------------------------------------------------------------------

    def _known_type(self, name: str, span: Span) -> str | bool | None:
        """Return a variable's node type, None when it is new, False after an error."""
        if name == ANONYMOUS:
            return None
        variable = self._scope.lookup(name)
        if variable is None:
            return None
        if not isinstance(variable, NodeVariable):
            kind = "edge" if isinstance(variable, EdgeVariable) else "path"
            self._scope.error(
                "T23", span, f"{kind} variable `${name}` cannot be the end of a traversal"
            )
            return False
        if variable.optional and not self._scope.is_outer(name):
            optional_misuse(self._scope, name, span)
            return False
        return variable.node.name

    def _orientation(self, edge: EdgeType, left: str | None, right: str | None) -> bool | None:
        """Return whether the left end is where an edge starts; None after an error."""
        node = self._node
        forward = True
        if edge.source != edge.target:
            if left is not None:
                forward = left != edge.target
            elif right is not None:
                forward = right != edge.source
        ends = (edge.source, edge.target) if forward else (edge.target, edge.source)
        fits = True
        for name, span, known, wanted in (
            (node.left, node.left_span, left, ends[0]),
            (node.right, node.right_span, right, ends[1]),
        ):
            if known is not None and known != wanted:
                self._scope.error(
                    "T5",
                    span,
                    f"`${name}` is a {known}, but {edge.name} goes from {edge.source} to "
                    f"{edge.target}",
                )
                fits = False
                if edge.source != edge.target:
                    # The direction was a guess, so nothing can be said of the other end.
                    break
        return forward if fits else None

    def _hops(self) -> tuple[int, int] | None:
        node = self._node
        if node.hops is None:
            return 1, 1
        low, high = node.hops
        span = node.hops_span or node.span
        if high is None:
            self._scope.error(
                "T15", span, "the number of hops needs an upper bound", hint=f"{{{low},{low + 4}}}"
            )
            return None
        if not 1 <= low <= high:
            self._scope.error(
                "T15", span, f"hop bounds {{{low},{high}}} are invalid: 1 <= least <= most"
            )
            return None
        return low, high

    def _end(self, name: str, type_name: str) -> str:
        if name == ANONYMOUS:
            return self._scope.fresh()
        known = self._scope.lookup(name)
        if known is not None:
            return known.name
        return self._scope.bind_node(name, self._scope.catalog.nodes[type_name])

    def _new_variable(self, edge: EdgeType) -> str | None:
        """Bind the variable of the edge or, over several hops, of the path; None without one."""
        name, span = self._node.edge_variable, self._node.edge_variable_span
        if name is None or name == ANONYMOUS or span is None:
            return None
        if self._scope.lookup(name) is not None or name in self._scope.parameters:
            self._scope.error("T23", span, f"edge variable `${name}` must be a new name")
            return None
        return self._scope.bind_path(name) if self._node.hops else self._scope.bind_edge(name, edge)

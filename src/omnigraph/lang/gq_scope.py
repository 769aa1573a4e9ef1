"""What names mean while a query is checked: parameters and match variables."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from omnigraph.catalog import Catalog, EdgeType, NodeType, PropertyType
from omnigraph.lang.source import Diagnostics, Span, did_you_mean


class NodeVariable(Struct, frozen=True, kw_only=True):
    """A variable bound to nodes of one type; `optional` ones may be null."""

    name: str
    node: NodeType
    optional: bool = False


class EdgeVariable(Struct, frozen=True, kw_only=True):
    """A variable bound to edges of one type."""

    name: str
    edge: EdgeType
    optional: bool = False


class PathVariable(Struct, frozen=True, kw_only=True):
    """A variable bound to the shortest path of a traversal over several hops."""

    name: str
    optional: bool = False


MatchVariable = NodeVariable | EdgeVariable | PathVariable


class Scope(Struct):
    """The names a clause can use. Blocks open a child scope that sees its parent's names.

    A variable's key is the name it is written with; its `name` is the one plans use. They differ
    when a block has a local variable whose name the enclosing pattern introduces further below.
    """

    catalog: Catalog
    parameters: dict[str, PropertyType]
    diagnostics: Diagnostics
    parent: Scope | None = None
    variables: dict[str, MatchVariable] = field(default_factory=dict)
    anonymous: list[int] = field(default_factory=lambda: [0])
    own_names: frozenset[str] = frozenset()
    is_optional: bool = False
    poisoned: set[str] = field(default_factory=set)

    def child(self) -> Scope:
        """Open the scope of a nested block."""
        return Scope(
            catalog=self.catalog,
            parameters=self.parameters,
            diagnostics=self.diagnostics,
            parent=self,
            anonymous=self.anonymous,
            poisoned=self.poisoned,
        )

    def lookup(self, name: str) -> MatchVariable | None:
        """Find a match variable here or in an enclosing block."""
        scope: Scope | None = self
        while scope is not None:
            if (variable := scope.variables.get(name)) is not None:
                return variable
            scope = scope.parent
        return None

    def is_outer(self, name: str) -> bool:
        """Whether a variable belongs to an enclosing block."""
        return name not in self.variables and self.lookup(name) is not None

    def outer_names(self) -> frozenset[str]:
        """Return the plan names of every variable of the enclosing blocks."""
        names: set[str] = set()
        scope = self.parent
        while scope is not None:
            names |= {variable.name for variable in scope.variables.values()}
            scope = scope.parent
        return frozenset(names)

    def plan_name(self, name: str) -> str:
        """Return the name plans use for a new variable: its own, unless that means another one."""
        owner = self
        while owner.is_optional and owner.parent is not None:
            # Variables of an optional block become those of the pattern around it.
            owner = owner.parent
        scope = owner.parent
        while scope is not None:
            if name in scope.own_names:
                self.anonymous[0] += 1
                return f"{name}#{self.anonymous[0]}"
            scope = scope.parent
        return name

    def bind_node(self, name: str, node: NodeType) -> str:
        """Introduce a node variable; return its plan name."""
        variable = NodeVariable(name=self.plan_name(name), node=node)
        self.variables[name] = variable
        return variable.name

    def bind_edge(self, name: str, edge: EdgeType) -> str:
        """Introduce an edge variable; return its plan name."""
        variable = EdgeVariable(name=self.plan_name(name), edge=edge)
        self.variables[name] = variable
        return variable.name

    def bind_path(self, name: str) -> str:
        """Introduce a path variable; return its plan name."""
        variable = PathVariable(name=self.plan_name(name))
        self.variables[name] = variable
        return variable.name

    def poison(self, *names: str) -> None:
        """Mark names whose introduction failed: later uses of them are no news."""
        self.poisoned.update(name for name in names if self.lookup(name) is None)

    def fresh(self) -> str:
        """Return a name for an anonymous variable; no source text can spell it."""
        self.anonymous[0] += 1
        return f"#{self.anonymous[0]}"

    def adopt_optional(self, inner: Scope) -> tuple[str, ...]:
        """Take over the variables of an optional block: from here on they may be null."""
        for name, variable in inner.variables.items():
            self.variables[name] = replace(variable, optional=True)
        return tuple(sorted(variable.name for variable in inner.variables.values()))

    def error(self, code: str, span: Span, message: str, *, hint: str | None = None) -> None:
        """Report a type error."""
        self.diagnostics.error(code, span, message, hint=hint)

    def suggest_variable(self, name: str) -> str | None:
        """Return a hint naming a similar variable or parameter."""
        names: set[str] = set(self.parameters)
        scope: Scope | None = self
        while scope is not None:
            names |= {n for n in scope.variables if not n.startswith("#")}
            scope = scope.parent
        return did_you_mean(f"${name}", (f"${n}" for n in names))

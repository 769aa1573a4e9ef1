"""Plans of mutations: statements applied in order to a private overlay, published as one commit."""

from __future__ import annotations

from msgspec import Struct

from omnigraph.plan.expression import Expression, Parameter


class Assignment(Struct, frozen=True, kw_only=True):
    """A property (or `id`) and the value it gets."""

    property: str
    value: Expression


class InsertNode(Struct, frozen=True, kw_only=True):
    """Add a node. With a key it replaces the node of that key as a whole, unless it must be new."""

    type_name: str
    assignments: tuple[Assignment, ...]
    must_be_new: bool = False


class InsertEdge(Struct, frozen=True, kw_only=True):
    """Add an edge between two nodes given by id."""

    type_name: str
    source: Expression
    target: Expression
    assignments: tuple[Assignment, ...]


class UpsertNode(Struct, frozen=True, kw_only=True):
    """Set the named properties of the node with this key or id, adding it when absent.

    `missing_required` lists what an added node would lack: it is an error only if one is added.
    """

    type_name: str
    assignments: tuple[Assignment, ...]
    missing_required: tuple[str, ...] = ()


class UpsertEdge(Struct, frozen=True, kw_only=True):
    """As `UpsertNode`, for the one edge of this type between two nodes."""

    type_name: str
    source: Expression
    target: Expression
    assignments: tuple[Assignment, ...]
    missing_required: tuple[str, ...] = ()


class Update(Struct, frozen=True, kw_only=True):
    """Set properties of every node (or edge) that satisfies a predicate."""

    type_name: str
    is_edge: bool
    assignments: tuple[Assignment, ...]
    predicate: Expression


class Delete(Struct, frozen=True, kw_only=True):
    """Delete every node (with its edges) or edge that satisfies a predicate."""

    type_name: str
    is_edge: bool
    predicate: Expression


Statement = InsertNode | InsertEdge | UpsertNode | UpsertEdge | Update | Delete


class MutationPlan(Struct, frozen=True, kw_only=True):
    """A compiled mutation query: only deletes, or none."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    reads_nodes: tuple[str, ...] = ()
    reads_edges: tuple[str, ...] = ()
    writes_nodes: tuple[str, ...] = ()
    writes_edges: tuple[str, ...] = ()

    @property
    def destructive(self) -> bool:
        """Whether the mutation deletes."""
        return any(isinstance(item, Delete) for item in self.statements)

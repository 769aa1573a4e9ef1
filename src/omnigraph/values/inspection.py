"""What people look at before they decide: who they are, types, neighbours, histories, pictures."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from omnigraph.values.changes import Diff
from omnigraph.values.commits import BranchInfo, GraphCommit, Tag
from omnigraph.values.networks import (
    Arc,
    Network,
    Vertex,
    igraph_graph,
    networkx_graph,
    type_attribute,
)
from omnigraph.values.notebook import html_table
from omnigraph.values.value import Json, Value

HISTORY_COMMITS_DEFAULT = 200
"""Commits on one page of the history of all branches."""
NEIGHBOURS_DEFAULT = 50
"""Neighbours on one page."""
NEIGHBOURS_MAX = 1_000
"""Most neighbours on one page: each comes with its properties."""
SUBGRAPH_NODES_MAX = 5_000
"""Most nodes that one picture is made of."""
SUBGRAPH_EDGES_MAX = 20_000
"""Most edges between them; a picture of more tells nothing."""
VERSIONS_DEFAULT = 50
"""Changes of one entity that its history tells at once."""

Direction = Literal["out", "in"]


class ServedName(Value, frozen=True, kw_only=True):
    """A graph the caller may ask for."""

    graph_id: str
    uri: str


class WhoAmI(Value, frozen=True, kw_only=True):
    """Who is asking, as the server sees it."""

    actor: str | None
    """Null where no tokens are needed."""
    authenticated: bool
    version: str
    serves_one_graph: bool
    graphs: tuple[ServedName, ...]
    """The graphs by id; none where the caller may not list them."""


class AllowedActions(Value, frozen=True, kw_only=True):
    """What the caller may do on one branch, whether or not that exists."""

    actor: str | None
    branch: str
    actions: tuple[str, ...]


class LintedQuery(Value, frozen=True, kw_only=True):
    """One query of a text; what it takes and returns is told if it has no error."""

    name: str
    mutation: bool
    ok: bool
    parameters: tuple[Json, ...] = ()
    columns: tuple[Json, ...] = ()


class LintReport(Value, frozen=True, kw_only=True):
    """Findings about a text. Spans count characters from its beginning."""

    published_as: ClassVar[str] = "LintOutput"

    ok: bool
    diagnostics: tuple[Json, ...] = ()
    queries: tuple[LintedQuery, ...] = ()
    """Empty for a schema, and for a text that does not parse."""
    findings: tuple[Json, ...] = ()
    """What is worth knowing beside errors."""


class PropertyInfo(Value, frozen=True, kw_only=True):
    """A property; `type` is spelt as in a schema."""

    optional: ClassVar[frozenset[str]] = frozenset({"enum_values", "vector_dim", "description"})

    name: str
    type: str
    scalar: str
    nullable: bool
    is_list: bool
    enum_values: tuple[str, ...] = ()
    vector_dim: int = 0
    key: bool = False
    unique: bool = False
    indexed: bool = False
    description: str | None = None


class TypeInfo(Value, frozen=True, kw_only=True):
    """A node or edge type."""

    optional: ClassVar[frozenset[str]] = frozenset({"source", "target", "cardinality"})

    name: str
    kind: Literal["node", "edge"]
    properties: tuple[PropertyInfo, ...]
    key: tuple[str, ...] = ()
    label: str
    """The property that names an entity to people; `id` where none does."""
    implements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    """Its other constraints, spelt as in a schema."""
    source: str | None = None
    target: str | None = None
    cardinality: str | None = None


class SchemaDescription(Value, frozen=True, kw_only=True):
    """The schema of one state as data."""

    graph_commit_id: str
    schema_hash: str
    schema_source: str | None
    """Its text; null for a schema of the past."""
    types: tuple[TypeInfo, ...]
    interfaces: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [
            (f"{item.kind} {item.name}", _ends(item), prop.name, prop.type, _rules(item, prop))
            for item in self.types
            for prop in item.properties
        ]
        bare = [item for item in self.types if not item.properties]
        rows += [(f"{item.kind} {item.name}", _ends(item), "", "", "") for item in bare]
        return html_table(("type", "from and to", "property", "holds", "rules"), rows)


def _ends(item: TypeInfo) -> str:
    return "" if item.source is None else f"{item.source} -> {item.target}"


def _rules(item: TypeInfo, prop: PropertyInfo) -> str:
    rules = {"key": prop.name in item.key, "unique": prop.unique, "index": prop.indexed}
    return ", ".join(name for name, holds in rules.items() if holds)


class BranchHead(Value, frozen=True, kw_only=True):
    """A branch, its newest commit, and how far it and the base are apart.

    Commits that change no row, such as those of `optimize`, are not counted.
    """

    name: str
    head: GraphCommit
    ahead: int
    behind: int
    details: BranchInfo


class BranchHeads(Value, frozen=True, kw_only=True):
    """The branches the caller may read, main first."""

    base: str
    branches: tuple[BranchHead, ...]


class CommitGraph(Value, frozen=True, kw_only=True):
    """Commits of all branches the caller may read: each stands before its parents."""

    optional: ClassVar[frozenset[str]] = frozenset({"next_page_token"})

    commits: tuple[GraphCommit, ...]
    heads: dict[str, str]
    """The newest commit of each branch."""
    tags: tuple[Json, ...]
    """Each with the commit that made the state it names."""
    next_page_token: str | None = None


class EntityVersion(Value, frozen=True, kw_only=True):
    """One change of an entity, and the commit that made it. Images are as a load takes them."""

    commit: GraphCommit
    op: Literal["insert", "update", "delete"]
    before: Json | None
    after: Json | None


class EntityHistory(Value, frozen=True, kw_only=True):
    """The changes of one entity, newest first."""

    type: str
    id: str
    versions: tuple[EntityVersion, ...]
    complete: bool
    """Whether there is nothing before them; what a cleanup took is not told."""


class EdgeCount(Value, frozen=True, kw_only=True):
    """How many edges of a type leave a node, or reach it, and the type at their other end."""

    edge: str
    direction: Direction
    other: str
    count: int


class Neighbour(Value, frozen=True, kw_only=True):
    """A node one edge away."""

    edge: str
    direction: Direction
    edge_id: str
    edge_data: Json
    type: str
    id: str
    label: str
    data: Json
    """Its properties; blobs and vectors are left out."""


class NeighbourPage(Value, frozen=True, kw_only=True):
    """What surrounds a node at one state."""

    optional: ClassVar[frozenset[str]] = frozenset({"next_page_token"})

    graph_commit_id: str
    type: str
    id: str
    label: str
    counts: tuple[EdgeCount, ...]
    neighbours: tuple[Neighbour, ...]
    next_page_token: str | None = None


class PictureNode(Value, frozen=True, kw_only=True):
    """A node of a picture; blobs and vectors are left out of its properties."""

    type: str
    id: str
    label: str
    data: Json


class PictureEdge(Value, frozen=True, kw_only=True, rename={"from_": "from"}):
    """An edge of a picture."""

    edge: str
    id: str
    source_type: str
    from_: str
    target_type: str
    to: str


class Subgraph(Value, frozen=True, kw_only=True):
    """Some nodes and the edges between them, at one state."""

    graph_commit_id: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    truncated: bool
    """Whether there were more nodes or edges than a picture has."""

    def to_networkx(self) -> Network:
        """Return a `networkx.MultiDiGraph`, shaped as `Graph.to_networkx` shapes it.

        Properties are as in `nodes`: days and instants are numbers; edges have none.
        """
        return networkx_graph(*self._parts())

    def to_igraph(self) -> Network:
        """Return a directed `igraph.Graph`, shaped as `Graph.to_igraph` shapes it."""
        return igraph_graph(*self._parts())

    def _parts(self) -> tuple[list[Vertex], list[Arc], str]:
        vertices = [Vertex(item.type, item.id, _given(item.data)) for item in self.nodes]
        arcs = [
            Arc(item.edge, item.id, (item.source_type, item.from_), (item.target_type, item.to), {})
            for item in self.edges
        ]
        taken = (name for item in vertices for name in item.properties)
        return vertices, arcs, type_attribute(taken)


class DiffPage(Diff, frozen=True, kw_only=True):
    """What turns one state into another; counts and a token where pages were asked for."""

    published_as: ClassVar[str] = "DiffOutput"
    optional: ClassVar[frozenset[str]] = frozenset({"summary", "next_page_token"})

    summary: dict[str, Any] | None = None
    """Changes by type and operation, of all pages."""
    next_page_token: str | None = None


def tag_json(tag: Tag, commit_id: str | None) -> Json:
    """Return a tag with the commit it stands at, if that is known."""
    return {**tag.to_json(), "graph_commit_id": commit_id}


def _given(data: Json) -> Json:
    """Return the properties that have a value, without the id, which stands beside them."""
    return {name: value for name, value in data.items() if value is not None and name != "id"}

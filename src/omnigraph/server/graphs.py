"""The graphs a server serves, each open once and shared by every request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.cluster import StoredQuery
from omnigraph.errors import NotFoundError
from omnigraph.graph import Graph, Session
from omnigraph.graph.seam import request_keys
from omnigraph.identity import Token
from omnigraph.limits import IDEMPOTENCY_KEY_S
from omnigraph.policy import Policy, with_roles
from omnigraph.server.graph_ids import check_graph_id
from omnigraph.store import RequestKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """One open graph, who decides about it, and its stored queries."""

    graph_id: str
    graph: Graph
    policy: Policy
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)
    schema_is_managed: bool = False
    """The schema is changed where the cluster is described, not over HTTP."""
    identity: tuple[object, ...] = ()
    """Tells it from a graph that has its name later, or other settings."""
    key_seconds: float = IDEMPOTENCY_KEY_S
    """How long the keys of requests are known."""
    keys: RequestKeys = field(init=False)

    def __post_init__(self) -> None:
        keys = request_keys(self.graph, kept_s=self.key_seconds)
        object.__setattr__(self, "keys", keys)

    def session(self, caller: Token | None) -> Session:
        """Return a session for one request: its commits are by that actor, the policy decides."""
        if caller is None:
            return self.graph.acting_for(None, self.policy)
        return self.graph.acting_for(caller.actor, with_roles(self.policy, caller.roles))


class ServedGraphs:
    """The graphs by id; `default_id` is the one that paths without a graph mean."""

    def __init__(
        self,
        graphs: Iterable[ServedGraph],
        *,
        default_id: str | None = None,
        quarantined: Iterable[str] = (),
    ) -> None:
        self._graphs = {item.graph_id: item for item in graphs}
        self._default_id = default_id
        self.quarantined = tuple(quarantined)

    def __len__(self) -> int:
        return len(self._graphs)

    @property
    def is_single(self) -> bool:
        """Whether the server was started for one graph."""
        return self._default_id is not None

    def all(self) -> tuple[ServedGraph, ...]:
        """Return every graph, by id."""
        return tuple(self._graphs[name] for name in sorted(self._graphs))

    def find(self, graph_id: str | None) -> ServedGraph:
        """Return a graph, the default one for None. Raises for bad and unknown ids."""
        if graph_id is None:
            graph_id = self._default_id
            if graph_id is None:
                raise NotFoundError(
                    "this server has several graphs", hint="name one: /graphs/{graph_id}/..."
                )
        else:
            check_graph_id(graph_id)
        graph = self._graphs.get(graph_id)
        if graph is None:
            raise unknown_graph(graph_id)
        return graph

    def close(self) -> None:
        """Close every graph."""
        for item in self._graphs.values():
            item.graph.close()


def unknown_graph(graph_id: str) -> NotFoundError:
    """Return the one answer for a graph that is not there, or not for this caller."""
    return NotFoundError(f"no graph '{graph_id}'")

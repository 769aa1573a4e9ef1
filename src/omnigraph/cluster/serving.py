"""What a server reads of a cluster: the graphs that were applied, with queries and policies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from omnigraph.cluster.config import CONFIG_FILE, EmbeddingProvider, graph_uri, read_config
from omnigraph.cluster.reports import Findings
from omnigraph.cluster.state import FOLDER, State, StateError, StateFile
from omnigraph.cluster.stored import StoredQuery, stored_queries
from omnigraph.embed import Embedder, embedder_from
from omnigraph.errors import BadRequestError, CompileError, NotFoundError
from omnigraph.policy import CedarPolicy, policy_from_text
from omnigraph.store import locate
from omnigraph.values.answers import ClusterDiagnostic


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedGraph:
    """One graph: where it is, who may do what, its stored queries, and where vectors come from.

    One with `problems` must not be served: something it needs is gone or was changed.
    """

    graph_id: str
    uri: str
    policy: CedarPolicy | None = None
    queries: Mapping[str, StoredQuery] = field(default_factory=dict)
    provider: EmbeddingProvider | None = None
    problems: tuple[ClusterDiagnostic, ...] = ()

    def embedder(self, env: Mapping[str, str]) -> Embedder | None:
        """Make the graph's embedder: the cluster's if it names one, else the environment's."""
        return embedder_from(env) if self.provider is None else self.provider.embedder(env)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCluster:
    """A cluster as it was applied; `policy` is about the server as a whole."""

    root: str
    graphs: Mapping[str, ServedGraph]
    policy: CedarPolicy | None
    config_digest: str | None
    state_revision: int
    state_cas: str

    @property
    def has_policy(self) -> bool:
        """Whether any policy was applied, for a graph or for the server."""
        return self.policy is not None or any(g.policy is not None for g in self.graphs.values())


def read_cluster(place: str | os.PathLike[str]) -> ServedCluster:
    """Read what was applied to a cluster.

    Args:
        place: The folder with `cluster.yaml`, or the root that it names.

    Raises `NotFoundError` when nothing was applied there, and `BadRequestError` for a ledger or a
    policy of the server that cannot be used. A graph that cannot be used is there with its
    `problems`.
    """
    file = StateFile(cluster_root(place))
    try:
        stored = file.read()
        if stored.body is None:
            raise NotFoundError(
                f"nothing was applied to the cluster at {os.fspath(place)}",
                hint="run `omnigraph cluster apply` first",
            )
        state = stored.state
        ids = sorted(_rest(a) for a in state.resources if a.startswith("graph."))
        return ServedCluster(
            root=file.root,
            graphs={graph_id: _graph(file, state, graph_id) for graph_id in ids},
            policy=_policy(file, state, "cluster"),
            config_digest=state.applied_revision.config_digest,
            state_revision=state.state_revision,
            state_cas=stored.cas or "",
        )
    except StateError as error:
        raise BadRequestError(f"{error.message} [{error.diagnostic}]") from error
    finally:
        file.close()


def cluster_root(place: str | os.PathLike[str]) -> str:
    """Return where a cluster is kept, given its root or the folder of its configuration."""
    if "://" in os.fspath(place):
        return locate(place).root
    folder = os.path.realpath(os.fspath(place))
    if os.path.isfile(os.path.join(folder, CONFIG_FILE)):
        findings = Findings()
        config = read_config(folder, findings)
        if config is not None:
            return config.root
        raise BadRequestError("\n".join(item.render() for item in findings.items))
    if not os.path.isdir(os.path.join(folder, FOLDER)):
        raise NotFoundError(
            f"{os.fspath(place)} is not a cluster", hint=f"name the folder that holds {CONFIG_FILE}"
        )
    return folder


def is_described(place: str | os.PathLike[str]) -> bool:
    """Whether a place holds the files of a cluster, not only what was applied of them."""
    return os.path.isfile(os.path.join(os.fspath(place), CONFIG_FILE))


def _graph(file: StateFile, state: State, graph_id: str) -> ServedGraph:
    problems = Findings()
    queries: dict[str, StoredQuery] = {}
    policy = provider = None
    for address, applied in state.resources.items():
        if not address.startswith(f"query.{graph_id}."):
            continue
        try:
            (query,) = stored_queries(file.payload(address, applied.digest), name=address)
            queries[query.name] = query
        except StateError as error:
            problems.error(error.diagnostic, address, error.message)
        except (CompileError, ValueError) as error:
            problems.error("query_parse_error", address, str(error))
    try:
        policy = _policy(file, state, graph_id)
        if (text := _bound(file, state, "provider", graph_id)) is not None:
            provider = msgspec.json.decode(text[1], type=EmbeddingProvider)
    except StateError as error:
        # Without its policy the graph would be more open than was meant.
        problems.error(error.diagnostic, f"graph.{graph_id}", error.message)
    except BadRequestError as error:
        problems.error("policy_invalid", f"graph.{graph_id}", error.message)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problems.error("catalog_payload_read_error", f"graph.{graph_id}", str(error))
    return ServedGraph(
        graph_id=graph_id,
        uri=graph_uri(file.root, graph_id),
        policy=policy,
        queries=queries,
        provider=provider,
        problems=tuple(problems.items),
    )


def _policy(file: StateFile, state: State, scope: str) -> CedarPolicy | None:
    resource = _bound(file, state, "policy", scope)
    return None if resource is None else policy_from_text(resource[1], name=_rest(resource[0]))


def _bound(file: StateFile, state: State, kind: str, scope: str) -> tuple[str, str] | None:
    """Return the address and text of the resource of a kind that is for a graph or the server."""
    for address, applied in state.resources.items():
        if address.startswith(f"{kind}.") and scope in applied.bindings:
            return address, file.payload(address, applied.digest)
    return None


def _rest(address: str) -> str:
    return address.partition(".")[2]

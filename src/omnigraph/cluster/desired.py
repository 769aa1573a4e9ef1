"""What a cluster shall be: every file read, compiled, checked and given a digest."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from omnigraph.catalog import Catalog, shape_hash
from omnigraph.cluster.config import (
    CONFIG_FILE,
    ClusterConfig,
    GraphConfig,
    read_config,
)
from omnigraph.cluster.diagnostics import Findings
from omnigraph.cluster.stored import StoredQuery, digest_of, stored_queries
from omnigraph.errors import BadRequestError, CompileError, OmniGraphError
from omnigraph.lang import compile_query, compile_schema
from omnigraph.policy import parse_bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing a cluster is made of. Its digest changes when it does.

    `bindings` is what a policy or a provider is for. `payload` is what the catalog keeps of it.
    """

    address: str
    kind: str
    digest: str
    path: str | None = None
    bindings: tuple[str, ...] = ()
    payload: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the wire form."""
        found: dict[str, object] = {
            "address": self.address,
            "kind": self.kind,
            "digest": self.digest,
        }
        return found if self.path is None else found | {"path": self.path}


@dataclass(slots=True, kw_only=True)
class Desired:
    """A configuration with everything it names."""

    config: ClusterConfig
    resources: dict[str, Resource] = field(default_factory=dict)
    dependencies: list[tuple[str, str]] = field(default_factory=list)
    schemas: dict[str, str] = field(default_factory=dict)
    queries: dict[str, dict[str, StoredQuery]] = field(default_factory=dict)

    @property
    def config_digest(self) -> str:
        """Identifies the whole: all resources and what policies are for."""
        return revision_digest(self.resources)

    def add(self, resource: Resource, *needs: str) -> None:
        """Take a resource in, with the addresses it depends on."""
        self.resources[resource.address] = resource
        self.dependencies += [(resource.address, address) for address in needs]


class Identified(Protocol):
    """What a revision is made of."""

    @property
    def digest(self) -> str:
        """Changes with the resource."""

    @property
    def bindings(self) -> Sequence[str]:
        """What a policy or a provider is for."""


def revision_digest(resources: Mapping[str, Identified]) -> str:
    """Identify resources as a whole, wished for or applied: equal when all of them are."""
    found = {address: [item.digest, sorted(item.bindings)] for address, item in resources.items()}
    return digest_of(json.dumps(found, sort_keys=True))


def read_desired(folder: str | os.PathLike[str], findings: Findings) -> Desired | None:
    """Read a configuration and all its files; None when the configuration itself is unusable."""
    config = read_config(folder, findings)
    if config is None:
        return None
    found = Desired(config=config)
    for name, provider in config.file.providers.embedding.items():
        address = f"provider.embedding.{name}"
        body = json.dumps(msgspec.to_builtins(provider), sort_keys=True)
        users = [g for g, item in config.file.graphs.items() if item.embedding_provider == name]
        resource = Resource(
            address=address,
            kind="provider",
            digest=digest_of(body),
            path=CONFIG_FILE,
            bindings=tuple(users),
            payload=body,
        )
        found.add(resource)
    for graph_id, graph in config.file.graphs.items():
        _read_graph(found, graph_id, graph, findings)
    for name, policy in config.file.policies.items():
        text = _read(config, policy.file, f"policies.{name}", "policy_file_missing", findings)
        if text is None:
            continue
        on_cluster = "cluster" in policy.applies_to
        try:
            bundle = parse_bundle(text, name=policy.file)
        except BadRequestError as error:
            findings.error("policy_invalid", policy.file, error.message)
            continue
        if policy.applies_to and (bundle.kind == "server") is not on_cluster:
            scope = "the cluster" if bundle.kind == "server" else "graphs"
            findings.error("policy_invalid", policy.file, f"its rules are about {scope}")
        targets = tuple(dict.fromkeys(policy.applies_to))
        resource = Resource(
            address=f"policy.{name}",
            kind="policy",
            digest=digest_of(text),
            path=policy.file,
            bindings=targets,
            payload=text,
        )
        found.add(resource, *(f"graph.{target}" for target in targets if not on_cluster))
    return found


def _read_graph(found: Desired, graph_id: str, graph: GraphConfig, findings: Findings) -> None:
    address = f"graph.{graph_id}"
    options = msgspec.to_builtins(graph.external_blobs)
    settings = {"embedding_provider": graph.embedding_provider, "external_blobs": options}
    provider = graph.embedding_provider
    needs = [f"provider.embedding.{provider}"] if provider is not None else []
    digest = digest_of(json.dumps(settings, sort_keys=True))
    found.add(Resource(address=address, kind="graph", digest=digest, path=CONFIG_FILE), *needs)
    catalog = _read_schema(found, graph_id, graph, findings)
    sources = _query_sources(found.config, graph_id, graph, findings)
    _read_queries(found, graph_id, catalog, sources, findings)


def _read_schema(
    found: Desired, graph_id: str, graph: GraphConfig, findings: Findings
) -> Catalog | None:
    place = f"graphs.{graph_id}.schema"
    text = _read(found.config, graph.schema, place, "schema_file_missing", findings)
    if text is None:
        return None
    try:
        catalog = compile_schema(text, name=graph.schema).catalog
    except CompileError as error:
        codes = {getattr(item, "code", "") for item in error.diagnostics}
        parses = not any(code.startswith("P") for code in codes)
        code = "schema_catalog_error" if parses else "schema_parse_error"
        findings.error(code, graph.schema, error.message)
        return None
    resource = Resource(
        address=f"schema.{graph_id}", kind="schema", digest=shape_hash(catalog), path=graph.schema
    )
    found.add(resource, f"graph.{graph_id}")
    found.schemas[graph_id] = text
    return catalog


def _query_sources(
    config: ClusterConfig, graph_id: str, graph: GraphConfig, findings: Findings
) -> list[tuple[str, str | None]]:
    """Return the query files of a graph, each with the one query that is meant, or None for all."""
    match graph.queries:
        case None:
            return []
        case list() as names:
            return [(name, None) for name in names]
        case dict() as wanted:
            return [(item.file, name) for name, item in wanted.items()]
        case str() as folder:
            try:
                names = sorted(os.listdir(config.path(folder)))
            except OSError:
                place = f"graphs.{graph_id}.queries"
                findings.error("query_file_missing", place, f"there is no folder '{folder}'")
                return []
            return [(os.path.join(folder, name), None) for name in names if name.endswith(".gq")]


def _read_queries(
    found: Desired,
    graph_id: str,
    catalog: Catalog | None,
    sources: list[tuple[str, str | None]],
    findings: Findings,
) -> None:
    queries: dict[str, StoredQuery] = {}
    for path, wanted in sources:
        place = f"graphs.{graph_id}.queries"
        text = _read(found.config, path, place, "query_file_missing", findings)
        if text is None:
            continue
        try:
            inside = stored_queries(text, name=path)
        except CompileError as error:
            findings.error("query_parse_error", path, error.message)
            continue
        if wanted is not None:
            named = [query for query in inside if query.name == wanted]
            if not named:
                findings.error("query_key_mismatch", path, f"there is no query '{wanted}' in it")
            inside = named
        for query in inside:
            if query.name in queries:
                message = f"graph '{graph_id}' has two queries '{query.name}'"
                findings.error("duplicate_query_name", path, message)
                continue
            queries[query.name] = query
            resource = Resource(
                address=f"query.{graph_id}.{query.name}",
                kind="query",
                digest=query.digest,
                path=path,
                payload=query.source,
            )
            found.add(resource, f"schema.{graph_id}")
            if catalog is not None:
                _check_types(query, text, path, catalog, findings)
    found.queries[graph_id] = queries


def _check_types(
    query: StoredQuery, text: str, path: str, catalog: Catalog, findings: Findings
) -> None:
    try:
        compile_query(text, catalog, select=query.name, name=path)
    except OmniGraphError as error:
        findings.error("query_typecheck_error", path, error.message)


def _read(
    config: ClusterConfig, name: str, place: str, code: str, findings: Findings
) -> str | None:
    try:
        with open(config.path(name), encoding="utf-8") as handle:
            return handle.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        findings.error(code, place, f"'{name}': {reason}")
        return None

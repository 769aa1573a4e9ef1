"""Reads what a cluster should be: every file compiled, checked and given a digest."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from omnigraph.catalog import Catalog, shape_hash
from omnigraph.cluster.config import CONFIG_FILE, ClusterConfig, read_config
from omnigraph.cluster.planning import Desired
from omnigraph.cluster.reports import Findings
from omnigraph.cluster.state import Applied
from omnigraph.cluster.stored import digest_of, stored_queries
from omnigraph.errors import BadRequestError, CompileError, OmniGraphError
from omnigraph.lang import compile_query, compile_schema
from omnigraph.policy import parse_bundle


def read_desired(folder: str | os.PathLike[str], findings: Findings) -> Desired | None:
    """Read a configuration and all its files; None when the configuration itself is unusable."""
    config = read_config(folder, findings)
    if config is None:
        return None
    reader = _Reader(config=config, desired=Desired(root=config.root), findings=findings)
    reader.read()
    return reader.desired


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads the files that a configuration names."""

    config: ClusterConfig
    desired: Desired
    findings: Findings

    def read(self) -> None:
        graphs = self.config.file.graphs
        for name, provider in self.config.file.providers.embedding.items():
            body = json.dumps(msgspec.to_builtins(provider), sort_keys=True)
            users = [g for g, item in graphs.items() if item.embedding_provider == name]
            self._add(f"provider.embedding.{name}", CONFIG_FILE, body, bindings=users)
        for graph_id in graphs:
            self._read_graph(graph_id)
        for name in self.config.file.policies:
            self._read_policy(name)

    def _add(
        self,
        address: str,
        path: str,
        text: str,
        *,
        digest: str | None = None,
        needs: Iterable[str] = (),
        bindings: Iterable[str] = (),
    ) -> None:
        """Take a resource in; its digest is that of its text unless it is another."""
        desired = self.desired
        desired.resources[address] = Applied(
            digest=digest or digest_of(text), bindings=tuple(bindings)
        )
        desired.dependencies += [(address, other) for other in needs]
        desired.paths[address], desired.texts[address] = path, text

    def _read_policy(self, name: str) -> None:
        policy = self.config.file.policies[name]
        text = self._text(policy.file, f"policies.{name}", "policy_file_missing")
        if text is None:
            return
        try:
            bundle = parse_bundle(text, name=policy.file)
        except BadRequestError as error:
            self.findings.error("policy_invalid", policy.file, error.message)
            return
        on_cluster = "cluster" in policy.applies_to
        if policy.applies_to and (bundle.kind == "server") is not on_cluster:
            scope = "the cluster" if bundle.kind == "server" else "graphs"
            self.findings.error("policy_invalid", policy.file, f"its rules are about {scope}")
        targets = list(dict.fromkeys(policy.applies_to))
        needs = [] if on_cluster else [f"graph.{target}" for target in targets]
        self._add(f"policy.{name}", policy.file, text, needs=needs, bindings=targets)

    def _read_graph(self, graph_id: str) -> None:
        graph = self.config.file.graphs[graph_id]
        options, provider = msgspec.to_builtins(graph.external_blobs), graph.embedding_provider
        settings = {"embedding_provider": provider, "external_blobs": options}
        needs = [] if provider is None else [f"provider.embedding.{provider}"]
        body = json.dumps(settings, sort_keys=True)
        self._add(f"graph.{graph_id}", CONFIG_FILE, body, needs=needs)
        catalog = self._read_schema(graph_id, graph.schema)
        for path, wanted in self._query_files(graph_id):
            self._read_queries(graph_id, catalog, path, wanted)

    def _read_schema(self, graph_id: str, path: str) -> Catalog | None:
        text = self._text(path, f"graphs.{graph_id}.schema", "schema_file_missing")
        if text is None:
            return None
        try:
            catalog = compile_schema(text, name=path).catalog
        except CompileError as error:
            codes = {getattr(item, "code", "") for item in error.diagnostics}
            parses = not any(code.startswith("P") for code in codes)
            code = "schema_catalog_error" if parses else "schema_parse_error"
            self.findings.error(code, path, error.message)
            return None
        digest, needs = shape_hash(catalog), [f"graph.{graph_id}"]
        self._add(f"schema.{graph_id}", path, text, digest=digest, needs=needs)
        return catalog

    def _query_files(self, graph_id: str) -> list[tuple[str, str | None]]:
        """Return the query files of a graph, each with the one query meant, or None for all."""
        match self.config.file.graphs[graph_id].queries:
            case None:
                return []
            case list() as names:
                return [(name, None) for name in names]
            case dict() as wanted:
                return [(item.file, name) for name, item in wanted.items()]
            case str() as folder:
                try:
                    names = sorted(os.listdir(self.config.path(folder)))
                except OSError:
                    place, message = f"graphs.{graph_id}.queries", f"there is no folder '{folder}'"
                    self.findings.error("query_file_missing", place, message)
                    return []
                paths = [os.path.join(folder, name) for name in names if name.endswith(".gq")]
                return [(path, None) for path in paths]

    def _read_queries(
        self, graph_id: str, catalog: Catalog | None, path: str, wanted: str | None
    ) -> None:
        """Read the queries of one file, or the one that is wanted of it."""
        text = self._text(path, f"graphs.{graph_id}.queries", "query_file_missing")
        if text is None:
            return
        try:
            inside = stored_queries(text, name=path)
        except CompileError as error:
            self.findings.error("query_parse_error", path, error.message)
            return
        if wanted is not None:
            inside = [query for query in inside if query.name == wanted]
            if not inside:
                message = f"there is no query '{wanted}' in it"
                self.findings.error("query_key_mismatch", path, message)
        for query in inside:
            address = f"query.{graph_id}.{query.name}"
            if address in self.desired.resources:
                message = f"graph '{graph_id}' has two queries '{query.name}'"
                self.findings.error("duplicate_query_name", path, message)
                continue
            self._add(address, path, query.source, needs=[f"schema.{graph_id}"])
            try:
                if catalog is not None:
                    compile_query(text, catalog, select=query.name, name=path)
            except OmniGraphError as error:
                self.findings.error("query_typecheck_error", path, error.message)

    def _text(self, name: str, place: str, code: str) -> str | None:
        try:
            with open(self.config.path(name), encoding="utf-8") as handle:
                return handle.read()
        except (OSError, UnicodeDecodeError) as error:
            absent = isinstance(error, FileNotFoundError)
            reason = "there is no such file" if absent else str(error)
            self.findings.error(code, place, f"'{name}': {reason}")
            return None

"""`cluster.yaml`: which graphs a cluster should have, with which schema, queries and policies."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from omnigraph.cluster.reports import Findings
from omnigraph.embed import KINDS, Embedder, named_embedder
from omnigraph.errors import BadRequestError
from omnigraph.store import locate
from omnigraph.yaml_text import YamlError, parse_yaml

CONFIG_FILE = "cluster.yaml"
_GRAPH_ID = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_RESERVED_IDS = frozenset({"cluster", "policies"})
# Names become names of folders.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
_NAME_RULE = "a name starts with a letter or digit, and has these, '_', '.' and '-'"
_FROM_ENVIRONMENT = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}\Z")
_KEYLESS_PROVIDERS = frozenset({"mock", "local"})


class Metadata(msgspec.Struct, forbid_unknown_fields=True):
    """What people call the cluster."""

    name: str | None = None


class StateOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of the ledger."""

    backend: Literal["cluster"] = "cluster"
    lock: bool = True


class EmbeddingProvider(msgspec.Struct, forbid_unknown_fields=True):
    """Where vectors come from. The key is the name of an environment variable, never a secret."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None

    def embedder(self, env: Mapping[str, str]) -> Embedder:
        """Make the embedder, with its key out of the environment. Raises `BadRequestError`."""
        key = None
        if self.api_key is not None:
            variable = self.api_key.removeprefix("${").removesuffix("}")
            key = env.get(variable)
            if not key:
                raise BadRequestError(
                    f"{variable} is not set", hint="a provider names it as its key"
                )
        return named_embedder(self.kind, env, base_url=self.base_url, model=self.model, api_key=key)


class Providers(msgspec.Struct, forbid_unknown_fields=True):
    """Services graphs use."""

    embedding: dict[str, EmbeddingProvider] = {}


class QueryFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file that holds a query of a given name."""

    file: str


class AllowedBase(msgspec.Struct, forbid_unknown_fields=True):
    """Where external blobs may point."""

    base: str
    scope: Literal["server_safe", "embedded_only"]


class ExternalBlobs(msgspec.Struct, forbid_unknown_fields=True):
    """Which external blobs are admitted."""

    allow: list[AllowedBase] = []


class GraphConfig(msgspec.Struct, forbid_unknown_fields=True):
    """One graph."""

    schema: str
    queries: str | list[str] | dict[str, QueryFile] | None = None
    embedding_provider: str | None = None
    external_blobs: ExternalBlobs | None = None


class PolicyConfig(msgspec.Struct, forbid_unknown_fields=True):
    """One policy bundle and what it is for."""

    file: str
    applies_to: list[str] = []


class ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    version: int
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    storage: str | None = None
    state: StateOptions = msgspec.field(default_factory=StateOptions)
    providers: Providers = msgspec.field(default_factory=Providers)
    graphs: dict[str, GraphConfig] = {}
    policies: dict[str, PolicyConfig] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """A file that was read, and where its cluster is kept."""

    folder: str
    root: str
    file: ClusterFile

    def path(self, name: str) -> str:
        """Return the place of a file that the configuration names."""
        return os.path.join(self.folder, name)


def graph_uri(root: str, graph_id: str) -> str:
    """Return where a graph of a cluster lives."""
    return os.path.join(root, "graphs", f"{graph_id}.omni")


def read_config(folder: str | os.PathLike[str], findings: Findings) -> ClusterConfig | None:
    """Read the configuration in a folder; None when it cannot be used at all."""
    if "://" in os.fspath(folder):
        message = "the files are read from a local folder; `storage:` may name a bucket for graphs"
        findings.error("config_dir_not_found", os.fspath(folder), message)
        return None
    place = os.path.realpath(os.fspath(folder))
    path = os.path.join(place, CONFIG_FILE)
    if not os.path.isdir(place):
        findings.error("config_dir_not_found", os.fspath(folder), "there is no such folder")
        return None
    try:
        with open(path, encoding="utf-8") as handle:
            file = msgspec.convert(parse_yaml(handle.read()), ClusterFile)
    except (OSError, UnicodeDecodeError) as error:
        findings.error("invalid_cluster_yaml", CONFIG_FILE, f"cannot be read: {error}")
        return None
    except YamlError as error:
        code = "duplicate_yaml_key" if error.duplicate_key else "invalid_cluster_yaml"
        findings.error(code, CONFIG_FILE, str(error))
        return None
    except msgspec.ValidationError as error:
        findings.error("invalid_cluster_yaml", CONFIG_FILE, str(error))
        return None
    if file.version != 1:
        message = f"version {file.version} is not known; write version: 1"
        findings.error("unsupported_cluster_config_version", CONFIG_FILE, message)
        return None
    root = place
    if file.storage is not None:
        try:
            is_address = "://" in file.storage
            root = locate(file.storage if is_address else os.path.join(place, file.storage)).root
        except BadRequestError as error:
            findings.error("invalid_cluster_yaml", "storage", error.message)
            return None
    _check(file, findings)
    return ClusterConfig(folder=place, root=root, file=file)


def _check(file: ClusterFile, findings: Findings) -> None:
    if not file.state.lock:
        message = "locking cannot be turned off; leave the key out"
        findings.error("future_phase_field", "state.lock", message)
    for name, provider in file.providers.embedding.items():
        _check_provider(f"providers.embedding.{name}", name, provider, findings)
    for graph_id, graph in file.graphs.items():
        place = f"graphs.{graph_id}"
        if not _GRAPH_ID.match(graph_id) or graph_id in _RESERVED_IDS:
            message = "an id has 1 to 64 letters, digits and hyphens, and is not a reserved word"
            findings.error("invalid_cluster_yaml", place, message)
        wanted = graph.embedding_provider
        if wanted is not None and wanted not in file.providers.embedding:
            message = f"there is no embedding provider '{wanted}'"
            findings.error("dangling_graph_reference", f"{place}.embedding_provider", message)
        if graph.external_blobs is not None and graph.external_blobs.allow:
            message = "this release admits no external values; leave the list empty"
            findings.error("future_phase_field", f"{place}.external_blobs.allow", message)
    _check_policies(file, findings)


def _check_provider(place: str, name: str, provider: EmbeddingProvider, findings: Findings) -> None:
    if not _NAME.match(name):
        findings.error("invalid_cluster_yaml", place, _NAME_RULE)
    if provider.kind not in KINDS:
        message = f"kind must be one of {', '.join(KINDS)}, not '{provider.kind}'"
        findings.error("invalid_cluster_yaml", f"{place}.kind", message)
    key = provider.api_key
    if key is not None and not _FROM_ENVIRONMENT.match(key):
        message = "write ${NAME_OF_A_VARIABLE}: secrets do not belong in this file"
        findings.error("embedding_api_key_inline", f"{place}.api_key", message)
    if key is None and provider.kind not in _KEYLESS_PROVIDERS:
        message = f"a provider of kind '{provider.kind}' needs api_key: ${{NAME}}"
        findings.error("embedding_api_key_required", place, message)


def _check_policies(file: ClusterFile, findings: Findings) -> None:
    taken: dict[str, str] = {}
    for name, policy in file.policies.items():
        place = f"policies.{name}"
        if not _NAME.match(name):
            findings.error("invalid_cluster_yaml", place, _NAME_RULE)
        if not policy.applies_to:
            message = "say what it is for: applies_to: [<graph ids>] or [cluster]"
            findings.error("policy_missing_applies_to", place, message)
        if "cluster" in policy.applies_to and len(set(policy.applies_to)) > 1:
            message = "a bundle is for graphs or for the cluster, not for both"
            findings.error("policy_mixed_binding_kinds", place, message)
        for target in dict.fromkeys(policy.applies_to):
            if target != "cluster" and target not in file.graphs:
                message = f"there is no graph '{target}'"
                if target.startswith(("schema.", "query.", "policy.", "provider.")):
                    code = "wrong_kind_reference"
                else:
                    code = "dangling_graph_reference"
                findings.error(code, f"{place}.applies_to", message)
            if target in taken:
                message = f"'{target}' has the policy '{taken[target]}' already"
                findings.error("duplicate_policy_binding", f"{place}.applies_to", message)
            taken.setdefault(target, name)

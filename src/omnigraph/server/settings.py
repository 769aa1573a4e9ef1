"""How a server is set up: flags win over the environment, the environment over a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from omnigraph.errors import BadRequestError
from omnigraph.limits import (
    ACTOR_BYTES_MAX,
    ACTOR_QUEUE_MAX,
    ACTOR_READS_MAX,
    ACTOR_WAIT_S,
    ACTOR_WRITES_MAX,
    IDEMPOTENCY_KEY_S,
    LARGE_QUERIES_MAX,
    LARGE_QUERY_SHARE,
    LOAD_REQUEST_BYTES_MAX,
    REQUEST_BODY_SECONDS_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_HEAD_SECONDS_MAX,
    REQUESTS_IN_FLIGHT_MAX,
    RESIDENT_BYTES_MAX,
    RESULT_BYTES_MAX,
    RESULT_FILES_BYTES_MAX,
    RESULT_ROWS_MAX,
    RETAIN_S,
    RETAIN_VERSIONS,
    SERVER_DRAIN_NOTICE_S,
    SERVER_DRAIN_SECONDS,
    SERVER_QUERY_SECONDS_MAX,
    SERVER_THREADS,
    SERVER_WRITE_THREADS,
    SMALL_QUERY_BYTES_MAX,
    WORKER_SILENCE_S,
)
from omnigraph.read.running import machine_bytes
from omnigraph.server.graph_ids import check_graph_id
from omnigraph.yaml_text import YamlError, parse_yaml

UPKEEP_WORKER = 0
"""The one of several workers that looks after the graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a server is told. Tokens are not part of it: they never travel with the rest."""

    store: str | None = None
    cluster: str | None = None
    graph_id: str = "default"
    bind: str = "127.0.0.1:8080"
    hosts: str | None = None
    cors_origins: str | None = None
    unauthenticated: bool = False
    require_all_graphs: bool = False
    policy: str | None = None
    tokens: str | None = None
    issuers: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    queries: str | None = None
    log_level: str = "info"
    tracing: bool = False
    threads: int = SERVER_THREADS
    write_threads: int = SERVER_WRITE_THREADS
    request_bytes_max: int = REQUEST_BYTES_MAX
    load_bytes_max: int = LOAD_REQUEST_BYTES_MAX
    head_seconds_max: float = REQUEST_HEAD_SECONDS_MAX
    body_seconds_max: float = REQUEST_BODY_SECONDS_MAX
    requests_max: int = REQUESTS_IN_FLIGHT_MAX
    actor_reads_max: int = ACTOR_READS_MAX
    actor_writes_max: int = ACTOR_WRITES_MAX
    actor_bytes_max: int = ACTOR_BYTES_MAX
    actor_queue_max: int = ACTOR_QUEUE_MAX
    actor_wait_seconds: float = ACTOR_WAIT_S
    key_seconds: float = IDEMPOTENCY_KEY_S
    query_seconds_max: float = SERVER_QUERY_SECONDS_MAX
    small_query_bytes_max: int = SMALL_QUERY_BYTES_MAX
    large_query_bytes_max: int = machine_bytes() // LARGE_QUERY_SHARE
    large_queries_max: int = LARGE_QUERIES_MAX
    result_files_bytes_max: int = RESULT_FILES_BYTES_MAX
    result_rows_max: int = RESULT_ROWS_MAX
    result_bytes_max: int = RESULT_BYTES_MAX
    drain_seconds: float = SERVER_DRAIN_SECONDS
    drain_notice_seconds: float = SERVER_DRAIN_NOTICE_S
    read_only: bool = False
    upkeep: bool = True
    group_writes: bool = True
    ungrouped_actors: str = ""
    retain_versions: int = RETAIN_VERSIONS
    retain_seconds: float = RETAIN_S
    cache_bytes_max: int = RESIDENT_BYTES_MAX
    workers: int = 1
    worker_silence_seconds: float = WORKER_SILENCE_S

    def __post_init__(self) -> None:
        if (self.store is None) == (self.cluster is None):
            raise BadRequestError("serve one graph with --store, or a cluster with --cluster")
        if self.cluster is not None and (self.policy or self.queries):
            raise BadRequestError("a cluster describes its own policies and stored queries")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise BadRequestError(
                f"log_level must be debug, info, warning or error, not {self.log_level!r}"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadRequestError("TLS needs both: --tls-cert and --tls-key")
        check_graph_id(self.graph_id)
        self.address()
        if self.large_queries_max < 0:
            raise BadRequestError("large_queries_max must be 0, for none, or more")
        for name in _NUMBERS.keys() - {"large_queries_max"}:
            if getattr(self, name) <= 0:
                raise BadRequestError(f"{name} must be more than 0")

    def of_worker(self, worker: int) -> Settings:
        """Return the settings of one worker: its share of what all have together."""
        return replace(
            self,
            requests_max=-(-self.requests_max // self.workers),
            actor_reads_max=-(-self.actor_reads_max // self.workers),
            cache_bytes_max=-(-self.cache_bytes_max // self.workers),
            large_queries_max=-(-self.large_queries_max // self.workers),
            result_files_bytes_max=-(-self.result_files_bytes_max // self.workers),
            upkeep=self.upkeep and worker == UPKEEP_WORKER,
        )

    def certificate(self) -> tuple[str, str] | None:
        """Return the files of the certificate and its key, if connections are encrypted."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return self.tls_cert, self.tls_key

    def address(self) -> tuple[str, int]:
        """Return the host and port to listen on."""
        host, separator, port = self.bind.rpartition(":")
        if not separator or not host or not port.isdigit() or int(port) > 65535:
            raise BadRequestError(f"bind must be HOST:PORT, not {self.bind!r}")
        return host.removeprefix("[").removesuffix("]"), int(port)


_NUMBERS = {
    item.name: int if item.type == "int" else float
    for item in fields(Settings)
    if item.type in ("int", "float")
}
_FLAGS = {item.name for item in fields(Settings) if item.type == "bool"}
# Names that came before the rest; every other setting is OMNIGRAPH_SERVER_<NAME>.
_VARIABLES = {
    "bind": "OMNIGRAPH_BIND",
    "store": "OMNIGRAPH_STORE",
    "cluster": "OMNIGRAPH_CLUSTER",
    "unauthenticated": "OMNIGRAPH_UNAUTHENTICATED",
    "require_all_graphs": "OMNIGRAPH_REQUIRE_ALL_GRAPHS",
    "actor_writes_max": "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX",
    "actor_bytes_max": "OMNIGRAPH_PER_ACTOR_BYTES_MAX",
}


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return _VARIABLES.get(name, f"OMNIGRAPH_SERVER_{name.upper()}")


def resolve(
    flags: Mapping[str, object], env: Mapping[str, str], file_text: str | None = None
) -> Settings:
    """Return the settings: each from the flags, else the environment, else the file.

    A flag that is None was not given. Raises `BadRequestError` for what makes no sense.
    """
    merged: dict[str, object] = _from_file(file_text) if file_text is not None else {}
    known = [item.name for item in fields(Settings)]
    given = {name: env[variable(name)] for name in known if env.get(variable(name))}
    named = {name: value for name, value in flags.items() if value is not None}
    # Naming one place to serve takes back the other one, wherever that was named.
    for layer in (given, named):
        if "store" in layer or "cluster" in layer:
            merged = {k: v for k, v in merged.items() if k not in ("store", "cluster")}
        merged |= layer
    return Settings(**{name: _value(name, value) for name, value in merged.items()})


def _value(name: str, value: Any) -> Any:  # noqa: ANN401  # of many types
    if name in _FLAGS:
        return value if isinstance(value, bool) else str(value).lower() not in ("", "0", "false")
    if name in _NUMBERS:
        try:
            return _NUMBERS[name](value)
        except (TypeError, ValueError):
            raise BadRequestError(f"{name} must be a number, not {value!r}") from None
    return value if value is None else str(value)


def _from_file(text: str) -> dict[str, object]:
    try:
        settings = parse_yaml(text) or {}
    except YamlError as error:
        raise BadRequestError(f"the server's configuration cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise BadRequestError("the server's configuration must be an object of settings")
    unknown = sorted(
        str(name) for name in settings.keys() - {item.name for item in fields(Settings)}
    )
    if unknown:
        raise BadRequestError(f"unknown settings: {', '.join(unknown)}")
    return settings

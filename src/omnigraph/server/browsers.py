"""What browsers do for pages of others: which names a server answers to, and to which pages."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import Response

from omnigraph.server.http_errors import HttpProblem
from omnigraph.values.headers import (
    HTTP_API,
    IDEMPOTENCY_KEY,
    IF_COMMIT,
    MESSAGE,
    SNAPSHOT_ID,
)

ANY = "*"
PREFLIGHT_S = 600
_METHODS = "GET, HEAD, POST, DELETE"
_SENT = (
    *(
        "Authorization",
        "Content-Type",
        "Accept",
        "X-Request-Id",
        IDEMPOTENCY_KEY,
        IF_COMMIT,
        MESSAGE,
        HTTP_API,
    ),
    *("Range", "If-Range", "If-Match", "If-None-Match"),
)
_SHOWN = (
    *("X-Request-Id", "Retry-After", "ETag", "Content-Range", "Accept-Ranges", "Location"),
    *("Deprecation", "Link", SNAPSHOT_ID, HTTP_API),
)


def listed(text: str | None) -> tuple[str, ...]:
    """Return the parts of a setting that are separated by commas."""
    return tuple(part.strip().lower() for part in (text or "").split(",") if part.strip())


def is_loopback(host: str) -> bool:
    """Whether a name means this machine, and nothing else can make it mean another."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Names:
    """The names a server answers to.

    A page whose own name is made to lead to this machine sends that name. So a server that trusts
    everybody on a loopback address answers to loopback names only, unless it is told others.
    """

    def __init__(self, hosts: Sequence[str], *, only_loopback: bool) -> None:
        self._hosts = frozenset(hosts)
        self._only_loopback = only_loopback

    def check(self, headers: Headers) -> None:
        """Return if a request is for one of the names. Raises `HttpProblem`."""
        if not self._hosts and not self._only_loopback:
            return
        host = _without_port(headers.get("host", "").strip().lower())
        if host in self._hosts or ANY in self._hosts:
            return
        if not self._hosts and is_loopback(host):
            return
        raise HttpProblem(
            421, "this server does not answer to that name", type_="misdirected_request"
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


class Origins:
    """The pages that may use the server from a browser; none, unless it is told some."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origins)

    def headers(self, origin: str | None) -> dict[str, str]:
        """Return what lets a page see an answer."""
        if not self._origins or origin is None:
            return {}
        headers = {"Vary": "Origin"}
        if ANY in self._origins or origin.lower() in self._origins:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = ", ".join(_SHOWN)
        return headers

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """Return the answer to a browser that asks what a page may send; None for all else."""
        asks = method == "OPTIONS" and "access-control-request-method" in headers
        if not self._origins or not asks or "origin" not in headers:
            return None
        told = {
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": ", ".join(_SENT),
            "Access-Control-Max-Age": str(PREFLIGHT_S),
        }
        return Response(status_code=204, headers=told)

"""The socket a server listens on."""

from __future__ import annotations

import socket

from omnigraph.errors import BadRequestError

LISTEN_RECORD = "OMNIGRAPH_LISTEN_ADDR"
BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises `BadRequestError` for an address it cannot have."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: asyncio sends small answers at once only where it is.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise BadRequestError(f"cannot listen on {host}:{port}: {error}") from error
    return listener


def address_of(place: socket.socket) -> str:
    """Return the address a socket listens on, as text."""
    host, port, *_more = place.getsockname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

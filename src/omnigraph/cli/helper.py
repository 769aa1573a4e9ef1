"""Finds the helper that keeps a graph open for the commands of one user on one machine.

A helper listens on a socket of the file system, in a folder that only its user can enter. It is
used if it is run by the same user, for the same graph, by the same release, with the same
settings; else it is as if there were none.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import struct
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph.version import __version__

if TYPE_CHECKING:
    from omnigraph.remote import RemoteGraph

ADDRESS = "http://localhost"
CONNECT_S = 1.0
"""How long to wait for a helper that does not take a connection."""

_PEER = struct.Struct("3i")
_SOCKET_PATH_BYTES_MAX = 107
_SETTINGS = ("OMNIGRAPH_", "AWS_", "AZURE_", "GOOGLE_", "LANCE_", "ARROW_")
_NOT_ABOUT_GRAPHS = frozenset({"OMNIGRAPH_WARM", "OMNIGRAPH_PROFILE"})
_OFF = ("0", "off", "false", "no")


class Helper:
    """Where the helper of one graph listens, if there is one, and what it must be like."""

    def __init__(self, place: str, env: Mapping[str, str]) -> None:
        self.place = place if "://" in place else os.path.realpath(place)
        name = hashlib.sha256(self.place.encode()).hexdigest()[:16]
        self.folder = _folder(env)
        self.path = os.path.join(self.folder, f"{name}.sock")
        self.log_path = os.path.join(self.folder, f"{name}.log")
        self.fingerprint = _fingerprint(self.place, env)

    @property
    def can_be_named(self) -> bool:
        """Whether the path is short enough for a socket."""
        return len(os.fsencode(self.path)) <= _SOCKET_PATH_BYTES_MAX

    def connect(self) -> socket.socket:
        """Connect to the helper. Raises `OSError` where none listens, or one of another user."""
        if not self.can_be_named or not _is_private(self.folder):
            raise FileNotFoundError(self.path)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(CONNECT_S)
            connection.connect(self.path)
            if peer(connection)[1] != os.getuid():
                raise PermissionError(self.path)
            connection.settimeout(None)
        except OSError:
            connection.close()
            raise
        return connection

    def open(self) -> RemoteGraph | None:
        """Return the graph the helper has open; None where there is no helper to be used."""
        if not os.path.exists(self.path):
            return None
        from omnigraph.http_client import AnswerLostError, HttpClient, NotSentError
        from omnigraph.remote import RemoteGraph
        from omnigraph.remote.connection import Connection
        from omnigraph.values.headers import HELPER

        http = HttpClient(
            ADDRESS, {HELPER: self.fingerprint}, timeout=None, connect_with=self.connect
        )
        connection = Connection(ADDRESS, graph=None, token=None, timeout=None, http=http)
        try:
            # The one question whose answer says that the others will be answered as well.
            is_helper = http.request("GET", "/helper").status_code == 200
        except (NotSentError, AnswerLostError):
            is_helper = False
        if is_helper:
            return RemoteGraph.over(connection)
        connection.close()
        return None


def warm_graph(place: str, env: Mapping[str, str]) -> RemoteGraph | None:
    """Return a graph that a helper has open; None without one. Without one it costs one look.

    Where a policy decides, it is asked here: a helper knows nothing of it.
    """
    if env.get("OMNIGRAPH_POLICY") or env.get("OMNIGRAPH_WARM", "").lower() in _OFF:
        return None
    return Helper(place, env).open()


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end of a socket of the file system."""
    size = _PEER.size
    process, user, _group = _PEER.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return process, user


def _folder(env: Mapping[str, str]) -> str:
    if runtime := env.get("XDG_RUNTIME_DIR"):
        return os.path.join(runtime, "omnigraph")
    home = env.get("OMNIGRAPH_HOME") or os.path.expanduser("~/.omnigraph")
    return os.path.join(home, "warm")


def _is_private(folder: str) -> bool:
    """Whether a folder is this user's, and no other user can enter it."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_folder = stat.S_ISDIR(status.st_mode)
    return is_folder and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _fingerprint(place: str, env: Mapping[str, str]) -> str:
    """Return what the release, the graph and the settings that concern it come down to."""
    settings = {
        name: value
        for name, value in sorted(env.items())
        if name.startswith(_SETTINGS) and name not in _NOT_ABOUT_GRAPHS
    }
    about = [__version__, sys.version, os.path.dirname(__file__), place, settings]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()

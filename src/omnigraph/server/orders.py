"""What a supervisor tells its workers, and what one tells it that cannot start."""

from __future__ import annotations

import os

import msgspec

from omnigraph.error_kinds import ErrorKind
from omnigraph.errors import OmniGraphError
from omnigraph.server.settings import Settings

READY = "ready"
"""What a worker says once clients can come."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker is to serve. Settings are those of all workers together."""

    settings: Settings
    worker: int
    listener: int
    """Descriptor of the socket that all accept from."""
    folder: str
    """Where the workers meet; only this user can open it."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a worker could not start."""

    kind: ErrorKind
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: OmniGraphError) -> Refusal:
        """Return an error as it is sent."""
        return cls(kind=error.kind, message=error.message, hint=error.hint)

    def error(self) -> OmniGraphError:
        """Return the error that was sent."""
        error = _Refused(self.message, hint=self.hint)
        error.kind = self.kind
        return error


class _Refused(OmniGraphError):
    """What a worker refused to start with; its kind is that of the worker's error."""

    kind: ErrorKind  # type: ignore[misc]  # of each one, not of the class


def counts_path(folder: str) -> str:
    """Return the file that counts the connections of each worker."""
    return os.path.join(folder, "connections")

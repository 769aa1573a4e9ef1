"""Refuses to write where a put with a condition is not kept to.

Everything that must happen once rests on such puts. In a store that ignores conditions two writers
could both win, so no graph is written to there.
"""

from __future__ import annotations

from omnigraph.errors import StorageError, StorageFailureKind
from omnigraph.store.files.location import Location

PROBE = "__conditional_put"


def check_conditional_put(location: Location) -> None:
    """Refuse a store in which a name can be taken twice. Raises `StorageError`."""
    if location.files.keeps_conditions(location.path(PROBE)):
        return
    raise StorageError(
        f"{location.uri} cannot be written to: the store ignores the conditions of a put "
        "(If-None-Match, If-Match)",
        failure=StorageFailureKind.CONFIGURATION,
        hint="use a store with conditional writes; reading with mode='ro' works",
    )

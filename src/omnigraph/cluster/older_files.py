"""What an earlier release kept in files beside the state: approvals, and notes of work under way.

They are read as part of the state; when it is written they are removed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import msgspec

from omnigraph.cluster import graphs
from omnigraph.cluster.state import FOLDER, Approval, StateFile, Stored, decoded, revision_of
from omnigraph.errors import NotFoundError

T = TypeVar("T")


class _Note(msgspec.Struct):
    operation: str
    resource: str
    after_digest: str | None = None


def with_older_files(file: StateFile, stored: Stored) -> Stored:
    """Return a state together with what lies beside it. Raises `StateError`."""
    approvals, notes = _read(file, "approvals", Approval), _read(file, "recoveries", _Note)
    if not approvals and not notes:
        return stored
    state = stored.state
    resources, removing = dict(state.resources), list(state.removing)
    for note in notes.values():
        graph_id = note.resource.partition(".")[2]
        if note.resource in resources:
            continue
        if note.operation == "graph_delete":
            removing.append(graph_id)
        elif note.operation == "graph_create":
            with suppress(NotFoundError):
                live = graphs.live_schema(file.root, graph_id)
                if live == note.after_digest:
                    resources |= graphs.adopted(graph_id, live)
    given = {a.resource: a for a in approvals.values() if a.id not in state.approval_records}
    state = msgspec.structs.replace(
        state,
        applied_revision=revision_of(resources),
        approvals=given | state.approvals,
        removing=tuple(removing),
    )
    return replace(stored, state=state, older=(*approvals, *notes))


def _read(file: StateFile, folder: str, shape: type[T]) -> dict[str, T]:
    contents: dict[str, T] = {}
    for short in file.control.names(f"{FOLDER}/{folder}"):
        name = f"{FOLDER}/{folder}/{short}"
        body = file.control.read(name)
        if body is not None:
            contents[name] = decoded(body, shape, name)
    return contents

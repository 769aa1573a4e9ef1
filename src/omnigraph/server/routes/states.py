"""Which branch a state belongs to, for the policy to judge reading it."""

from __future__ import annotations

from omnigraph.commits import MAIN, GraphCommit
from omnigraph.errors import NotFoundError, PolicyDeniedError
from omnigraph.graph import Session
from omnigraph.ids import is_ulid
from omnigraph.server.call import Call


async def allow_state(
    call: Call, *, branch: str | None, commit: str | None, tag: str | None
) -> None:
    """Return when the branch a state was made on may be read.

    A commit or tag of a branch the caller may not read is answered as one that does not exist.
    """
    if commit is not None:
        await readable_commit(call, commit)
        return
    if tag is not None:
        found = await call.read(lambda graph: branch_of_tag(graph, tag))
        try:
            call.allow_read(found)
        except PolicyDeniedError:
            raise _no_tag(tag) from None
        return
    call.allow_read(branch)


async def readable_commit(call: Call, commit_id: str) -> GraphCommit:
    """Return a commit, if the branch it was made on may be read; else it does not exist."""
    unknown = NotFoundError(f"commit '{commit_id}' does not exist")
    try:
        found = await call.read(lambda graph: graph.commits.get(commit_id))
        call.allow_read(found.branch)
    except (NotFoundError, PolicyDeniedError):
        raise unknown from None
    return found


async def allow_name(call: Call, name: str) -> None:
    """Return when a state named as in a diff may be read; a hidden commit does not exist."""
    if is_ulid(name) and not await call.read(lambda graph: graph.branches.exists(name)):
        await readable_commit(call, name)
        return
    branch = await call.read(lambda graph: _branch_of(graph, name))
    call.allow_read(branch)


def branch_of_tag(graph: Session, name: str) -> str:
    """Return the branch a tag names a state of."""
    for tag in graph.tags.list():
        if tag.name == name:
            return tag.branch.name
    raise _no_tag(name)


def _no_tag(name: str) -> NotFoundError:
    return NotFoundError(f"tag '{name}' does not exist")


def _branch_of(graph: Session, name: str) -> str:
    if graph.branches.exists(name):
        return name
    branch, separator, number = name.rpartition("@")
    if separator and number.isdigit():
        return branch
    if name.isdigit():
        return MAIN
    return next((tag.branch.name for tag in graph.tags.list() if tag.name == name), MAIN)

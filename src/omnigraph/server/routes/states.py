"""Which branch a state belongs to, for the policy to judge reading it."""

from __future__ import annotations

from omnigraph.commits import MAIN, GraphCommit
from omnigraph.errors import NotFoundError, PolicyDeniedError
from omnigraph.graph import Session
from omnigraph.graph.revisions import HEAD, Revision, parse_moment, parse_revision
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
        tag_branch = await call.read(lambda graph: branch_of_tag(graph, tag))
        try:
            call.allow_read(tag_branch)
        except PolicyDeniedError:
            raise _no_tag(tag) from None
        return
    call.allow_read(branch)


async def readable_commit(call: Call, commit_id: str) -> GraphCommit:
    """Return a commit, if the branch it was made on may be read; else it does not exist."""
    unknown = NotFoundError(f"commit '{commit_id}' does not exist")
    try:
        commit = await call.read(lambda graph: graph.commits.get(commit_id))
        call.allow_read(commit.branch)
    except (NotFoundError, PolicyDeniedError):
        raise unknown from None
    return commit


async def allow_name(call: Call, name: str) -> None:
    """Return when a state named as in a diff may be read; a hidden commit does not exist."""
    known = await call.read(lambda graph: graph.branches.list())
    revision = parse_revision(name)
    if is_ulid(revision.anchor) and revision.anchor not in known:
        await readable_commit(call, name)
        return
    branch = await call.read(lambda graph: _branch_of(graph, known, revision))
    call.allow_read(name if branch is None else branch)
    if branch is None:
        # It may well exist where the caller may not look.
        raise NotFoundError(
            f"'{name}' is not a branch, tag, commit id or version",
            hint="use branch@version for a version of a branch",
        )


def branch_of_tag(graph: Session, name: str) -> str:
    """Return the branch a tag names a state of."""
    for tag in graph.tags.list():
        if tag.name == name:
            return tag.branch.name
    raise _no_tag(name)


def _no_tag(name: str) -> NotFoundError:
    return NotFoundError(f"tag '{name}' does not exist")


def _branch_of(graph: Session, known: list[str], revision: Revision) -> str | None:
    """Return the branch a name is a state of; None if the caller may know of no such state."""
    name = revision.anchor
    if name in known:
        return name
    if name in ("", HEAD) or name.isdigit() or parse_moment(name) is not None:
        return MAIN
    if revision.version is not None or revision.moment is not None:
        return name
    tagged = next((tag.branch.name for tag in graph.tags.list() if tag.name == name), None)
    if tagged is not None:
        return tagged
    try:
        return graph.commits.get(name).branch or MAIN
    except (NotFoundError, PolicyDeniedError):
        return None

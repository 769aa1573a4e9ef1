"""Who an actor may be."""

from __future__ import annotations

from omnigraph.errors import BadRequestError

RESERVED_PREFIX = "omnigraph:"
"""Begins the names under which the engine itself writes, such as those of a recovery."""


ROLE_PREFIX = "role:"
"""Begins a member of a policy's group that is a role: an actor with it is in the group."""


def actor_problem(actor: object) -> str | None:
    """Return why no actor may have a name, None if one may."""
    if not isinstance(actor, str):
        return f"the actor must be text, not a {type(actor).__name__}"
    if not actor.strip():
        return "the actor must not be blank"
    if actor.strip().casefold().startswith(RESERVED_PREFIX):
        return f"the actor '{actor}' is reserved: '{RESERVED_PREFIX}' begins the engine's own names"
    if actor.strip().casefold().startswith(ROLE_PREFIX):
        return f"the actor '{actor}' is reserved: '{ROLE_PREFIX}' begins roles in policies"
    return text_problem(actor, "the actor")


def check_actor(actor: str | None) -> None:
    """Refuse a name that no actor may have. Raises `BadRequestError`."""
    problem = None if actor is None else actor_problem(actor)
    if problem is not None:
        raise BadRequestError(problem)


def text_problem(text: str, what: str) -> str | None:
    """Return why a text cannot be stored, None if it can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{what} holds half a character and is not valid Unicode"
    return None

"""What the id of a graph on a server looks like."""

from __future__ import annotations

import re

from omnigraph.errors import BadRequestError

GRAPH_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
RESERVED_IDS = frozenset({"policies"})


def check_graph_id(graph_id: str) -> None:
    """Refuse what cannot be the id of a graph. Raises `BadRequestError`."""
    if not GRAPH_ID.fullmatch(graph_id) or graph_id in RESERVED_IDS:
        raise BadRequestError(
            "that is not a graph id", hint="1 to 64 letters, digits and '-', and not 'policies'"
        )

"""What agents need of a graph, whatever framework they are written in: search, and memory.

Both adapters beside this file are made of these two classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import omnigraph as og

SCHEMA = """
node Note {
    slug: String @key
    text: String @index
    vector: Vector(64)? @embed(text) @index
}
node Message {
    place: String @key
    role: enum(user, assistant, system, tool)
    text: String
}
"""
FIND = """
query find($text: String) {
    match { $n: Note }
    return {
        $n.slug as slug,
        $n.text as text,
        rrf(nearest($n.vector, $text), bm25($n.text, $text)) as score
    }
    order { rrf(nearest($n.vector, $text), bm25($n.text, $text)) }
    limit LIMIT
}
"""
SAY = """
query say($place: String, $role: String, $text: String) {
    insert new Message { place: $place, role: $role, text: $text }
}
"""
TOLD = """
query told($from: String, $to: String) {
    match { $m: Message  $m.place >= $from  $m.place < $to }
    return { $m.role as role, $m.text as text }
    order { $m.place }
}
"""


class Hit(NamedTuple):
    """A note that was found."""

    slug: str
    text: str
    score: float


class Said(NamedTuple):
    """A message of a conversation."""

    role: str
    text: str


class HybridSearch:
    """Finds notes by meaning and by words at once, and fuses both rankings."""

    def __init__(self, graph: og.GraphApi, *, branch: str | None = None, limit: int = 4) -> None:
        self._graph = graph
        self._branch = branch
        self._query = FIND.replace("LIMIT", str(limit))

    def find(self, text: str) -> list[Hit]:
        """Return the best notes for a text, the best one first."""
        found = self._graph.query(self._query, {"text": text}, branch=self._branch)
        return [Hit(**row) for row in found]


class BranchMemory:
    """The messages of a conversation, each a commit on a branch of its own.

    Readers of main do not see them until `keep` merges them; `forget` removes the branch with all
    of them. Of two writers that take the same place in a conversation, the later one is refused.
    """

    def __init__(self, graph: og.GraphApi, conversation: str) -> None:
        self._graph = graph
        self._conversation = conversation
        self.branch = f"memory-{conversation}"

    def say(self, messages: Iterable[Said]) -> None:
        """Add messages, in order."""
        view = self._graph.branch(self.branch)
        number = len(self.told())
        for offset, item in enumerate(messages):
            place = f"{self._conversation}/{number + offset:06d}"
            view.mutate(SAY, {"place": place, "role": item.role, "text": item.text})

    def told(self) -> list[Said]:
        """Return all messages, the first one first."""
        branch = self.branch if self._graph.branches.exists(self.branch) else None
        # "0" comes right after "/" among characters.
        bounds = {"from": f"{self._conversation}/", "to": f"{self._conversation}0"}
        found = self._graph.query(TOLD, bounds, branch=branch)
        return [Said(**row) for row in found]

    def forget(self) -> None:
        """Remove what was said and not kept."""
        if self._graph.branches.exists(self.branch):
            self._graph.branches.delete(self.branch)

    def keep(self) -> None:
        """Merge what was said into main, for everybody."""
        if self._graph.branches.exists(self.branch):
            self._graph.branches.merge(self.branch, delete_source=True)

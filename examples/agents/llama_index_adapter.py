"""A graph as a retriever and a memory of LlamaIndex (`pip install llama-index-core`).

Without that package, small classes of the same shape take its place, so that the example runs.
"""

from __future__ import annotations

from typing import Any

from agent_graph import BranchMemory, HybridSearch, Said

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory.types import BaseMemory
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ModuleNotFoundError:
    from stand_ins.llama_index import (
        BaseMemory,
        BaseRetriever,
        ChatMessage,
        NodeWithScore,
        QueryBundle,
        TextNode,
    )


class GraphRetriever(BaseRetriever):
    """Hybrid search as a retriever: `GraphRetriever(HybridSearch(graph)).retrieve(text)`."""

    def __init__(self, search: HybridSearch) -> None:
        super().__init__()
        self._search = search

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=hit.text, id_=hit.slug), score=hit.score)
            for hit in self._search.find(query_bundle.query_str)
        ]


class GraphMemory(BaseMemory):
    """A conversation on a branch: `GraphMemory(memory=BranchMemory(graph, "c1"))`."""

    memory: Any

    @classmethod
    def from_defaults(cls, **options: Any) -> GraphMemory:  # noqa: ANN401 - as the framework says
        """Make a memory of its fields."""
        return cls(**options)

    def get(self, input: str | None = None, **_options: object) -> list[ChatMessage]:
        """Return what an agent is to remember: everything."""
        return self.get_all()

    def get_all(self) -> list[ChatMessage]:
        """Return all messages so far."""
        memory: BranchMemory = self.memory
        return [ChatMessage(role=item.role, content=item.text) for item in memory.told()]

    def put(self, message: ChatMessage) -> None:
        """Add a message."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add messages, in order."""
        memory: BranchMemory = self.memory
        memory.say([Said(_word(item.role), str(item.content)) for item in messages])

    def set(self, messages: list[ChatMessage]) -> None:
        """Put other messages in place of all."""
        self.reset()
        self.put_messages(messages)

    def reset(self) -> None:
        """Forget the conversation."""
        memory: BranchMemory = self.memory
        memory.forget()


def _word(role: object) -> str:
    return str(getattr(role, "value", role))

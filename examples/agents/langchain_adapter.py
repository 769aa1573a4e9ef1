"""A graph as a retriever and a message history of LangChain (`pip install langchain-core`).

Without that package, small classes of the same shape take its place, so that the example runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_graph import BranchMemory, HybridSearch, Said

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError:
    from stand_ins.langchain import (
        AIMessage,
        BaseChatMessageHistory,
        BaseMessage,
        BaseRetriever,
        Document,
        HumanMessage,
        SystemMessage,
    )

_ROLES = {"human": "user", "ai": "assistant", "system": "system"}
_MESSAGES = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}


class GraphRetriever(BaseRetriever):
    """Hybrid search as a retriever: `GraphRetriever(search=HybridSearch(graph)).invoke(text)`."""

    search: Any

    def _get_relevant_documents(self, query: str, *, run_manager: object = None) -> list[Document]:
        search: HybridSearch = self.search
        return [
            Document(page_content=hit.text, metadata={"slug": hit.slug, "score": hit.score})
            for hit in search.find(query)
        ]


class GraphMessageHistory(BaseChatMessageHistory):
    """A conversation on a branch, for `RunnableWithMessageHistory` and its like."""

    def __init__(self, memory: BranchMemory) -> None:
        self.memory = memory

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages so far."""
        return [_MESSAGES[item.role](content=item.text) for item in self.memory.told()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages; the history calls it with those of a turn."""
        self.memory.say([Said(_role(item), str(item.content)) for item in messages])

    def clear(self) -> None:
        """Forget the conversation."""
        self.memory.forget()


def _role(message: BaseMessage) -> str:
    if message.type not in _ROLES:
        # A call of a tool has parts that a text does not hold: give them properties first.
        raise ValueError(f"messages of type {message.type!r} are not kept")
    return _ROLES[message.type]

"""The shape of the few classes of LangChain that its adapter is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Document:
    """A text that was found, and what is known of it."""

    def __init__(self, *, page_content: str, metadata: dict[str, Any]) -> None:
        self.page_content = page_content
        self.metadata = metadata


class BaseMessage:
    """A message; `type` says who said it."""

    type = ""

    def __init__(self, content: str) -> None:
        self.content = content


class HumanMessage(BaseMessage):
    """A message of a person."""

    type = "human"


class AIMessage(BaseMessage):
    """A message of a model."""

    type = "ai"


class SystemMessage(BaseMessage):
    """A message that says what the model is."""

    type = "system"


class BaseRetriever(ABC):
    """Fields are given by name; `invoke` finds documents."""

    def __init__(self, **fields: object) -> None:
        for name, value in fields.items():
            setattr(self, name, value)

    def invoke(self, query: str) -> list[Document]:
        """Return the documents for a text."""
        return self._get_relevant_documents(query)

    @abstractmethod
    def _get_relevant_documents(self, query: str) -> list[Document]:
        """Find the documents; an adapter says how."""


class BaseChatMessageHistory:
    """A list of messages that is kept somewhere."""

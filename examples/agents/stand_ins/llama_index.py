"""The shape of the few classes of LlamaIndex that its adapter is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod


class TextNode:
    """A text, and its id."""

    def __init__(self, *, text: str, id_: str) -> None:
        self.text = text
        self.node_id = id_


class NodeWithScore:
    """A node that was found, and how well it fits."""

    def __init__(self, *, node: TextNode, score: float) -> None:
        self.node = node
        self.score = score


class QueryBundle:
    """What is asked for."""

    def __init__(self, query_str: str) -> None:
        self.query_str = query_str


class ChatMessage:
    """A message, and who said it."""

    def __init__(self, *, role: str, content: str) -> None:
        self.role = role
        self.content = content


class BaseRetriever(ABC):
    """`retrieve` finds nodes."""

    def retrieve(self, text: str) -> list[NodeWithScore]:
        """Return the nodes for a text."""
        return self._retrieve(QueryBundle(text))

    @abstractmethod
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Find the documents; an adapter says how."""


class BaseMemory:
    """Fields are given by name."""

    def __init__(self, **fields: object) -> None:
        for name, value in fields.items():
            setattr(self, name, value)

"""Makes vectors of texts: what an embedder is, and the ones that come with OmniGraph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.embed.hashed import HashEmbedder
from omnigraph.embed.local import LocalEmbedder
from omnigraph.embed.protocol import Embedder, embed_texts
from omnigraph.embed.settings import KINDS, embedder_from, named_embedder

if TYPE_CHECKING:
    from omnigraph.embed.http import HttpEmbedder

__all__ = [
    "KINDS",
    "Embedder",
    "HashEmbedder",
    "HttpEmbedder",
    "LocalEmbedder",
    "embed_texts",
    "embedder_from",
    "named_embedder",
]


def __getattr__(name: str) -> object:
    """Load the embedder that speaks HTTP when it is asked for: most graphs have none."""
    if name == "HttpEmbedder":
        from omnigraph.embed.http import HttpEmbedder

        return HttpEmbedder
    raise AttributeError(f"module 'omnigraph.embed' has no attribute {name!r}")

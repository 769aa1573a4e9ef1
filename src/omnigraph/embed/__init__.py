"""Makes vectors of texts: what an embedder is, and the ones that come with OmniGraph."""

from __future__ import annotations

from omnigraph.embed.hashed import HashEmbedder
from omnigraph.embed.http import HttpEmbedder
from omnigraph.embed.local import LocalEmbedder
from omnigraph.embed.protocol import Embedder, embed_texts
from omnigraph.embed.settings import KINDS, embedder_from, named_embedder

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

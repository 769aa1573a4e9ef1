"""Who is asking: bearer tokens of a file, or of issuers that people log in with."""

from __future__ import annotations

from omnigraph.identity.tokens import Token, Tokens, read_tokens, tokens_from

__all__ = ["Token", "Tokens", "read_tokens", "tokens_from"]

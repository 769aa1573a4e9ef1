"""Blobs on the way in: `base64:` text is managed bytes, anything else an external URI."""

from __future__ import annotations

import base64
import binascii

from omnigraph.errors import ExternalBlobPolicyError

PREFIX = "base64:"


def decode_blob(text: str) -> bytes:
    """Return the bytes of a managed blob.

    Raises `ValueError` for bad base64 and `ExternalBlobPolicyError` for a URI: none is admitted.
    """
    if not text.startswith(PREFIX):
        raise ExternalBlobPolicyError(
            f"external blob {text[:80]!r} is not admitted", hint="inline it as base64:..."
        )
    try:
        return base64.b64decode(text[len(PREFIX) :], validate=True)
    except binascii.Error as error:
        raise ValueError(f"not valid base64: {error}") from error


def encode_blob(data: bytes) -> str:
    """Return bytes as the text `decode_blob` reads."""
    return PREFIX + base64.b64encode(data).decode("ascii")

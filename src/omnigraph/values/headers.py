"""Names of headers and media types, for the server and its clients."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes

IF_COMMIT = "Omnigraph-If-Graph-Commit"
IDEMPOTENCY_KEY = "Idempotency-Key"
SNAPSHOT_ID = "Omnigraph-Snapshot-Id"
MESSAGE = "Omnigraph-Message"
"""Message of the commit: percent-encoded, so that it can be any text."""
HTTP_API = "Omnigraph-Http-Api"
"""The version of the interface that a client was made for; the answer has the one spoken here."""
HTTP_API_SPOKEN = "0.12"
HELPER = "Omnigraph-Helper"
"""What a command expects of the helper it asks."""

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
CSV = "text/csv"
BYTES = "application/octet-stream"

ARROW_METADATA = b"omnigraph"
"""Where the schema of an Arrow stream says what its rows are the answer to."""


def encode_message(message: str) -> str:
    """Return a message as the value of its header."""
    return quote(message.encode("utf-8", "surrogatepass"), safe=" ")


def decode_message(value: str) -> str:
    """Return the message in the value of its header. Raises `UnicodeDecodeError`."""
    return unquote_to_bytes(value).decode()
